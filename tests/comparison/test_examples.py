"""The acceptance tests of docs/compare.md pass a machine as good as the baseline, and fail a slower one."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest
from runs import another_run, copy, slower
from typer.testing import CliRunner

from firsttouch.cli.main import app
from firsttouch.experiments import all_experiments

DOCS = Path(__file__).parents[2] / "docs"


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
    """What the example uses of a ReFrame test."""

    def skip_if(self, condition: bool, why: str) -> None:
        assert not condition, why


@pytest.fixture
def reframe(monkeypatch):
    """The example as a class, with what it uses of ReFrame."""

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
    words = {
        "variable": lambda *_, value: value,
        "run_before": same,
        "sanity_function": lambda function: function,
        "performance_function": same,
    }
    return runpy.run_path(str(DOCS / "examples" / "acceptance_reframe.py"), words)["MemoryAcceptance"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("now", "passes"), [("again", True), ("slow", False)])
def test_the_example_for_reframe(reframe, sides, now, passes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check = reframe()
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


def test_the_example_for_ci(sides):
    example = re.search(r"```yaml\n(.*?)```", (DOCS / "compare.md").read_text(), re.DOTALL)[1]
    measure = re.search(r"do (firsttouch run .*?) --out", example)[1]
    assert set(measure.split()[2:]) <= all_experiments().keys()
    words = re.search(r"&& (firsttouch compare .*?)\n {6}- ", example, re.DOTALL)[1].split()
    before, after, *options = words[2:]
    assert (len(before.split(",")), len(after.split(","))) == (3, 3)
    assert options[-2:] == ["--out", "compare.html"]  # a page, which takes long to draw
    for now, wanted in (("again", 0), ("slow", 1)):
        status, output = called(["compare", ",".join(sides["good"]), ",".join(sides[now]), *options[:-2]])
        assert status == wanted, output
