from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttouch.program import range_map
from firsttouch.program.range_map import RangeMap
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
    assert found.total() == len(expected)


@given(
    st.lists(st.tuples(st.sampled_from(["assign", "remove", "change"]), ranges, st.integers(0, 2)), max_size=25),
    ranges,
    st.sampled_from([2, 3, range_map.LONGEST]),
)
def test_a_map_of_ranges_behaves_like_a_map_of_bytes(
    steps: list[tuple[str, list[int], int]], asked: list[int], longest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_map, "LONGEST", longest)
        check_map(steps, asked)


def check_map(steps: list[tuple[str, list[int], int]], asked: list[int]) -> None:
    found, expected = RangeMap[int](), dict[int, int]()
    for what, (start, end), value in steps:
        every = range(start, end)
        if what == "assign":
            found.assign(start, end, value)
            expected |= dict.fromkeys(every, value)
        elif what == "remove":
            found.remove(start, end)
            expected = {byte: held for byte, held in expected.items() if byte not in every}
        else:
            found.change(start, end, lambda _, __, before, value=value: value if before is None else before // 2)
            expected |= {byte: value if byte not in expected else expected[byte] // 2 for byte in every}
            inside = [row for row in found if start <= row[0] and row[1] <= end]
            assert all(a[1:] != (b[0], b[2]) for a, b in itertools.pairwise(inside)), "equal neighbours are merged"
    held = [*found]
    assert {byte: value for start, end, value in held for byte in range(start, end)} == expected
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(held))
    assert found.overlapping(*asked) == [row for row in held if {*range(*row[:2])} & {*range(*asked)}]
    assert all(found.exactly(start, end) == value for start, end, value in held)
    assert bool(found) == bool(expected)
    found.clear()
    assert not found
    assert [*found] == found.overlapping(0, SPAN) == []
