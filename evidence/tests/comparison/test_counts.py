"""What the model counts without running anything, against what the driver recorded in results/."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from tests.kept_runs import stored_runs

from firsttouch.apps import all_apps
from firsttouch.comparison.validation.counts import CountedPoint, counted_point
from firsttouch.experiments.migration import TOUCHES
from firsttouch.model.pages import BLOCK_BYTES, Kind
from firsttouch.model.passes import BufferPasses, event_counters, moves_by_step
from firsttouch.model.rules.releases import parse_release
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Machine, Record

BORDERS_RACE = 0.005
"""Threads race where their shares meet, so that a count differs by up to a dozen from run to run."""


def records(pattern: str) -> Iterator[tuple[Record, Machine]]:
    for directory in stored_runs(pattern):
        results = load_results(directory)
        yield from ((record, results.machine) for record in results.records if record.status == "ok")


@cache
def with_events() -> list[CountedPoint]:
    """The applications at 2 GiB whose events were recorded while all data were prefetched."""
    wanted = {"strategy": "managed+prefetch", "events": "on", "size": 2 << 30}
    return [
        counted_point(record, machine)
        for record, machine in records("h200-apps-[1-4]")
        if all(record.factors.get(name) == value for name, value in wanted.items())
    ]


def test_cpu_page_faults_are_those_that_the_driver_recorded() -> None:
    pairs = [(p.counted["um_cpu_faults"], p.recorded("um_cpu_faults") or 0) for p in with_events()]
    assert len(pairs) == 21
    assert sum(counted == recorded for counted, recorded in pairs) >= 11
    assert sum(abs(counted - recorded) <= BORDERS_RACE * recorded for counted, recorded in pairs) >= 18


def test_code_that_writes_here_and_there_faults_more_often_in_a_block() -> None:
    (point,) = [p for p in with_events() if p.application == "graph500_bfs"]
    assert point.counted["um_cpu_faults"] == pytest.approx(point.recorded("um_cpu_faults"), rel=0.1)


def test_prefetches_move_what_the_driver_recorded() -> None:
    assert all(p.counted["um_h2d_prefetch_bytes"] == p.recorded("um_h2d_prefetch_bytes") for p in with_events()[:10])


def test_managed_memory_is_counted_in_steps() -> None:
    """Of nn 358 MiB are in use, of which the vendor's library counts 384; of kmeans 1,038 beside 978 of the device's,
    of which it counts 1,024.
    """
    peaks = {p.application: (p.counted["peak_device_bytes"], p.recorded("peak_device_bytes")) for p in with_events()}
    equal = {name for name, (counted, recorded) in peaks.items() if counted == recorded}
    assert {"nn", "kmeans", "hotspot", "cfd", "srad", "bfs", "dwt2d"} <= equal


@cache
def explicit() -> dict[str, CountedPoint]:
    points = {}
    for record, machine in records("h200-apps-[1-8]"):
        name = str(record.factors.get("app"))
        if record.factors.get("strategy") == "explicit" and name in all_apps() and name not in points:
            points[name] = counted_point(record, machine)
    return points


def test_explicit_copies_the_recorded_bytes() -> None:
    copied = ("copied_h2d_bytes", "copied_d2h_bytes")
    off = {
        name: max(abs(point.counted[c] / (point.recorded(c) or 1) - 1) for c in copied)
        for name, point in explicit().items()
        if any(point.counted[c] != point.recorded(c) for c in copied)
    }
    assert len(explicit()) == 29
    assert len(off) <= 7
    # Their rounds, and what each moves, depend on the data.
    assert {name for name, part in off.items() if part > 0.01} <= {"streamcluster", "bfs_concurrent"}


def test_the_peak_of_device_memory_is_that_of_the_buffers() -> None:
    libraries = ("gemm", "fft_conv_r2c", "fft_conv_c2c", "fft_conv_fused")
    points = [*with_events(), *explicit().values()]
    points = [p for p in points if p.application not in libraries and p.recorded("peak_device_bytes")]
    step = {True: 128 << 20, False: 2 << 20}

    def is_near(p: CountedPoint) -> bool:
        off = abs(p.counted["peak_device_bytes"] - (p.recorded("peak_device_bytes") or 0))
        managed = str(p.record.factors["strategy"]).startswith("managed")
        return off <= step[managed] * (1 if managed else len(p.record.buffers))

    assert sum(map(is_near, points)) >= 0.9 * len(points)


def counted_passes(record: Record, threads: int, release: str) -> dict[str, int]:
    factors = record.factors
    touch, advice = TOUCHES[str(factors["touch"])], str(factors["advice"])
    passes = BufferPasses(
        int(factors["size"]),
        touch.stride,
        factors["order"] == "sequential",
        factors["operation"] == "update",
        [] if advice == "none" else advice.split("+"),
        {"streams-2": "whole", "streams-4": "whole"}.get(str(factors["prefetch"]), str(factors["prefetch"])),
        "cpu" if factors["starts_on"] == "cpu" else "gpu",
        int(factors["iterations"]),
        threads,
    )
    return event_counters(moves_by_step(passes, Kind(4096, parse_release(release))))


def in_order_or_prefetched(record: Record) -> bool:
    wanted = {"allocator": "managed", "events": "on", "advice": "none", "starts_on": "cpu"}
    factors = record.factors
    ordered = factors.get("order") == "sequential" or factors.get("prefetch") not in ("none", "back")
    return record.experiment == "migration" and ordered and all(factors.get(k) == v for k, v in wanted.items())


@pytest.mark.parametrize(
    "pattern", ["h?00-quick", "h200-standard*", "h200-x2-quick", "h200-counts-in-*", "h200-counts-pre*"]
)
def test_touches_in_order_and_prefetches_move_to_the_page_what_the_driver_recorded(pattern: str) -> None:
    known = [(r, m) for r, m in records(pattern) if in_order_or_prefetched(r)]
    assert known
    for record, machine in known:
        facts = machine.facts
        counted = counted_passes(record, facts["cpu"]["cores_usable"], str(facts["nvidia"]["driver"]))
        names = [n for n in counted if not n.startswith(("evict", "iteration")) and "initialise_h2d" not in n]
        if record.count("size") < 2 * BLOCK_BYTES * facts["cpu"]["cores_usable"]:  # threads share blocks, and race
            names = [name for name in names if not name.startswith(("cpu_read", "initialise"))]
        recorded = {name: record.counters.get(name, 0) for name in names}
        assert {name: counted[name] for name in names} == recorded
