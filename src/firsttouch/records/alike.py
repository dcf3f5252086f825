"""Which of several equals, such as the GPUs of a node, have the same value, and which are apart from the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from firsttouch.records.schema import Record
from firsttouch.records.statistics import median_of

ALIKE = 0.03
"""A value that is no farther than this from the middle value, as a part of it, is never apart."""
SPREADS = 7.0
"""A value that is apart is at least this many median distances away from the middle."""
FEWEST = 3
"""Of fewer values than this, none is apart."""


@dataclass(frozen=True)
class Alikeness:
    """usual: the record with the middle value; of two, the better one. alike: the usual one and those near it. apart:
    the others, the worst first. spread: the largest distance of those alike from the usual one, as a part of it.
    """

    usual: Record
    alike: Sequence[Record]
    apart: Sequence[Record]
    spread: float

    @property
    def percent(self) -> int:
        """The spread in whole percent, rounded up, and at least one."""
        return max(1, math.ceil(100 * self.spread - 1e-9))


def alikeness(records: Sequence[Record]) -> Alikeness:
    """records: of equals under the same conditions, with positive medians. One is apart if it is clearly farther from
    the middle than most are, and its interval does not reach the middle.
    """
    lower_is_better = records[0].better == "lower"
    rows = sorted(records, key=median_of, reverse=not lower_is_better)
    usual = rows[(len(rows) - 1) // 2]
    middle = median_of(usual)
    away = {id(r): abs(median_of(r) / middle - 1) for r in rows}
    limit = max(ALIKE, SPREADS * median(away.values())) if len(rows) >= FEWEST else math.inf
    apart = [r for r in rows if away[id(r)] > limit and not _reaches(r, middle)]
    alike = [r for r in rows if not any(r is other for other in apart)]
    apart.sort(key=lambda r: (_is_better(r, middle), -away[id(r)]))
    return Alikeness(usual, alike, apart, max(away[id(r)] for r in alike))


def _is_better(record: Record, middle: float) -> bool:
    return (median_of(record) < middle) == (record.better == "lower")


def _reaches(record: Record, middle: float) -> bool:
    """Whether the interval of a record's median has the value `middle`."""
    summary = record.summary
    return summary is not None and summary.ci_low <= middle <= summary.ci_high
