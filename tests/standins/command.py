"""Runs the firsttouch command, and other programs, on the device of the stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.calls import DRAWN_BESIDES, call

from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record

ROOT = Path(__file__).resolve().parents[2]


def records(
    command: str,
    out: Path,
    *options: str,
    status: int | None = 0,
    drawn: bool = False,
    **settings: str,
) -> list[Record]:
    """Returns the records of `firsttouch run` or `firsttouch app` on hip:0, called in this process.

    Args:
        status: The exit status that the call must have; None accepts any.
        drawn: Whether the report is drawn too, with the exhaustive tests.
        settings: Further environment variables of the call.
    """
    words = (command, *options, "--device", "hip:0", "--out", out)
    process = call(*words, drawn=drawn and DRAWN_BESIDES, **settings)
    assert status in (None, process.returncode), process.stderr
    assert (out / "results.jsonl").exists(), process.stderr
    return list(load_results(out).records)


run, app = partial(records, "run"), partial(records, "app")


def in_process(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with this call from the top of the repository. Kernels use a cache that is not coherent."""
    environment = {"FIRSTTOUCH_TEST_DEVICE": "hip:0", "STANDIN_CACHED": "1", **settings}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *words],
        env=os.environ | environment | {"PYTHONPATH": path},
        cwd=ROOT,
        text=True,
        capture_output=True,
        timeout=880,
    )
