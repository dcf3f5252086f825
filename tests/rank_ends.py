"""Calls in which a rank misbehaves (engine/rank_faults.py), and what must hold after them."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests import calls
from tests.calls import UNDRAWN
from tests.mpi import Mpi

from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record
from firsttouch.workers.launch import mapped, segments
from firsttouch.workers.relay import CHANNEL

MODULE = Path(__file__).with_name("engine") / "rank_faults.py"
TEST = "FIRSTTOUCH_TEST_OUT"
"""The environment variable that tells the processes of one test from those of tests beside it."""
SECONDS = 8
"""The time limit of a point."""
LATE = 5
"""Seconds after that limit in which a point must have ended."""
ENDS = {
    "segv": ("crashed", "ended by SIGSEGV: last words before the fault"),
    "kill": ("crashed", "ended by SIGKILL"),
    "exit": ("crashed", "ended with exit status 7"),
    "raise": ("failed", "RuntimeError: the driver said no"),
    "sleep": ("timeout", f"did not finish within {SECONDS} s"),
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
    found, end = left_behind() - before, time.monotonic() + 5
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


def faults(
    mpi: Mpi, out: Path, whats: Sequence[str], *arguments: str, ranks: int = 2, **more: str
) -> dict[str, Record]:
    """The records of rank-fault by what went wrong; a point that is fine follows the last."""
    chosen = ["rank-fault", "--module", str(MODULE), "--ranks", str(ranks), "--timeout", str(SECONDS)]
    sets = ["--set", f"what={','.join([*whats, 'fine'])}", "--set", f"ranks={ranks}"]
    done = call(mpi, out, *chosen, *sets, *arguments, **more)
    assert done.returncode == 1, done.stderr
    return {r.text("what"): r for r in load_results(out).records}


def a_ranks_end_ends_its_point_alone(mpi: Mpi, out: Path, devices: Sequence[str], **more: str) -> None:
    """Whatever rank 1 does, one record names it, the other rank is ended, and the next point is measured."""
    before = left_behind()
    found = faults(mpi, out, [*ENDS], "--device", devices[0], **more)
    fine = found.pop("fine")
    assert (fine.status, fine.verified, fine.counter("ranks_seen")) == ("ok", True, 2)
    assert [(party.rank, party.device) for party in fine.parties] == [*enumerate(devices)]
    assert {what: r.status for what, r in found.items()} == {what: status for what, (status, _) in ENDS.items()}
    for what, record in found.items():
        assert f"rank 1 ({devices[1]} at " in record.reason, (what, record.reason)
        assert ENDS[what][1] in record.reason
        assert record.seconds < SECONDS + LATE
    assert not ours(out)
    assert not stays_behind(before)


def a_rank_that_takes_too_much_memory_is_named(mpi: Mpi, out: Path, devices: Sequence[str], **more: str) -> None:
    limit = {"FIRSTTOUCH_MAX_HOST": "128MiB"}
    found = faults(mpi, out, ["exhaust"], "--device", devices[0], "--timeout", "60", **limit, **more)
    assert found["exhaust"].status == "failed"
    assert f"rank 1 ({devices[1]} at " in found["exhaust"].reason
    assert "of host memory; the limit is 1.062 GiB" in found["exhaust"].reason  # half of the guard's limit, and 1 GiB
    assert found["fine"].status == "ok"


def a_rank_that_never_says_hello(mpi: Mpi, out: Path, devices: Sequence[str], **more: str) -> None:
    """The first time only: the next point is measured."""
    folder = out.with_name("late")
    folder.mkdir()
    folder.joinpath("sitecustomize.py").write_text(_LATE_RANK)
    path = (os.environ | mpi.environment).get("PYTHONPATH", "")
    call(mpi, out, "rank-fault", "--module", str(MODULE), "--device", devices[0], "--ranks", "2", "--timeout",
         str(SECONDS), "--set", "again=0,1", **more, PYTHONPATH=f"{folder}:{path}")  # fmt: skip
    late, fine = load_results(out).records
    assert (late.status, fine.status) == ("timeout", "ok")
    assert late.reason.startswith(f"rank 1 ({devices[1]}) did not start within {SECONDS} s")
    assert late.seconds < SECONDS + LATE
    assert not ours(out)
