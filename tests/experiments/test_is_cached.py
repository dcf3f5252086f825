"""The criterion for caching that experiments and methods share."""

from __future__ import annotations

import pytest

from firsttouch.experiments.analysis.caching import is_cached


@pytest.mark.parametrize(
    ("again", "first", "cached"), [(16.2, 334, True), (1.7, 10, True), (160, 163, False), (100, 200, False)]
)
def test_repeated_loads_are_faster_if_lines_are_cached(again: float, first: float, cached: bool) -> None:
    assert is_cached(again, first) == cached
