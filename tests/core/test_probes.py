"""Every probe with small sizes on every real device: its data are right, and its samples are plausible times."""

from __future__ import annotations

import itertools
import math
import re
import resource
from typing import Any

import pytest
from open_devices import DEVICES, agents_of, allocators_of, brief, device_of, on_every_device, once
from tests.matrix import matrix

from firsttouch import _core


def expect_sane(outcome: _core.Outcome, positive: bool = True) -> None:
    assert outcome.errors == 0
    assert len(outcome.samples) >= (1 if outcome.stopped_by == "time" else 3)  # others may use the processor
    assert outcome.stopped_by in ("precision", "time", "count")
    if positive:
        assert all(0 < sample < 1e12 for sample in outcome.samples)


@on_every_device
@pytest.mark.parametrize("group_bytes", [0, 4096])
def test_chase(name: str, group_bytes: int) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        with device.allocate(row["name"], 2**17) as buffer:
            for agent in agents_of(row):
                outcome = _core.chase(
                    device,
                    buffer,
                    agent=agent,
                    first_touch=agents_of(row)[0],
                    stride=64,
                    group_bytes=group_bytes,
                    hops=3200,
                    seed=3,
                    stop=brief(),
                )
                expect_sane(outcome)
                assert outcome.counters["nodes"] == 2048


@on_every_device
@pytest.mark.parametrize("op", ["copy", "scale", "add", "triad", "read", "write"])
def test_stream(name: str, op: str) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        a, b, c = (device.allocate(row["name"], 2**17) for _ in range(3))
        for agent in agents_of(row):
            expect_sane(_core.stream(device, a, b, c, op=op, agent=agent, first_touch=agent, seed=4, stop=brief()))
        if row["gpu"] != "none":
            each = _core.stream(
                device,
                *(a, b, c),
                op=op,
                agent="gpu",
                first_touch="gpu",
                passes=3,
                seed=4,
                element_per_thread=True,
                stop=brief(),
            )
            expect_sane(each)
            assert each.counters["blocks"] * each.counters["threads"] == 2**17 / 8


def test_what_the_processors_do_is_counted_while_samples_are_taken() -> None:
    device = device_of("cpu")
    a, b, c = (device.allocate("malloc", 2**20) for _ in range(3))
    stop = _core.Stop(tolerance=-1, seconds=0.3)
    asked: dict[str, Any] = {"op": "triad", "agent": "cpu", "first_touch": "cpu", "threads": [1], "seed": 4}
    counted = _core.stream(device, a, b, c, **asked, passes=10, activity=True, stop=stop)
    assert counted.stopped_by in ("time", "count")
    assert counted.counters["interrupts_per_s"] > 0, "the timer of a busy processor"
    loads = {name for name in counted.counters if name.startswith("tlb_loads_per")}
    assert loads == (set() if _core.why_no_tlb_loads() else {"tlb_loads_per_s", "tlb_loads_per_mib"})
    assert not _core.stream(device, a, b, c, **asked, stop=brief()).counters.keys() & counted.counters.keys() - {
        "threads"
    }


@on_every_device
@pytest.mark.parametrize("engine", ["copy-engine", "kernel", "cpu"])
@pytest.mark.parametrize("size", [1, 4095, 2**17])
def test_copy(name: str, engine: str, size: int) -> None:
    device = device_of(name)
    rows = [
        row
        for row in allocators_of(device)
        if engine == "copy-engine" or row[engine.replace("kernel", "gpu")] != "none"
    ]
    if not rows:
        pytest.skip("this device has no such engine")
    for to, source in zip(rows, [*rows[1:], rows[0]], strict=True):
        with device.allocate(to["name"], size) as target, device.allocate(source["name"], size) as origin:
            expect_sane(_core.copy(device, target, origin, engine=engine, bytes=size, seed=5, stop=brief()))


@on_every_device
def test_allocation(name: str) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        outcome = _core.allocation(device, allocator=row["name"], bytes=65536, chunks=4, warmups=1, stop=brief())
        expect_sane(outcome)
        with pytest.raises(_core.GuardRefused):
            _core.allocation(device, allocator=row["name"], bytes=2**62, chunks=4, stop=brief())


@on_every_device
def test_page_faults(name: str) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        scenarios = {"cpu": "cpu", "gpu": "gpu-major"}
        for agent, load in itertools.product(agents_of(row), (False, True)):
            try:
                outcome = _core.page_faults(
                    device,
                    allocator=row["name"],
                    pages="policy",
                    page_bytes=resource.getpagesize(),
                    count=32,
                    scenario=scenarios[agent],
                    load=load,
                    warmups=1,
                    seed=6,
                    stop=brief(),
                )
            except _core.Unavailable as reason:
                if row["name"] == "mmap" or "there before the first touch" not in str(reason):
                    raise
                continue
            expect_sane(outcome, positive=False)  # a difference of two times, which noise can make negative
            assert outcome.counters["first_ns"] > 0


