"""The texts of docs/model.md that are computed from records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from statistics import fmean, median

from firsttouch.apps import all_apps
from firsttouch.base.errors import Unsupported
from firsttouch.base.units import format_number, format_size
from firsttouch.comparison.validation.counts import CountedPoint, counted_point
from firsttouch.comparison.validation.measured import judged_by_results
from firsttouch.comparison.validation.results import MeasuredJudgement
from firsttouch.experiments import find_experiment
from firsttouch.harness.experiment import Application
from firsttouch.harness.outcomes.exchanges import EXCHANGED
from firsttouch.records.reading import Results
from firsttouch.records.schema import INTERFACE, Factors, Point, as_number
from firsttouch.records.text import join_names
from records import Directory, fitted, known_platform, table

COPIED = ("copied_h2d_bytes", "copied_d2h_bytes")
WITH_LIBRARIES = ("gemm", "fft_conv_r2c", "fft_conv_c2c", "fft_conv_fused")
"""Applications in which a library of the vendor has memory of its own."""
STEP = {True: 128 << 20, False: 2 << 20}
"""The steps in which NVML sees managed memory, and each buffer of other memory."""


@cache
def points_of(directories: tuple[Directory, ...]) -> Sequence[CountedPoint]:
    """What is counted for each measured point with a strategy whose counts are certain, each application once."""
    points: dict[tuple[object, ...], CountedPoint] = {}
    for directory in directories:
        for record in directory.records:
            name, strategy = str(record.factors.get("app")), record.factors.get("strategy")
            events = record.factors.get("events") == "on"
            if record.status != "ok" or name not in all_apps():
                continue
            if strategy == "explicit" or (strategy == "managed+prefetch" and events):
                points.setdefault((name, strategy, events), counted_point(record, directory.results.machine))
    return [*points.values()]


def counts(directories: Sequence[Directory]) -> str:
    """How many counts are those that were recorded."""
    points = points_of(tuple(directories))
    prefetched = [p for p in points if p.record.factors["strategy"] == "managed+prefetch"]
    explicit = [p for p in points if p.record.factors["strategy"] == "explicit"]
    peaks = [p for p in points if p.application not in WITH_LIBRARIES and p.recorded("peak_device_bytes")]
    faulted, copies = [_off(p, ["um_cpu_faults"]) for p in prefetched], [_off(p, COPIED) for p in explicit]
    rows = [
        ["CPU page faults of `managed+prefetch`", *_parts(faulted, 0.005), "0.5 %"],
        ["bytes copied each way under `explicit`", *_parts(copies, 0.01), "1 %"],
        ["`peak_device_bytes`", *_parts([_peak_off(p) for p in peaks], 1.0), "one step"],
    ]
    text = table(["counted", "applications", "exact", "nearly", "nearly: within"], rows)
    far = [
        f"{what}, {join_names(sorted(named))}"
        for what, points, off, nearly in (("faults", prefetched, faulted, 0.005), ("bytes", explicit, copies, 0.01))
        if (named := [f"{p.application} ({_percent(o)})" for p, o in zip(points, off, strict=True) if o > nearly])
    ]
    return f"{text}\nFurther off: {'; '.join(far)}.\n" if far else text


def faults(directories: Sequence[Directory]) -> str:
    """How many counts of the CPU's faults are those that were recorded, by size."""
    by_size: dict[int, dict[str, float]] = {}
    for directory in directories:
        for record in directory.records:
            size, wanted = record.factors.get("size"), {"strategy": "managed+prefetch", "events": "on"}
            if record.status == "ok" and isinstance(size, int) and wanted.items() <= record.factors.items():
                point = counted_point(record, directory.results.machine)
                by_size.setdefault(size, {}).setdefault(point.application, _off(point, ["um_cpu_faults"]))
    rows = []
    for size, off in sorted(by_size.items(), reverse=True):
        far = join_names([f"{name} {_percent(part)}" for name, part in sorted(off.items()) if part > 0.01])
        rows.append([format_size(size), *_parts([*off.values()], 0.005), _parts([*off.values()], 0.01)[2], far])
    return table(["size", "applications", "exact", "within 0.5 %", "within 1 %", "further off"], rows)


def _off(point: CountedPoint, counters: Iterable[str]) -> float:
    """By which part of what was recorded a count is off, the most of several."""
    return max(abs(point.counted[c] - (point.recorded(c) or 0)) / (point.recorded(c) or 1) for c in counters)


def _peak_off(point: CountedPoint) -> float:
    """By how many steps of what is seen a peak is off."""
    managed = str(point.record.factors["strategy"]).startswith("managed")
    step = STEP[managed] * (1 if managed else len(point.record.buffers))
    return abs(point.counted["peak_device_bytes"] - (point.recorded("peak_device_bytes") or 0)) / step


def _parts(off: Sequence[float], nearly: float) -> list[str]:
    return [str(len(off)), str(sum(part == 0 for part in off)), str(sum(part <= nearly for part in off))]


