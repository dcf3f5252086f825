"""`import firsttouch`: the commands as functions, which return what the commands print with --json."""

from __future__ import annotations

import ast
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import python_stub
from tests.calls import call
from tests.port.journals import profile
from tests.port.traces import Calls
from tests.schemas import assert_valid

import firsttouch
from firsttouch.base.errors import NOT_JUDGED, UsageError
from firsttouch.cli import main
from firsttouch.engine import runner
from firsttouch.machine import facts

RESULTS = Path(__file__).parents[2] / "results"
RUN, OTHER, MESSAGES = (RESULTS / name for name in ("xeon-vm-quick", "h200-quick", "h200-message"))


@pytest.mark.parametrize("first", ["firsttouch", "firsttouch.machine.facts", "firsttouch.cli.points", "firsttouch.api"])
def test_every_name_is_a_function_whatever_was_imported_before(first):
    code = f"import {first}, firsttouch; assert all(callable(getattr(firsttouch, n)) for n in firsttouch.__all__[1:])"
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in firsttouch.__all__[1:]:
        function = getattr(firsttouch, name)
        assert function.__doc__
        assert inspect.signature(function).return_annotation is not inspect.Signature.empty


def test_the_types_of_the_functions_are_those_of_the_declarations():
    committed = python_stub.STUB.read_text()
    assert ast.dump(ast.parse(committed)) == ast.dump(ast.parse(python_stub.generated())), "make stub writes it"


def test_values_are_given_as_people_write_them_in_python(tmp_path):
    with pytest.raises(UsageError, match="--timeout '-1' is not a number of seconds"):
        firsttouch.run("latency", timeout=-1, out=tmp_path / "x")
    with pytest.raises(TypeError, match="unexpected keyword argument 'sizes'"):
        firsttouch.advise(OTHER, sizes=3)
    several = firsttouch.interfaces(MESSAGES, ["message", "direct"])
    assert several == firsttouch.interfaces(str(MESSAGES), kind=iter(("message", "direct")))
    page = tmp_path / "page.html"
    assert firsttouch.compare(RUN, RUN, out=page)["report"] == str(page)
    assert page.read_text().startswith("<!doctype html>")


def test_points_are_flat_rows_with_host_and_run():
    points = firsttouch.load(RUN, OTHER)
    lines = [line for d in (RUN, OTHER) for line in (d / "results.jsonl").read_text().splitlines()]
    assert len(points) == len(lines) == len(list(points))
    assert {row["run"] for row in points} == {str(RUN), str(OTHER)}
    assert all(row.keys() == points[0].keys() for row in points)
    assert points.columns[:2] == ["host", "run"]
    assert points[0]["summary.median"] == json.loads(lines[0])["summary"]["median"]
    assert pickle.loads(pickle.dumps(points))[:2] == points[:2]


def test_points_become_a_data_frame():
    pandas = pytest.importorskip("pandas")
    points = firsttouch.load(RUN)
    frame = points.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert (len(frame), list(frame.columns)) == (len(points), points.columns)
    assert len(pandas.DataFrame(points)) == len(points)


def test_a_notebook_shows_points_as_a_table_without_their_markup(tmp_path):
    for name in ("machine.json", "run.json"):
        (tmp_path / name).write_text((RUN / name).read_text())
    line = json.loads((RUN / "results.jsonl").read_text().splitlines()[0])
    line["factors"]["allocator"] = "<script>x</script>"
    (tmp_path / "results.jsonl").write_text(json.dumps(line) + "\n")
    html = firsttouch.load(tmp_path)._repr_html_()
    assert html.startswith("<table>")
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert "479 more points" in firsttouch.load(RUN)._repr_html_()


@pytest.mark.parametrize(
    ("directories", "arguments"), [([RUN], ()), ([OTHER], ("transfer",)), ([RUN, OTHER], ("latency", "cpu"))]
)
def test_points_are_drawn_as_an_altair_chart(directories, arguments):
    chart = firsttouch.load(*directories).plot(*arguments)
    assert type(chart).__module__.startswith("altair")
    rows = chart.to_dict(validate=False)["datasets"]["rows"]
    assert rows
    if len(directories) > 1:
        assert {row["colour"] for row in rows} == {str(d) for d in directories}


@pytest.mark.slow
def test_a_notebook_shows_charts_without_a_network(monkeypatch, tmp_path):
    altair = pytest.importorskip("altair")
    chart = firsttouch.load(OTHER).plot("transfer")
    for shown in (chart, chart.properties(title="x"), pickle.loads(pickle.dumps(chart))):
        image = shown._repr_mimebundle_()["image/svg+xml"]
        assert image.startswith("<svg")
        assert set(re.findall(r"https?:[^\"' ]*", image)) == {"http://www.w3.org/2000/svg"}
    chart.save(tmp_path / "chart.html")
    html = (tmp_path / "chart.html").read_text()
    assert not re.search(r"<script[^>]*src=|<link|import\(|fetch\(['\"]http|jsdelivr", html)
    with altair.renderers.enable("html"):  # which somebody has chosen
        assert "text/html" in chart._repr_mimebundle_()


def test_without_altair_a_chart_is_refused_with_the_line_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(UsageError, match=r"plot\(\).* altair.* `pip install altair`"):
        firsttouch.load(RUN).plot()


