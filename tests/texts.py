"""Texts as tests assert them: by the facts in them, whatever the words between these are."""

from __future__ import annotations

from collections.abc import Iterable


def assert_states(texts: str | Iterable[str], *facts: str) -> None:
    """Asserts that a text, or one of several, has each of these facts, wherever its lines break."""
    each = [" ".join(text.split()) for text in ([texts] if isinstance(texts, str) else texts)]
    missing = {text: [fact for fact in facts if fact not in text] for text in each}
    assert [] in missing.values(), f"missing in each text: {missing}"
