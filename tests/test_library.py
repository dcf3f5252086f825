"""`import firsttouch`: the commands as functions, which return what the commands print with --json."""

from __future__ import annotations

import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import firsttouch
from firsttouch.errors import UsageError

RESULTS = Path(__file__).parents[1] / "results"
RUN, OTHER = RESULTS / "xeon-vm-quick", RESULTS / "h200-quick"


def printed(*arguments: object) -> object:
    command = [sys.executable, "-m", "firsttouch.cli.main", *map(str, arguments), "--json"]
    done = subprocess.run(command, text=True, capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("first", ["firsttouch", "firsttouch.machine.facts", "firsttouch.library", "firsttouch.api"])
def test_every_name_is_a_function_whatever_was_imported_before(first):
    code = f"import {first}, firsttouch; assert all(callable(getattr(firsttouch, n)) for n in firsttouch.__all__[1:])"
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in firsttouch.__all__[1:]:
        function = getattr(firsttouch, name)
        assert function.__doc__
        assert inspect.signature(function).return_annotation is not inspect.Signature.empty


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


def test_what_cannot_be_drawn_or_loaded_is_said(tmp_path):
    with pytest.raises(UsageError, match="there is no experiment 'none' among the points; there are latency"):
        firsttouch.load(RUN).plot("none")
    with pytest.raises(UsageError, match="holds no results"):
        firsttouch.load(tmp_path)
    with pytest.raises(UsageError, match="name a results directory"):
        firsttouch.load()


def test_comparing_and_looking_up_return_what_is_printed():
    assert firsttouch.compare(RUN, RUN, fail_over="5%") == printed("compare", RUN, RUN, "--fail-over", "5%")
    assert firsttouch.published("latency gpu") == printed("published", "--search", "latency gpu")


@pytest.mark.exhaustive
def test_advice_claims_and_methods_are_what_is_printed():
    assert firsttouch.advise(OTHER) == printed("advise", OTHER)
    assert firsttouch.claims(OTHER) == printed("claims", OTHER)
    assert firsttouch.methods("cpu") == printed("methods", "--device", "cpu")
    here, there = firsttouch.describe_machine(), printed("machine")
    assert isinstance(there, dict)
    assert here.keys() == there.keys()
    assert [d["name"] for d in here["devices"]] == [d["name"] for d in there["devices"]]


def test_measuring_returns_the_outcome(tmp_path):
    outcome = firsttouch.run(
        "latency", device="cpu", set={"size": ["4KiB"], "allocator": "malloc", "order": "random"}, out=tmp_path / "run"
    )
    assert outcome["counts"] == {"ok": 1}
    assert outcome["findings"][0]["experiment"] == "latency"
    assert len(firsttouch.load(outcome["directory"])) == 1
    with pytest.raises(UsageError, match="did you mean 'latency'"):
        firsttouch.run("latncy")


@pytest.mark.exhaustive
def test_running_an_application_returns_the_outcome(tmp_path):
    outcome = firsttouch.run_app("hotspot", size="tiny", repeat=1, device="opencl:0", out=tmp_path / "app")
    assert outcome["counts"]["ok"] >= 1
    assert {row["application"] for row in outcome["applications"]} == {"hotspot"}
