"""docs/extending/hazard.md: its hazard is found and its test passes, as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.port.test_port_findings import of
from tests.port.traces import Calls
from tests.texts import assert_states

from firsttouch.advice.port import found
from firsttouch.advice.port.rules import all_rules
from firsttouch.cli import ported

PAGE = Path(__file__).parents[2] / "docs/extending/hazard.md"
MIB = 1 << 20


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the code of the page defines, with its hazard among the rules."""
    names: dict[str, Any] = {"__name__": "recipe"}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(code, names)
    rules = {**all_rules(), "managed-copy": names["ManagedCopy"]}
    for module in (found, ported):
        monkeypatch.setattr(module, "all_rules", lambda: rules)
    return names


def test_the_test_of_the_recipe_passes(printed: dict[str, Any]) -> None:
    test = printed["test_copies_to_managed_memory_are_found"]
    for case in test.pytestmark[0].args[1]:
        test(*case)


def test_its_finding_is_shown_with_its_words(printed: dict[str, Any]) -> None:
    calls = Calls()
    calls.copy(calls.block(MIB, kind="managed"), calls.host(MIB), MIB, line=7)
    port = of(calls)
    assert [row.kind for row in port.searched][-1] == "managed-copy"
    words = printed["ManagedCopy"].words["h2d"]
    assert_states(
        " ".join(ported.lines(port)),
        *("likely managed copy", "main p.cu:7", "(1x, 1 MiB)", words.text, words.unless),
        f"{printed['ManagedCopy'].strategy}: docs/porting.md#managed-copies",
    )
