"""The report's part of `firsttouch app`: what its records say together, their sections, figures and answers.

Pure functions and data on records, which may come from a stranger's file: any factor or counter may be absent or of
another type.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import geometric_mean
from typing import TypeAlias

import msgspec

from firsttouch.analysis.statistics import measured, median_of, ratio, series, value, varying
from firsttouch.experiments.base import Figure, Part
from firsttouch.memory.strategies import STRATEGIES
from firsttouch.report.text import condition, count, quantity
from firsttouch.schema import Factors, Record, Status
from firsttouch.units import format_size

BASELINE = "explicit"
EVENTS, ON = "events", "on"
"""The factor that tells apart a run with unified-memory events recorded, which is slower where pages fault."""

QUESTION = "What does each memory strategy cost an application, in time and in memory?"
_SAMPLE = "One sample is one run, from the first allocation to the last free; context is not in it."
COUNTED = (
    f"{_SAMPLE} Phases: context: the "
    "device is opened and kernels are compiled; allocate: every buffer of the strategy; initialise: the input data are "
    "made on the agent that they start on; compute: the kernels, with the copies, prefetches and page moves on the "
    "way; readback: the results are brought to the CPU, which reads a byte of each of their pages; free. Each phase "
    "ends when all queued work has ended; its time is the median over repetitions. Results are checked outside all "
    "phases. Iterations are timed by the device's clock, from the first launch on. Peak memory is the most that was in "
    "use, less what was held before the first allocation. Copied bytes are those that the strategy copies, or is "
    "predicted to move. Relative values are those of explicit under the same conditions taken as 1. Events are those "
    "of a run of its own, since recording them takes time."
)
COUNTED_IN_SHORT = f"{_SAMPLE} The section of all applications says what phases, peaks and relative values are."
SOURCE = "Each application names its own; the strategies are those of docs/applications.md"

_TITLES = {
    "median": "total",
    "relative_time": "relative time",
    "phase_compute_ms": "compute",
    "relative_compute": "relative compute",
    "iterations_ms": "iterations",
    "peak_host_bytes": "peak host",
    "peak_device_bytes": "peak device",
    "relative_memory": "relative memory",
    "copied_h2d_bytes": "copied to the device",
    "copied_d2h_bytes": "copied to the host",
    "um_gpu_fault_groups": "GPU fault groups",
}
STACK = Figure("stack", x="strategy", series="phase_{}_ms", y_title="time, ms", title="Time of each phase")
WITHOUT_CONTEXT = replace(STACK, without=("context",), title="Time of a run by phase")
ITERATIONS = Figure(
    "line", x="series", y="value", series="iteration_{}_ms", colour="strategy", order=tuple(STRATEGIES),
    log_y=True, x_title="iteration", y_title="ms per iteration", title="Time of each iteration",
)  # fmt: skip
TABLE = Figure(
    "table", x="strategy", columns=("strategy", *_TITLES, "library", "verified"), titles=_TITLES,
    title="Times, peak memory, and bytes copied or expected to move; relative is to explicit",
)  # fmt: skip
FIGURES = (STACK, ITERATIONS, TABLE)

_HEAT = Figure("heat", x="strategy", y="app", centre=1, x_title="strategy", y_title="application")
OVERVIEW = tuple(
    replace(_HEAT, z=name, z_title=what[0].lower() + what[1:], title=what)
    for name, what in {
        "relative_time": "Time of a run relative to explicit",
        "relative_compute": "Time of the phase compute relative to explicit",
        "relative_memory": "Peak memory relative to explicit",
    }.items()
)
RELATIVE = {"relative_time": "median", "relative_compute": "phase_compute_ms", "relative_memory": "peak_bytes"}
"""What is compared with explicit's, by the name of the ratio."""

_HUGE = 1e300
"""Whole numbers of a stranger's file may be too large for a float."""
SAVES = 0.95
"""A smaller part of explicit's peak memory is worth a sentence."""
MOST_NAMED = 5
"""Strategies named one by one in an answer."""

_Key: TypeAlias = tuple[str, ...]
Verdict: TypeAlias = Callable[[Sequence[Record]], str]


def _key(record: Record, *left_out: str) -> _Key:
    """The record's factors without some, so that a number, its text and a truth value stay apart."""
    return tuple(sorted(f"{name}={v!r}" for name, v in record.factors.items() if name not in left_out))


def _setting(record: Record) -> _Key:
    """The conditions under which strategies may be compared."""
    return _key(record, "strategy", EVENTS)


def _is_twin(record: Record) -> bool:
    return record.factors.get(EVENTS) == ON


def _number(record: Record, name: str) -> float | None:
    """A number, zero or more, or None."""
    v = value(record, name)
    return None if isinstance(v, bool | str | None) or not 0 <= v < math.inf else float(min(v, _HUGE))


