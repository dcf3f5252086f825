"""MI300A, alone and four of them: what depends on who made the pages, on the caches, and on the engines that copy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from firsttouch.base.errors import NotModelled
from firsttouch.experiments import find_experiment
from firsttouch.experiments.contract.base import Measurement
from firsttouch.model.platform import load_platform
from firsttouch.records.schema import Factors, Point

MIB, GIB = 1 << 20, 1 << 30
STREAM = {"arrays": "memory", "kernel": "triad", "first_touch": "self", "stores": "normal", "threads": 0, "size": GIB}
CHASE = {"agent": "cpu", "order": "random", "first_touch": "self", "xnack": "1"}
COPY = {"engine": "copy-engine", "other": "device", "streams": 1, "chunk": 0, "size": GIB, "xnack": "0"}


def predicted(experiment: str, on: str = "mi300a", **factors: Any) -> Measurement:
    platform, found = load_platform(on), find_experiment(experiment)
    assert found is not None
    point = Point(experiment, platform.device.name, Factors(factors))
    return found.predict(point, platform.under(point.factors))


def value(experiment: str, on: str = "mi300a", **factors: Any) -> float:
    return float(predicted(experiment, on, **factors).samples[0])


def gpu_triad(allocator: str, xnack: str) -> float:
    return value("bandwidth", agent="gpu", allocator=allocator, xnack=xnack, **STREAM)


def test_a_gpu_streams_through_three_classes_of_memory() -> None:
    # Wahlgren et al., IISWC 2025, Sec. IV-B: hipMalloc, then what calls populate, then what faults populate.
    assert gpu_triad("device", "0") > 1.5 * gpu_triad("pinned", "0")
    assert gpu_triad("managed", "0") == gpu_triad("registered", "0") == gpu_triad("pinned", "0")
    assert gpu_triad("pinned", "0") > 1.05 * gpu_triad("malloc", "1")
    assert gpu_triad("managed", "1") == gpu_triad("malloc", "1")


@pytest.mark.parametrize("allocator", ["device", "malloc"])
def test_the_cpus_loads_take_longer_through_larger_buffers_up_to_memory(allocator: str) -> None:
    sizes = [1 << power for power in range(10, 33)]
    answers = [predicted("latency", allocator=allocator, size=size, **CHASE) for size in sizes]
    assert all(small.samples[0] <= large.samples[0] for small, large in pairwise(answers))
    assert all((a.low or 0) <= a.samples[0] <= (a.high or 0) for a in answers)
    assert (answers[0].samples, answers[-1].samples) == ([1], [240])


def test_memory_that_the_gpu_touched_first_uses_more_of_the_cache_in_front_of_memory() -> None:
    here = CHASE | {"size": 256 * MIB}
    by_gpu = value("latency", allocator="malloc", **here | {"first_touch": "other"})
    assert by_gpu == value("latency", allocator="pinned", **here) < value("latency", allocator="malloc", **here)


def test_copies_without_the_dma_engines_are_those_of_kernels() -> None:
    for direction in ("h2d", "d2h"):
        with_engines, without = (
            value("transfer", direction=direction, allocator="pinned", sdma=sdma, **COPY) for sdma in ("1", "0")
        )
        assert without > 10 * with_engines


def test_the_cpus_of_a_node_stream_as_fast_as_those_of_four_apus() -> None:
    one, four = (value("bandwidth", on, agent="cpu", allocator="malloc", **STREAM) for on in ("mi300a", "mi300a-node"))
    assert four == 4 * one


def copied(source: str, target: str, **factors: Any) -> float:
    peer = load_platform("mi300a-node").devices[2].name
    usual = {"engine": "copy-engine", "peer": peer, "direction": "out", "first_touch": "cpu", "threads": 1, "size": GIB}
    return value("p2p-copy", "mi300a-node", source=source, target=target, **{**usual, **factors})


def test_copies_to_another_apu_are_as_fast_as_the_slower_side_allows() -> None:
    # Schieffer et al., MEMSYS 2025, Sec. 5.2: the engines carry memory of hipMalloc alone.
    assert copied("device", "device") > 4 * copied("device", "pinned")
    assert copied("device", "pinned") == copied("managed", "device") == copied("malloc", "malloc", engine="cpu")
    assert copied("device", "pinned", engine="cpu", first_touch="gpu") == copied(
        "device", "device", engine="cpu", first_touch="gpu"
    )


@pytest.mark.parametrize("platform", ["tk1", "kaveri"])
def test_a_thread_for_each_element_streams_memory_as_fast_as_any_launch(platform: str) -> None:
    sweep = {**STREAM, "agent": "gpu", "allocator": "device", "kernel": "write", "arrays": "sweep"}
    assert value("bandwidth", platform, launch="thread-per-element", **sweep) == value("bandwidth", platform, **sweep)
    within = {**sweep, "size": 1 << 14, "launch": "thread-per-element"}
    assert value("bandwidth", platform, **within) > value("bandwidth", platform, **sweep)
    with pytest.raises(NotModelled, match="each element"):
        value("bandwidth", "mi300a", **within)
