"""Two values are called alike only where their intervals show it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttouch.records.findings import CLEAR_RATIO, Quantity, are_alike, are_apart


def q(value: float, low: float | None = None, high: float | None = None) -> Quantity:
    return Quantity(value, "ns", low, high)


@pytest.mark.parametrize(
    ("values", "alike"),
    [
        ([q(10, 9.5, 10.5), q(11, 10.5, 11.5)], True),
        ([q(10, 9.9, 10.1), q(12, 11.9, 12.1)], True),  # apart, and still within the bound
        ([q(10, 9, 11), q(12, 11, 13)], False),
        ([q(1.7, 1.4, 11), q(0.23, 0.2, 2)], False),
        ([q(10, 2, 50), q(10, 2, 50)], False),
        ([q(10), q(10)], True),
        ([q(10), q(10.1)], False),
        ([q(10), q(10.1, 10, 10.2)], False),
        ([q(0, 0, 0), q(0, 0, 0)], True),
        ([q(0, 0, 0), q(1, 1, 1)], False),
        ([q(10, 9.5, 10.5), q(11, 10.5, 11.5), q(13, 12, 14)], False),
    ],
)
def test_alike(values: list[Quantity], alike: bool) -> None:
    assert are_alike(values) is alike
    assert are_alike(values[::-1]) is alike


BOUNDS = st.lists(st.floats(0.01, 1e6), min_size=3, max_size=3).map(sorted)


@given(BOUNDS, BOUNDS)
def test_values_that_are_called_alike_are_alike_wherever_in_their_intervals_they_lie(
    a: list[float], b: list[float]
) -> None:
    x, y = (q(value, low, high) for low, value, high in (a, b))
    if are_alike([x, y]):
        assert all(one <= CLEAR_RATIO * other * (1 + 1e-12) for one in a + b for other in a + b)
    elif not are_apart(x, y):
        assert max(a + b) > CLEAR_RATIO * min(a + b)
