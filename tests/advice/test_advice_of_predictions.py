"""Advice for machines that a file describes: no more than the ranges of its values allow, and nothing that was done."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.calls import call
from tests.texts import assert_states

from firsttouch.advice.verdict import CALL_MS, EQUAL
from firsttouch.base.errors import NOT_JUDGED
from firsttouch.model.platform import platform_names
from firsttouch.model.scope import NOT_MODELLED

DONE = re.compile(r"\b(took|was|were|ran|measured)\b")


@pytest.mark.parametrize("name", platform_names())
def test_each_platform_has_an_answer(name: str) -> None:
    done = call("advise", "--app", "srad", "--size", "64MiB", "--device", f"model:{name}", "--json")
    assert done.returncode in (0, NOT_JUDGED), done.stderr
    advice: dict[str, Any] = json.loads(done.stdout)
    assert not any(DONE.search(text) for text in (*advice["sentences"], *advice["turns"]))
    known = {row["strategy"]: row["ms"] for row in advice["strategies"]}
    equals = [known[name] for name in advice["verdict"]["strategies"]]
    assert max(equals) <= EQUAL * min(equals) + CALL_MS
    choice = advice["settings"]["copy_interface"]
    assert choice is None or not re.search(r"copy of \d+ B ", choice["text"])  # a rate alone says nothing of sizes


def test_the_terminal_answers_before_it_explains(tmp_path: Path) -> None:
    """The fastest comes first where none is clearly faster, and what is not modelled is listed on the page alone."""
    strategies = [word for name in ("explicit", "managed") for word in ("--strategy", name)]
    done = call("app", "srad", "--device", "model:gh200", "--size", "64MiB", *strategies, "--out", tmp_path / "run")
    assert done.returncode in (0, NOT_JUDGED), done.stderr
    text = " ".join(done.stdout.split())
    assert_states(text, "no strategy is clearly", "explicit takes", "The report lists")
    assert not DONE.search(text.replace("Predicted, not measured", ""))
    assert not any(one in text for one in NOT_MODELLED)
