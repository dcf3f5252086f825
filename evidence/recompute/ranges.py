"""How often the ranges of estimates hold: as they are, and with the share of what differs found without a visit, a card
or a program, and tried on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median

from firsttouch.base.units import format_size
from firsttouch.comparison.validation.judged import Case, Estimator, cases, estimator_of, platform_estimator
from firsttouch.harness.outcomes.derive import BASELINE
from firsttouch.model.ranges import OF_PLATFORMS, OF_RUNS, Accuracy, EstimatedDifference, difference, scale_ms
from firsttouch.records.reading import Results
from firsttouch.records.text import percent
from records import Directory, known_platform, table

QUANTILES: Mapping[Accuracy, float] = {OF_RUNS: 0.805, OF_PLATFORMS: 0.92}
"""The part of known differences that the share holds: more than the level, for those that are not known."""


@dataclass(frozen=True)
class JudgedRange:
    """A difference of a strategy to another that was estimated and measured, in ms. prices: its range by the intervals
    of the prices alone.
    """

    card: str
    visit: str
    case: Case
    strategy: str
    other: str
    estimate: EstimatedDifference
    prices: EstimatedDifference

    @cached_property
    def measured(self) -> float:
        return self.case.measured[self.strategy].median - self.case.measured[self.other].median

    @cached_property
    def needed(self) -> float:
        """The share with which the range just holds what was measured; 0 if the prices' intervals do."""
        if self.prices.low <= self.measured <= self.prices.high:
            return 0.0
        terms = self.case.terms
        return abs(self.measured - self.estimate.ms) / scale_ms(terms[self.strategy], terms[self.other])

    @property
    def holds(self) -> bool:
        return self.estimate.low <= self.measured <= self.estimate.high

    @property
    def half_width(self) -> float:
        return (self.estimate.high - self.estimate.low) / 2 / self.case.measured[self.strategy].median


def _judged(card: str, estimator: Estimator, directories: Sequence[Directory]) -> Iterator[JudgedRange]:
    """Of each strategy to the one with the least estimate, and to the baseline."""
    for directory in directories:
        for case in cases(estimator, directory.results):
            least = min(case.estimated, key=lambda name: case.estimated[name], default=BASELINE)
            for other in dict.fromkeys((least, BASELINE)):
                for name in case.estimated if other in case.estimated else ():
                    terms = case.terms[name], case.terms[other]
                    if name != other and case.estimated[name] != case.estimated[other]:
                        apart, prices = difference(*terms), difference(*terms, share=0.0)
                        yield JudgedRange(card, directory.name, case, name, other, apart, prices)


def judged_ranges(directories: Sequence[Directory]) -> Mapping[Accuracy, list[JudgedRange]]:
    """The differences of all applications, by prices of runs and by those of the cards' platforms."""
    of_runs, of_platforms = list[JudgedRange](), list[JudgedRange]()
    for card in ("h200", "h100"):
        own = [d for d in directories if d.path.name.startswith(card)]
        visits = [d for d in own if "-visit-" in d.path.name]
        micro = [d for d in own if not any(r.experiment == "app" for r in d.records)]
        for prices, runs in (
            ([d for d in micro if d not in visits], [d for d in own if d not in visits]),
            ([d for d in micro if d in visits], visits),
        ):
            applications = [d for d in runs if d not in micro]
            of_runs += _judged(card, estimator_of(_together(prices)), applications)
            of_platforms += _judged(card, platform_estimator(known_platform(f"{card}-pcie"), "cuda:0"), applications)
    return {OF_RUNS: of_runs, OF_PLATFORMS: of_platforms}


def _together(directories: Sequence[Directory]) -> Results:
    first, *others = (d.results for d in directories)
    return replace(first, records=[*first.records, *(r for other in others for r in other.records)])


LEFT_OUT: Mapping[str, Callable[[JudgedRange], Hashable]] = {
    "a visit": lambda judged: judged.visit,
    "a card": lambda judged: judged.card,
    "a program": lambda judged: judged.case.application,
}


def share_of(rows: Sequence[JudgedRange], quantile: float) -> float:
    """The share that holds this part of them."""
    needed = sorted(row.needed for row in rows)
    return needed[min(len(needed) - 1, math.ceil(quantile * len(needed)) - 1)]


def held_without(rows: Sequence[JudgedRange], key: Callable[[JudgedRange], Hashable], quantile: float) -> list[bool]:
    """For each row whether the range holds, with the share found without the rows of its key."""
    shares = {value: share_of([r for r in rows if key(r) != value], quantile) for value in set(map(key, rows))}
    return [row.needed <= shares[key(row)] for row in rows]


def ranges(directories: Sequence[Directory]) -> str:
    """The rates by output and size."""
    lines = []
    for accuracy, rows in judged_ranges(directories).items():
        name = f"`advise DIR`, {accuracy.level}" if accuracy is OF_RUNS else f"`--device model:`, {accuracy.level}"
        held = {word: held_without(rows, key, QUANTILES[accuracy]) for word, key in LEFT_OUT.items()}
        sizes = sorted({row.case.size for row in rows if isinstance(row.case.size, int)})
        for size in (*sizes, None):
            at = [i for i, row in enumerate(rows) if size in (None, row.case.size)]
            lines.append(
                [
                    name,
                    "all" if size is None else format_size(size),
                    str(len(at)),
                    percent(fmean(rows[i].holds for i in at)),
                    *(percent(fmean(held[word][i] for i in at)) for word in LEFT_OUT),
                    percent(median(rows[i].half_width for i in at)),
                ]
            )
    heads = ["ranges", "size", "points", "hold", *(f"leaving {word} out" for word in LEFT_OUT), "half their width"]
    return table(heads, lines)


TEXTS = {"model-ranges": ranges}
