"""The acceptance tests of docs/compare.md, in CI and with ReFrame. `firsttouch run` copies a directory here."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.comparison.runs import copy, slower

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="the source distribution leaves out results/"),
]
FIRSTTOUCH = """#!/bin/bash
if [ "$1" != run ]; then exec {python} -m firsttouch.cli.main "$@"; fi
mkdir "${@: -1}" && cp "$MEASURED"/* "${@: -1}"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with three good runs, in whose bin are pip, which does nothing, and firsttouch."""
    (tmp_path / "bin").mkdir()
    for name, text in (("pip", "#!/bin/sh\n"), ("firsttouch", FIRSTTOUCH.replace("{python}", sys.executable))):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    for i in "123":
        copy(tmp_path / i)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path


def measures(monkeypatch: pytest.MonkeyPatch, tools: Path, factor: float) -> None:
    """From now on `firsttouch run` gives the good run, with transfer slower by a factor."""
    monkeypatch.setenv("MEASURED", copy(tools / f"measured-{factor}", slower("transfer", factor)))


def shell(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-e", "-c", script], cwd=cwd, capture_output=True, text=True, timeout=100)


def test_the_job_in_ci(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/compare.md").read_text()
    steps = re.findall(r"- run: (?:>\n)?(.*(?:\n {10}.*)*)", page)
    assert len(steps) == 3
    for factor, passes in ((1, True), (1.3, False)):
        measures(monkeypatch, tools, factor)
        (temporary := tools / f"job-{factor}").mkdir()
        monkeypatch.setenv("RUNNER_TEMP", str(temporary))
        *before, last = (shell(" ".join(step.split()).replace("/baseline", str(tools)), tools) for step in steps)
        assert [done.returncode for done in before] == [0, 0]
        assert last.returncode == (0 if passes else 1), last.stderr
        assert ("transfer" in last.stdout) != passes
        assert (temporary / "compare.html").exists()


def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class of the ReFrame example, with stand-ins for what ReFrame provides."""

    def extracted(pattern: str, text: str, group: int, convert: Any) -> Any:
        match = re.search(pattern, text, re.MULTILINE)
        assert match, text
        return convert(match[group])

    sanity = SimpleNamespace(
        extractsingle=extracted, assert_found=lambda pattern, text, _: re.search(pattern, text, re.M)
    )
    utility = SimpleNamespace(sanity=sanity)
    core = SimpleNamespace(simple_test=lambda cls: cls, RunOnlyRegressionTest=object, utility=utility)
    for name, module in {"reframe": core, "reframe.utility": utility, "reframe.utility.sanity": sanity}.items():
        monkeypatch.setitem(sys.modules, name, module)
    provided = {
        "variable": lambda kind, value: value,
        "run_before": lambda stage: lambda method: method,
        "performance_function": lambda unit: lambda method: method,
        "sanity_function": lambda method: method,
    }
    exec((ROOT / "docs/examples/acceptance_reframe.py").read_text(), provided)
    return provided["MemoryAcceptance"]


def test_the_reframe_test(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASELINE_RUNS", ",".join(str(tools / i) for i in "123"))
    for factor in (1, 1.3):
        measures(monkeypatch, tools, factor)
        test = example(monkeypatch)()
        test.skip_if = lambda *_: None
        test.commands()
        (tools / f"stage-{factor}").mkdir()
        lines = [*test.prerun_cmds, shlex.join([test.executable, *test.executable_opts]), *test.postrun_cmds]
        done = shell("set +e\n" + "\n".join(lines), tools / f"stage-{factor}")
        test.stdout = done.stdout
        assert bool(test.nothing_is_worse()) == (factor == 1), done.stdout + done.stderr
        assert test.compared() == 448