def differences(directories: Sequence[Directory]) -> str:
    """The error of differences between strategies on each card's platform, beside that of other measurements."""
    return _judgements({f"{card}-pcie": judged_by_results(known_platform(f"{card}-pcie"), _runs(own))
                        for card, own in _by_card(directories).items()})  # fmt: skip


def visits(directories: Sequence[Directory]) -> str:
    """The same for a platform that is fitted to the micro-measurements of the machine, minutes before."""
    judged = {}
    for card, own in _by_card(directories).items():
        micro = [d for d in own if not any(r.experiment == "app" for r in d.records)]
        applications = [d for d in own if d not in micro]
        platform = fitted(tuple(micro), f"{card}-pcie")
        judged[f"one {card.upper()}"] = judged_by_results(platform, _runs(applications))
    return _judgements(judged)


def _by_card(directories: Sequence[Directory]) -> dict[str, list[Directory]]:
    """By the first word of their names: h200 and h100."""
    cards: dict[str, list[Directory]] = {}
    for directory in directories:
        cards.setdefault(directory.path.name.partition("-")[0], []).append(directory)
    return cards


def _runs(directories: Sequence[Directory]) -> dict[str, Results]:
    return {d.name: d.results for d in directories}


def _judgements(judged: Mapping[str, MeasuredJudgement]) -> str:
    columns = ["platform", "points", "median error", "nine of ten within", "of another measurement",
               "pairs in order", "ranges hold", "half their width"]  # fmt: skip
    rows = [
        [
            name,
            str(j.points),
            _percent(j.median_error),
            _percent(j.most_error),
            f"{_percent(j.repeated_median)}, {_percent(j.repeated_most)}",
            f"{_percent(j.in_order)} of {j.pairs}",
            _percent(j.inside),
            _percent(j.half_width),
        ]
        for name, j in judged.items()
    ]
    return table(columns, rows)


def experiments(directories: Sequence[Directory]) -> str:
    """How far predicted points of experiments are from those that were measured on machines of the kind."""
    platform = known_platform("h200-pcie")
    names = {"cuda:0": platform.device.name, "cpu": platform.host.name}
    off: dict[str, list[float]] = {}
    held: dict[str, list[bool]] = {}
    for record in (record for directory in directories for record in directory.records):
        experiment = find_experiment(record.experiment)
        if experiment is None or record.summary is None or record.status != "ok" or record.device not in names:
            continue
        if record.unit == "instructions":  # of another assembler
            continue
        factors = Factors(record.factors)
        try:
            point = Point(record.experiment, names[record.device], factors)
            predicted = experiment.predict(point, platform.under(factors))
            value = predicted.samples[0]
        except Unsupported:
            continue
        if value > 0 < record.summary.median:
            off.setdefault(record.experiment, []).append(abs(math.log(value / record.summary.median)))
            low, high = predicted.low, predicted.high
            if low is not None and high is not None and low < high:
                held.setdefault(record.experiment, []).append(low <= record.summary.median <= high)
    rows = [
        [
            f"`{name}`",
            str(len(parts)),
            _percent(math.expm1(median(parts))),
            _percent(fmean(held[name])) if name in held else "",
        ]
        for name, parts in off.items()
    ]
    return table(["experiment", "points", "half within", "ranges hold"], rows)


def ranks(directories: Sequence[Directory]) -> str:
    """Exchanges of processes with a GPU each, measured in several visits, beside their prediction."""
    platform = known_platform("h200-x2")
    times: dict[tuple[str, ...], list[float]] = {}
    parts: dict[tuple[str, ...], tuple[float, float]] = {}
    for record in (record for directory in directories for record in directory.records):
        app, measured = all_apps().get(str(record.factors.get("app"))), record.counters.get(EXCHANGED)
        if app is None or record.status != "ok" or not isinstance(measured, float):
            continue
        factors = Factors(record.factors)
        try:
            predicted = Application(app).predict(Point(app.name, platform.device.name, factors), platform).counters
        except Unsupported:
            continue
        size = "x".join(f"{predicted[f'param_{side}']:,}" for side in ("nx", "ny"))
        key = (app.name, size, factors.text(INTERFACE), factors.text("buffers"))
        times.setdefault(key, []).append(measured)
        parts[key] = (as_number(predicted[EXCHANGED]) or 0.0, as_number(predicted["calls_ms"]) or 0.0)
    rows = [
        [*key, ", ".join(f"{ms:.0f}" for ms in sorted(times[key])), f"{whole:.0f}", f"{messages:.1f}"]
        for key, (whole, messages) in parts.items()
    ]
    heads = ["application", "cells", "interface", "messages in", "measured, ms", "predicted, ms", "of it messages"]
    return table(heads, rows)


def _percent(part: float | None) -> str:
    return "–" if part is None else f"{format_number(100 * part, 2)} %"  # noqa: RUF001


TEXTS: Mapping[str, Callable[[Sequence[Directory]], str]] = {
    "model-counts": counts,
    "model-differences": differences,
    "model-experiments": experiments,
    "model-faults": faults,
    "model-ranks": ranks,
    "model-visits": visits,
}
