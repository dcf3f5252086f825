from __future__ import annotations

import pytest

from firsttouch.experiments.analysis.passes import behaviour, settled_at


def test_passes_settle_at_the_median_of_the_last_quarter() -> None:
    assert settled_at([9, 9, 9, 9, 9, 9, 9, 9, 9, 1, 8, 2]) == 2
    assert settled_at([7.0]) == 7
    assert settled_at([7, 3, 5]) == 5


@pytest.mark.parametrize(
    ("times", "reference", "expected"),
    [
        ([30, 1, 1, 1], 1, ("moves at once", 1)),
        ([30, 10, 1, 1], 1, ("moves gradually", 2)),
        ([40, 30, 20, 10], 10, ("moves gradually", 3)),
        ([5, 5, 5, 5], 1, ("stays", 0)),
        ([1.2, 1, 1, 1], 1, ("is there", 0)),
        ([5, 5, 5, 5], None, ("is there", 0)),
        ([1], 1, ("is there", 0)),
    ],
)
def test_behaviour_of_passes(times: list[float], reference: float | None, expected: tuple[str, int]) -> None:
    assert behaviour(times, reference) == expected
