"""The acceptance tests of docs/compare.md pass a machine as good as the baseline, and fail a slower one."""

from __future__ import annotations

import io
import json
import re
import runpy
import shlex
import sys
from copy import deepcopy as copy_of
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from runs import another_run, copy, slower
from tests import node_of_gpus
from typer.testing import CliRunner

from firsttouch.base.encoding import encode_json
from firsttouch.cli.main import app
from firsttouch.experiments import all_experiments
from firsttouch.records.reading import Results, load_results
from firsttouch.report.conclusions import conclusions

PACKAGING, RESULTS = (Path(__file__).parents[2] / name for name in ("packaging", "results"))


@pytest.fixture(scope="module")
def sides(tmp_path_factory) -> dict[str, list[str]]:
    """Three runs each of a good machine, of the same at another time, and of a slower one."""
    folder = tmp_path_factory.mktemp("acceptance")

    def three(name: str, seed: int, factor: float = 1.0) -> list[str]:
        changes = slower("latency", factor)
        return [copy(folder / f"{name}{i}", another_run(seed + i), changes) for i in range(3)]

    return {"good": three("good", 0), "again": three("again", 10), "slow": three("slow", 20, 1.5)}


def called(words: list[str]) -> tuple[int, str]:
    result = CliRunner().invoke(app, words)
    return result.exit_code, result.stdout


class _Check:
    """What the tests for ReFrame use of one."""

    def skip_if(self, condition: bool, why: str) -> None:
        assert not condition, why


@pytest.fixture
def reframe(monkeypatch):
    """The names of the file for ReFrame, with what it uses of that."""

    def same(*_):
        return lambda function: function

    names = ModuleType("reframe")
    names.simple_test, names.RunOnlyRegressionTest, names.run_before = (lambda kind: kind), _Check, same
    utility, sanity = ModuleType("reframe.utility"), ModuleType("reframe.utility.sanity")
    monkeypatch.setitem(sys.modules, "reframe", names)
    monkeypatch.setitem(sys.modules, "reframe.utility", utility)
    monkeypatch.setitem(sys.modules, "reframe.utility.sanity", sanity)
    utility.sanity = sanity
    sanity.assert_found = lambda pattern, text, _: re.search(pattern, text, re.MULTILINE) is not None
    sanity.extractsingle = lambda pattern, text, tag, convert: convert(re.search(pattern, text)[tag])
    sanity.assert_eq = lambda one, other, _: one == other
    sanity.assert_true = lambda value, _: value
    sanity.all = all
    sanity.make_performance_function = lambda function, unit: (function(), unit)
    words = {
        "variable": lambda *_, value: value,
        "run_before": same,
        "sanity_function": lambda function: function,
        "performance_function": same,
    }
    return runpy.run_path(str(PACKAGING / "reframe/firsttouch_checks.py"), words)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("now", "passes"), [("again", True), ("slow", False)])
