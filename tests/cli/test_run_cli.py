"""firsttouch run, as a user calls it."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.calls import DRAWN_BESIDES, UNDRAWN, call
from tests.matrix import matrix
from tests.texts import assert_states

import firsttouch
from firsttouch.records.schema import SCHEMA

FAULTS = Path(__file__).parents[1] / "engine" / "faults.py"
MODULES = {"FIRSTTOUCH_MODULES": str(FAULTS)}
ENVIRONMENT = os.environ | MODULES


def run_in(cwd: Path, *words: object, drawn: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
    return call("run", *words, cwd=cwd, drawn=drawn, **(MODULES | more))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A small run into DIR/out."""
    cwd = tmp_path_factory.mktemp("done")
    return cwd, run_in(cwd, "steady", "--set", "n=0,1,2", "--device", "cpu", "--out", "out", drawn=True)


def test_findings_and_the_report_are_printed_and_nothing_else(done):
    cwd, run = done
    assert run.returncode == 0, run.stderr
    title, blank, *rest = run.stdout.splitlines()
    assert title
    if rest[0].startswith("Conditions: "):  # of the machine of the tests
        blank, *rest = rest[rest.index("") :]
    assert [blank, *rest] == [
        "",
        "steady on cpu",
        "  It ended.",
        "",
        "out/report.html",
        "Next: firsttouch compare out OTHER",
    ]
    assert (cwd / "out" / "report.html").stat().st_size > 1000
    assert {p.name for p in (cwd / "out").iterdir()} == {"results.jsonl", "machine.json", "run.json", "report.html"}
    assert "steady on cpu: 3 ok" in run.stderr


def test_events_where_there_are_none_is_one_sentence(tmp_path):
    run = run_in(tmp_path, "fresh", "steady", "--device", "cpu", "--events", "--json", "--set", "n=1", "--out", "out")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["counts"] == {"ok": 2}
    assert len(re.findall("unified-memory events .* for cpu", run.stderr)) == 1
    again = run_in(tmp_path, "steady", "--set", "n=2", "--device", "cpu", "--resume", "--out", "out")
    assert again.returncode == 0, again.stderr
    assert len(re.findall("unified-memory events .* for cpu", again.stderr)) == 1
    assert not (tmp_path / "out" / "events.json").exists()


def test_json_is_the_only_output_on_stdout(tmp_path):
    run = run_in(tmp_path, "fault", "--device", "cpu", "--set", "what=chatter", "--json", drawn=DRAWN_BESIDES)
    outcome = json.loads(run.stdout)
    assert outcome["counts"] == {"ok": 1}
    assert Path(outcome["directory"]).parent == Path("firsttouch-results")
    assert outcome["report"] == f"{outcome['directory']}/report.html"
    assert (tmp_path / outcome["report"]).is_file() == DRAWN_BESIDES
    (found,) = outcome["findings"]
    assert (found["claim"], found["text"], found["conditions"]["device"]) == ("fault.ended", "It ended.", "cpu")


WRONG = [
    (["latncy"], "'latncy'", "steady"),
    (["fresh", "--device", "gpu"], "'gpu'", "cpu"),
    (["fresh", "--preset", "fast"], "'fast'", "quick, standard, full"),
    (["shaped", "--device", "cpu", "--set", "allocater=malloc"], "'allocater'", "allocator"),
    (["shaped", "--device", "cpu", "--set", "allocator=managd"], "'managd'", "malloc"),
    (["shaped", "--device", "cpu", "--set", "size=big"], "'big'", "4KiB"),
    (["shaped", "--device", "cpu", "--set", "size=0"], "'0'", "4KiB"),
    (["shaped", "--device", "cpu", "--set", "size=500TiB"], "'500TiB' exceeds", "host"),
    (["shaped", "--device", "cpu", "--set", "size"], "'size'", "factor=value"),
    (["fresh", "--device", "cpu", "--timeout", "0"], "'0", "more than 0"),
    (["fresh", "--device", "cpu", "--timeout", "nan"], "'nan'", "more than 0"),
    (["fresh", "--resume"], "--resume", "--out DIR"),
    (["fresh", "--device", "cpu", "--out", "/proc/nowhere"], "/proc/nowhere", "can be written"),
    (["fresh", "--device", "cpu", "--out", "/dev/null/x"], "/dev/null/x", "can be written"),
    (["fresh", "--colour"], "--colour", ""),
]


@pytest.mark.parametrize(("words", "wrong", "accepted"), matrix(WRONG, 5), ids=lambda value: " ".join(value)[:50])
def test_a_wrong_call_is_one_sentence_and_leaves_nothing(tmp_path, words, wrong, accepted):
    run = run_in(tmp_path, *words)
    assert run.returncode == 2, run.stderr
    assert wrong in run.stderr
    assert accepted in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", matrix(["FIRSTTOUCH_MAX_HOST", "FIRSTTOUCH_MAX_DEVICE", "FIRSTTOUCH_MAX_MANAGED"], 1))
