"""What is said of several equals, such as the GPUs of a node or their pairs: which are alike, and which are apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from firsttouch.experiments.views.ranking import some
from firsttouch.records.equal_places import measured_on
from firsttouch.records.findings import Quantity, literal, quantity
from firsttouch.records.schema import PEER, Record
from firsttouch.records.statistics import median_of
from firsttouch.records.text import join_names

ALIKE = 0.03
"""A value that is no farther than this from the middle value, as a part of it, is never apart."""
SPREADS = 7.0
"""A value that is apart is at least this many median distances away from the middle."""
FEWEST = 3
"""Of fewer values than this, none is apart."""
MOST_APART = 3
"""The most that are named as being apart from the others."""
WIDEST = 10
"""The percent within which values are called equal."""


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


@dataclass(frozen=True)
class Comparing:
    """What a claim says of several equals. text: with placeholders for the details and the names."""

    text: str
    details: Mapping[str, Quantity]
    names: Mapping[str, str]

    @property
    def conditions(self) -> dict[str, Any]:
        """The names for a finding, as tuples, since they are results and no conditions of the points."""
        return {key: (name,) for key, name in self.names.items()}


def compare_equals(
    found: Alikeness, noun: str, name: Callable[[Record], str], lacking: Sequence[str] = (), prefix: str = ""
) -> Comparing:
    """Which are alike, and which are apart.

    noun: what each is. name: of the one a record is about. lacking: the names of those that were not measured. prefix:
    that of all placeholders.
    """
    rows = [*found.alike, *found.apart]
    every = (n := len(rows)) + len(lacking)
    if n == 1:
        if held := measured_on(rows):
            return Comparing(literal(held), {}, {})
        only = f", the one {noun} {{measured}} of {every}" if lacking else ""
        return Comparing(f"{{{prefix}only}}{only}", {}, {f"{prefix}only": name(rows[0])})
    worst, best = _worst_and_best(rows)
    details = {f"{prefix}worst": quantity(worst), f"{prefix}best": quantity(best)}
    names = {f"{prefix}worst_name": name(worst), f"{prefix}best_name": name(best)}
    measured = f"{n} {{measured}} {noun}s of {every} (not {literal(some(lacking))})" if lacking else f"{n} {noun}s"
    if not are_alike_but_few(found):
        first, last = (f"{{{prefix}{end}}} for {{{prefix}{end}_name}}" for end in ("worst", "best"))
        return Comparing(f"{measured}, from {first} to {last}", details, names)
    alike = f"equal within {found.percent} %"
    if not found.apart:
        every_one = f"{'both' if n == 2 else f'all {n}'} {noun}s"
        return Comparing(f"{measured if lacking else every_one} {alike}", details, {})
    text, more_details, names = _describe_apart(found, name, f"{prefix}apart_")
    return Comparing(f"{len(found.alike)} of {measured} {alike}, but {text}", details | more_details, names)


def are_alike_but_few(found: Alikeness) -> bool:
    """Whether all but those that are apart may be called alike."""
    few = len(found.alike) + len(found.apart) < FEWEST
    return found.percent <= WIDEST and not (few and found.percent > 100 * ALIKE)


def _worst_and_best(rows: Sequence[Record]) -> tuple[Record, Record]:
    """The worst and the best."""
    ordered = sorted(rows, key=median_of, reverse=rows[0].better == "lower")
    return ordered[0], ordered[-1]


def _describe_apart(
    found: Alikeness, name: Callable[[Record], str], prefix: str
) -> tuple[str, dict[str, Quantity], dict[str, str]]:
    """The outliers, each with its value; several pairs of one GPU together."""
    if common := _shared_end(found):
        ends = dict(zip((f"{prefix}worst", f"{prefix}best"), map(quantity, _worst_and_best(found.apart)), strict=True))
        return f"the {len(found.apart)} {common} at {{{prefix}worst}} to {{{prefix}best}}", ends, {}
    named = {f"{prefix}{i}": record for i, record in enumerate(found.apart[:MOST_APART])}
    texts = [f"{{{key}_name}} at {{{key}}}" for key in named]
    texts += [f"{len(found.apart) - len(named)} more"] if len(found.apart) > len(named) else []
    names = {f"{key}_name": name(record) for key, record in named.items()}
    return join_names(texts), {key: quantity(record) for key, record in named.items()}, names


def _shared_end(found: Alikeness) -> str:
    """'from cuda:3', 'to cuda:3' or 'with cuda:3' if several pairs that are apart have that in common; otherwise ''."""
    ends = [(r.device, str(r.factors.get(PEER, r.device))) for r in found.apart]
    if len(ends) < FEWEST or any(a == b for a, b in ends):
        return ""
    sources, targets = ({pair[i] for pair in ends} for i in (0, 1))
    of_all = set.intersection(*map(set, ends))
    shared_ends = (
        (word, *names) for word, names in (("from", sources), ("to", targets), ("with", of_all)) if len(names) == 1
    )
    return " ".join(next(shared_ends, ()))
