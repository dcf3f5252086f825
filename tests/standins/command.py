"""firsttouch app on the stand-in, as its user calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from firsttouch.run.store import load_results
from firsttouch.schema import Record


def app(out: Path, *words: str, status: int | None = 0, timeout: float = 110, **settings: str) -> list[Record]:
    """The records of a run on hip:0, which must end with `status` (None: any, for a process that can write no report).
    settings: further variables of its environment.
    """
    command = [sys.executable, "-m", "firsttouch.cli.main", "app", *words, "--device", "hip:0", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=os.environ | settings)
    assert status in (None, done.returncode), done.stderr
    assert (out / "results.jsonl").exists(), done.stderr
    return list(load_results(out).records)
