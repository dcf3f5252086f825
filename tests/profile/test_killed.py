"""Whatever is killed, the target goes on and what was recorded is read."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import tests.calls
from tests.conftest import MakeOnce
from tests.profile.calls import call, has_sampled, start, until
from tests.texts import assert_states

from firsttouch.base.errors import UsageError
from firsttouch.profile.reading import read
from firsttouch.profile.views import write
from firsttouch.report.profile import write_profile

KILLS = 100 if os.environ.get("FIRSTTOUCH_KILLS") else 8
AT_ONCE = 8
TARGET = """
import os, sys, time, firsttouch
child = os.fork()
if child == 0:
    time.sleep(20)
    os._exit(0)
open(sys.argv[1], "w").write(f"{os.getpid()} {child}")
held = []
for i in range(400):
    with firsttouch.phase(f"step {i % 5}"):
        held.append(bytearray(1 << 20))
        time.sleep(0.01)
        if i % 40 == 0: os.system("true")
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def helpers_of(profiler: int) -> list[int]:
    """The processes that ask NVML for a profiler."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_child = (folder / "stat").read_text().rpartition(")")[2].split()[1] == str(profiler)
            if is_child and b"firsttouch.profile.nvml" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


@pytest.fixture
def gpu(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with a GPU, by the stand-in for NVML."""
    plan = {"gpus": [{"total": 80 << 30, "used": [[0, 1 << 30], [1, 2 << 30]], "ramp": True}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    path = [str(Path(__file__).with_name("pynvml_standin")), *os.environ.get("PYTHONPATH", "").split(":")]
    path = [os.path.abspath(folder) for folder in path if folder]
    return {**os.environ, "PYTHONPATH": ":".join(path), "PYNVML_STANDIN": str(tmp_path / "plan.json")}


CURVES = (("total", "minor"), ("gpu:0", "used"))


def last_sample(out: Path, of: str, column: str) -> float | None:
    """The time of the last row of a curve in a profile that may be being written."""
    file = out / "profile.jsonl"
    lines = map(json.loads, file.read_bytes().split(b"\n")[:-1] if file.is_file() else [])
    samples = [line for line in lines if line["line"] == "samples" and line["of"] == of and column in line["columns"]]
    return samples[-1]["rows"][-1][0] if samples else None


class Run:
    """A profiler that is killed at a time, and what is left."""

    def __init__(self, folder: Path, number: int, gpu: dict[str, str], after: float) -> None:
        self.out, self._told = folder / f"out-{number}", folder / f"pid-{number}"
        words = [*["--faults"] * (number % 2), "--out", str(self.out), "--", sys.executable, "-c", TARGET]
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._profiler = start(*words, str(self._told), **streams, env=gpu)
        self.end = time.monotonic() + after

    def kill(self) -> None:
        self._helpers = helpers_of(self._profiler.pid)
        self._written = {curve: last_sample(self.out, *curve) for curve in CURVES}
        self._profiler.kill()
        self._profiler.wait()

    def check_target(self) -> None:
        """The target goes on, and nothing else."""
        if not self._told.is_file():  # it may have been killed before the target began
            time.sleep(0.3)
        if self._told.is_file():
            for pid in map(int, until(self._told.read_text).split()):
                assert is_running(pid)
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(is_running, self._helpers)))

    def check_data(self) -> bool:
        """All data that were written are read. Returns whether there are as many as the check needs."""
        file = self.out / "profile.jsonl"
        if not file.is_file() or not file.read_bytes().endswith(b"\n"):
            return False
        profile = read(self.out)
        assert profile.end is None
        if not all(self._written.values()):
            return False
        assert all(time in profile.curves[curve].times for curve, time in self._written.items())
        assert any("The profiler ended before the target" in row.why for row in write(self.out)[0].unseen)
        return True


@pytest.mark.slow
def test_a_kill_of_the_profiler_at_any_time(tmp_path: Path, gpu: dict[str, str]) -> None:
    """The target goes on, and nothing else. The data that were written are read, and the page is drawn."""
    chance = random.Random(14)
    ended: list[Run] = []
    for first in range(0, KILLS, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, KILLS))
        runs = [Run(tmp_path, n, gpu, 2 * (n % AT_ONCE + chance.random()) / AT_ONCE) for n in numbers]
        for curve in CURVES:  # so that the data of the first can be checked: it writes while it samples
            until(lambda curve=curve, long=runs[0]: last_sample(long.out, *curve))
        for run in sorted(runs, key=lambda run: run.end):
            time.sleep(max(0.0, run.end - time.monotonic()))
            run.kill()
            run.check_target()
        ended += runs
    long = [run for run in ended if run.check_data()]
    assert long
    for run in long[:1]:
        done = tests.calls.call("report", run.out)
        assert done.returncode == 0, done.stderr
        assert (run.out / "report.html").is_file()


