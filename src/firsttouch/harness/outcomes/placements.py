"""What a search for placements found (harness/search.py): its records, and the ranking of what it tried.

A placement is a word: `strategy` (what the strategy does by itself), `paper` (what the published version declares), or
the advice and the prefetches of some buffers, such as `power=read-mostly/gpu next=none/none`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firsttouch.harness.outcomes.derive import EVENTS, application, is_events_run, strategy
from firsttouch.program.guidance import ADVICE_OF, PREFETCH_OF
from firsttouch.records.findings import Claim, Finding, compare_medians, finding, points_are_apart, ratio_of_points
from firsttouch.records.reading import key_of
from firsttouch.records.schema import Record
from firsttouch.records.statistics import measured, median_of
from firsttouch.records.text import count

PLACEMENT = "placement"
AS_IS = "strategy"
FINALISTS = 3
FINALIST = "finalist"
"""The counter of records that a search ranks, in reports."""


def parse(word: str) -> dict[str, str]:
    """The settings in a placement, by name. Raises ValueError if it has none."""
    settings: dict[str, str] = {}
    for part in word.split():
        name, _, words = part.partition("=")
        advice, slash, prefetch = words.partition("/")
        if not slash:
            raise ValueError(f"'{part:.60}' is not BUFFER=ADVICE/PREFETCH")
        settings |= {ADVICE_OF + name: advice, PREFETCH_OF + name: prefetch}
    return settings


def is_of_buffers(word: str) -> bool:
    """Whether a placement gives the guidance of buffers, and is not one of the other words."""
    return "=" in word


# ------------------------------------------------------------------------------------------------ what was measured


@dataclass(frozen=True)
class PlacementSearch:
    """The records of one search: of the strategies as they are, fastest first; of each change with one run, and of the
    finalists, by placement.
    """

    as_is: Sequence[Record]
    tried: Mapping[str, Record]
    finalists: Mapping[str, Record]

    @property
    def base(self) -> Record:
        return self.as_is[0]

    @property
    def final(self) -> list[Record]:
        """All records with the usual number of runs, fastest first."""
        return sorted([*self.as_is, *self.finalists.values()], key=median_of)


def searches(records: Iterable[Record]) -> list[PlacementSearch]:
    """The searches in a directory: one for each device, application and size."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if word_of(record) and not is_events_run(record):
            groups.setdefault(conditions_of(record), []).append(record)
    return [search for group in groups.values() if (search := _search_of_group(group))]


def _search_of_group(group: Sequence[Record]) -> PlacementSearch | None:
    good = sorted(measured(group), key=median_of)
    as_is = [r for r in good if word_of(r) == AS_IS]
    if not as_is:
        return None
    repeat, best = as_is[0].factors.get("repeat"), strategy(as_is[0])
    changed = [r for r in good if is_of_buffers(word_of(r)) and strategy(r) == best]
    tried = {word_of(r): r for r in changed if r.factors.get("repeat") == 1}
    finalists = {word_of(r): r for r in changed if r.factors.get("repeat") == repeat}
    if repeat == 1:  # the finalists ran only once
        finalists = {word: r for word, r in finalists.items() if word in finalists_of(tried, as_is[0])}
    return PlacementSearch([r for r in as_is if r.factors.get("repeat") == repeat], tried, finalists)


def word_of(record: Record) -> str:
    return str(record.factors.get(PLACEMENT, ""))


def conditions_of(record: Record) -> str:
    return key_of(record, "strategy", PLACEMENT, "repeat", EVENTS)


def finalists_of(tried: Mapping[str, Record], base: Record) -> list[str]:
    """The placements that are measured like the strategies: all changes that helped together, and the best ones."""
    words = sorted(tried, key=lambda word: median_of(tried[word]))
    helped: dict[str, str] = {}
    for word in words:
        if median_of(tried[word]) < median_of(base):
            helped.setdefault(_buffer(word), word)
    together = [" ".join(helped.values())] if len(helped) > 1 else []
    return [*together, *words][:FINALISTS]


