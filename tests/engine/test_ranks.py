"""Points of several processes: one that ends, hangs or answers nonsense ends its point, and nothing more."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
from tests.calls import UNDRAWN
from tests.mpi import MPIS, Mpi

from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record
from firsttouch.workers.agent import CHANNEL
from firsttouch.workers.launch import segments

MODULE = Path(__file__).with_name("rank_faults.py")
LAUNCHER = shlex.join([sys.executable, str(Path(__file__).parents[1] / "launcher.py")]) + " {ranks}"
TEST = "FIRSTTOUCH_TEST_OUT"
"""The environment variable that tells the processes of one test from those of tests beside it."""
FAKE = Mpi("a stand-in", UNDRAWN, ("--launcher", LAUNCHER), {})
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=[FAKE, *MPIS], ids=lambda mpi: mpi.name)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    found: Mpi = request.param
    if found.why_not:
        pytest.skip(found.why_not)
    return found


def ours(out: Path) -> list[int]:
    """The processes of this machine that belong to ranks of calls with this output directory."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            whose = environment.get(TEST) == str(out) and CHANNEL in environment
            if whose and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def left_behind() -> set[str]:
    folders = [Path(tempfile.gettempdir()), Path("/dev/shm")]
    return {str(path) for folder in folders for path in folder.glob("firsttouch-ranks-*")} | set(map(str, segments()))


def stays_behind(before: set[str]) -> set[str]:
    """What is there since `before` and does not go away. What tests beside this one make does."""
    found, end = left_behind() - before, time.monotonic() + 60
    while found and time.monotonic() < end:
        time.sleep(0.1)
        found &= left_behind()
    return found


def call(mpi: Mpi, out: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    words = [*mpi.command, "run", *arguments, *mpi.options, "--out", str(out)]
    environment = os.environ | mpi.environment | {TEST: str(out)} | more
    return subprocess.run(words, env=environment, text=True, capture_output=True, timeout=100)


def faults(
    mpi: Mpi, out: Path, whats: Sequence[str], *arguments: str, ranks: int = 2, **more: str
) -> dict[str, Record]:
    """The records of rank-fault by what went wrong; a point that is fine follows the last."""
    chosen = ["rank-fault", "--module", str(MODULE), "--device", "cpu", "--ranks", str(ranks), "--timeout", "3"]
    sets = ["--set", f"what={','.join([*whats, 'fine'])}", "--set", f"ranks={ranks}"]
    with_mpi = {} if mpi is FAKE else {"RANKS_WITH_MPI": "1"}
    done = call(mpi, out, *chosen, *sets, *arguments, **with_mpi, **more)
    assert done.returncode == 1, done.stderr
    return {r.text("what"): r for r in load_results(out).records}


def test_a_ranks_end_ends_its_point_alone(mpi: Mpi, tmp_path: Path) -> None:
    before = left_behind()
    found = faults(mpi, tmp_path / "out", ["segv", "kill", "exit", "raise", "sleep", "junk", "unsupported"])
    fine = found.pop("fine")
    assert (fine.status, fine.verified, fine.counter("ranks_seen")) == ("ok", True, 2)
    assert [(party.rank, party.device) for party in fine.parties] == [(0, "cpu"), (1, "cpu")]
    who = "rank 1 (cpu at "
    assert {what: r.status for what, r in found.items()} == {
        "segv": "crashed", "kill": "crashed", "exit": "crashed", "raise": "failed", "sleep": "timeout",
        "junk": "failed", "unsupported": "skipped",
    }  # fmt: skip
    for what, record in found.items():
        assert who in record.reason or "reply of rank 1" in record.reason, (what, record.reason)
        assert record.seconds < 3 + 5
    assert "SIGSEGV: last words before the fault" in found["segv"].reason
    assert "SIGKILL" in found["kill"].reason
    assert "exit status 7" in found["exit"].reason
    assert "the driver said no" in found["raise"].reason
    assert "did not finish within 3 s" in found["sleep"].reason
    assert not ours(tmp_path / "out")
    assert not stays_behind(before)


def test_a_rank_that_takes_too_much_memory_is_named(mpi: Mpi, tmp_path: Path) -> None:
    limit = {"FIRSTTOUCH_MAX_HOST": "128MiB"}
    found = faults(mpi, tmp_path / "out", ["exhaust"], "--timeout", "60", **limit)
    assert found["exhaust"].status == "failed"
    assert "rank 1 (cpu at " in found["exhaust"].reason
    assert "of host memory; the limit is 1.062 GiB" in found["exhaust"].reason  # half of the guard's limit, and 1 GiB


def test_wrong_data_at_one_rank_is_told_with_its_name(mpi: Mpi, tmp_path: Path) -> None:
    chosen = ["rank-fault", "--module", str(MODULE), "--device", "cpu", "--ranks", "2", "--set", "what=flip"]
    done = call(mpi, tmp_path / "out", *chosen)
    assert done.returncode == 3, done.stderr
    (record,) = load_results(tmp_path / "out").records
    assert record.verified is False
    assert "rank 1 (cpu at " in record.verified_why


def test_a_rank_that_never_says_hello(tmp_path: Path) -> None:
    found = faults(FAKE, tmp_path / "out", [], ranks=3, FAKE_ABSENT="2")
    assert found["fine"].status == "timeout"
    assert "rank 2 (cpu) did not start within 3 s" in found["fine"].reason
    assert found["fine"].seconds < 3 + 5
    assert not ours(tmp_path / "out")


def test_any_process_may_be_killed_at_any_time(mpi: Mpi, tmp_path: Path) -> None:
    """The runner, the launcher or any rank: at most the point in flight is lost, and nothing is left."""
    kills = 100 if os.environ.get("FIRSTTOUCH_EXHAUSTIVE_KILLS") else 5
    before, log, out, draw = left_behind(), tmp_path / "log", tmp_path / "out", random.Random(1)
    points, started = 4 * kills, 0
    chosen = ["rank-fault", "--module", str(MODULE), "--device", "cpu", "--ranks", "2", "--timeout", "20"]
    sets = ["--set", f"again={','.join(map(str, range(points)))}"]
    more = {"RANKS_LOG": str(log), "RANKS_SECONDS": "0.05"} | ({} if mpi is FAKE else {"RANKS_WITH_MPI": "1"})
    for kill in range(kills):
        words = [*mpi.command, "run", *chosen, *sets, *mpi.options, "--out", str(out), "--resume"]
        runner = subprocess.Popen(
            words,
            env=os.environ | mpi.environment | {TEST: str(out)} | more,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        end = time.monotonic() + 30
        while not (group := ours(out)) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 1.5))
        victims = [runner.pid] if kill % 2 == 0 else ours(out) or [runner.pid]
        os.kill(draw.choice(victims), signal.SIGKILL)
        if kill % 2:
            time.sleep(draw.uniform(0, 1))
            runner.kill()
        runner.communicate()
        end = time.monotonic() + 5
        while ours(out) and time.monotonic() < end:
            time.sleep(0.05)
        assert not ours(out), (kill, group)
        assert not stays_behind(before)
        started += bool(group)
    assert started
    done = call(mpi, out, *chosen, *sets, "--resume", **more)
    assert done.returncode in (0, 1), done.stderr
    records = load_results(out).records
    assert {r.count("again") for r in records} == set(range(points))
    ok = Counter(r.count("again") for r in records if r.status == "ok")
    assert set(ok.values()) == {1}