def is_unstated(row: dict[str, Any]) -> bool:
    """Whether both agents access it directly and the driver states nothing about use at once."""
    return row["cpu"] == row["gpu"] == "direct" and row["concurrent"] is row["disjoint"] is None


@on_every_device
@pytest.mark.parametrize("strategy", matrix(["concurrent", "lockstep", "copying"], 1))
def test_concurrency(name: str, strategy: str) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        if row["gpu"] == "none" or (strategy != "copying" and row["cpu"] == "none"):
            continue
        copy = device.allocate("malloc", 2**17) if strategy == "copying" else None
        with device.allocate(row["name"], 2**17) as array:

            def run(array: _core.Buffer = array, copy: _core.Buffer | None = copy) -> _core.Outcome:
                return _core.concurrency(
                    device, array, copy=copy, strategy=strategy, iterations=100, seed=7, stop=brief()
                )

            if strategy == "concurrent" and not row["disjoint"] and not is_unstated(row):
                with pytest.raises(_core.Unavailable, match=row["name"]):
                    run()
            else:
                expect_sane(run())


@on_every_device
def test_counted_triad(name: str) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        if row["cpu"] == "none":
            continue
        outcome = _core.counted_triad(
            device, allocator=row["name"], bytes=2**20, event="page-faults", seed=7, stop=brief()
        )
        expect_sane(outcome)
        assert outcome.counters["per_mib"] < 256, "fewer than one fault per page, because the pages were touched before"


def test_an_event_that_cannot_be_counted_is_refused_with_a_reason() -> None:
    device = device_of("cpu")
    with pytest.raises(ValueError, match="'cycles' is no event"):
        _core.counted_triad(device, allocator="malloc", bytes=4096, event="cycles", seed=7, stop=brief())
    reason = ""
    try:
        outcome = _core.counted_triad(device, allocator="malloc", bytes=2**22, seed=7, stop=brief())
    except _core.Unavailable as error:
        reason = str(error)
    assert re.search("not allowed here|counts no dtlb-load-misses", reason) or outcome.counters["per_mib"] > 0


@on_every_device
@pytest.mark.parametrize(("cpu_threads", "gpu_groups"), [(1, 0), (0, 1), (1, 1)])
def test_locking(name: str, cpu_threads: int, gpu_groups: int) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        if (cpu_threads and row["cpu"] == "none") or (gpu_groups and row["gpu"] == "none"):
            continue
        if cpu_threads and gpu_groups and not row["concurrent"] and not is_unstated(row):
            continue
        with device.allocate(row["name"], 4096) as region:
            outcome = _core.locking(
                device, region, cpu_threads=cpu_threads, gpu_groups=gpu_groups, sections=200, seed=8, stop=once()
            )
            assert outcome.errors == 0
            assert all(0 < sample < 1e12 for sample in outcome.samples)
            assert outcome.counters["sections_in_all"] >= 200


@pytest.mark.parametrize("name", [name for name in DEVICES if name != "cpu"])
def test_migration(name: str) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        if row["gpu"] == "none":
            continue
        outcome = _core.migration(
            device,
            allocator=str(row["name"]),
            bytes=2**22,
            copied=row["cpu"] == "none",
            stride_bytes=64 * 1024,
            run_bytes=8,
            sequential=True,
            iterations=3,
            seed=9,
            stop=_core.Stop(tolerance=0.1, seconds=0.01),
        )
        assert outcome.errors == 0
        assert [len(steps) for steps in outcome.repetitions] == [len(outcome.repetitions[0])] * len(outcome.samples)
        assert outcome.repetitions[0][-1][0] == "check"


@pytest.mark.parametrize("name", [name for name in DEVICES if name != "cpu"])
@pytest.mark.parametrize("update", [False, True])
def test_turns(name: str, update: bool) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        if "none" in (row["cpu"], row["gpu"]):
            continue
        how = {"update": update, "updates": 0 if update else 5, "turns": 3}
        outcome = _core.take_turns(device, allocator=str(row["name"]), seed=9, stop=once(), **how)
        assert outcome.errors == 0
        counters = outcome.counters
        assert {f"turn_{turn}_us" for turn in (0, 1, 2)} <= counters.keys()
        assert 0 < counters["turn_low_us"] <= counters["turn_us"] <= counters["turn_high_us"]
        assert counters["first_turn_us"] <= counters["slowest_turn_us"]
    for method, allocator in (("copied", "malloc"), ("launched", "device"), ("queued", "device")):
        outcome = _core.take_turns(
            device, allocator=allocator, method=method, update=update, turns=3, bytes=64, seed=9, stop=once()
        )
        assert outcome.errors == 0
        assert all(sample > 0 for sample in outcome.samples)


@pytest.mark.parametrize(
    "wrong", [{"bytes": 12}, {"bytes": 0}, {"turns": 0}, {"gap": -1.0}, {"gap": math.nan}, {"method": "sideways"}]
)
def test_turns_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"bytes must|turns must|'sideways' is not"):
        _core.take_turns(device_of(DEVICES[-1]), allocator="device", seed=9, stop=once(), **wrong)
