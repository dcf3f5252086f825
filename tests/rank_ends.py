"""Calls in which a rank misbehaves (engine/rank_faults.py), and what must hold after them."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from tests import calls
from tests.calls import UNDRAWN
from tests.mpi import Mpi

from firsttouch.base.units import format_size
from firsttouch.engine import executor
from firsttouch.records.reading import load_results
from firsttouch.workers import ranks
from firsttouch.workers.launch import mapped, segments
from firsttouch.workers.relay import CHANNEL

MODULE = Path(__file__).with_name("engine") / "rank_faults.py"
TEST = "FIRSTTOUCH_TEST_OUT"
"""The environment variable that tells the processes of one test from those of tests beside it."""
SLACK = 2**28
"""Bytes that a rank may use beyond the guard's limit, where the runner is in this process."""
ENDS = {
    "segv": ("crashed", "ended by SIGSEGV: last words before the fault"),
    "kill": ("crashed", "ended by SIGKILL"),
    "exit": ("crashed", "ended with exit status 7"),
    "raise": ("failed", "RuntimeError: the driver said no"),
    "sleep": ("timeout", "did not finish within {seconds} s"),
    "junk": ("failed", "is not valid"),
    "hollow": ("failed", "has no record"),
    "unsupported": ("skipped", "this driver has no such call"),
}
"""By what a rank does: the status of the record, and what its reason says."""
_LATE_RANK = """
import os, pathlib, sys, time
names = ("FIRSTTOUCH_RANK_NUMBER", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
number = next((os.environ[name] for name in names if name in os.environ), "")
mark = pathlib.Path(__file__).with_name("was-late")
if number == "1" and "firsttouch.workers.relay" in sys.orig_argv and not mark.exists():
    mark.touch()
    print("last words before the hang", flush=True)
    time.sleep(1000)
"""


def ours(out: Path) -> list[int]:
    """The processes of this machine that belong to ranks of calls with this output directory."""
    mine, found = f"{TEST}={out}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's; a zombie has no environment
            environment = process.joinpath("environ").read_bytes().split(b"\0")
            if mine in environment and any(text.startswith(f"{CHANNEL}=".encode()) for text in environment):
                found.append(int(process.name))
    return found


def left_behind() -> set[str]:
    """Folders of ranks that no process has in its environment, and shared memory that none has mapped."""
    folders = {str(path) for folder in (tempfile.gettempdir(), "/dev/shm")
               for path in Path(folder).glob("firsttouch-ranks-*")}  # fmt: skip
    used = ""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            used += process.joinpath("environ").read_text(errors="replace")
    return {folder for folder in folders if folder not in used} | (set(map(str, segments())) - mapped())


def stays_behind(before: set[str]) -> set[str]:
    """What has been left since `before` and stays for 5 s. What tests beside this one make does not."""
    found, end = left_behind() - before, time.monotonic() + 60
    while found and time.monotonic() < end:
        time.sleep(0.1)
        found &= left_behind()
    return found


def call(mpi: Mpi, out: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    words = ["run", *arguments, *mpi.options, "--out", str(out)]
    environment = {**mpi.environment, TEST: str(out), **more}
    if mpi.command == UNDRAWN:
        return calls.call(*words, **environment)
    command = [*mpi.command, *words]
    return subprocess.run(command, env=os.environ | environment, text=True, capture_output=True, timeout=100)


@dataclass
class Misbehaving:
    """One run, in which rank 1 hangs before it says hello, ends in one way after another, takes too much memory, and is
    fine at last.
    """

    mpi: Mpi
    out: Path
    devices: Sequence[str]
    ends: Collection[str] = tuple(ENDS)
    more: Mapping[str, str] = field(default_factory=dict)
    """Environment variables."""

    def __post_init__(self) -> None:
        in_process = self.mpi.command == UNDRAWN
        self.seconds = 4 if in_process else 10
        """The time limit of a point."""
        slack = SLACK if in_process else executor.SLACK
        self.memory = format_size(2**26 + slack)
        """That of a rank: half of the guard's limit, and the slack."""
        before, folder = left_behind(), self.out.with_name("late")
        folder.mkdir()
        folder.joinpath("sitecustomize.py").write_text(_LATE_RANK)
        path = (os.environ | self.mpi.environment).get("PYTHONPATH", "")
        chosen = ["rank-fault", "--module", str(MODULE), "--device", self.devices[0], "--timeout", str(self.seconds)]
        sets = ["--ranks", "2", "--set", "ranks=2", "--set", f"what={','.join(['why', *self.ends, 'exhaust', 'fine'])}"]
        limits = {"FIRSTTOUCH_MAX_HOST": "128MiB", "PYTHONPATH": f"{folder}:{path}"}
        with patch.object(ranks, "GRACE", 0.5), patch.object(executor, "SLACK", slack):
            done = call(self.mpi, self.out, *chosen, *sets, **{**self.more, **limits})
        assert done.returncode == 1, done.stderr
        self.found = {r.text("what"): r for r in load_results(self.out).records}
        self.left = ours(self.out) or stays_behind(before)

    def check_ends(self) -> None:
        """Whatever rank 1 does, one record names it, the other rank is ended, and the next point is measured."""
        fine = self.found["fine"]
        assert (fine.status, fine.verified, fine.counter("ranks_seen")) == ("ok", True, 2)
        assert [(party.rank, party.device) for party in fine.parties] == [*enumerate(self.devices)]
        for what in self.ends:
            record, (status, reason) = self.found[what], ENDS[what]
            assert record.status == status, (what, record.reason)
            assert f"rank 1 ({self.devices[1]} at " in record.reason, (what, record.reason)
            assert reason.format(seconds=self.seconds) in record.reason
        assert not self.left

    def check_memory(self) -> None:
        record = self.found["exhaust"]
        assert record.status == "failed"
        assert f"rank 1 ({self.devices[1]} at " in record.reason
        assert f"of host memory; the limit is {self.memory}" in record.reason

    def check_late(self) -> None:
        record = self.found["why"]
        assert record.status == "timeout"
        assert record.reason.startswith(f"rank 1 ({self.devices[1]}) did not start within {self.seconds} s")