@pytest.mark.parametrize(
    ("text", "said"), [("lots", "'lots' is not a size such as"), ("0x10", "'0x10' is not"), ("0", "'0' is zero bytes")]
)
def test_a_bad_limit_is_a_wrong_run_in(tmp_path, name, text, said):
    run = run_in(tmp_path, "fresh", "--device", "cpu", **{name: text})
    assert (run.returncode, run.stderr.count("\n")) == (2, 1)
    assert f"{name}: {said}" in run.stderr


def _alter(name: str, field: str, value: object):
    def change(directory: Path) -> None:
        document = json.loads((directory / name).read_text())
        (directory / name).write_text(json.dumps(document | {field: value}))

    return change


def _break_middle(directory: Path) -> None:
    lines = (directory / "results.jsonl").read_text().splitlines()
    (directory / "results.jsonl").write_text("\n".join([lines[0], lines[1][:40], lines[2], ""]))


def _foreign_schema(directory: Path) -> None:
    path = directory / "results.jsonl"
    path.write_text(path.read_text().replace(SCHEMA, "firsttouch/0"))


def _other_device(directory: Path) -> None:
    document = json.loads((directory / "machine.json").read_text())
    document["devices"][0]["title"] = "another CPU"
    (directory / "machine.json").write_text(json.dumps(document))


REFUSED = [
    ("held", lambda _: None, [], "already holds results; add --resume"),
    ("preset", lambda _: None, ["--resume", "--preset", "full"], "--preset quick, not full"),
    ("seed", lambda _: None, ["--resume", "--seed", "5"], "--seed 1, not 5"),
    ("host", _alter("machine.json", "host", "elsewhere"), ["--resume"], "another machine (host: elsewhere"),
    ("device", _other_device, ["--resume"], "another machine (cpu: another CPU"),
    ("middle", _break_middle, ["--resume"], "results.jsonl:2:"),
    ("schema", _foreign_schema, ["--resume"], "results.jsonl:1: schema 'firsttouch/0'"),
    ("run.json", lambda d: (d / "run.json").unlink(), ["--resume"], "no run.json"),
    ("machine.json", lambda d: (d / "machine.json").unlink(), ["--resume"], "no machine.json"),
]


@pytest.mark.parametrize(("change", "words", "text"), matrix([r[1:] for r in REFUSED], 2), ids=[r[0] for r in REFUSED])
def test_results_are_never_lost(done, tmp_path, change, words, text):
    shutil.copytree(done[0] / "out", tmp_path / "out")
    change(tmp_path / "out")
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    run = run_in(tmp_path, "steady", "--device", "cpu", "--out", "out", *words)
    assert run.returncode == 2, run.stderr
    assert text in run.stderr
    assert "Traceback" not in run.stderr
    assert before == {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}


def test_resume_continues_the_request_and_adds_new_points(tmp_path):
    run_in(tmp_path, "steady", "--device", "cpu", "--set", "n=1,2", "--seed", "9", "--out", "out")
    path = tmp_path / "out" / "results.jsonl"
    first, second = path.read_text().splitlines(keepends=True)
    path.write_text(first + second[:30])
    _alter("machine.json", "firsttouch", "0.1.0")(tmp_path / "out")
    again = run_in(tmp_path, "--resume", "--out", "out")
    assert again.returncode == 0, again.stderr
    assert "last line was cut" in again.stderr
    more = run_in(tmp_path, "alone", "--device", "cpu", "--resume", "--out", "out", "--json")
    assert json.loads(more.stdout)["counts"] == {"ok": 5}
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(r["experiment"], r["factors"]["n"]) for r in records] == [
        ("steady", 1), ("steady", 2), ("alone", 0), ("alone", 1), ("alone", 2)]  # fmt: skip
    assert {r["seed"] for r in records} == {9}
    builds = json.loads((tmp_path / "out" / "machine.json").read_text())["firsttouch"]
    assert builds == f"0.1.0, {firsttouch.__version__}"
    stored = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (stored["experiments"], stored["set"]) == (["alone"], {})
    assert [(one["experiments"], one["set"]) for one in stored["earlier"]] == [(["steady"], {"n": ["1", "2"]})]
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    whole = run_in(tmp_path, "--resume", "--out", "out", "--json")
    assert json.loads(whole.stdout)["counts"] == {"ok": 5}
    assert json.loads((tmp_path / "out" / "run.json").read_text()) == stored


def test_resume_of_nothing_starts_from_the_beginning(tmp_path):
    words = ["steady", "--set", "n=0,1", "--device", "cpu", "--resume", "--out", "out", "--json"]
    assert json.loads(run_in(tmp_path, *words).stdout)["counts"] == {"ok": 2}


