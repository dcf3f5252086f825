"""What caches do, on a chip made up here whose CPU and GPU share one memory: as much as the file states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firsttouch.base.errors import NotModelled
from firsttouch.experiments import find_experiment
from firsttouch.experiments.contract.base import Measurement
from firsttouch.model.caches import CacheLevel, served
from firsttouch.model.platform import MissingValue, load_platform
from firsttouch.records.schema import Factors, Point

KIB, MIB = 1 << 10, 1 << 20
L2, MEMORY = 100.0, 10.0
"""GB/s of the GPU."""
SHARED: dict[str, Any] = {"cpu": "direct", "gpu": "direct", "host_memory": True, "on_demand": False, "concurrent": True}
VALUES: dict[str, Any] = {
    "host.processors": 4,
    "host.memory": (4, "GiB"),
    "host.l1": (32, "KiB"),
    "host.l2": (1, "MiB"),
    "host.cores_per_l2": 4,
    "host.line": (64, "B"),
    "host.bandwidth": (MEMORY, "GB/s"),
    "host.thread_bandwidth": (5, "GB/s"),
    "device.memory": (4, "GiB"),
    "device.bandwidth": (MEMORY, "GB/s"),
    "device.multiprocessors": 1,
    "device.threads": 1024,
    "device.l2": (256, "KiB"),
    "device.line": (64, "B"),
    "device.coherence": "none",
    "driver.family": "none",
    "uncached.cpu": (2, "GB/s"),
    "uncached.gpu": (0, "ns/B"),
    "cache_flush": (100, "us"),
    "cached_in.cpu": "all",
    "cached_in.gpu": "l2",
    "cached_in.cpu.pinned": "none",
    "cached_in.gpu.pinned": "none",
    "cache.cpu.l1.load": (1, "ns"),
    "cache.cpu.l2.load": (5, "ns"),
    "cache.cpu.l1.rate": (40, "GB/s"),
    "cache.cpu.l2.rate": (20, "GB/s"),
    "cache.gpu.l2.load": (100, "ns"),
    "cache.gpu.l2.rate": (L2, "GB/s"),
    "load.cpu.malloc": (100, "ns"),
    "load.gpu.device": (500, "ns"),
}


def entry(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    number, unit = value if isinstance(value, tuple) else (value, "")
    return {"value": number, **({"unit": unit} if unit else {}), "how": "stated", "source": "a test"}


def predicted(tmp_path: Path, experiment: str, changes: dict[str, Any] | None = None, **factors: Any) -> Measurement:
    """A point on the chip. changes: values that differ; None takes one away."""
    device = {
        "kind": "cuda",
        "title": "a GPU",
        "capabilities": {"runs_kernels": True, "shares_host_memory": True, "uncached_loads": True},
        "allocators": {
            "device": {"gpu": "direct", "host_memory": True, "device_memory": True, "on_demand": False},
            "pinned": SHARED,
            "managed": {**SHARED, "managed": True, "device_memory": True, "on_demand": True, "concurrent": False},
        },
    }
    host = {
        "kind": "cpu",
        "title": "a CPU",
        "capabilities": {"on_host_processor": True, "shares_host_memory": True},
        "allocators": {"malloc": {"cpu": "direct", "host_memory": True, "on_demand": True}},
    }
    values = {name: entry(value) for name, value in {**VALUES, **(changes or {})}.items() if value is not None}
    file = tmp_path / "chip.json"
    file.write_text(json.dumps({"title": "a chip", "device": device, "host": host, "parameters": values}))
    platform, found = load_platform(str(file)), find_experiment(experiment)
    assert found is not None
    return found.predict(Point(experiment, platform.device.name, Factors(factors)), platform)


def value(measurement: Measurement) -> float:
    (sample,) = measurement.samples
    assert measurement.low is not None
    assert measurement.high is not None
    assert measurement.low <= sample <= measurement.high
    return sample


STREAM = {"arrays": "sweep", "kernel": "read", "first_touch": "self", "stores": "normal", "threads": 0}
CHASE = {"first_touch": "self", "order": "random"}
UPDATES = {"agent": "gpu", "pattern": "own", "threads": 1 << 20, "loads": "cached", "size": "auto"}
PASS = {"agent": "gpu", "pattern": "single-pass", "threads": 0, "loads": "cached", "size": 64 * MIB}
HALVES = {"cpu_half": "same", "iterations": 10, "size": 128 * MIB}


@pytest.mark.parametrize(
    ("agent", "allocator", "size", "rate"),
    [
        ("gpu", "device", 128 * KIB, L2),
        ("gpu", "managed", 256 * KIB, L2),
        ("gpu", "managed", 64 * MIB, MEMORY),
        ("gpu", "pinned", 16 * KIB, MEMORY),
        ("cpu", "managed", 16 * KIB, 160),  # a quarter for each of four cores
        ("cpu", "managed", 512 * KIB, 80),
        ("cpu", "pinned", 16 * KIB, 1 / (1 / MEMORY + 1 / 2)),
    ],
)
def test_a_stream_is_as_fast_as_the_level_that_holds_it(
    agent: str, allocator: str, size: int, rate: float, tmp_path: Path
) -> None:
    measurement = predicted(tmp_path, "bandwidth", **STREAM, agent=agent, allocator=allocator, size=size)
    assert value(measurement) == pytest.approx(rate, rel=0.02)


def test_streams_slow_down_steadily_beyond_a_cache(tmp_path: Path) -> None:
    factors = {**STREAM, "agent": "gpu", "allocator": "device"}
    rates = [value(predicted(tmp_path, "bandwidth", **factors, size=n * 16 * KIB)) for n in range(1, 100, 3)]
    assert rates == sorted(rates, reverse=True)
    assert (rates[0], rates[-1]) == (pytest.approx(L2), pytest.approx(MEMORY, rel=0.02))


@pytest.mark.parametrize("factors", [{"kernel": "write"}, {"kernel": "read", "launch": "thread-per-element"}])
def test_threads_that_repeat_their_own_part_stay_within_a_cache(factors: dict[str, Any], tmp_path: Path) -> None:
    """32 passes over 2 MiB, of which the first is from memory. A single one over 64 MiB is."""
    found = {**STREAM, **factors, "agent": "gpu", "allocator": "device"}
    rates = [value(predicted(tmp_path, "bandwidth", **found, size=size)) for size in (2 * MIB, 64 * MIB)]
    assert rates == [pytest.approx(1 / (1 / 32 / MEMORY + 31 / 32 / L2), rel=0.02), pytest.approx(MEMORY, rel=0.02)]


@pytest.mark.parametrize(
    ("agent", "allocator", "size", "time"),
    [
        ("cpu", "managed", 4 * KIB, 1),
        ("cpu", "managed", 512 * KIB, 5),
        ("cpu", "managed", 1024 * MIB, 100),
        ("cpu", "pinned", 4 * KIB, 100),
        ("gpu", "device", 4 * KIB, 100),
        ("gpu", "pinned", 4 * KIB, 500),
    ],
)
def test_a_load_takes_what_the_level_takes_that_holds_it(
    agent: str, allocator: str, size: int, time: float, tmp_path: Path
) -> None:
    expected = pytest.approx(time, rel=0.1)
    assert value(predicted(tmp_path, "latency", **CHASE, agent=agent, allocator=allocator, size=size)) == expected


@pytest.mark.parametrize("agent", ["cpu", "gpu"])
@pytest.mark.parametrize(("allocator", "cached"), [("managed", True), ("pinned", False)])
def test_only_cached_memory_is_read_faster_again(agent: str, allocator: str, cached: bool, tmp_path: Path) -> None:
    factors = {"pattern": "reread", "padding": 0, "threads": 1, "loads": "cached", "size": "auto"}
    found = predicted(tmp_path, "caching", **factors, agent=agent, allocator=allocator)
    assert found.counters["cached"] is cached


def test_entries_that_share_lines_are_updated_faster(tmp_path: Path) -> None:
    """Eight adjacent entries are one line, which is moved once; beyond a line apart nothing more changes."""
    times = [
        value(predicted(tmp_path, "caching", **UPDATES, allocator="managed", padding=n)) for n in (0, 16, 32, 64, 128)
    ]
    assert [time / times[0] for time in times] == pytest.approx([1, 2, 4, 8, 8], rel=0.3)
    every_second = UPDATES | {"pattern": "even"}
    assert value(predicted(tmp_path, "caching", **every_second, allocator="managed", padding=0)) == times[0]


def test_updates_of_uncached_memory_take_the_rate_of_memory(tmp_path: Path) -> None:
    cached, uncached = (
        value(predicted(tmp_path, "caching", **UPDATES, allocator=name, padding=64)) for name in ("managed", "pinned")
    )
    assert uncached == pytest.approx(cached * L2 / MEMORY)


def test_few_threads_wait_for_loads(tmp_path: Path) -> None:
    few = UPDATES | {"threads": 32}
    assert value(predicted(tmp_path, "caching", **few, allocator="managed", padding=0)) == pytest.approx(100)


def test_loads_past_a_cache_take_the_next(tmp_path: Path) -> None:
    first = {"cached_in.gpu": "all", "device.l1": (64, "KiB"), "cache.gpu.l1.load": (10, "ns"),
             "cache.gpu.l1.rate": (1000, "GB/s")}  # fmt: skip
    few = UPDATES | {"threads": 32, "allocator": "managed", "padding": 0}
    times = [value(predicted(tmp_path, "caching", first, **{**few, "loads": how})) for how in ("cached", "bypass-l1")]
    assert times == [pytest.approx(10), pytest.approx(100)]


@pytest.mark.parametrize(("padding", "moved"), [(0, 8), (32, 32), (64, 64), (128, 64)])
def test_a_single_pass_moves_lines_both_ways(padding: int, moved: int, tmp_path: Path) -> None:
    found = predicted(tmp_path, "caching", **PASS, allocator="device", padding=padding)
    assert value(found) == pytest.approx(2 * moved / MEMORY)


@pytest.mark.parametrize(
    ("allocator", "strategy", "ms"),
    [
        ("managed", "lockstep", 2 * 13.42 + 0.1),  # caches are written back
        ("pinned", "lockstep", 13.42 * 6 + 13.42),
        ("pinned", "concurrent", 13.42 * 6),  # the CPU alone, at 1.67 GB/s
    ],
)
def test_both_agents_take_the_slower_ones_time(allocator: str, strategy: str, ms: float, tmp_path: Path) -> None:
    found = predicted(tmp_path, "concurrency", **HALVES, allocator=allocator, strategy=strategy)
    assert value(found) == pytest.approx(ms, rel=1e-3)


def test_memory_bounds_both_agents_and_copies_follow(tmp_path: Path) -> None:
    copies = {f"copy.{way}.malloc": (5, "GB/s") for way in ("h2d", "d2h")}
    found = predicted(tmp_path, "concurrency", copies, **HALVES, allocator="device", strategy="copying-pageable")
    assert value(found) == pytest.approx(2 * 13.42 + 2 * 13.42, rel=1e-3)
    assert found.counters["overlap"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("experiment", "factors"),
    [
        ("caching", UPDATES | {"pattern": "one", "allocator": "managed", "padding": 0}),
        ("caching", UPDATES | {"agent": "cpu", "threads": 2, "allocator": "managed", "padding": 0}),
        ("caching", UPDATES | {"loads": "staged", "allocator": "managed", "padding": 0}),
        ("caching", PASS | {"size": 64 * KIB, "allocator": "device", "padding": 0}),
        ("concurrency", HALVES | {"gpu_share": "best", "allocator": "pinned", "strategy": "concurrent"}),
    ],
)
def test_what_the_rule_does_not_cover_is_refused(experiment: str, factors: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(NotModelled):
        predicted(tmp_path, experiment, **factors)


@pytest.mark.parametrize("name", ["cached_in.gpu", "cache.gpu.l2.load"])
def test_what_a_file_does_not_state_is_named(name: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {name: None}
    if name.startswith("cache."):
        changes["cache.gpu.l1.load"] = (1, "ns")
    with pytest.raises(MissingValue, match=name):
        predicted(tmp_path, "latency", changes, **CHASE, agent="gpu", allocator="device", size=4 * KIB)


def test_times_at_several_sizes_tell_of_the_caches_themselves(tmp_path: Path) -> None:
    factors = {**CHASE, "agent": "gpu", "allocator": "device", "size": KIB}
    changes = {"load.gpu.device": {"points": [[KIB, 42], [MIB, 84]], "unit": "ns", "how": "stated", "source": "a test"}}
    assert value(predicted(tmp_path, "latency", changes, **factors)) == 42


def test_every_use_is_served_once() -> None:
    levels = [CacheLevel("l1", 10), CacheLevel("l2", 100)]
    for nbytes in (1, 10, 11, 50, 100, 150, 1000):
        for bound in ("value", "low", "high"):
            parts = served(levels, nbytes, bound)
            assert sum(parts.values()) == pytest.approx(1)
            assert min(parts.values()) >= 0
