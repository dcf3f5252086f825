"""kill -9 of the runner at any instant loses at most the point in flight, and --resume measures nothing twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from tests.calls import UNDRAWN

from firsttouch.records.reading import RESULTS, load_results

LANES = 2
POINTS = 100


def _held(directory: Path) -> list[int]:
    if not (directory / RESULTS).exists() or not (directory / RESULTS).stat().st_size:
        return []
    return [int(r.factors["n"]) for r in load_results(directory).records]


@dataclass
class Lane:
    """Runs into one directory after another, killed and resumed until the wanted number of kills is reached."""

    base: Path
    seed: int
    wanted: int = 0
    """The number of times that its runs are killed."""
    kills: int = 0
    lost: int = 0
    finished: int = 0
    cut: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def run(self) -> Lane:
        while self.kills < self.wanted:
            self.directory = self.base / f"run-{self.seed}-{self.finished}"
            self.log = self.directory.with_suffix(".log")
            self.log.touch()
            while not self.one_run():
                pass
            assert sorted(_held(self.directory)) == list(range(POINTS))
            self.finished += 1
        return self

    def one_run(self) -> bool:
        """Starts or resumes a run and kills it at a random time. True if the run ended before."""
        held = set(_held(self.directory))
        before = len(self.log.read_text().split())
        kill = self.kills < self.wanted
        process = self.start()
        try:
            process.wait(self.random.uniform(0, 1.2) if kill else 100)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            self.kills += 1
        status = process.wait()
        assert status in (0, -signal.SIGKILL), status
        self.no_orphan()
        self.check(held, [int(word) for word in self.log.read_text().split()[before:]])
        return status == 0

    def start(self) -> subprocess.Popen[bytes]:
        what = ["--resume"] if (self.directory / "run.json").exists() else ["steady", "--device", "cpu", "--resume",
                "--set", "n=" + ",".join(map(str, range(POINTS)))]  # fmt: skip
        command = [*UNDRAWN, "run", *what, "--out", str(self.directory)]
        environment = os.environ | {"STEADY_LOG": str(self.log)}
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def no_orphan(self) -> None:
        deadline = time.monotonic() + 60
        while alive := _workers_with(str(self.log)):
            if time.monotonic() > deadline:
                raise TimeoutError(alive)
            time.sleep(0.01)

    def check(self, held: set[int], started: list[int]) -> None:
        assert not held & set(started), "a held point was measured again"
        assert len(started) == len(set(started))
        after = _held(self.directory)
        assert len(after) == len(set(after))
        assert held <= set(after), "a held point was lost"
        lost = set(started) - set(after)
        assert len(lost) <= 1, lost
        self.lost += len(lost)


def _workers_with(log: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
            if "firsttouch.engine.worker" in command and process.environ().get("STEADY_LOG") == log:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.exhaustive)])
@pytest.mark.slow
def test_runs_that_are_killed_lose_no_completed_point(with_faults, tmp_path, kills):
    lanes = [Lane(tmp_path, seed, kills // LANES) for seed in range(LANES)]
    with ThreadPoolExecutor(LANES) as pool:
        lanes = list(pool.map(Lane.run, lanes))
    assert sum(lane.kills for lane in lanes) == kills
    print({"kills": kills, "points lost in flight": sum(x.lost for x in lanes), "runs": sum(x.finished for x in lanes)})


@pytest.mark.slow
def test_worker_dies_with_its_runner(with_faults, tmp_path):
    log = tmp_path / "log"
    lane = Lane(tmp_path, 7)
    lane.directory, lane.log = tmp_path / "out", log
    process = lane.start()
    deadline = time.monotonic() + 60
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _workers_with(str(log))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    lane.no_orphan()
