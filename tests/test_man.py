"""The manual page says what the help of the commands says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from tests.scripts import load_script

from firsttouch.cli import main

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def man() -> ModuleType:
    return load_script(ROOT / "docs/man.py")


def test_the_page_is_that_of_the_commands_and_of_the_guide(man: ModuleType) -> None:
    assert man.page() == man.PAGE.read_text(), "run python docs/man.py"


def test_it_has_every_command_option_and_variable(man: ModuleType) -> None:
    plain = re.sub(r"\\f[BIR]", "", man.PAGE.read_text()).replace("\\-", "-")
    for command in main.app.registered_commands:
        assert f"\n.SS firsttouch {command.name} " in plain
        for parameter in main.parser(command.name).commands[command.name].params:
            assert all(
                re.search(rf"^(.*, )?{name}\b", plain, re.MULTILINE) for name in parameter.opts if name[0] == "-"
            )
    assert "\n.B FIRSTTOUCH_CACHE\n" in plain


def test_roff_reads_nothing_as_a_request_or_an_escape(man: ModuleType) -> None:
    assert man.text("`a-b` 'c' \\d ...") == "\\fBa\\-b\\fR \\(aqc\\(aq \\ed ..."
    assert man.text("... x") == "\\&... x"
    assert man.text(f"{'x' * 60} {'y' * 16} .z") == f"{'x' * 60} {'y' * 16}\n\\&.z"


@pytest.mark.parametrize(
    "checker", [("mandoc", "-T", "lint", "-W", "style"), ("groff", "-man", "-ww", "-z", "-T", "utf8")]
)
def test_checkers_find_nothing(checker: tuple[str, ...], man: ModuleType) -> None:
    if not shutil.which(checker[0]):
        pytest.skip(f"{checker[0]} is not installed")
    done = subprocess.run([*checker, man.PAGE], text=True, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
