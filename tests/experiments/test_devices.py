"""What holds on every real device: memory keeps what is written, and a fault in it is found."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firsttouch import _core
from firsttouch.machine.devices import open_device

DEVICES = ["cpu", "opencl:0", "cuda:0", "hip:0"]
SIZES = [1, 7, 8, 4095, 4096, 2**20 + 3]
on_every_device = pytest.mark.parametrize("name", DEVICES)
few = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@cache
def _open(name: str) -> _core.Device | str:
    try:
        return open_device(name)
    except _core.Unavailable as reason:
        return str(reason)


def device_of(name: str) -> _core.Device:
    found = _open(name)
    if isinstance(found, str):
        if os.environ.get("CI") and not name.startswith(("cuda", "hip")):
            pytest.fail(found)
        pytest.skip(found)
    return found


def rows_of(device: _core.Device) -> list[dict[str, Any]]:
    rows: list[Any] = device.allocators()
    return rows


def allocators_of(device: _core.Device) -> list[dict[str, Any]]:
    return [row for row in rows_of(device) if row["available"]]


def agents_of(row: dict[str, Any]) -> list[str]:
    return [agent for agent in ("cpu", "gpu") if row[agent] != "none"]


def brief() -> _core.Stop:
    return _core.Stop(tolerance=0.1, seconds=0.05, min_samples=3, max_samples=20)


def expect_sane(outcome: _core.Outcome, positive: bool = True) -> None:
    assert outcome.errors == 0
    assert len(outcome.samples) >= 3
    assert outcome.stopped_by in ("precision", "time", "count")
    if positive:
        assert all(0 < sample < 1e12 for sample in outcome.samples)


@on_every_device
@pytest.mark.parametrize("size", SIZES)
def test_every_agent_finds_what_every_agent_wrote(name: str, size: int) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        with device.allocate(row["name"], size) as buffer:
            assert (buffer.size, buffer.allocator) == (size, row["name"])
            for seed, writer in enumerate(agents_of(row), start=5):
                buffer.fill(seed, writer)
                for reader in agents_of(row):
                    assert buffer.check(seed, reader) == 0
                    assert buffer.check(seed + 9, reader) == -(-size // 8), "every word tells seeds apart"


@on_every_device
@few
@given(data=st.data())
def test_one_flipped_bit_is_one_wrong_word(name: str, data: st.DataObject) -> None:
    device = device_of(name)
    row = data.draw(st.sampled_from(allocators_of(device)))
    size = data.draw(st.integers(1, 3 * 4096))
    at, bit = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7))
    with device.allocate(row["name"], size) as buffer:
        buffer.fill(1, data.draw(st.sampled_from(agents_of(row))))
        right = buffer.read(at, 1)
        buffer.write(at, bytes([right[0] ^ 1 << bit]))
        for reader in agents_of(row):
            assert buffer.check(1, reader) == 1
        buffer.write(at, right)
        for reader in agents_of(row):
            assert buffer.check(1, reader) == 0


@on_every_device
@few
@given(data=st.data())
def test_bytes_come_back_and_their_neighbours_stay(name: str, data: st.DataObject) -> None:
    device = device_of(name)
    row = data.draw(st.sampled_from(allocators_of(device)))
    size = data.draw(st.integers(1, 9000))
    expected = bytearray(index % 251 for index in range(size))
    with device.allocate(row["name"], size) as buffer:
        buffer.write(0, bytes(expected))
        for _ in range(3):
            offset = data.draw(st.integers(0, size - 1))
            piece = data.draw(st.binary(min_size=1, max_size=min(64, size - offset)))
            buffer.write(offset, piece)
            expected[offset : offset + len(piece)] = piece
        assert buffer.read(0, size) == bytes(expected)


@on_every_device
def test_reads_and_writes_stay_inside(name: str) -> None:
    with device_of(name).allocate("malloc", 100) as buffer:
        for offset, count in [(0, 101), (100, 1), (2**64 - 1, 2), (1, 2**64 - 1), (2**63, 2**63)]:
            with pytest.raises(IndexError):
                buffer.read(offset, count)
        for offset in (100, 2**64 - 1):
            with pytest.raises(IndexError):
                buffer.write(offset, b"xx")


@on_every_device
def test_a_freed_buffer_says_so(name: str) -> None:
    device = device_of(name)
    buffer = device.allocate("malloc", 4096)
    buffer.free()
    buffer.free()
    for use in (lambda: buffer.fill(1, "cpu"), lambda: buffer.read(0, 1), lambda: buffer.size):
        with pytest.raises(RuntimeError, match="freed"):
            use()
    with device.allocate("malloc", 4096) as other:
        pass
    with pytest.raises(RuntimeError, match="freed"):
        _core.chase(device, other, agent="cpu", first_touch="cpu", stride=64, seed=1, stop=brief())


@on_every_device
def test_bad_requests_are_refused_in_words(name: str) -> None:
    device = device_of(name)
    for row in rows_of(device):
        with pytest.raises((ValueError, _core.Unavailable)):
            device.allocate(row["name"], 0)
        if not row["available"]:
            with pytest.raises(_core.Unavailable, match=row["name"]):
                device.allocate(row["name"], 4096)
    with pytest.raises(ValueError, match="'heap' is not an allocator"):
        device.allocate("heap", 4096)
    foreign = "svm-fine" if name.startswith(("cuda", "hip")) else "managed"
    with pytest.raises(_core.Unavailable, match=foreign):
        device.allocate(foreign, 4096)
    with pytest.raises(ValueError, match="'gigantic'"):
        device.allocate("malloc", 4096, "gigantic")
    with device.allocate("malloc", 4096) as buffer, pytest.raises(ValueError, match="'tpu' is not an agent"):
        buffer.fill(1, "tpu")


@pytest.mark.parametrize("name", ["tpu:0", "", "cuda:x", "opencl:99", "opencl:-1", "cpu:1"])
def test_a_device_that_is_not_here_says_why(name: str) -> None:
    with pytest.raises(_core.Unavailable):
        open_device(name)


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
        scenarios = {"cpu": ["cpu-1", "cpu-n"], "gpu": ["gpu-major"]}
        for scenario in [one for agent in agents_of(row) for one in scenarios[agent]]:
            outcome = _core.page_faults(
                device,
                allocator=row["name"],
                pages="policy",
                page_bytes=4096,
                count=32,
                scenario=scenario,
                warmups=1,
                seed=6,
                stop=brief(),
            )
            expect_sane(outcome, positive=False)  # a difference of two runs: noise may turn it around
            assert outcome.counters["first_ns"] > 0


@on_every_device
@pytest.mark.parametrize("strategy", ["concurrent", "lockstep", "copying"])
def test_concurrency(name: str, strategy: str) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        if row["gpu"] == "none" or (strategy != "copying" and row["cpu"] == "none"):
            continue
        copy = device.allocate("malloc", 2**17) if strategy == "copying" else None
        with device.allocate(row["name"], 2**17) as array:

            def run(array: _core.Buffer = array, copy: _core.Buffer | None = copy) -> _core.Outcome:
                return _core.concurrency(device, array, copy, strategy=strategy, iterations=100, seed=7, stop=brief())

            if strategy == "concurrent" and not row["disjoint"]:
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
        assert outcome.counters["per_mib"] < 256, "fewer than one fault a page: a pass went before"


def test_an_event_that_is_not_counted_says_why() -> None:
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
        if cpu_threads and gpu_groups and not row["concurrent"]:
            continue
        with device.allocate(row["name"], 4096) as region:
            outcome = _core.locking(
                device, region, cpu_threads=cpu_threads, gpu_groups=gpu_groups, sections=200, seed=8, stop=brief()
            )
            assert outcome.errors == 0
            assert all(0 < sample < 1e12 for sample in outcome.samples)
            assert outcome.counters["sections_in_all"] >= 200


@on_every_device
def test_what_a_device_states_is_complete(name: str) -> None:
    device = device_of(name)
    assert next(iter(device.facts())) == "title"
    total, free = device.memory()
    assert 0 < free <= total
    for row in rows_of(device):
        assert row["available"] == (row["reason"] == "")
        assert row["cpu"] in ("none", "mapped", "direct")
        assert row["gpu"] in ("none", "mapped", "direct")