def test_reframe_compares(reframe, sides, now, passes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check = reframe["NodeComparison"]()
    check.baseline = ",".join(sides["good"])
    check.commands()
    (measure,) = check.prerun_cmds
    assert called([*shlex.split(measure)[1:], "--list"])[0] == 0
    Path("now").symlink_to(sides[now][0])
    status, output = called(check.executable_opts)
    check.stdout = output + check.postrun_cmds[0].removeprefix("echo ").replace("$?", str(status)) + "\n"
    assert check.nothing_is_worse() is passes
    assert check.compared() > 100
    assert ("latency" in output.partition("\n\n")[0] or "regression" in output) is not passes


def printed(results: Results) -> dict[str, Any]:
    """The part of what `firsttouch run --json` prints that depends on the results."""
    counts = {"ok": len(results.records)}
    findings = conclusions(results).findings
    return json.loads(encode_json({"findings": findings, "counts": counts, "unverified": 0}))


@pytest.fixture(scope="module")
def outputs() -> list[dict[str, Any]]:
    """A processor's, a GPU's, and those of eight GPUs of which some are slow."""
    stored = [load_results(RESULTS / name) for name in ("xeon-vm-quick", "h200-quick")]
    return [printed(results) for results in (*stored, node_of_gpus.results(node_of_gpus.FAULTY))]


def of_first_screen(output: dict[str, Any]) -> list[dict[str, Any]]:
    return [f for f in output["findings"] if f["claim"].startswith("headline.") and f["value"]["unit"]]


def test_reframe_has_a_name_for_each_headline(reframe, outputs):
    for output in outputs:
        numbers, found = reframe["headlines"](output), of_first_screen(output)
        assert len(found) >= 3
        assert {(f["value"]["value"], f["value"]["unit"]) for f in found} <= set(numbers.values())
        assert len(numbers) >= len(found)
        assert all(re.fullmatch(r"[a-z0-9_-]+", name) for name in numbers)
    assert numbers["copies-between-gpus-one-way-worst"][0] < 200 < numbers["copies-between-gpus-one-way"][0]


@pytest.mark.parametrize(("factor", "good"), [(1.0, True), (1.5, False)])
def test_reframe_refers_to_good_runs(reframe, outputs, factor, good, tmp_path):
    files = [tmp_path / f"good{i}.json" for i in range(3)]
    for file, by in zip(files, (0.9, 1.0, 1.3), strict=True):
        file.write_text(json.dumps(scaled(outputs[1], by)))
    check = reframe["NodeHeadlines"]()
    check.good, check.stagedir = ",".join(map(str, files)), tmp_path
    (tmp_path / "now.json").write_text(json.dumps(scaled(outputs[1], factor)))
    assert check.all_was_measured_and_right()
    check.values()
    within = {
        name: (low is None or value >= reference * (1 + low)) and (high is None or value <= reference * (1 + high))
        for name, (value, unit) in check.perf_variables.items()
        for reference, low, high, known in [check.reference["*"][name]]
        if known == unit
    }
    assert within.keys() == check.perf_variables.keys()
    rates = {name: unit.endswith("/s") for name, (_, unit) in check.perf_variables.items()}
    assert within == {name: good or is_rate for name, is_rate in rates.items()}
    assert {*rates.values()} == {True, False}


def scaled(output: dict[str, Any], factor: float) -> dict[str, Any]:
    """The output with other values."""
    changed = copy_of(output)
    for entry in changed["findings"]:
        for quantity in (entry["value"], *entry["details"].values()):
            if isinstance(quantity, dict):
                quantity["value"] *= factor
    return changed


@pytest.mark.parametrize("change", [{"counts": {"ok": 1, "failed": 1}}, {"unverified": 1}, {"findings": []}])
def test_reframe_fails_where_points_failed_or_headlines_are_missing(reframe, outputs, change, tmp_path):
    check = reframe["NodeHeadlines"]()
    (tmp_path / "good.json").write_text(json.dumps(outputs[0]))
    (tmp_path / "now.json").write_text(json.dumps(outputs[0] | change))
    check.good, check.stagedir = str(tmp_path / "good.json"), tmp_path
    assert not check.all_was_measured_and_right()
    (tmp_path / "now.json").write_text("")
    assert not check.all_was_measured_and_right()


def test_ramble_has_a_figure_of_merit_for_each_headline(outputs, monkeypatch, capsys):
    appkit, merits, commands = ModuleType("ramble.appkit"), [], {}

    def ignored(*_, **__):
        pass

    appkit.ExecutableApplication = object
    appkit.executable = lambda name, template, **_: commands.update({name: template})
    appkit.figure_of_merit = lambda name, **options: merits.append(options)
    for name in ("tags", "software_spec", "workload", "workload_variable", "success_criteria"):
        setattr(appkit, name, ignored)
    monkeypatch.setitem(sys.modules, "ramble", ModuleType("ramble"))
    monkeypatch.setitem(sys.modules, "ramble.appkit", appkit)
    runpy.run_path(str(PACKAGING / "ramble/applications/firsttouch/application.py"))
    for output in outputs:
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(output)))
        exec(shlex.split(commands["show"])[2])
        lines = capsys.readouterr().out.splitlines()
        read = [
            (float(match["value"]), merit["units"])
            for line in lines
            for merit in merits
            if (match := re.match(merit["fom_regex"], line))
        ]
        assert read == [(f["value"]["value"], f["value"]["unit"]) for f in of_first_screen(output)]


def test_the_workflow_for_github(sides):
    example = (PACKAGING / "github/firsttouch.yml").read_text()
    measured = {name for words in re.findall(r"firsttouch run (.*?) --out", example) for name in words.split()}
    assert measured <= all_experiments().keys()
    words = re.search(r"bin/firsttouch (compare .*?) \| tee", example, re.DOTALL)[1].replace("\\\n", "").split()
    assert words == ["compare", '"$GOOD/1,$GOOD/2,$GOOD/3"', "now/1,now/2,now/3", "--fail-over", '"$LIMIT"',
                     "--out", "compare.html"]  # fmt: skip
    limit = re.search(r"inputs.limit \|\| '(.*?)'", example)[1]
    for now, wanted in (("again", 0), ("slow", 1)):
        status, output = called(["compare", ",".join(sides["good"]), ",".join(sides[now]), "--fail-over", limit])
        assert status == wanted, output