def _buffer(word: str) -> str:
    return word.partition("=")[0]


def begun(records: Iterable[Record]) -> list[PlacementSearch]:
    """The searches in which something was tried."""
    return [search for search in searches(records) if search.tried or search.finalists]


def without_candidates(records: Sequence[Record]) -> list[Record]:
    """The records without those of placements that a search tried, which belong to its ranking only."""
    ranked = {id(r) for search in begun(records) for r in (*search.tried.values(), *search.finalists.values())}
    return [record for record in records if id(record) not in ranked]


def ranked_first(records: Sequence[Record]) -> list[Record]:
    """The records with the counter `finalist`, which is 1 for those that are ranked, fastest first; then the others."""
    final = [r for search in begun(records) for r in search.final]
    ranked = [msgspec.structs.replace(r, counters={**r.counters, FINALIST: 1}) for r in final]
    ids = {id(r) for r in final}
    return [*ranked, *(r for r in records if id(r) not in ids)]


# ------------------------------------------------------------------------------------------------ what was found


@dataclass(frozen=True)
class RankedPlacement:
    """One line of a ranking. Times are in ms. relative: to `base`, the fastest strategy as it is, with the bounds that
    follow from both intervals. finalist: measured as often as the strategies; others were tried once. is_gain: clearly
    faster than any strategy as it is.
    """

    device: str
    application: str
    base: str
    strategy: str
    placement: str
    settings: Mapping[str, str]
    finalist: bool
    is_gain: bool
    runs: int
    total_ms: float
    relative: float
    relative_low: float | None
    relative_high: float | None


def ranking(records: Iterable[Record]) -> list[RankedPlacement]:
    """The lines of all searches: what was measured as often as the strategies, fastest first, then what was tried once,
    fastest first.
    """
    lines = []
    for search in begun(records):
        once = [r for word, r in search.tried.items() if word not in search.finalists]
        for record in [*search.final, *sorted(once, key=median_of)]:
            ratio = ratio_of_points(record, search.base)
            is_candidate = record is not search.base
            lines.append(
                RankedPlacement(
                    device=record.device,
                    application=application(record),
                    base=strategy(search.base),
                    strategy=strategy(record),
                    placement=word_of(record),
                    settings={} if word_of(record) == AS_IS else parse(word_of(record)),
                    finalist=record not in once,
                    is_gain=is_gain(search, record),
                    runs=0 if record.summary is None else record.summary.n,
                    total_ms=median_of(record),
                    relative=ratio.value,
                    relative_low=ratio.low if is_candidate else None,
                    relative_high=ratio.high if is_candidate else None,
                )
            )
    return lines


def is_gain(search: PlacementSearch, record: Record) -> bool:
    """Whether a placement is clearly faster than every strategy as it is."""
    faster = median_of(record) < median_of(search.base)
    return word_of(record) != AS_IS and faster and points_are_apart(record, search.base)


_SEARCHED = (PLACEMENT, "repeat", EVENTS)
GAIN = Claim(
    "app.placement",
    "with {settings}, {strategy} takes {value}, {ratio_as_long} as without them ({other_value})",
    names=_SEARCHED,
)
NO_GAIN = Claim(
    "app.placement",
    "no placement of single buffers is clearly faster than {strategy} ({value} tried)",
    names=_SEARCHED,
)


def of_searches(records: Iterable[Record]) -> list[Finding]:
    """What each search found."""
    findings = []
    for search in begun(records):
        best = search.final[0]
        if is_gain(search, best):
            findings.append(finding(GAIN, best, comparison=compare_medians(best, search.base), settings=word_of(best)))
        else:
            findings.append(finding(NO_GAIN, search.base, count(len({*search.tried, *search.finalists}), "placement")))
    return findings