def test_what_cannot_be_drawn_or_loaded_is_said(tmp_path):
    with pytest.raises(UsageError, match=r"no experiment 'none'.*; there are latency"):
        firsttouch.load(RUN).plot("none")
    with pytest.raises(UsageError, match="holds no results"):
        firsttouch.load(tmp_path)
    with pytest.raises(UsageError, match="name a results directory"):
        firsttouch.load()


def _traced(directory: Path) -> Path:
    """A profile with a trace of a copy."""
    calls = Calls()
    calls.copy(calls.block(64), calls.host(64), 64)
    return profile(directory, calls.traced)


TINY = {"size": ["4KiB"], "allocator": "malloc", "order": "random"}
CALLS: Mapping[str, tuple[Callable[[Path], object], Sequence[object]]] = {
    "machine": (lambda out: firsttouch.describe_machine(), []),
    "methods": (lambda out: firsttouch.methods("cpu"), ["--device", "cpu"]),
    "run": (lambda out: firsttouch.run("latency", device="cpu", set=TINY, out=out), ["--resume", "--out", "OUT"]),
    "app": (
        lambda out: firsttouch.run_app(
            "hotspot", strategy="explicit", size="tiny", repeat=1, device="opencl:0", out=out
        ),
        ["--resume", "--out", "OUT"],
    ),
    "compare": (lambda out: firsttouch.compare(RUN, RUN, fail_over="5%"), [RUN, RUN, "--fail-over", "5%"]),
    "advise": (lambda out: firsttouch.advise(OTHER, app="lud"), [OTHER, "--app", "lud"]),
    "interfaces": (lambda out: firsttouch.interfaces(MESSAGES, "message"), [MESSAGES, "--kind", "message"]),
    "platforms": (
        lambda out: firsttouch.platforms("gh200", what_if={"host.page": "4KiB"}),
        ["gh200", "--what-if", "host.page=4KiB"],
    ),
    "port": (lambda out: firsttouch.port(_traced(out)), ["OUT"]),
    "published": (lambda out: firsttouch.published("latency gpu"), ["--search", "latency gpu"]),
    "reproduce": (
        lambda out: firsttouch.reproduce("cuda-um-2019", "3", device="model:p9-volta", dry_run=True),
        ["cuda-um-2019", "3", "--device", "model:p9-volta", "--dry-run"],
    ),
    "claims": (lambda out: firsttouch.claims(OTHER), [OTHER]),
    "validate": (lambda out: firsttouch.validate("kaveri"), ["kaveri"]),
}
"""By command: its function, and the words of the same call."""
WITHOUT_FUNCTION = {"fit", "report", "profile", "mark", "examples", "completion", "schema", "try"}
"""Commands that write files, act on other programs, or describe the others."""


def test_every_command_has_a_function() -> None:
    assert {command.name for command in main.app.registered_commands} == CALLS.keys() | WITHOUT_FUNCTION


@pytest.mark.parametrize("command", CALLS)
def test_a_function_returns_what_its_command_prints(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == "machine":  # which has the time, and how much memory is free
        found = facts.collect_machine([])
        monkeypatch.setattr(facts, "collect_machine", lambda devices: found)
    if command != "run":
        monkeypatch.setattr(runner, "write_report", lambda directory: "")
    function, words = CALLS[command]
    returned = function(tmp_path / "out")
    done = call(command, *(tmp_path / "out" if word == "OUT" else word for word in words), "--json")
    assert done.returncode in (0, NOT_JUDGED), done.stderr
    printed = json.loads(done.stdout)
    assert_valid(command, printed)
    for outcome in (returned, printed):
        if isinstance(outcome, dict):
            outcome.pop("seconds", None)  # which a run took
    assert returned == printed
    if command == "run":  # and what is on the first screen
        assert returned["counts"] == {"ok": 1}
        assert (tmp_path / "out/report.html").exists()
        assert returned["title"] == call("run", "--resume", "--out", tmp_path / "out").stdout.splitlines()[0]
        assert returned["findings"][0]["experiment"] == "latency"
        assert len(firsttouch.load(returned["directory"])) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout": -1}, "--timeout '-1' is not a number of seconds"),
        ({"timeout": float("nan")}, "--timeout 'nan'"),
        ({"ranks": 0}, "--ranks '0' .* processes from 1"),
        ({"seed": -5}, "--seed '-5'"),
        ({"trust_verified": "nowhere"}, "nowhere"),
    ],
)
def test_values_that_the_command_line_refuses_are_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        firsttouch.run("latency", device="cpu", set=TINY, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_functions_have_every_option_of_their_command() -> None:
    """But for those of output."""
    for command, function in {"run": firsttouch.run, "app": firsttouch.run_app}.items():
        callback = next(c.callback for c in main.app.registered_commands if c.name == command)
        assert callback is not None
        options = {name.replace("sets", "set") for name in inspect.signature(callback).parameters}
        assert options - {"list_only", "as_json", "every"} == set(inspect.signature(function).parameters)


@pytest.mark.slow
def test_oversubscription_is_allowed_for_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "write_report", lambda directory: "")
    monkeypatch.delenv(runner.ALLOW, raising=False)
    with pytest.warns(UserWarning, match="can hang it"):
        firsttouch.run("latency", device="cpu", set=TINY, out=tmp_path / "run", allow_oversubscription=True)
    assert runner.ALLOW not in os.environ


def test_a_wrong_call_raises_what_the_command_prints() -> None:
    with pytest.raises(UsageError, match="did you mean 'latency'") as error:
        firsttouch.run("latncy")
    assert call("run", "latncy").stderr == f"firsttouch: {error.value}\n"
