"""How often ranges hold: as they are, and with a share that was found without a visit, a card or a program."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median

from firsttouch.base.units import format_size
from firsttouch.comparison.validation.judged import Case, Estimator, cases, estimator_of, platform_estimator
from firsttouch.harness.outcomes.derive import BASELINE
from firsttouch.model.ranges import (
    OF_ANOTHER_RUN,
    OF_PLATFORMS,
    OF_RUNS,
    OF_TRACES,
    Accuracy,
    difference,
    range_of_traced,
    scale_ms,
    with_least,
)
from firsttouch.records.reading import Results
from firsttouch.records.schema import Record
from firsttouch.records.text import percent
from ported import versions
from records import Directory, fitted, known_platform, table

FEW = 20
"""Fewer points of one size have no rate."""


@dataclass(frozen=True)
class JudgedRange:
    """A range, and what was measured, in ms. needed: the share with which it just holds that; 0 if it does without.
    whole: the time that its width is compared with.
    """

    card: str
    visit: str
    program: str
    size: object
    measured: float
    low: float
    high: float
    needed: float
    whole: float

    @property
    def holds(self) -> bool:
        return self.low <= self.measured <= self.high

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2 / self.whole


Rows = list[JudgedRange]


def _judged(card: str, estimator: Estimator, directories: Sequence[Directory]) -> Iterator[JudgedRange]:
    """Of each strategy to the one with the least estimate, and to the baseline."""
    for directory in directories:
        for case in cases(estimator, directory.results):
            least = min(case.estimated, key=lambda name: case.estimated[name], default=BASELINE)
            for other in dict.fromkeys((least, BASELINE)):
                for name in case.estimated if other in case.estimated else ():
                    if name != other and case.estimated[name] != case.estimated[other]:
                        yield _of_difference(card, directory.name, case, name, other)


def _of_difference(card: str, visit: str, case: Case, name: str, other: str) -> JudgedRange:
    terms, whole = (case.terms[name], case.terms[other]), case.measured[name].median
    measured = whole - case.measured[other].median
    apart, prices = difference(*terms), difference(*terms, share=0.0)
    needed = 0.0 if prices.low <= measured <= prices.high else abs(measured - apart.ms) / scale_ms(*terms)
    return JudgedRange(card, visit, case.application, case.size, measured, apart.low, apart.high, needed, whole)


def _parts(directories: Sequence[Directory]) -> Iterator[tuple[str, list[Directory], list[Directory]]]:
    """The directories with micro-measurements, and those with applications, of each kind of card: of most visits, and
    of those of which both are from one machine.
    """
    for card in ("h200", "h100"):
        of_card = [d for d in directories if d.path.name.startswith(card)]
        for visits in (False, True):
            own = [d for d in of_card if visits == ("-visit-" in d.path.name)]
            micro = [d for d in own if not any(r.experiment == "app" for r in d.records)]
            yield card, micro, [d for d in own if d not in micro]


def of_runs(directories: Sequence[Directory]) -> Rows:
    """Differences of applications' strategies by the prices of a run."""
    return [
        row
        for card, micro, applications in _parts(directories)
        for row in _judged(card, estimator_of(_together(micro)), applications)
    ]


def of_platforms(directories: Sequence[Directory]) -> Rows:
    """The same by the cards' platforms."""
    return [
        row
        for card, _, applications in _parts(directories)
        for row in _judged(card, platform_estimator(known_platform(f"{card}-pcie"), "cuda:0"), applications)
    ]


def of_fits(directories: Sequence[Directory]) -> Rows:
    """The same by files that are fitted to one run."""
    return [
        row
        for card, micro, applications in _parts(directories)
        for row in _judged(card, platform_estimator(fitted(tuple(micro), f"{card}-pcie"), "cuda:0"), applications)
    ]


def _together(directories: Sequence[Directory]) -> Results:
    first, *others = (d.results for d in directories)
    return replace(first, records=[*first.records, *(r for other in others for r in other.records)])


