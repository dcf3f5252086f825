"""Assigns unified-memory events to the steps of a probe's repetitions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median_low

from firsttouch.base.units import KiB, MiB
from firsttouch.profile.events.log import MemoryEvent, Window, totals
from firsttouch.records.schema import Scalar
from firsttouch.records.timeline import NamedInterval

GRANULARITIES = (2 * MiB, 64 * KiB, 4 * KiB)


def by_step(events: Iterable[MemoryEvent], repetition: Sequence[NamedInterval]) -> dict[str, list[MemoryEvent]]:
    """Groups events by the step of one repetition in which they began.

    A step lasts until the next one begins, because hardly anything but clock readings lies between them. The last step
    lasts until its own end. Events before the first step and after the last one are left out.
    """
    events_of: dict[str, list[MemoryEvent]] = {name: [] for name, _, _ in repetition}
    starts = [start for _, start, _ in repetition]
    for event in events:
        index = bisect_right(starts, event.start) - 1
        if index >= 0 and event.start <= repetition[-1][2]:
            events_of[repetition[index][0]].append(event)
    return events_of


def event_counters(window: Window, repetitions: Sequence[Sequence[NamedInterval]], touched: int) -> dict[str, Scalar]:
    """Counters of the events of all repetitions: medians over the repetitions, as whole numbers. Kinds that the window
    does not record have no counters.

    Per iteration N: iteration_N_h2d_bytes, iteration_N_d2h_bytes, iteration_N_gpu_fault_groups. For initialise, advise,
    prefetch, compute (all iterations), prefetch_back and cpu_read: the sums of `totals`; those of bytes and faults are
    kept if zero, others are not. compute_most_gpu_fault_groups: the largest number in any repetition.

    For all moves to the device in the iterations: bytes_per_touch, the bytes moved per location touched;
    smallest_record and largest_record in bytes; record_multiple, the largest of 2 MiB, 64 KiB and 4 KiB of which every
    record is a multiple, or 1 if there is none; same_every_time, true if their sum was the same in every repetition.
    """
    columns: dict[str, list[int]] = defaultdict(list)
    sizes: list[int] = []
    starts = [event.start for event in window.events]
    for repetition in repetitions:
        first, last = bisect_left(starts, repetition[0][1]), bisect_right(starts, repetition[-1][2])
        steps = by_step(window.events[first:last], repetition)
        iterations = {name: events for name, events in steps.items() if name.startswith("iteration_")}
        for name, events in iterations.items():
            sums = totals(events, window.kinds)
            for key in ("h2d_bytes", "d2h_bytes", "gpu_fault_groups"):
                if f"um_{key}" in sums:
                    columns[f"{name}_{key}"].append(sums[f"um_{key}"])
        compute = [event for events in iterations.values() for event in events]
        sizes += [event.bytes for event in compute if event.kind == "h2d"]
        for name, events in [*steps.items(), ("compute", compute)]:
            if name not in iterations and name not in ("check", "copy_in"):
                for key, value in totals(events, window.kinds).items():
                    columns[f"{name}_{key.removeprefix('um_')}"].append(value)
    counters: dict[str, Scalar] = {
        name: median_low(values) for name, values in columns.items() if any(values) or name.endswith(_ALWAYS)
    }
    if groups := columns.get("compute_gpu_fault_groups"):
        counters["compute_most_gpu_fault_groups"] = max(groups)
    if sizes:
        counters |= {
            "bytes_per_touch": sum(sizes) / len(repetitions) / touched,
            "smallest_record": min(sizes),
            "largest_record": max(sizes),
            "record_multiple": next((step for step in GRANULARITIES if all(size % step == 0 for size in sizes)), 1),
            "same_every_time": len(set(columns["compute_h2d_bytes"])) == 1,
        }
    return counters


_ALWAYS = ("h2d_bytes", "d2h_bytes", "gpu_fault_groups", "cpu_faults")
"""Endings of the counters that are kept if they are zero."""
