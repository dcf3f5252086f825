"""Peak memory of an application: which counters are read, and when a sum is given."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from firsttouch.harness import memory_use
from firsttouch.harness.memory_use import MemoryCounters, Meter, memory_counters, over_runs
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo

MIB = 1 << 20
NODE = "sys/devices/system/node/node"
TWO_NODES = {
    "proc/meminfo": "MemTotal: 2000 kB\nMemFree: 1000 kB\n",
    f"{NODE}0/meminfo": "Node 0 MemTotal: 1000 kB\nNode 0 MemFree: 400 kB\n",
    f"{NODE}0/cpulist": "0-3",
    f"{NODE}1/meminfo": "Node 1 MemTotal: 1000 kB\nNode 1 MemFree: 600 kB\n",
    f"{NODE}1/cpulist": "",
}
ONE_NODE = {name: text for name, text in TWO_NODES.items() if "node1" not in name}


@pytest.fixture
def plain(tmp_path: Path) -> Tree:
    return a_tree(tmp_path / "plain", ONE_NODE)


@pytest.fixture
def with_node(tmp_path: Path) -> Tree:
    """A machine with a NUMA node without processors."""
    return a_tree(tmp_path / "node", TWO_NODES)


def a_tree(root: Path, files: dict[str, str]) -> Tree:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Tree(root)


class FakeDevice:
    def usage(self) -> dict[str, int]:
        return {}

    def memory(self) -> tuple[int, int]:
        return 100, 70


def a_gpu(*, shares: bool = False, reaches_malloc: bool = False) -> DeviceInfo:
    direct = {"available": True, "cpu": "direct", "gpu": "direct"}
    return DeviceInfo(
        name="x:0",
        kind="x",
        title="a GPU",
        capabilities=DeviceCapabilities(runs_kernels=True, shares_host_memory=shares, reports_free_memory=True),
        allocators=[
            AllocatorInfo(name="malloc", available=True, cpu="direct", gpu="direct" if reaches_malloc else "none"),
            AllocatorInfo(name="device", available=True, gpu="direct", device_memory=True),
            AllocatorInfo(name="pinned", host_memory=True, **direct),
            AllocatorInfo(name="managed", managed=True, **direct),
        ],
    )


def without_sum(device: DeviceInfo, tree: Tree) -> set[str]:
    """The allocators for which no sum of the counters is given."""
    return {e.name for e in device.allocators if memory_counters(device, FakeDevice(), e.name, tree).overlap}


def test_no_sum_is_given_where_a_page_may_be_in_two_counters(plain: Tree, with_node: Tree) -> None:
    assert without_sum(a_gpu(), plain) == set()
    assert without_sum(a_gpu(reaches_malloc=True), plain) == {"malloc"}
    assert without_sum(a_gpu(), with_node) == {"managed"}
    assert without_sum(a_gpu(reaches_malloc=True), with_node) == {"malloc", "managed"}
    assert without_sum(a_gpu(shares=True), plain) == {"malloc", "device", "pinned", "managed"}


def test_the_counter_of_the_machine_has_each_page_once(plain: Tree, with_node: Tree) -> None:
    apu = memory_counters(a_gpu(shares=True), FakeDevice(), "device", with_node)
    assert (apu.device(), apu.machine(), apu.sampled) == (30, 1000 * 1024, True)
    separate = memory_counters(a_gpu(), FakeDevice(), "device", with_node)
    assert not separate.sampled, "a driver would be asked while the application runs"
    assert separate.machine() == 600 * 1024 + 30, "the node without processors may be the device's memory"
    discrete = memory_counters(a_gpu(), FakeDevice(), "device", plain)
    assert (discrete.device(), discrete.machine()) == (30, None)


@pytest.fixture
def resident(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: Iterator[int] = iter([10, 25, 25, 20, 20])
    monkeypatch.setattr(memory_use, "_APART", 0)
    monkeypatch.setattr(memory_use, "_SETTLING", 0)
    monkeypatch.setattr(memory_use, "_resident_bytes", lambda: (next(sizes), 40))


def counted(overlap: bool, *machine: int | None) -> dict[str, int]:
    """The counters after two phases, in which the device's count rises from 5 by 7."""
    device, everything = iter([5, 12, 12]), iter(machine)
    meter = Meter(MemoryCounters(lambda: next(device), lambda: next(everything), overlap))
    meter.read("allocate")
    meter.read("compute")
    return meter.after_free()


@pytest.mark.usefixtures("resident")
def test_separate_counters_are_added() -> None:
    assert counted(False, *[None] * 5) == {
        "memory_allocate_bytes": 15 + 7, "memory_compute_bytes": 10 + 7,
        "peak_host_bytes": 30, "peak_device_bytes": 7, "peak_bytes": 30,
    }  # fmt: skip


@pytest.mark.usefixtures("resident")
def test_overlapping_counters_are_both_shown_and_not_added() -> None:
    assert counted(True, *[100] * 6, 135, 133, 102) == {
        "memory_allocate_host_bytes": 15, "memory_allocate_device_bytes": 7,
        "memory_compute_host_bytes": 10, "memory_compute_device_bytes": 7,
        "peak_host_bytes": 30, "peak_device_bytes": 7, "peak_machine_bytes": 35, "peak_machine_noise_bytes": 2,
    }  # fmt: skip


@pytest.mark.usefixtures("resident")
@pytest.mark.parametrize(
    ("readings", "noise"),
    [
        ([90, 97, 100, 100, 100, 100, 135, 133, 100], 10),  # it changed while nothing ran
        ([*[100] * 6, 135, 133, 60], 40),  # another program ended meanwhile
        ([*[100] * 6, 115, 113, 100], 15),  # it rose by 15 less than the process's own memory, which is a part of it
    ],
)
def test_the_noise_of_the_machine_is_what_others_changed(readings: list[int], noise: int) -> None:
    assert counted(True, *readings)["peak_machine_noise_bytes"] == noise


def test_memory_that_a_driver_returns_late_is_no_noise() -> None:
    readings = iter(MIB * n for n in [*[100] * 6, 900, 700, 400, 101, 500])
    meter = Meter(MemoryCounters(machine=lambda: next(readings), overlap=True))
    meter.read("compute")
    assert meter.after_free()["peak_machine_noise_bytes"] == MIB


def test_the_machine_is_read_while_the_application_runs_and_the_middle_of_the_runs_counts() -> None:
    rises, seen = iter([*[0] * 6, 500, *[8] * 10_000]), threading.Event()

    def machine() -> int:
        now = next(rises)
        if now == 8:  # after the reading of the rise, which no phase ends with
            seen.set()
        return now

    meter = Meter(MemoryCounters(machine=machine, overlap=True, sampled=True))
    with meter:
        assert seen.wait(10)
        meter.read("compute")
    assert meter.after_free()["peak_machine_bytes"] == 500
    counters = [{"peak_machine_bytes": peak, "peak_machine_noise_bytes": 1, "x": peak} for peak in (900, 500, 510)]
    assert over_runs(counters) == {"peak_machine_bytes": 510, "peak_machine_noise_bytes": 390, "x": 900}