@pytest.mark.slow
def test_two_runs_into_one_directory(tmp_path):
    words = ["steady", "--device", "cpu", "--resume", "--out", "out"]
    first = subprocess.Popen([*UNDRAWN, "run", *words], cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE)
    results = tmp_path / "out" / "results.jsonl"
    while not results.exists() and first.poll() is None:
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)
    second = run_in(tmp_path, *words)
    first.send_signal(signal.SIGCONT)
    assert second.returncode == 2
    assert_states(second.stderr, "out is", "written by another run")
    assert first.wait() == 0
    assert len(results.read_text().splitlines()) == 60
    assert first.stderr is not None
    first.stderr.close()


@pytest.mark.slow
def test_ctrl_c_keeps_results_and_prints_how_to_continue(tmp_path):
    words = ["fault", "--device", "cpu", "--set", "what=fine,sleep,raise", "--out", "out", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    run = subprocess.Popen([*UNDRAWN, "run", *words], cwd=tmp_path, env=ENVIRONMENT, text=True, **pipes)
    results = tmp_path / "out" / "results.jsonl"
    while run.poll() is None and not (results.exists() and results.stat().st_size):
        time.sleep(0.01)
    time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    printed, told = run.communicate(timeout=20)
    assert run.returncode == 130
    error = json.loads(printed)["error"]
    assert error["exit_status"] == 130
    assert error["hint"].endswith("firsttouch run --resume --out out")
    assert "interrupted; 1 point kept. Continue with: firsttouch run --resume --out out" in told
    assert "Traceback" not in told
    assert len(results.read_text().splitlines()) == 1


def test_a_list_of_everything_has_one_line_each(tmp_path):
    *lines, summary, last = run_in(tmp_path, "--device", "cpu", "--list").stdout.splitlines()
    entries = json.loads(run_in(tmp_path, "--device", "cpu", "--list", "--json").stdout)["experiments"]
    assert [line.split()[0] for line in lines] == [entry["name"] for entry in entries]
    assert len({len(line) - len(line.partition("  ")[2].lstrip()) for line in lines}) == 1
    assert max(map(len, lines)) <= 100
    assert entries[0]["question"] in lines[0]
    assert re.fullmatch(r"\d+ experiments: [\d,]+ points, about [\d.]+ (s|min) planned\.", summary)
    assert last.startswith("firsttouch run NAME --list has the factors")


def test_list_names_questions_factors_and_devices(tmp_path):
    text = run_in(tmp_path, "shaped", "steady", "--device", "cpu", "--list").stdout
    assert "cpu: allocator malloc; size 4KiB, 1MiB; mode 0, 1" in text
    assert "n 0, 1, ..., 59 (60 values)" in text
    listed = run_in(tmp_path, "shaped", "steady", "--list", "--json", "--device", "cpu").stdout
    steady, shaped = json.loads(listed)["experiments"]
    assert text.splitlines()[0] == f"steady: {steady['question']}"
    assert shaped["devices"]["cpu"]["size"] == ["4KiB", "1MiB"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_terminal_gets_a_bar(tmp_path):
    here, there = pty.openpty()
    words = ["fault", "steady", "--set", "what=raise", "--set", "n=0,1,2", "--device", "cpu", "--out", "out"]
    run = subprocess.Popen([*UNDRAWN, "run", *words],
                           cwd=tmp_path, env=ENVIRONMENT | {"TERM": "xterm", "COLUMNS": "100"}, stderr=there,
                           stdout=subprocess.PIPE)  # fmt: skip
    os.close(there)
    seen = b""
    while True:
        try:
            data = os.read(here, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(here)
    stdout, _ = run.communicate()
    assert run.returncode == 1
    assert stdout.endswith(b"It ended.\n\nout/report.html\nNext: firsttouch run --resume --retry --out out\n")
    assert b"4/4" in seen or b"3/4" in seen
    assert b"RuntimeError: the driver said no" in seen


def test_help_has_an_example(tmp_path):
    text = run_in(tmp_path, "--help").stdout
    assert "Example: firsttouch run" in text


MISTAKEN = """
from firsttouch.api import Experiment, Factor, Measurement, Metric


class Mistaken(Experiment):
    name = "mistaken"
    question = "What does a mistake cost?"
    metric = Metric("ns", "lower")
    counted = source = ""
    figures = ()

    def factors(self, device, preset):
        return [Factor("n", [1], "count")]

    def measure(self, point, session):
        return Measurement(samples=[1.0], verified=True)

    def findings(self, records, device):
        return 1 / 0
"""


def test_failing_findings_name_the_line_of_their_module(tmp_path):
    module = tmp_path / "mistaken.py"
    module.write_text(MISTAKEN)
    run = run_in(tmp_path, "mistaken", "--device", "cpu", "--module", module, "--out", "out", FIRSTTOUCH_MODULES="")
    assert run.returncode == 0, run.stderr
    line = 1 + MISTAKEN[: MISTAKEN.index("return 1 / 0")].count("\n")
    said = " ".join(run.stdout.split())
    assert "ZeroDivisionError" in said
    assert f"{module}:{line}" in said
    *_, page, following = run.stdout.splitlines()
    assert page == "out/report.html"
    assert following == "Next: firsttouch compare out OTHER"
