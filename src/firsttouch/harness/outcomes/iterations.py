"""What happened in each iteration of an application: bytes by tier under a profiler, bytes that the driver moved, and
memory in use; and the throughput of each tier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import msgspec

from firsttouch.profile.events import unseen
from firsttouch.records.figures import Bar, ByIteration
from firsttouch.records.schema import ITERATION_TIME, Record, as_number
from firsttouch.records.statistics import non_negative, series, series_of_parts

TIERS: Mapping[str, str] = {
    "l2": "L1-L2",
    "device_read": "device memory, read",
    "device_write": "device memory, written",
    "memory_read": "behind L2, read",
    "memory_write": "behind L2, written",
    "link_read": "host link, read by kernels",
    "link_write": "host link, written by kernels",
    "pcie_read": "PCIe, read with moved pages",
    "pcie_write": "PCIe, written with moved pages",
}
"""The tiers by the part of a counter's name, as in hw_l2_bytes and hw_iteration_0_l2_bytes, in words."""
BY_TIER = ByIteration(
    by="strategy", time=ITERATION_TIME, series="hw_iteration_{}_{}_bytes", parts=TIERS, y_title="bytes",
    title="Bytes of each iteration by tier (under the profiler) and its time (without it)",
)  # fmt: skip
MOVED = ByIteration(
    by="strategy", time=ITERATION_TIME, series="um_iteration_{}_{}_bytes",
    parts={"h2d": "to the device", "d2h": "to the host"}, y_title="bytes moved",
    title="Bytes that the driver moved in each iteration (with events recorded) and its time (without)",
)  # fmt: skip
IN_USE = ByIteration(
    by="strategy", time=ITERATION_TIME, series="memory_iteration_{}_{}_bytes",
    parts={"host": "host memory of the process", "device": "device memory"}, y_title="memory in use",
    title="Memory in use at the end of each iteration, and the time that it takes",
)  # fmt: skip
THROUGHPUT = Bar(
    x="strategy", y="value", series="throughput_{}_gbs", parts=TIERS, colour="part",
    titles={"part": "tier"}, y_title="GB/s",
    title="Throughput of each tier: bytes of the phase compute over the time of its kernels, both under the profiler",
)  # fmt: skip
FIGURES = (BY_TIER, MOVED, IN_USE)
_BOTH_WITH = " and its time, with events recorded"

Row: TypeAlias = dict[str, float]


def figures(records: Sequence[Record]) -> list[ByIteration | Bar]:
    """Those that apply to these records."""
    by_tier, moved = BY_TIER, replace(MOVED, note=unseen.note(records, MOVED.by))
    if all(record.factors.get("events") == "on" for record in records):
        moved = replace(moved, title=MOVED.title.replace(" (with events recorded) and its time (without)", _BOTH_WITH))
    if all(record.modelled for record in records):
        by_tier = replace(BY_TIER, title="Bytes of each iteration by tier, and its time")
    candidates = (by_tier, moved, IN_USE)
    of_iterations = [f for f in candidates if any(series_of_parts(record, f.series, f.parts) for record in records)]
    of_tiers = [THROUGHPUT] if any(set(series(record, THROUGHPUT.series)) & set(TIERS) for record in records) else []
    return [*of_iterations, *of_tiers]


def with_throughput(record: Record) -> Record:
    """The record with the throughput of each tier in GB/s, if a profiler counted its bytes and the kernels' time."""
    counters = {name: v for name, v in record.counters.items() if not name.startswith("throughput_")}
    if (ms := non_negative(record, "hw_kernel_ms")) is not None and ms > 0:
        for tier in TIERS:
            if (size := non_negative(record, f"hw_{tier}_bytes")) is not None:
                counters[f"throughput_{tier}_gbs"] = size / ms / 1e6
    return msgspec.structs.replace(record, counters=counters)


def throughput(record: Record) -> dict[str, float]:
    """GB/s by tier."""
    values = {tier: non_negative(record, f"throughput_{tier}_gbs") for tier in TIERS}
    return {tier: v for tier, v in values.items() if v is not None}


def rows(record: Record) -> list[Row]:
    """A row for each iteration of which bytes are known: iteration, ms, and the counters that end in _bytes, named
    without the number: hw_l2_bytes, um_h2d_bytes, memory_device_bytes.
    """
    made: dict[int, Row] = {}
    for figure in FIGURES:
        prefix = figure.series.partition("_")[0]
        for (number, part), v in series_of_parts(record, figure.series, figure.parts).items():
            size = as_number(v)
            if isinstance(number, int) and size is not None and size >= 0:
                made.setdefault(number, {"iteration": number})[f"{prefix}_{part}_bytes"] = size
    times = series(record, ITERATION_TIME)
    for number, row in made.items():
        if (ms := as_number(times.get(number))) is not None:
            row["ms"] = ms
    return [made[number] for number in sorted(made)]
