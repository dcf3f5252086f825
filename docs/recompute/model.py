"""The texts of docs/model.md that are computed from records."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from firsttouch.apps import all_apps
from firsttouch.model.platform import load_platform
from firsttouch.text import count, join_names
from firsttouch.units import format_number
from firsttouch.validation.counts import CountedPoint, counted_point
from firsttouch.validation.measured import judged_by_results
from records import Directory, table

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
    faults, copies = [_off(p, ["um_cpu_faults"]) for p in prefetched], [_off(p, COPIED) for p in explicit]
    rows = [
        ["CPU page faults of `managed+prefetch`", *_parts(faults, 0.005), "0.5 %"],
        ["bytes copied each way under `explicit`", *_parts(copies, 0.01), "1 %"],
        ["`peak_device_bytes`", *_parts([_peak_off(p) for p in peaks], 1.0), "one step"],
    ]
    worst = {p.application: off for p, off in zip(prefetched, faults, strict=True) if off > 0.005}
    worst |= {p.application: off for p, off in zip(explicit, copies, strict=True) if off > 0.01}
    named = join_names([f"{name} ({_percent(off)})" for name, off in sorted(worst.items())])
    text = table(["counted", "applications", "exact", "nearly", "nearly: within"], rows)
    return f"{text}\nFurther off: {named}.\n" if worst else text


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
    """The error of differences between strategies, beside that of other measurements."""
    judged = judged_by_results(load_platform("h200-pcie"), {d.name: d.results for d in directories})
    pairs = [
        ("the model", judged.points, judged.median_error, judged.most_error),
        ("another visit's measurement", judged.repeated, judged.repeated_median, judged.repeated_most),
    ]
    rows = [[name, str(n), _percent(middle), _percent(most)] for name, n, middle, most in pairs]
    text = table(["predicted by", "points", "median error", "nine of ten within"], rows)
    said = (
        f"{_percent(judged.in_order)} of {count(judged.pairs, 'clear pair')} are in the right order; the ranges hold "
        f"{_percent(judged.inside)} of the measured differences, and half of their width is "
        f"{_percent(judged.half_width)} of the measured time in the median."
    )
    return f"{text}\n{textwrap.fill(said, 120)}\n"


def _percent(part: float | None) -> str:
    return "–" if part is None else f"{format_number(100 * part, 2)} %"  # noqa: RUF001


TEXTS: Mapping[str, Callable[[Sequence[Directory]], str]] = {"model-counts": counts, "model-differences": differences}
