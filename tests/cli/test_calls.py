"""Wrong calls, output that cannot be written, and signals: messages and exit statuses."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.calls import COMMAND, UNDRAWN, call
from tests.matrix import matrix
from tests.texts import assert_states

from firsttouch.cli.output import printable
from firsttouch.engine.discover import discover_devices
from firsttouch.machine.facts import collect_machine

SMALL = ("run", "latency", "--device", "cpu", "--set", "size=4KiB", "--set", "order=random", "--out", "o")
APP = ("app", "nn", "--strategy", "svm-fine", "--size", "tiny", "--repeat", "1", "--device", "opencl:0", "--out", "o")


def start(cwd: Path, *words: str, command: Sequence[str] = COMMAND, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *words], cwd=cwd, env=os.environ | more, capture_output=True, text=True, timeout=100
    )


@pytest.mark.parametrize(
    ("words", "said"),
    matrix(
        [
            (("rum",), "unknown command 'rum' (did you mean 'run'?) ... machine, methods, run"),
            (("report", "x", "--format", "pdf"), "unknown format 'pdf' ... html, png, svg"),
            (("report",), "missing argument 'DIR'"),
            (("report", "x", "-o", ""), "a path is empty"),
            (("run", "--timeout", "x"), "--timeout 'x' ... seconds ... more than 0"),
            (("run", "--timeout", "1e9"), "--timeout '1e9' ... seconds ... at most 1e+06"),
            (("run", "--timeout", "-1"), "--timeout '-1' ... seconds ... more than 0"),
            (("app", "hotspot", "--timeout", "inf"), "--timeout 'inf' ... seconds ... more than 0"),
            (("run", "--seed", "1.5"), "--seed '1.5' is not a whole number from 0 to 2^63 - 1"),
            (("run", "--seed", "9" * 400), "is not a whole number from 0 to 2^63 - 1"),
            (("run", "--out", ""), "a path is empty"),
            (("run", "--out", "a\nb", "--resume", "--colour"), "no such option: --colour"),
            (("machine", "more"), "unexpected extra argument"),
            (("methods", "--device"), "option '--device' requires an argument"),
            (("run", "latency", "--out", "n" * 300), f"{os.strerror(errno.ENAMETOOLONG)} ... give a directory"),
            (("run", "latency", "--out", "loop/x"), os.strerror(errno.ELOOP)),
            (("report", "loop"), "loop"),
            (("run", "late\x1b[31mncy"), r"unknown experiment 'late\u001b[31mncy'"),
        ],
        6,
    ),
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_a_wrong_call_is_one_sentence(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    done = call(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("firsttouch: ")
    assert_states(done.stderr, said)
    assert done.stderr.count("\n") == 1, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


def test_a_deleted_directory(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    words = " ".join([*COMMAND, "run", "latency", "--device", "cpu", "--module", "x.py"])
    done = subprocess.run(f"cd {gone} && rmdir {gone} && {words}", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert_states(done.stderr, "current directory was deleted", "change to")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = call(*SMALL, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize("encoding", matrix(["ascii", "latin-1"]))
@pytest.mark.slow
def test_characters_that_the_encoding_lacks_are_replaced(encoding: str, tmp_path: Path) -> None:
    done = start(tmp_path, *APP, command=UNDRAWN, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert any(line.split()[:1] == ["svm-fine"] and line.split()[-1] == "+" for line in done.stdout.splitlines())
    stated = start(tmp_path, "methods", "--device", "cpu", PYTHONIOENCODING=encoding)
    assert stated.returncode == 0, stated.stderr


@pytest.mark.parametrize("closed", matrix([">&-", "2>&-", "<&-", "<&- >&- 2>&-", "2>/dev/full", "| true"], 1))
@pytest.mark.slow
def test_a_run_continues_without_its_output(closed: str, tmp_path: Path) -> None:
    words = " ".join([*COMMAND, *SMALL])
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {words} {closed}"], cwd=tmp_path, capture_output=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    records = [json.loads(line) for line in (tmp_path / "o" / "results.jsonl").read_text().splitlines()]
    assert {r["status"] for r in records} == {"ok"}
    assert (tmp_path / "o" / "report.html").exists()


@pytest.mark.exhaustive
def test_a_full_stdout_is_reported_at_the_end(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, *SMALL], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert_states(done.stderr.splitlines()[-1], "firsttouch: stdout", os.strerror(errno.ENOSPC))
    assert (tmp_path / "o" / "report.html").exists()


@pytest.mark.slow
def test_a_full_disk_ends_the_run_and_loses_nothing(tmp_path: Path) -> None:
    machine = collect_machine(discover_devices(["cpu"]))
    room = len(msgspec.json.format(msgspec.json.encode(machine))) + 2**12
    sizes = [f"size={','.join(str(64 * n) for n in range(1, 61))}", "order=random", "allocator=malloc"]
    words = [*COMMAND, "run", "latency", "--device", "cpu", *(w for s in sizes for w in ("--set", s)), "--out", "o"]
    out = tmp_path / "o"
    out.mkdir()
    (out / "report.html").write_text("old")
    full = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, timeout=100,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )  # fmt: skip
    assert (full.returncode, full.stdout) == (1, ""), full.stderr
    *kept, cut = (out / "results.jsonl").read_text().split("\n")
    assert full.stderr.endswith(f"; {len(kept)} points kept. Continue with: firsttouch run --resume --out o\n")
    assert "File too large" in full.stderr
    assert (out / "report.html").read_text() == "old"
    resumed = call("run", "--resume", "--out", "o", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert not cut or "last line was cut" in resumed.stderr
    lines = (out / "results.jsonl").read_text().splitlines()
    assert lines[: len(kept)] == kept
    assert [json.loads(line)["factors"]["size"] for line in lines] == [64 * n for n in range(1, 61)]


SIGNALS = [(signal.SIGHUP, 129), (signal.SIGTERM, 143), (signal.SIGINT, 130)]


@pytest.mark.parametrize(("number", "status"), matrix(SIGNALS, 2))
@pytest.mark.slow
def test_a_signal_keeps_results_and_prints_how_to_continue(number: signal.Signals, status: int, tmp_path: Path) -> None:
    words = [*UNDRAWN, "run", "latency", "--device", "cpu", "--preset", "full", "--out", "my results"]
    run = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    results = tmp_path / "my results" / "results.jsonl"
    while run.poll() is None and not (results.exists() and results.stat().st_size):
        time.sleep(0.01)
    run.send_signal(number)
    out, told = run.communicate(timeout=20)
    assert (run.returncode, out) == (status, "")
    assert "kept. Continue with: firsttouch run --resume --out 'my results'\n" in told
    assert "Traceback" not in told
    assert all(json.loads(line)["status"] == "ok" for line in results.read_text().splitlines())


@pytest.mark.parametrize(("number", "status"), matrix(SIGNALS[::-1]))
def test_a_signal_ends_other_commands_with_a_message(number: signal.Signals, status: int, tmp_path: Path) -> None:
    words = [*COMMAND, "methods", "--verify", "--device", "cpu"]
    verify = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert verify.stderr is not None
    assert verify.stderr.readline().startswith("cpu malloc: ")
    verify.send_signal(number)
    out, told = verify.communicate(timeout=20)
    assert (verify.returncode, out) == (status, "")
    assert told.splitlines()[-1] == "firsttouch: interrupted"
    assert "Traceback" not in told


def test_help_says_what_an_exit_status_means() -> None:
    for command in ("run", "app"):
        meanings = re.split("[:;] ", " ".join(call(command, "--help").stdout.split()))
        for facts in (("1 ", "points failed", "disk"), ("2 ", "call"), ("130 and 143 ", "Ctrl-C or SIGTERM")):
            assert_states([text for text in meanings if text.startswith(facts[0])], *facts)


def test_control_characters_are_made_visible() -> None:
    assert (
        printable("a\tb\nc\x1b[31m\x9b1m\u202ed\x00\ud800") == r"a	b" "\n" r"c\u001b[31m\u009b1m\u202ed\u0000\ud800"
    )
    text = json.dumps("\x7f\x9b ok", ensure_ascii=False)
    assert json.loads(printable(text)) == "\x7f\x9b ok"
