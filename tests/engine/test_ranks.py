"""Points of several processes: one that ends, hangs or answers nonsense ends its point, and nothing more."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from tests.calls import UNDRAWN
from tests.matrix import matrix
from tests.mpi import MPIS, Mpi
from tests.rank_ends import MODULE, TEST, Misbehaving, call, left_behind, ours, stays_behind

from firsttouch.records.reading import load_results

LAUNCHER = shlex.join([sys.executable, str(Path(__file__).parents[1] / "launcher.py")]) + " {ranks}"
FAKE = Mpi("a stand-in", UNDRAWN, ("--launcher", LAUNCHER), {})


@pytest.fixture(scope="module", params=[FAKE, *MPIS], ids=lambda mpi: mpi.name)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    found: Mpi = request.param
    if found.why_not:
        pytest.skip(found.why_not)
    return found


def with_mpi(mpi: Mpi) -> dict[str, str]:
    return {} if mpi is FAKE else {"RANKS_WITH_MPI": "1"}


@pytest.fixture(scope="module")
def misbehaving(mpi: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Misbehaving:
    return Misbehaving(mpi, tmp_path_factory.mktemp("ends") / "out", ("cpu", "cpu"), more=with_mpi(mpi))


@pytest.mark.slow
def test_a_ranks_end_ends_its_point_alone(misbehaving: Misbehaving) -> None:
    misbehaving.check_ends()


@pytest.mark.slow
def test_a_rank_that_takes_too_much_memory_is_named(misbehaving: Misbehaving) -> None:
    misbehaving.check_memory()


@pytest.mark.slow
def test_a_rank_that_never_says_hello(misbehaving: Misbehaving) -> None:
    misbehaving.check_late()


def test_wrong_data_at_one_rank_is_told_with_its_name(mpi: Mpi, tmp_path: Path) -> None:
    chosen = ["rank-fault", "--module", str(MODULE), "--device", "cpu", "--ranks", "2", "--set", "what=flip"]
    done = call(mpi, tmp_path / "out", *chosen)
    assert done.returncode == 3, done.stderr
    (record,) = load_results(tmp_path / "out").records
    assert record.verified is False
    assert "rank 1 (cpu at " in record.verified_why


def count_ok(out: Path) -> int:
    with suppress(FileNotFoundError):
        return out.joinpath("results.jsonl").read_text().count('"status":"ok"')
    return 0


KILLS_OF_A_GROUP = 2
"""Before the runner is killed too, which takes longest to start again."""


@pytest.mark.parametrize("kills", matrix([3, 100 if os.environ.get("FIRSTTOUCH_EXHAUSTIVE_KILLS") else 15]))
@pytest.mark.slow
def test_any_process_may_be_killed_at_any_time(mpi: Mpi, tmp_path: Path, kills: int) -> None:
    """The runner, the launcher or any rank: at most the point in flight is lost, and nothing is left."""
    before, log, out, draw = left_behind(), tmp_path / "log", tmp_path / "out", random.Random(1)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    points = 4 * kills
    chosen = ["rank-fault", "--module", str(MODULE), "--device", "cpu", "--ranks", "2", "--timeout", "20"]
    chosen += ["--set", f"again={','.join(map(str, range(points)))}", "--resume"]
    more = {"RANKS_LOG": str(log), "TMPDIR": str(temporary)}
    more |= with_mpi(mpi)
    of_group, of_runner = 0, 0
    while of_group + of_runner < kills:
        runner = subprocess.Popen(
            [*mpi.command, "run", *chosen, *mpi.options, "--out", str(out)],
            env=os.environ | mpi.environment | {TEST: str(out), "RANKS_SECONDS": "0.3"} | more,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for kill in range(KILLS_OF_A_GROUP):
            # A group that fails twice before it has measured anything is given up, so the second waits for a point.
            measured, end = count_ok(out), time.monotonic() + 60
            while (kill and count_ok(out) == measured) or not ours(out):
                if time.monotonic() > end:
                    raise TimeoutError
                time.sleep(0.05)
            time.sleep(draw.uniform(0, 0.7))
            if group := ours(out):
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(group), signal.SIGKILL)
                    of_group += 1
        time.sleep(draw.uniform(0.2, 0.9))
        runner.kill()
        runner.wait()
        of_runner += 1
        end = time.monotonic() + 60
        while (ours(out) or any(temporary.iterdir())) and time.monotonic() < end:
            time.sleep(0.05)
        assert not ours(out), of_runner
        assert not [*temporary.iterdir()], of_runner
        assert not stays_behind(before), of_runner
    assert of_group >= of_runner
    done = call(mpi, out, *chosen, **more)
    assert done.returncode in (0, 1), done.stderr
    records = load_results(out).records
    assert {r.count("again") for r in records} == set(range(points))
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    ok = Counter(line["factors"]["again"] for line in lines if line["status"] == "ok")
    assert set(ok.values()) == {1}
    assert len(lines) - sum(ok.values()) <= of_group
    started = [line for line in log.read_text().splitlines() if line.split()[1] == "0"]
    assert len(started) <= len(lines) + of_runner