def of_traces(directories: Sequence[Directory]) -> Rows:
    """What memory adds to the compute part of the versions of traced programs that others wrote."""
    rows = Rows()
    for directory in (d for d in directories if (d.path.parents[1] / "ported.json").exists()):
        visit = directory.path.parents[1]
        card = visit.name.partition("-")[0]
        for version in versions(json.loads((visit / "ported.json").read_text())):
            added = version.added
            low, high = range_of_traced(added.ms, added.low, added.high)
            held = added.low <= version.measured <= added.high
            off = 0.0 if held else abs(version.measured - added.ms) / with_least(added.ms)
            whole = version.compute.ms
            rows.append(JudgedRange(card, visit.name, version.program, None, version.measured, low, high, off, whole))
    return rows


def of_another_run(directories: Sequence[Directory]) -> Rows:
    """An application's time beside the next measurement of the same point."""
    found: dict[Hashable, list[tuple[str, str, Record]]] = {}
    for directory in directories:
        card = directory.path.name.partition("-")[0]
        for record in directory.records:
            if record.experiment == "app" and record.status == "ok" and record.summary is not None:
                key = (card, record.device, *sorted((n, str(v)) for n, v in record.factors.items()))
                found.setdefault(key, []).append((card, directory.name, record))
    rows = Rows()
    for same in found.values():
        for (card, visit, record), (_, _, following) in pairwise(same):
            assert record.summary is not None
            assert following.summary is not None
            ms, after = record.summary.median, following.summary.median
            scale = with_least(ms)
            off = OF_ANOTHER_RUN.share * scale
            program, size = str(record.factors["app"]), record.factors["size"]
            rows.append(JudgedRange(card, visit, program, size, after, ms - off, ms + off, abs(after - ms) / scale, ms))
    return rows


LEFT_OUT: Mapping[str, Callable[[JudgedRange], Hashable]] = {
    "a visit": lambda judged: judged.visit,
    "a card": lambda judged: judged.card,
    "a program": lambda judged: judged.program,
}


def share_of(rows: Sequence[JudgedRange], quantile: float) -> float:
    """The share that holds this part of them."""
    needed = sorted(row.needed for row in rows)
    return needed[min(len(needed) - 1, math.ceil(quantile * len(needed)) - 1)]


def held_without(
    rows: Sequence[JudgedRange], key: Callable[[JudgedRange], Hashable], quantile: float
) -> list[bool] | None:
    """For each row whether the range holds, with the share found without the rows of its key. None of a single key."""
    keys = set(map(key, rows))
    if len(keys) < 2:
        return None
    shares = {value: share_of([r for r in rows if key(r) != value], quantile) for value in keys}
    return [row.needed <= shares[key(row)] for row in rows]


@dataclass(frozen=True)
class _Output:
    """Ranges that are printed. quantile: the part of known ones that the share holds: more than the level, for those
    that are not known. judged: those of which what was measured is known.
    """

    name: str
    accuracy: Accuracy
    quantile: float
    judged: Callable[[Sequence[Directory]], Rows]


OUTPUTS = (
    _Output("`advise DIR`", OF_RUNS, 0.83, of_runs),
    _Output("`--device model:`", OF_PLATFORMS, 0.92, of_platforms),
    _Output("`fit`, `--device model:FILE`", OF_PLATFORMS, 0.92, of_fits),
    _Output("`advise --profile`", OF_TRACES, 0.82, of_traces),
    _Output("`app`, another run", OF_ANOTHER_RUN, 0.83, of_another_run),
)


def ranges(directories: Sequence[Directory]) -> str:
    """The rates by output and size."""
    lines = []
    for output in OUTPUTS:
        rows = output.judged(directories)
        held = [held_without(rows, key, output.quantile) for key in LEFT_OUT.values()]
        sizes = sorted({row.size for row in rows if isinstance(row.size, int)})
        for size in (*sizes, None):
            at = [i for i, row in enumerate(rows) if size in (None, row.size)]
            if size is not None and len(at) < FEW:
                continue
            lines.append(
                [
                    f"{output.name}, {output.accuracy.level}",
                    "all" if size is None else format_size(size),
                    str(len(at)),
                    percent(fmean(rows[i].holds for i in at)),
                    *("" if each is None else percent(fmean(each[i] for i in at)) for each in held),
                    percent(median(rows[i].half_width for i in at)),
                ]
            )
    heads = ["ranges", "size", "points", "hold", *(f"leaving {word} out" for word in LEFT_OUT), "half their width"]
    return table(heads, lines)


TEXTS = {"model-ranges": ranges}
