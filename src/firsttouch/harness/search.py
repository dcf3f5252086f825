"""The search of --placements: which advice and prefetches of single buffers make an application faster.

It has three steps. The strategies are measured as they are. Then changes of one buffer are tried from the fastest of
them, with one run each. The best of these, and all changes that helped together, are measured as often as the
strategies. Each step is a request that follows from the records of the one before, so that a search can be resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firsttouch.analysis.findings import Claim, Finding, are_apart, compare, finding, quantity, ratio_of
from firsttouch.analysis.statistics import median_of
from firsttouch.harness.app import App, Params
from firsttouch.harness.derive import EVENTS, application, is_events_run, strategy
from firsttouch.harness.placements import AS_IS, BEST, PLACEMENT, is_of_buffers, parse
from firsttouch.records.schema import Record, Request, Scalar
from firsttouch.text import count
from firsttouch.workspace.guidance import BY_ITSELF, NONE, Guidance
from firsttouch.workspace.strategies import STRATEGIES, Strategy
from firsttouch.workspace.workspace import Declaration, placement

MOST_TRIED, FEWEST_TRIED, FINALISTS = 12, 3, 3
SECONDS = 300.0
"""Fewer changes are tried if they would take longer than this, judged by the fastest strategy."""
FINALIST = "finalist"
"""The counter of records that a search ranks, in reports."""
_NOTABLE = 0.01
"""The part of all bytes below which a buffer is left as it is."""

_READ = (("read-mostly", "gpu"), (NONE, "gpu"), ("preferred-cpu+accessed-by-gpu", NONE), (NONE, NONE))
_CHANGES: Mapping[str, Sequence[tuple[str, str]]] = {
    "input": _READ,
    "constant": _READ,
    "output": (
        *((NONE, "cpu"), ("preferred-gpu", "gpu+cpu"), ("preferred-cpu+accessed-by-gpu", NONE)),
        *((NONE, NONE), (NONE, "gpu+cpu")),
    ),
    "inout": (
        *((NONE, "gpu+cpu"), ("preferred-gpu", "gpu+cpu")),
        *(("preferred-cpu+accessed-by-gpu", NONE), (NONE, NONE)),
    ),
}
"""By role, the advice and prefetches that are tried, those first from which most is expected."""
_OF_GPU = (("preferred-gpu", "gpu"), (NONE, "gpu"), (NONE, NONE))
"""The same for buffers that only the GPU uses."""


def changes(declared: Sequence[Declaration], strategy: Strategy, *, place_scratch: bool) -> list[str]:
    """The placements that are tried from a strategy, each with another guidance of one buffer, large buffers first."""
    total = sum(d.nbytes for d in declared)
    placed = [d for d in declared if placement(d, strategy, place_scratch=place_scratch) == "strategy"]
    large = sorted((d for d in placed if d.nbytes >= _NOTABLE * total), key=lambda d: -d.nbytes)
    lists = [_changes_of(d, strategy) for d in large]
    rounds = max(map(len, lists), default=0)
    return [each[i] for i in range(rounds) for each in lists if i < len(each)][:MOST_TRIED]


def _changes_of(declared: Declaration, strategy: Strategy) -> list[str]:
    now = BY_ITSELF.of(declared, strategy)
    found = []
    for advice, prefetch in _OF_GPU if declared.sides == "gpu" else _CHANGES.get(declared.role, ()):
        if declared.ends_on != "cpu":
            prefetch = {"gpu+cpu": "gpu", "cpu": NONE}.get(prefetch, prefetch)
        if Guidance.of(advice, prefetch) != now:
            found.append(f"{declared.name}={advice}/{prefetch}")
    return list(dict.fromkeys(found))


# ------------------------------------------------------------------------------------------------ what was measured


@dataclass(frozen=True)
class Search:
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


def searches(records: Iterable[Record]) -> list[Search]:
    """The searches in a directory: one for each device, application and size."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        if _word(record) and not is_events_run(record):
            groups.setdefault(_conditions(record), []).append(record)
    return [search for group in groups.values() if (search := _search(group))]


def _search(group: Sequence[Record]) -> Search | None:
    good = sorted((r for r in group if _is_good(r)), key=median_of)
    as_is = [r for r in good if _word(r) == AS_IS]
    if not as_is:
        return None
    repeat, best = as_is[0].factors.get("repeat"), strategy(as_is[0])
    changed = [r for r in good if is_of_buffers(_word(r)) and strategy(r) == best]
    tried = {_word(r): r for r in changed if r.factors.get("repeat") == 1}
    finalists = {_word(r): r for r in changed if r.factors.get("repeat") == repeat}
    if repeat == 1:  # then the first runs of the finalists are their only ones
        finalists = {word: r for word, r in finalists.items() if word in _finalists(tried, as_is[0])}
    return Search([r for r in as_is if r.factors.get("repeat") == repeat], tried, finalists)


def _word(record: Record) -> str:
    return str(record.factors.get(PLACEMENT, ""))