@pytest.mark.slow
def test_a_kill_of_the_target(tmp_path: Path) -> None:
    out, told = tmp_path / "out", tmp_path / "pid"
    profiler = start("--out", str(out), "--", sys.executable, "-c", TARGET, str(told))
    until(lambda: has_sampled(out) and told.is_file())
    first, child = map(int, until(told.read_text).split())
    os.kill(child, signal.SIGKILL)
    until(lambda: b'"ended"' in (out / "profile.jsonl").read_bytes())
    os.kill(first, signal.SIGKILL)
    _, printed = profiler.communicate(timeout=60)
    assert profiler.returncode == 128 + signal.SIGKILL
    assert "killed by SIGKILL" in printed
    profile = read(out)
    assert profile.end is not None
    assert profile.end.status == 128 + signal.SIGKILL


@pytest.mark.slow
def test_a_kill_of_the_process_that_asks_nvml(tmp_path: Path, gpu: dict[str, str]) -> None:
    out, told = tmp_path / "out", tmp_path / "pid"
    profiler = start("--out", str(out), "--", sys.executable, "-c", TARGET, str(told), env=gpu)
    until(lambda: has_sampled(out) and told.is_file())
    for pid in helpers_of(profiler.pid):
        os.kill(pid, signal.SIGKILL)
    until(lambda: b"the memory of NVIDIA GPUs is not known" in (out / "profile.jsonl").read_bytes())
    for pid in map(int, until(told.read_text).split()):
        os.kill(pid, signal.SIGTERM)
    _, printed = profiler.communicate(timeout=60)
    assert profiler.returncode == 128 + signal.SIGTERM
    assert "The process that asks NVML ended with SIGKILL" in printed


@pytest.mark.slow
def test_a_full_disk_in_the_midst(tmp_path: Path) -> None:
    """The limit of a file's size stands for a disk that is full: writes fail from there on."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    script = "import time\nheld = []\nfor i in range(100): held.append(bytearray(1 << 20)); time.sleep(0.01)"
    out = tmp_path / "out"
    done = call("--out", str(out), "--", sys.executable, "-c", f"{script}\nraise SystemExit(5)", preexec_fn=limit)
    assert done.returncode == 5
    assert_states(done.stderr, "firsttouch: ", "not complete", str(out), os.strerror(errno.EFBIG))
    assert read(out).seconds > 0


class TestDamagedFiles:
    @pytest.fixture
    def out(self, tmp_path: Path, make_once: MakeOnce) -> Path:
        def fill(folder: Path) -> None:
            assert call("--out", str(folder / "out"), "--", "sleep", "0.1").returncode == 0

        return shutil.copytree(make_once("profile-of-sleep", fill) / "out", tmp_path / "out")

    def test_an_incomplete_last_line_is_left_out(self, out: Path) -> None:
        file = out / "profile.jsonl"
        file.write_bytes(file.read_bytes()[:-9])
        profile = read(out)
        assert profile.end is None
        assert profile.first is not None

    @pytest.mark.parametrize(
        ("number", "line", "why"),
        [
            (2, b'{"line":"samples"}', "not a line of a profile"),
            (3, b"\xff\xfe", "not a line of a profile"),
            (1, b'{"line":"started","t":0,"key":0,"pid":1}', "not the header of a profile"),
            (2, b'{"line":"samples","of":"total","columns":["resident"],"rows":[[1]]}', "a row of samples"),
            (
                2,
                b'{"line":"samples","of":"total","columns":["resident"],"rows":[[1,1e999]]}',
                "not a line of a profile",
            ),
        ],
    )
    def test_a_broken_line_is_named(self, out: Path, number: int, line: bytes, why: str) -> None:
        file = out / "profile.jsonl"
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join([*lines[: number - 1], line + b"\n", *lines[number:]]))
        with pytest.raises(UsageError, match=why):
            read(out)
        with pytest.raises(UsageError, match=why):
            write_profile([out], None)

    def test_a_report_of_a_broken_profile_is_one_sentence(self, out: Path) -> None:
        (out / "profile.jsonl").write_bytes(b"\xff\xfe\n")
        done = tests.calls.call("report", out)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)

    def test_another_schema_is_refused(self, out: Path) -> None:
        file = out / "profile.jsonl"
        file.write_bytes(file.read_bytes().replace(b"firsttouch-profile/1", b"firsttouch-profile/2", 1))
        with pytest.raises(UsageError, match="this version reads firsttouch-profile/1"):
            read(out)
