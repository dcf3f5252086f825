"""Derived values of application records: unified-memory events from their events runs, and ratios to explicit.

A point of a strategy whose pages move is measured twice: once without recording events, and once in an events run.

Results files from others are treated as untrusted: any factor or counter may be absent or of another type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from firsttouch.harness.outcomes.iterations import with_throughput
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.findings import Quantity, counter, is_noisy, quantity, ratio_of, ratio_of_points
from firsttouch.records.schema import RELATIVE_TO, Record
from firsttouch.records.statistics import measured, positive

BASELINE, PINNED = "explicit", "explicit+pinned"
"""The strategies that others are compared with: copies from pageable host arrays, and from page-locked ones."""
EVENTS, ON = "events", "on"
"""The factor of events runs, and its value. Such a run records unified-memory events and is slower if pages fault."""
TIMELINE = "timeline"
"""The factor of points whose memory is sampled over time."""

MACHINE_PEAK, MACHINE_NOISE = "peak_machine_bytes", "peak_machine_noise_bytes"
"""The largest increase of the whole machine's memory in use during a run, and by how much it may be off, since other
programs use that memory too.
"""
RELATIVE: Mapping[str, Sequence[str]] = {
    "time": ("median",),
    "without_initialise": ("without_initialise_ms",),
    "compute": ("phase_compute_ms",),
    "gpu": ("gpu_ms",),
    "kernel": ("kernel_ms",),
    "memory": ("peak_bytes", MACHINE_PEAK),
}
"""The compared values: the first that both records have."""
PREFIXES: Mapping[str, str] = {BASELINE: "relative", PINNED: "relative_pinned"}
"""Ratios are counters such as relative_time, or relative_pinned_time, by the strategy that they are ratios to. Where
the call chose another baseline, `relative` is of that one. relative_time_low and _high are the bounds that follow from
both medians' intervals, relative_memory_low and _high those that follow from the noise of the machine's memory.
"""
FASTEST = "relative_fastest_time"

_Key: TypeAlias = tuple[str, ...]


def _setting_key(record: Record, *excluded: str) -> _Key:
    """The record's factors without some of them. repr keeps 1, '1' and True distinct."""
    return tuple(sorted(f"{name}={v!r}" for name, v in record.factors.items() if name not in excluded))


def setting(record: Record) -> _Key:
    """The conditions under which strategies may be compared."""
    return _setting_key(record, "strategy", EVENTS)


def is_events_run(record: Record) -> bool:
    return record.factors.get(EVENTS) == ON


def application(record: Record) -> str:
    return str(record.factors.get("app", "unnamed"))


def strategy(record: Record) -> str:
    return str(record.factors.get("strategy", "unnamed"))


def against_fastest(records: Sequence[Record]) -> list[Record]:
    """The records with their time relative to the fastest of the same setting as the counter FASTEST."""
    least: dict[_Key, float] = {}
    for record in measured(records):
        if (time := positive(record, "median")) is not None:
            least[setting(record)] = min(time, least.get(setting(record), time))
    return [
        msgspec.structs.replace(record, counters={**record.counters, FASTEST: time / least[setting(record)]})
        if (time := positive(record, "median")) is not None and setting(record) in least
        else record
        for record in records
    ]


def baseline_of(records: Sequence[Record]) -> str:
    """The strategy to which the call compares others (--relative-to), explicit by default."""
    chosen = {record.counters.get(RELATIVE_TO) for record in records}
    (baseline,) = chosen if len(chosen) == 1 else (None,)
    return str(baseline) if baseline in STRATEGIES else BASELINE


def prefixes(records: Sequence[Record]) -> Mapping[str, str]:
    """PREFIXES, with the baseline of these records."""
    baseline = baseline_of(records)
    other_prefixes = {name: prefix for name, prefix in PREFIXES.items() if name not in (baseline, BASELINE)}
    return {baseline: PREFIXES[BASELINE], **other_prefixes}


