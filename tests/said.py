"""Sentences as tests assert them: by the facts in them, not by the words around these."""

from __future__ import annotations


def assert_states(text: str, *facts: str) -> None:
    """Asserts that a text has each of these: names, numbers with units, options, commands. Where its lines break does
    not matter."""
    flat = " ".join(text.split())
    missing = [fact for fact in facts if fact not in flat]
    assert not missing, f"without {missing}: {flat}"
