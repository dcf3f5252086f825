"""What is said of the comparison that decides a claim."""

from __future__ import annotations

import pytest

from firsttouch.comparison.papers.comparisons import ClaimComparison, ComparedValue
from firsttouch.comparison.papers.wording import decision_in_words

MEASURED = ComparedValue(value=4330.0, unit="GB/s", low=4300.0, high=4350.0)
OTHER = ComparedValue(value=73.3, unit="GB/s", low=73.0, high=73.5)
ABOUT = "allocator device against allocator pinned"


def comparison(
    first: ComparedValue, second: ComparedValue | None = None, ratio: ComparedValue | None = None
) -> ClaimComparison:
    return ClaimComparison(agrees="yes", about=ABOUT, first=first, points=[], second=second, ratio=ratio)


@pytest.mark.parametrize(
    ("decisive", "counts", "said"),
    [
        (
            comparison(MEASURED, OTHER, ComparedValue(value=59.1, unit="", low=58.0, high=60.0)),
            (1, 0, 0),
            f"4,330 GB/s against 73.3 GB/s (ratio 59.1, 58 to 60): {ABOUT}",
        ),
        (
            comparison(MEASURED, OTHER, ComparedValue(value=59.1, unit="")),
            (2, 1, 1),
            f"4,330 GB/s against 73.3 GB/s (ratio 59.1): {ABOUT}; 2 of 4 comparisons agree, 1 contradict",
        ),
        (comparison(MEASURED, OTHER), (1, 0, 0), f"4,330 GB/s against 73.3 GB/s: {ABOUT}"),
        (comparison(MEASURED), (0, 1, 0), f"4,330 GB/s: {ABOUT}"),
        (comparison(ComparedValue(value=1.0, unit="")), (0, 1, 0), ABOUT),
    ],
)
def test_the_comparison_that_decides_is_said_with_its_values(
    decisive: ClaimComparison, counts: tuple[int, int, int], said: str
) -> None:
    assert decision_in_words(decisive, *counts) == said