def _conditions(record: Record) -> tuple[str, ...]:
    left_out = ("strategy", PLACEMENT, "repeat", EVENTS)
    return (record.device, *sorted(f"{name}={v!r}" for name, v in record.factors.items() if name not in left_out))


def _is_good(record: Record) -> bool:
    return record.status == "ok" and record.verified is not False and not record.suspect and record.summary is not None


def _finalists(tried: Mapping[str, Record], base: Record) -> list[str]:
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


def begun(records: Iterable[Record]) -> list[Search]:
    """The searches in which something was tried."""
    return [search for search in searches(records) if search.tried or search.finalists]


def without_candidates(records: Sequence[Record]) -> list[Record]:
    """The records without those of placements that a search tried, which belong to its ranking only."""
    ranked = {id(r) for one in begun(records) for r in (*one.tried.values(), *one.finalists.values())}
    return [record for record in records if id(record) not in ranked]


def ranked_first(records: Sequence[Record]) -> list[Record]:
    """The records with the counter `finalist`, which is 1 for those that are ranked, fastest first; then the others."""
    final = [r for search in begun(records) for r in search.final]
    ranked = [msgspec.structs.replace(r, counters={**r.counters, FINALIST: 1}) for r in final]
    ids = {id(r) for r in final}
    return [*ranked, *(r for r in records if id(r) not in ids)]


# ------------------------------------------------------------------------------------------------ what follows


def further(request: Request, records: Sequence[Record], known: Mapping[str, type[App]]) -> list[Request]:
    """The requests of the next step of each search, from what the steps before measured."""
    if BEST not in request.set.get(PLACEMENT, ()):
        return []
    found = []
    for search in searches(records):
        base, app = search.base, known.get(application(search.base))
        if app is None or application(base) not in request.experiments or base.device not in request.devices:
            continue
        words = _changes_from(base, app)
        attempted = {_word(r) for r in records if _conditions(r) == _conditions(base) and r.factors.get("repeat") == 1}
        if words:
            found.append(_request(request, base, words, 1))
        if attempted.issuperset(words) and (best := _finalists(search.tried, base)):
            found.append(_request(request, base, best, base.factors.get("repeat")))
    return found


def _changes_from(base: Record, app: type[App]) -> list[str]:
    params: Params = {
        name.removeprefix("param_"): int(v)
        for name, v in base.counters.items()
        if name.startswith("param_") and isinstance(v, int)
    }
    words = changes(
        app.declarations(params), STRATEGIES[strategy(base)], place_scratch=base.factors.get("scratch") == AS_IS
    )
    return words[: max(FEWEST_TRIED, int(SECONDS / max(base.seconds, 0.1)))]


def _request(request: Request, base: Record, words: Sequence[str], repeat: Scalar) -> Request:
    """The request for placements under the conditions of a record."""
    same: dict[str, list[Scalar]] = {name: [v] for name, v in base.factors.items() if name != "app"}
    same |= {PLACEMENT: list(words)}
    if repeat is not None:
        same["repeat"] = [repeat]
    return msgspec.structs.replace(request, experiments=[application(base)], devices=[base.device], set=same)


# ------------------------------------------------------------------------------------------------ what was found


@dataclass(frozen=True)
class Ranked:
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


def ranking(records: Iterable[Record]) -> list[Ranked]:
    """The lines of all searches: what was measured as often as the strategies, fastest first, then what was tried once,
    fastest first.
    """
    lines = []
    for search in begun(records):
        once = [r for word, r in search.tried.items() if word not in search.finalists]
        for record in [*search.final, *sorted(once, key=median_of)]:
            ratio = ratio_of(quantity(record), quantity(search.base))
            other = record is not search.base
            lines.append(
                Ranked(
                    device=record.device,
                    application=application(record),
                    base=strategy(search.base),
                    strategy=strategy(record),
                    placement=_word(record),
                    settings={} if _word(record) == AS_IS else parse(_word(record)),
                    finalist=record not in once,
                    is_gain=is_gain(search, record),
                    runs=0 if record.summary is None else record.summary.n,
                    total_ms=median_of(record),
                    relative=ratio.value,
                    relative_low=ratio.low if other else None,
                    relative_high=ratio.high if other else None,
                )
            )
    return lines


def is_gain(search: Search, record: Record) -> bool:
    """Whether a placement is clearly faster than every strategy as it is."""
    mine, base = quantity(record), quantity(search.base)
    return _word(record) != AS_IS and mine.value < base.value and are_apart(mine, base)


GAIN = Claim("app.placement", "with {settings} {strategy} takes {value}, {ratio} times {other_value} by itself")
NO_GAIN = Claim("app.placement", "no placement of single buffers is clearly faster than {strategy} ({value} tried)")


def of_searches(records: Iterable[Record]) -> list[Finding]:
    """What each search found."""
    found = []
    for search in begun(records):
        best = search.final[0]
        if is_gain(search, best):
            found.append(finding(GAIN, best, comparison=compare(best, search.base), settings=_word(best)))
        else:
            found.append(finding(NO_GAIN, search.base, count(len({*search.tried, *search.finalists}), "placement")))
    return found
