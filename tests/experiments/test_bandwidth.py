"""bandwidth on this machine, and its plan on machines that are not here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import preset_helpers
import pytest
from fake_devices import BOTH, DISCRETE, amd
from fake_records import a_record, findings_of
from msgspec.structs import replace
from tests.findings import assert_finding

from firsttouch import _core
from firsttouch.engine.planned import Planned
from firsttouch.experiments import bandwidth
from firsttouch.experiments.bandwidth import ACTIVITY, ARRAYS, Bandwidth, search_threads, thread_counts
from firsttouch.experiments.contract.common import MiB, last_level_bytes
from firsttouch.experiments.contract.rules import Preset
from firsttouch.records.findings import Quantity
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo, Factors, Scalar


@pytest.mark.parametrize(
    ("cores", "processors", "counts"),
    [(1, 1, [1]), (1, 2, [1, 2]), (12, 24, [1, 2, 4, 8, 12, 16, 24]), (72, 72, [1, 2, 4, 8, 16, 32, 64, 72])],
)
def test_the_numbers_of_threads_that_are_tried(cores: int, processors: int, counts: list[int]) -> None:
    assert thread_counts(cores, processors) == counts


@pytest.mark.parametrize(
    ("processors", "fastest"),
    [(24, 9), (24, 24), (24, 1), (96, 17), (2, 2), (1, 1), (192, 101)],  # 9 of 24: an MI300A's memory of malloc
)
def test_the_search_ends_between_neighbours_wherever_the_fastest_is(processors: int, fastest: int) -> None:
    asked: list[int] = []

    def rates_of(counts: Sequence[int]) -> dict[int, float]:
        asked.extend(counts)
        return {n: n / fastest if n <= fastest else 1 - 0.1 * (n - fastest) / processors for n in counts}

    rates = search_threads(rates_of, thread_counts(processors, processors))
    assert max(rates, key=lambda n: rates[n]) == fastest
    assert {fastest - 1, fastest + 1} - {0, processors + 1} <= set(rates)
    assert len(asked) == len(set(asked)) <= 24


HOST = DeviceInfo(
    name="cpu",
    kind="cpu",
    title="a processor",
    facts={"processors": 16, "l3_bytes": 32 * MiB, "line_bytes": 64},
    capabilities=DeviceCapabilities(on_host_processor=True, shares_host_memory=True, time_class="host"),
    allocators=[
        AllocatorInfo(name=name, available=True, cpu="direct", host_memory=True) for name in ("malloc", "mmap")
    ],
)


def reaching(device: DeviceInfo, **capabilities: Any) -> DeviceInfo:
    """The device with a GPU that reaches plain host memory."""
    plain = [AllocatorInfo(name=name, host_memory=True, concurrent=True, **BOTH) for name in ("malloc", "mmap")]
    return replace(
        device,
        allocators=[*plain, *(a for a in device.allocators if a.name != "malloc")],
        capabilities=replace(device.capabilities, **capabilities),
    )


APU = reaching(amd(), shares_host_memory=True, page_migration=False)
SUPERCHIP = reaching(DISCRETE)


plan = partial(preset_helpers.plan, "bandwidth")


def having(points: list[Planned], **factors: Scalar) -> list[Planned]:
    return [p for p in points if p.point.factors.items() >= factors.items()]


TOUCHED_BY_GPU: dict[str, Scalar] = {"agent": "cpu", "allocator": "malloc", "first_touch": "other"}


@pytest.mark.parametrize("device", [APU, SUPERCHIP], ids=["apu", "superchip"])
def test_the_cpu_streams_malloc_that_the_gpu_touched_first(device: DeviceInfo) -> None:
    quick, standard, full = (plan(device, preset) for preset in ("quick", "standard", "full"))
    (point,) = having(standard, **TOUCHED_BY_GPU)
    assert (point.reason, point.point["kernel"], point.point["arrays"]) == ("", "triad", "memory")
    assert len(having(full, **TOUCHED_BY_GPU)) > 1
    assert not having(quick, first_touch="other")
    for points in (quick, standard, full):
        by_itself = {**TOUCHED_BY_GPU, "first_touch": "self"}
        assert not having(points, **by_itself), "this is measured on the device cpu"


def test_the_cpu_streams_malloc_that_the_gpu_touched_first_with_xnack() -> None:
    assert not having(plan(amd(), "standard"), **TOUCHED_BY_GPU)
    assert having(plan(amd(), "standard", xnack=["1"]), **TOUCHED_BY_GPU)


def test_a_gpu_that_reaches_no_malloc_memory_adds_no_points() -> None:
    for preset in ("standard", "full"):
        assert not having(plan(DISCRETE, preset), **TOUCHED_BY_GPU)


def kernels_of_the_sweep(preset: Preset, **sets: list[Scalar]) -> set[Scalar]:
    return {p.point["kernel"] for p in having(plan(HOST, preset, **sets), arrays="sweep")}


def test_caches_are_swept_with_four_kernels_beyond_the_quick_preset() -> None:
    assert kernels_of_the_sweep("quick") == {"triad"}
    for preset in ("standard", "full"):
        assert kernels_of_the_sweep(preset) == {"triad", "copy", "read", "write"}
    assert kernels_of_the_sweep("quick", arrays=["sweep"], kernel=["read"]) == {"read"}
    assert kernels_of_the_sweep("standard", arrays=["sweep"], kernel=["add"]) == {"add"}


def test_set_size_overrides_the_rule_about_caches() -> None:
    """With arrays=memory the size is measured. The preset still decides about the other factors."""
    own = plan(HOST, "quick", arrays=["memory"])
    assert {p.point["size"] for p in own} == {128 * MiB}
    chosen = plan(HOST, "quick", arrays=["memory"], size=["1MiB"])
    assert [p.point.factors | {"size": 128 * MiB} for p in chosen] == [p.point.factors for p in own]
    assert {(p.point["size"], p.reason) for p in chosen} == {(MiB, "")}
    assert {p.point["arrays"] for p in plan(HOST, "quick", size=["1MiB"])} == {"sweep"}
    assert {p.point["arrays"] for p in plan(HOST, "quick", size=["1MiB"], kernel=["read"])} == {"sweep"}


def test_a_combination_that_set_names_keeps_the_rules_about_sizes_and_kernels() -> None:
    """The preset leaves out these combinations, so that all of their points are measured but those of strict rules."""
    sets: dict[str, list[Scalar]] = {"agent": ["gpu"], "allocator": ["pinned"], "kernel": ["copy"]}
    points = plan(DISCRETE, "standard", arrays=["memory"], **sets)
    assert points
    assert all(p.point.size("size") >= 4 * last_level_bytes(DISCRETE) for p in points)
    assert {p.point["kernel"] for p in plan(HOST, "quick", arrays=["sweep"], allocator=["mmap"])} == {"triad"}


def test_the_loops_move_as_many_arrays_as_the_experiment_counts() -> None:
    assert {kernel: _core.stream_bytes(kernel) for kernel in ARRAYS} == {k: 8 * sum(n) for k, n in ARRAYS.items()}


def test_a_thread_for_each_element_is_a_choice_of_the_gpu():
    experiment = Bandwidth()
    gpu = preset_helpers.factors_of(experiment, agent="gpu", threads=0, allocator="pinned") | {
        "launch": "thread-per-element"
    }
    assert experiment.skip(Factors(gpu), DISCRETE) is None
    assert "launch=searched" in str(experiment.skip(Factors(gpu | {"agent": "cpu"}), DISCRETE))


@pytest.mark.parametrize(
    ("in_kernel", "words"),
    [
        (None, "none: "),
        (1.0, "of the program and "),
        (0.0, "of the program; "),
    ],
)
def test_a_record_says_which_tlb_loads_were_counted_or_why_none_were(in_kernel: float | None, words: str):
    assert bandwidth._describe_tlb_loads(in_kernel).startswith(words)


@pytest.mark.parametrize(("counted", "loads"), [({}, ""), ({"tlb_loads_per_mib": 1770.0}, "1,770 TLB loads")])
def test_what_the_processors_did_is_told_by_memory(counted: dict[str, Scalar], loads: str):
    factors: dict[str, Scalar] = {"arrays": "memory", "agent": "gpu", "kernel": "write", "size": MiB, "threads": 0}
    rows = [
        a_record("bandwidth", 5.0, factors | {"allocator": name, "stores": "normal"}, interrupts_per_s=n, **counted)
        for name, n in (("device", 21100.0), ("svm-fine", 14700.0))
    ]
    found = [f for f in findings_of("bandwidth", rows) if f.claim == ACTIVITY]
    where = {"agent": "gpu", "kernel": "write", "size": MiB}
    for name, n in (("device", 21100.0), ("svm-fine", 14700.0)):
        assert_finding(found, ACTIVITY, **where, allocator=name, value=Quantity(n, "interrupts/s"))
    for told in (str(f.conditions["loads"]) for f in found):
        assert loads in told if loads else not told