def derive(records: Sequence[Record]) -> list[Record]:
    """The records of one device, with events runs merged into their points, and with ratios to the baseline."""
    baseline_prefixes = prefixes(records)
    merged = _merge_events_runs([_with_names_of_parts(record) for record in records])
    baselines: dict[_Key, dict[str, Record]] = {}
    for record in measured(merged):
        if (name := record.factors.get("strategy")) in baseline_prefixes and not is_events_run(record):
            baselines.setdefault(setting(record), {}).setdefault(str(name), record)
    with_ratios = [
        _with_ratios(record, {baseline_prefixes[name]: r for name, r in baselines.get(setting(record), {}).items()})
        for record in merged
    ]
    return [with_throughput(record) for record in with_ratios]


def _with_names_of_parts(record: Record) -> Record:
    """An older record called the part of the phase compute without an event "undisturbed"."""
    old, new = "um_compute_undisturbed_ms", "um_compute_nothing_recorded_ms"
    if old not in record.counters:
        return record
    return msgspec.structs.replace(record, counters={new if n == old else n: v for n, v in record.counters.items()})


def _merge_events_runs(records: Sequence[Record]) -> list[Record]:
    """Merge events runs into their points, except those that failed, were incorrect or suspect, or have no point."""
    points = {_setting_key(r, EVENTS): i for i, r in enumerate(records) if not is_events_run(r)}
    merged: list[Record | None] = list(records)
    for i, run in enumerate(records):
        index = points.get(_setting_key(run, EVENTS))
        if not is_events_run(run) or index is None or run.verified is False or run.suspect:
            continue
        point = merged[index]
        assert point is not None
        if run.status == "ok":
            events = {name: v for name, v in run.counters.items() if name.startswith("um_")}
            merged[index] = msgspec.structs.replace(point, counters={**point.counters, **events})
            merged[i] = None
        elif run.status == point.status == "skipped" and run.reason == point.reason:
            merged[i] = None
    return [record for record in merged if record is not None]


def _compared_value(record: Record, source: str) -> Quantity | None:
    """A value for a ratio. That of the whole machine counts only if its noise is known and small beside it."""
    if (value := positive(record, source)) is None or source not in ("median", MACHINE_PEAK):
        return None if value is None else Quantity(value)
    if source == "median":
        return quantity(record) if record.summary is not None else Quantity(value)
    peak = counter(record, source, "B")
    return None if peak is None or peak.low is None or is_noisy(peak) else peak


def _with_ratios(record: Record, baselines: Mapping[str, Record]) -> Record:
    """The record with its ratios to baselines, which are by the beginning of the counters. An events run gets none,
    since recording events takes time.
    """
    kept = (name for name in record.counters if name == RELATIVE_TO or not name.startswith("relative_"))
    counters = {name: record.counters[name] for name in kept}
    if record.status == "ok" and not is_events_run(record):
        for prefix, baseline in baselines.items():
            counters |= _ratio_counters(record, baseline, prefix)
    return msgspec.structs.replace(record, counters=counters)


def _ratio_to_baseline(record: Record, baseline: Record, source: str) -> Quantity | None:
    value, base = _compared_value(record, source), _compared_value(baseline, source)
    if value is None or base is None:
        return None
    has_intervals = source == "median" and record.summary is not None and baseline.summary is not None
    return ratio_of_points(record, baseline) if has_intervals else ratio_of(value, base)


def _ratio_counters(record: Record, baseline: Record, prefix: str) -> dict[str, float]:
    relative: dict[str, float] = {}
    for ratio_name, sources in RELATIVE.items():
        ratio = next(
            filter(None, (_ratio_to_baseline(record, baseline, source) for source in sources)), Quantity(math.inf)
        )
        if not math.isfinite(ratio.value):
            continue
        relative[f"{prefix}_{ratio_name}"] = ratio.value
        low, high = ratio.low or 0, ratio.high or math.inf
        if record is not baseline and 0 < low <= high < math.inf:
            relative |= {f"{prefix}_{ratio_name}_low": low, f"{prefix}_{ratio_name}_high": high}
    return relative