def _amount(record: Record, name: str) -> float | None:
    """A number above zero, or None."""
    return _number(record, name) or None


def _app(record: Record) -> str:
    return str(record.factors.get("app", "unnamed"))


# ---------------------------------------------------------------------------------------------- what records say


def derive(records: Sequence[Record]) -> list[Record]:
    """The records of one device with the events of each twin in its point, and with ratios to explicit."""
    merged = _merge_twins(records)
    baselines: dict[_Key, Record] = {}
    for record in measured(merged):
        if record.factors.get("strategy") == BASELINE and not _is_twin(record):
            baselines.setdefault(_setting(record), record)
    return [_with_ratios(record, baselines.get(_setting(record))) for record in merged]


def _merge_twins(records: Sequence[Record]) -> list[Record]:
    """Twins go into their points, unless they failed, were wrong, or have none: those are for the reader to see."""
    points = {_key(r, EVENTS): i for i, r in enumerate(records) if not _is_twin(r)}
    merged: list[Record | None] = list(records)
    for i, twin in enumerate(records):
        place = points.get(_key(twin, EVENTS))
        if not _is_twin(twin) or place is None or twin.verified is False:
            continue
        point = merged[place]
        assert point is not None
        if twin.status == "ok":
            events = {name: v for name, v in twin.counters.items() if name.startswith("um_")}
            merged[place] = msgspec.structs.replace(point, counters={**point.counters, **events})
            merged[i] = None
        elif twin.status == point.status == "skipped" and twin.reason == point.reason:
            merged[i] = None
    return [record for record in merged if record is not None]


def _with_ratios(record: Record, baseline: Record | None) -> Record:
    """The record with what it takes relative to explicit. A twin has none: recording events takes time."""
    counters = {name: v for name, v in record.counters.items() if name not in RELATIVE}
    if baseline is not None and record.status == "ok" and not _is_twin(record):
        for name, of in RELATIVE.items():
            mine, its = _amount(record, of), _amount(baseline, of)
            if mine is not None and its is not None and math.isfinite(mine / its):
                counters[name] = mine / its
    return msgspec.structs.replace(record, counters=counters)


# ---------------------------------------------------------------------------------------------- summary


@dataclass(frozen=True)
class Row:
    """One point, told shortly. Times in ms, memory in bytes; None where it has none.

    conditions: the factors besides the strategy that vary among the points of its application. reason: why it was
    not measured, or what is wrong with its result. relative_*: as derived, with explicit's taken as 1.
    """

    device: str
    application: str
    strategy: str
    conditions: Factors
    status: Status
    verified: bool | None
    reason: str
    total_ms: float | None
    compute_ms: float | None
    peak_host_bytes: float | None
    peak_device_bytes: float | None
    relative_time: float | None
    relative_compute: float | None
    relative_memory: float | None


def summary(records: Sequence[Record]) -> list[Row]:
    """A row per point, by device and application; none for a twin, unless something went wrong with it."""
    rows = []
    for device in dict.fromkeys(r.device for r in records):
        derived = [r for r in derive([r for r in records if r.device == device]) if not _is_twin(r) or _went_wrong(r)]
        for app in sorted({_app(r) for r in derived}):
            group = [r for r in derived if _app(r) == app]
            conditions = [name for name in varying(group) if name != "strategy"]
            rows += [_row(r, {name: r.factors[name] for name in conditions if name in r.factors}) for r in group]
    return rows


def _went_wrong(record: Record) -> bool:
    return record.verified is False or record.status not in ("ok", "skipped")


def _row(record: Record, conditions: Factors) -> Row:
    return Row(
        device=record.device,
        application=_app(record),
        strategy=_strategy(record),
        conditions=conditions,
        status=record.status,
        verified=record.verified,
        reason=record.reason or record.verified_why,
        total_ms=_amount(record, "median"),
        compute_ms=_amount(record, "phase_compute_ms"),
        peak_host_bytes=_number(record, "peak_host_bytes"),
        peak_device_bytes=_number(record, "peak_device_bytes"),
        relative_time=_amount(record, "relative_time"),
        relative_compute=_amount(record, "relative_compute"),
        relative_memory=_amount(record, "relative_memory"),
    )


# ---------------------------------------------------------------------------------------------- sections


