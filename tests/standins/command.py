"""Runs the firsttouch command on the device of the stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record


def records(
    command: str, out: Path, *options: str, status: int | None = 0, timeout: float = 110, **settings: str
) -> list[Record]:
    """Returns the records of `firsttouch run` or `firsttouch app` on hip:0.

    Args:
        status: The exit status that the process must have; None accepts any, for a process that cannot write a report.
        settings: Further environment variables of the process.
    """
    call = [sys.executable, "-m", "firsttouch.cli.main", command, *options, "--device", "hip:0", "--out", str(out)]
    process = subprocess.run(call, capture_output=True, text=True, timeout=timeout, env=os.environ | settings)
    assert status in (None, process.returncode), process.stderr
    assert (out / "results.jsonl").exists(), process.stderr
    return list(load_results(out).records)


run, app = partial(records, "run"), partial(records, "app")
