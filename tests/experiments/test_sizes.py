"""Sizes of buffers: larger than the caches, and small enough for a few processors in a short run."""

from __future__ import annotations

import pytest

from firsttouch.experiments.contract.common import GiB, MiB, last_level_bytes, memory_bytes, octaves, whole_octave
from firsttouch.experiments.latency import Latency
from firsttouch.records.schema import DeviceCapabilities, DeviceInfo

HOST = DeviceCapabilities(on_host_processor=True, shares_host_memory=True, time_class="host")


def host(processors: int, cache: int) -> DeviceInfo:
    facts = {"processors": processors, "l3_bytes": cache, "line_bytes": 64}
    return DeviceInfo(name="cpu", kind="cpu", title="a processor", facts=facts, capabilities=HOST)


@pytest.mark.parametrize(
    ("processors", "cache", "array"),
    [(2, 32 * MiB, 128 * MiB), (2, 480 * MiB, 256 * MiB), (16, 300 * MiB, 1200 * MiB), (96, 480 * MiB, 1920 * MiB)],
)
def test_arrays_hold_four_times_the_cache_up_to_a_bound_for_each_processor(processors, cache, array):
    assert memory_bytes(host(processors, cache)) == array


def test_the_largest_buffer_of_a_quick_latency_run_has_the_same_bound():
    sizes = {f.name: f.values for f in Latency().factors(host(2, 480 * MiB), "quick")}["size"]
    assert max(sizes) == 256 * MiB
    sizes = {f.name: f.values for f in Latency().factors(host(16, 480 * MiB), "quick")}["size"]
    assert max(sizes) == GiB


def test_a_memory_side_cache_counts_as_the_last():
    apu = host(24, 32 * MiB)
    apu.facts["infinity_cache_bytes"] = 256 * MiB
    assert (last_level_bytes(apu), memory_bytes(apu)) == (256 * MiB, GiB)
    assert max({f.name: f.values for f in Latency().factors(apu, "quick")}["size"]) == 512 * MiB


def test_the_stated_cache_of_a_gpu_has_no_bound():
    gpu = DeviceInfo(name="cuda:0", kind="cuda", title="a GPU", facts={"l2_bytes": 512 * MiB, "multiprocessors": 4})
    assert last_level_bytes(gpu) == 512 * MiB


def test_octaves_are_ascending_multiples_of_256_bytes() -> None:
    sizes = octaves(1024, 4 * 1024**3, 4)
    assert sizes == sorted(set(sizes))
    assert all(size % 256 == 0 for size in sizes)
    assert [size for size in sizes if whole_octave(size)] == [1024 << k for k in range(23)]
