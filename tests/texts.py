"""Texts as tests assert them: by the facts in them, whatever the words between these are."""

from __future__ import annotations

import re
from collections.abc import Iterable


def assert_states(texts: str | Iterable[str], *facts: str) -> None:
    """Asserts that a text, or one of several, has each of these facts, wherever its lines break.

    ' ... ' in a fact stands for any words: "unknown device 'cuda:9' ... 'cuda:0'".
    """
    each = [" ".join(text.split()) for text in ([texts] if isinstance(texts, str) else texts)]
    missing = {text: [fact for fact in facts if not _states(text, fact)] for text in each}
    assert [] in missing.values(), f"missing in each text: {missing}"


def _states(text: str, fact: str) -> bool:
    return re.search(".*".join(map(re.escape, fact.split(" ... "))), text) is not None