def sections(records: Sequence[Record], about: Mapping[str, str], sources: Mapping[str, str]) -> list[Part]:
    """One section per application in alphabetical order, after an overview of all where there are several.

    about, sources: by application, how it uses memory in a few words, and who defined it.
    """
    records = sorted(records, key=_rank)
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(_app(record), []).append(record)
    counted = COUNTED if len(groups) < 2 else COUNTED_IN_SHORT
    parts = [_part(app, groups[app], about.get(app, ""), sources.get(app, ""), counted) for app in sorted(groups)]
    if len(groups) < 2:
        return parts
    plain = sorted((r for r in records if not _is_twin(r)), key=lambda r: (_rank(r), _app(r)))
    answer = partial(_whatever, overview_verdict, records)
    return [Part(QUESTION, plain, OVERVIEW, counted=COUNTED, source=SOURCE, overview=True, answer=answer), *parts]


def _whatever(answer: Verdict, records: Sequence[Record], _good: Sequence[Record]) -> str:
    """An answer that speaks of wrong data too, which the page does not hand over."""
    return answer(records)


_RANKS = {name: rank for rank, name in enumerate(STRATEGIES)}


def _rank(record: Record) -> int:
    """Strategies stand in the order of their page, from explicit on; unknown ones after them as they come."""
    return _RANKS.get(_strategy(record), len(_RANKS))


def _part(app: str, records: list[Record], about: str, source: str, counted: str) -> Part:
    question = f"What does each memory strategy cost {app}{f' ({about})' if about else ''}?"
    answer = partial(_whatever, verdict, records)
    return Part(
        question, records, _figures(records), title=app, counted=counted, source=source or SOURCE, answer=answer
    )


def _figures(records: Sequence[Record]) -> list[Figure]:
    """Those that say something of these records."""
    ran = [r for r in records if r.status == "ok" and r.summary is not None]
    context = max((_amount(r, "phase_context_ms") or 0.0 for r in ran), default=0.0)
    longest = max((_amount(r, "median") or 0.0 for r in ran), default=0.0)
    found = [STACK, WITHOUT_CONTEXT] if context > longest / 2 else [STACK]
    if any(len(series(r, ITERATIONS.series)) > 1 for r in ran):
        found.append(ITERATIONS)
    conditions = [name for name in varying(ran) if name not in ("app", *TABLE.columns)]
    said = {"strategy": True, "verified": any(r.verified is not True for r in ran)}
    kept = [n for n in TABLE.columns if said.get(n, any(value(r, n) is not None for r in ran))]
    return [*found, replace(TABLE, columns=(kept[0], *conditions, *kept[1:]))]


# ---------------------------------------------------------------------------------------------- answers


def verdict(records: Sequence[Record]) -> str:
    """Of one application: the fastest strategy, what the others take relative to explicit, and memory saved."""
    said, good = _told_first(records)
    if not good:
        return " ".join(said)
    settings = _settings(good)
    chosen = max(reversed(settings), key=len)
    speed = _speed(chosen)
    if len(settings) > 1:
        names = [n for n in varying([s[0] for s in settings]) if n not in ("strategy", EVENTS)]
        speed = f"With {condition(chosen[0], names)}: {speed[0].lower()}{speed[1:]}"
    said += [speed, *_memory(chosen)]
    if len(settings) > 1:
        said.append(f"Over all {count(len(settings), 'setting')}, {_wins(settings)}.")
    return " ".join(said)


def overview_verdict(records: Sequence[Record]) -> str:
    """Of several applications: which strategies are fastest how often, and what they take relative to explicit."""
    said, good = _told_first(records)
    if not good:
        return " ".join(said)
    settings = _settings(good)
    apps = len({_app(r) for r in good})
    more = f" under {count(len(settings), 'setting')}" if len(settings) > apps else ""
    said.append(f"Over {count(apps, 'application')}{more}, {_wins(settings)}.")
    means = {
        name: (geometric_mean(ratios), len(ratios))
        for name, ratios in _ratios(good).items()
        if name != BASELINE and len(ratios) > 1
    }
    if means:
        listed = _range({name: mean for name, (mean, _) in means.items()}, "on average (geometric mean) ")
        said.append(f"Against {BASELINE}, {listed}.")
    compared = {_app(r) for r in good if _amount(r, "relative_time")}
    if alone := dict.fromkeys(app for r in good if (app := _app(r)) not in compared):
        said.append(f"Without a right run under {BASELINE}, and so not compared: {_and(sorted(alone))}.")
    if all(r.summary is not None and r.summary.n == 1 for r in good):
        said.append("Each point was run once, so small differences may be chance.")
    return " ".join(said)


def _told_first(records: Sequence[Record]) -> tuple[list[str], list[Record]]:
    """What is wrong, and the records that an answer rests on: right, timed, without events."""
    good = [r for r in measured(records) if not _is_twin(r) and _amount(r, "median")]
    return _wrong(records) + ([] if good else ["No run gave a right result, so there is no answer."]), good


def _wrong(records: Sequence[Record]) -> list[str]:
    wrong = [r for r in records if r.verified is False]
    if not wrong:
        return []
    names = _and(dict.fromkeys(_strategy(r) for r in wrong))
    are = "is" if len(wrong) == 1 else "are"
    return [f"Wrong results: {count(len(wrong), 'point')} of {names} {are} left out."]


