"""Words are looked at here alone: what runs and claims are told in is what tests/report/wording.txt has."""

from __future__ import annotations

import difflib

from tests.wording import FILE, generated


def test_runs_and_claims_are_told_in_the_recorded_words() -> None:
    recorded, told = FILE.read_text().splitlines(), generated().splitlines()
    changes = "\n".join(difflib.unified_diff(recorded, told, "recorded", "told", n=0, lineterm=""))
    assert not changes, f"If these words are meant, record them with `make wording`:\n{changes}"
