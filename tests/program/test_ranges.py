from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from firsttouch.program.ranges import Ranges

SPAN = 40
ranges = st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)).map(sorted)
steps = st.lists(st.tuples(st.sampled_from(["add", "remove"]), ranges), max_size=25)


@given(steps, ranges)
def test_ranges_behave_like_a_set_of_bytes(steps: list[tuple[str, list[int]]], asked: list[int]) -> None:
    found, expected = Ranges(), set[int]()
    for what, (start, end) in steps:
        getattr(found, what)(start, end)
        expected = expected | {*range(start, end)} if what == "add" else expected - {*range(start, end)}
    held = [*found]
    assert {i for start, end in held for i in range(start, end)} == expected
    assert all(a[1] < b[0] for a, b in itertools.pairwise(held)), "adjacent ranges are merged"
    wanted = {*range(*asked)}
    assert {i for start, end in found.missing(*asked) for i in range(start, end)} == wanted - expected
    assert found.overlaps(*asked) == bool(wanted & expected)
    assert bool(found) == bool(expected)