def _strategy(record: Record) -> str:
    return str(record.factors.get("strategy", "unnamed"))


def _and(names: Iterable[str]) -> str:
    """'a', 'a and b', 'a, b and c'; the last are only counted where there are many."""
    some = list(names)
    if len(some) > MOST_NAMED:
        some = [*some[: MOST_NAMED - 1], f"{len(some) - MOST_NAMED + 1} more"]
    return " and ".join(filter(None, [", ".join(some[:-1]), some[-1]]))


def _settings(records: Sequence[Record]) -> list[list[Record]]:
    groups: dict[_Key, list[Record]] = {}
    for record in records:
        groups.setdefault(_setting(record), []).append(record)
    return list(groups.values())


def _wins(settings: Sequence[Sequence[Record]]) -> str:
    """'explicit is fastest in 3, managed in 1; in 2 no strategy is clearly fastest'."""
    leaders = [_fastest(setting) for setting in settings]
    wins = Counter(_strategy(first[0]) for first in leaders if len(first) == 1)
    said = [f"{name}{'' if i else ' is fastest'} in {n}" for i, (name, n) in enumerate(wins.most_common())]
    open_ = len(leaders) - wins.total()
    undecided = f"in {open_} no strategy is clearly fastest" if open_ else ""
    return "; ".join(filter(None, [", ".join(said), undecided]))


def _fastest(setting: Sequence[Record]) -> list[Record]:
    """The record with the least median, and those whose intervals do not separate from its own."""
    best = min(setting, key=median_of)
    return [best, *(r for r in setting if r is not best and _alike(r, best))]


def _alike(a: Record, b: Record) -> bool:
    assert a.summary is not None
    assert b.summary is not None
    try:
        return ratio(a.summary, b.summary, "lower").says == "ambiguous"
    except ValueError:
        return True


def _speed(setting: Sequence[Record]) -> str:
    """'Fastest is managed, at 9.8 ms, 0.80 times explicit's 12.3 ms, without a clear lead over system; against
    explicit, system takes 0.82 times as long, pinned 2.40 times.'
    """
    fastest = _fastest(setting)
    took = quantity(median_of(fastest[0]), fastest[0].unit)
    if len(setting) == 1:
        return f"Only {_strategy(setting[0])} was measured: a run takes {took}."
    first, rivals = fastest[0], fastest[1:]
    said = f"Fastest is {_strategy(first)}, at {took}"
    base = next((r for r in setting if r.factors.get("strategy") == BASELINE), None)
    against = base or first
    if base is not None and base is not first:
        its = quantity(median_of(base), base.unit)
        said += f", {_times(median_of(first) / median_of(base))} {BASELINE}'s {its}"
    if rivals:
        said += f", without a clear lead over {_and(map(_strategy, rivals))}"
    others = {_strategy(r): median_of(r) / median_of(against) for r in setting if r not in (first, against)}
    return said + (f"; against {_strategy(against)}, {_range(others)}." if others else ".")


def factor_text(factor: float) -> str:
    return f"{factor:.2f}" if 0.1 <= factor < 10 else f"{factor:.3g}"


def _times(factor: float) -> str:
    return f"{factor_text(factor)} times"


def _range(factors: Mapping[str, float], how: str = "") -> str:
    """'managed takes 2.10 times as long, pinned 3.40 times', or of many the ends."""
    ranked = sorted(factors.items(), key=lambda item: item[1])
    (first, least), (last, most) = ranked[0], ranked[-1]
    if len(ranked) > MOST_NAMED:
        return f"the {len(ranked)} others take {how}{_times(least)} ({first}) to {_times(most)} ({last}) as long"
    rest = [f"{name} {_times(factor)}" for name, factor in ranked[1:]]
    return ", ".join([f"{first} takes {how}{_times(least)} as long", *rest])


def _memory(setting: Sequence[Record]) -> list[str]:
    """The strategy that saves most, where one saves at all."""
    known = {_strategy(r): (part, r) for r in setting if (part := _amount(r, "relative_memory")) is not None}
    if not known:
        return []
    name, (part, record) = min(known.items(), key=lambda item: item[1][0])
    if part >= SAVES or not (mine := _amount(record, "peak_bytes")):
        return []
    held = f"{format_size(mine)} instead of {format_size(mine / part)}"
    return [f"At its peak {name} holds {100 * (1 - part):.0f} % less memory than {BASELINE} ({held})."]


def _ratios(records: Iterable[Record]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for record in records:
        if (factor := _amount(record, "relative_time")) is not None:
            found.setdefault(_strategy(record), []).append(factor)
    return found
