"""Blocks that a helper of the program allocates are named by the lines that call it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from firsttouch.advice.port.places import Places, blocks_told_apart, where_allocated
from firsttouch.profile.recorded import CallFrame, CallSite


def site(*words: str) -> CallSite:
    """Frames of Python, the innermost first: 'alloc helper.py:3'."""
    frames = []
    for word in words:
        function, _, place = word.partition(" ")
        file, _, line = place.partition(":")
        frames.append(CallFrame(f"/home/me/{file}", int(line), function))
    return tuple(frames)


ALLOC, MAKE = "alloc helper.py:3", "make model.py:7"
PACKAGE = "with_it lib/python3.12/contextlib.py:81"


@pytest.mark.parametrize(
    ("sites", "named"),
    [
        # each by the line that differs, and no further out
        ([site(ALLOC, "main m.py:1"), site(ALLOC, "main m.py:2")], ["main m.py:1 by alloc", "main m.py:2 by alloc"]),
        (
            [site(ALLOC, MAKE, "main m.py:1"), site(ALLOC, MAKE, "main m.py:2"), site(ALLOC, "main m.py:9")],
            ["main m.py:1 by alloc", "main m.py:2 by alloc", "main m.py:9 by alloc"],
        ),
        # a package in between is no line of the user
        (
            [site(ALLOC, PACKAGE, "main m.py:1"), site(ALLOC, PACKAGE, "main m.py:2")],
            ["main m.py:1 by alloc", "main m.py:2 by alloc"],
        ),
        # nothing differs; no helper; a helper of the few
        ([site(ALLOC, "main m.py:1"), site(ALLOC, "main m.py:1")], ["alloc helper.py:3", "alloc helper.py:3"]),
        ([site("main m.py:1"), site("main m.py:2")], ["main m.py:1", "main m.py:2"]),
        (
            [site(ALLOC, "main m.py:1"), site(ALLOC, "main m.py:2"), *(site(f"main m.py:{n}") for n in range(10, 13))],
            ["alloc helper.py:3", "alloc helper.py:3", *(f"main m.py:{n}" for n in range(10, 13))],
        ),
        # one of two ends at the helper
        ([site(ALLOC), site(ALLOC, "main m.py:2")], ["alloc helper.py:3", "alloc helper.py:3"]),
        ([], []),
    ],
)
def test_blocks_are_told_apart(sites: list[CallSite], named: list[str]) -> None:
    blocks: Any = [SimpleNamespace(site=one, on_host=False, name="") for one in sites]
    apart, places = blocks_told_apart(blocks, {}), Places({})
    texts = [where_allocated(places.of(apart.get(s, s)), places.of(s) if s in apart else None) for s in sites]
    assert texts == named
