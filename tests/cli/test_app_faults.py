"""An application that crashes, hangs or is wrong only loses its point. A killed run can be continued."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from tests.calls import UNDRAWN, call
from tests.matrix import matrix

from firsttouch.records.reading import RESULTS, load_results
from firsttouch.records.schema import Record

MODULE = Path(__file__).with_name("misbehaving.py")
COMMAND = (*UNDRAWN, "app")
MINE = ("--module", str(MODULE))
ASKED = ("misbehaving", *MINE, "--strategy", "pinned", "--repeat", "1", "--device", "opencl:0")
ENDS = {
    "crash": ("crashed", "SIGSEGV"),
    "wrong": ("ok", ""),
    "unwritten": ("failed", "bytes 0 to 400 of other are read before they are written"),
    "raise": ("failed", "RuntimeError: a bug of the module"),
    "one-sided": ("failed", "hidden is not declared for use by the cpu"),
    "fine": ("ok", ""),
}


def misbehave(out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return call("app", *ASKED, *words, "--out", out)


@pytest.mark.slow
def test_every_fault_is_recorded_and_the_run_continues(tmp_path: Path) -> None:
    done = misbehave(tmp_path / "out", "--set", f"what={','.join(ENDS)}", "--json")
    assert done.returncode == 3, done.stderr
    records = {str(r.factors["what"]): r for r in load_results(tmp_path / "out").records}
    assert list(records) == list(ENDS)
    for what, (status, reason) in ENDS.items():
        assert records[what].status == status, (what, records[what].reason)
        assert re.search(reason, records[what].reason), (what, records[what].reason)
        assert "\n" not in records[what].reason
    assert (records["wrong"].verified, records["fine"].verified) == (False, True)
    assert records["wrong"].verified_why == "2048 of 4096 values are not 8"
    outcome = json.loads(done.stdout)
    assert outcome["counts"] == {"ok": 2, "failed": 3, "crashed": 1}
    assert outcome["unverified"] == 1


@pytest.mark.slow
def test_a_kernel_that_does_not_end_is_stopped_and_the_run_continues(tmp_path: Path) -> None:
    done = misbehave(tmp_path / "out", "--set", "what=spin,fine", "--timeout", "0.8")
    assert done.returncode == 1, done.stderr
    spin, after = load_results(tmp_path / "out").records
    assert (spin.status, spin.factors["what"]) == ("timeout", "spin")
    assert "did not finish within 0.8 s" in spin.reason
    assert after.status in ("ok", "timeout")  # it may have to wait for a processor


@pytest.mark.parametrize(("what", "status"), matrix([("fine", 0), ("crash", 1), ("unwritten", 1), ("wrong", 3)], 0))
def test_exit_status(what: str, status: int, tmp_path: Path) -> None:
    assert misbehave(tmp_path / "out", "--set", f"what={what}").returncode == status


# ---------------------------------------------------------------------------------------------------------- kill -9

POINTS = [str(which) for which in range(1, 13)]


def began(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def held(directory: Path) -> dict[str, Record]:
    if not (directory / RESULTS).exists() or not (directory / RESULTS).stat().st_size:
        return {}
    records = load_results(directory).records
    found = {str(r.factors["which"]): r for r in records}
    assert len(found) == len(records), "a point was recorded twice"
    return found


def workers(log: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            named = "firsttouch.engine.worker" in process.cmdline()
            if named and process.environ().get("MISBEHAVING_LOG") == str(log):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def wait_for(what: str, true: object) -> None:
    deadline = time.monotonic() + 60
    while not true():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.01)


def start(log: Path, *words: str, pause: float = 0.1) -> subprocess.Popen[bytes]:
    environment = os.environ | {"MISBEHAVING_LOG": str(log), "MISBEHAVING_PAUSE": str(pause)}
    return subprocess.Popen([*COMMAND, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.exhaustive
def test_a_killed_run_loses_at_most_the_point_in_flight(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    first = (*ASKED, "--set", f"which={','.join(POINTS)}", "--out", str(out))
    for kill_at in (2, 5, 9):
        before, started = held(out), len(began(log))
        words = (*MINE, "--resume", "--out", str(out)) if (out / "run.json").exists() else first
        process = start(log, *words)
        wait_for(f"point {kill_at}", lambda n=kill_at: len(set(began(log))) >= n)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_for("the worker ends with its runner", lambda: not workers(log))
        again, after = began(log)[started:], held(out)
        assert not set(again) & set(before), "a held point was measured again"
        assert set(before) <= set(after), "a held point was lost"
        assert len(set(again) - set(after)) <= 1
    assert start(log, *MINE, "--resume", "--out", str(out)).wait(100) == 0
    assert set(held(out)) == set(POINTS)
    assert all(r.status == "ok" and r.verified for r in held(out).values())
    assert sum(Counter(began(log)).values()) <= len(POINTS) + 3


@pytest.mark.exhaustive
def test_a_killed_worker_costs_its_point(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    process = start(log, *ASKED, "--set", f"which={','.join(POINTS[:3])}", "--out", str(out), pause=1)
    wait_for("point 2", lambda: len(began(log)) == 2)
    victim = began(log)[-1]
    for pid in workers(log):
        os.kill(pid, signal.SIGKILL)
    assert process.wait(100) == 1
    ends = {which: (r.status, r.reason) for which, r in held(out).items()}
    assert set(ends) == set(POINTS[:3])
    assert ends.pop(victim) == ("crashed", "worker ended by SIGKILL")
    assert set(ends.values()) == {("ok", "")}
