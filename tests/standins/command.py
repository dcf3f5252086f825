"""firsttouch on the stand-in, as its user calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record


def records(
    command: str, out: Path, *words: str, status: int | None = 0, timeout: float = 110, **settings: str
) -> list[Record]:
    """What `firsttouch run` or `firsttouch app` on hip:0 records. It must end with `status` (None: any, for a process
    that can write no report). settings: further variables of its environment.
    """
    call = [sys.executable, "-m", "firsttouch.cli.main", command, *words, "--device", "hip:0", "--out", str(out)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=timeout, env=os.environ | settings)
    assert status in (None, done.returncode), done.stderr
    assert (out / "results.jsonl").exists(), done.stderr
    return list(load_results(out).records)


run, app = partial(records, "run"), partial(records, "app")
