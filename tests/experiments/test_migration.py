"""migration: the points of each preset, the assignment of events to steps, and the findings."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial

import msgspec
import preset_helpers
import pytest
from fake_devices import GPU
from fake_records import a_record
from tests.event_sources import Untotalled
from tests.findings import assert_finding, claims
from tests.matrix import matrix

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.experiments.contract.base import Point
from firsttouch.experiments.migration import ADVICE_PAIRS, BASE, SINGLE_ADVICE, Migration, case_of
from firsttouch.experiments.views.migration import (
    BACK,
    EVENTS,
    FAULTS,
    MOVED,
    NO_FAULTS,
    PASSES,
    RATIO_ALIKE,
    RATIO_COMPARED,
    RATIO_TIME,
    SHARED,
    SPEEDUP,
)
from firsttouch.machine.devices import describe_devices
from firsttouch.profile.events.log import EventLog, MemoryEvent, Window
from firsttouch.profile.events.steps import by_step, event_counters
from firsttouch.records.findings import Quantity
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Factors, Record, Scalar
from firsttouch.workers.session import OpenDevices, Session

MIB = 2**20


def gpu(concurrent: bool = True) -> DeviceInfo:
    """A device with separate memory whose driver moves managed pages."""
    rows = [
        AllocatorInfo(name="malloc", available=True, cpu="direct", gpu="none", gpu_reason="no way there"),
        AllocatorInfo(name="device", available=True, cpu="none", gpu="direct"),
        AllocatorInfo(name="pinned", available=True, cpu="direct", gpu="direct"),
        AllocatorInfo(name="registered", available=True, cpu="direct", gpu="direct"),
        *(
            AllocatorInfo(name=name, available=True, cpu="direct", gpu="direct", managed=True, concurrent=concurrent)
            for name in ("managed", "managed-static")
        ),
    ]
    return DeviceInfo(name="cuda:0", kind="cuda", title="a GPU", capabilities=GPU, allocators=rows)


plan = partial(preset_helpers.plan, "migration")


def point(**changed: Scalar) -> Factors:
    return Factors({"allocator": "managed", **BASE, "events": "off", "size": 64 * MIB, "iterations": 12, **changed})


@pytest.mark.parametrize("preset", matrix(["quick", "standard", "full"], 1))
def test_every_condition_appears_by_itself(preset: str) -> None:
    planned = plan(gpu(), preset)
    cases = Counter(case_of(p.point.factors, gpu()) for p in planned if p.point.factors["events"] == "off")
    of_one_size = [p for p in planned if p.point.factors["size"] == planned[0].point.factors["size"]]
    once = Counter(case_of(p.point.factors, gpu()) for p in of_one_size if p.point.factors["events"] == "off")
    alone = (*SINGLE_ADVICE, *(ADVICE_PAIRS if preset != "quick" else ()))
    if preset != "full":  # a pass with updates would take half a second, so only reads are measured
        assert not once["read-mostly"]
        alone = ("read-mostly, read only", *(advice for advice in alone if "read-mostly" not in advice))
    for case in (*alone, "managed", "device", "pinned", "prefetch whole", "starts on gpu", "eighth", "random"):
        assert once[case] == 1, case
    for touch in ("per-4KiB", "per-64KiB", "per-2MiB"):
        assert once[f"{touch}, sequential"] == 1
    assert "dense, sequential" not in cases


@pytest.mark.slow
def test_quick_is_small_and_full_is_not_the_cross_product() -> None:
    assert len(plan(gpu(), "quick")) <= 26
    assert len(plan(gpu(), "full")) < 500


@pytest.mark.exhaustive
def test_points_with_events_have_equal_points_without_and_separate_workers() -> None:
    for preset in ("quick", "standard", "full"):
        planned = plan(gpu(), preset)
        on = [p for p in planned if p.point.factors["events"] == "on"]
        off = {repr(p.point.factors) for p in planned if p.point.factors["events"] == "off"}
        assert {case_of(p.point.factors, gpu()) for p in on} >= {
            "managed", "prefetch whole", "per-4KiB, sequential", "per-64KiB, sequential", "per-2MiB, sequential",
        }  # fmt: skip
        for one in on:
            assert one.environment == {"FIRSTTOUCH_EVENTS": "1"}
            assert repr({**one.point.factors, "events": "off"}) in off
        assert all(p.environment["FIRSTTOUCH_EVENTS"] == "0" for p in planned if p not in on)


def test_each_reason_is_recorded_once() -> None:
    reasons = Counter(p.reason for p in plan(gpu(), "standard") if p.reason)
    assert reasons == {"no way there": 1}
    apart = plan(gpu(concurrent=False), "quick")
    advised = {p.reason for p in apart if p.point.factors["advice"] != "none"}
    assert all("no advice or prefetch" in reason for reason in advised)
    assert len(advised) <= 1


def test_set_measures_what_the_preset_leaves_out() -> None:
    planned = plan(gpu(), advice=["preferred-gpu+accessed-by-cpu"], prefetch=["streams-4"])
    assert planned
    assert all(p.point.factors["prefetch"] == "streams-4" for p in planned)


def test_reasons_for_too_small_sizes_and_unsupported_devices() -> None:
    experiment = Migration()
    assert "in every 2 MiB" in str(experiment.skip(point(touch="per-2MiB", size=MIB), gpu()))
    with pytest.raises(Unsupported, match="runs kernels"):
        experiment.factors(DeviceInfo(name="cpu", kind="cpu", title=""), "quick")


# ---------------------------------------------------------------------------------------------- events

STEPS = [
    ("initialise", 1.0, 2.0),
    ("prefetch", 2.1, 3.0),
    ("iteration_0", 3.1, 4.0),
    ("iteration_1", 4.1, 5.0),
    ("cpu_read", 5.1, 6.0),
    ("check", 6.1, 7.0),
]


def moved(start: float, size: int, kind: str = "h2d", cause: str = "fault") -> MemoryEvent:
    return MemoryEvent(kind, start, start + 1e-3, bytes=size, cause=cause)  # type: ignore[arg-type]


def test_events_belong_to_the_step_in_which_they_begin() -> None:
    names = {0.9: None, 1.0: "initialise", 2.05: "initialise", 2.1: "prefetch", 3.1: "iteration_0", 4.05: "iteration_0",
             4.1: "iteration_1", 5.5: "cpu_read", 7.0: "check", 7.1: None}  # fmt: skip
    for start, expected in names.items():
        found = by_step([moved(start, 1)], STEPS)
        assert [name for name, events in found.items() if events] == ([expected] if expected else [])


def test_counters_of_events_are_medians_over_repetitions() -> None:
    def repetition(at: float, first: list[int]) -> list[MemoryEvent]:
        return [
            *(moved(at + 3.2, size) for size in first),
            moved(at + 2.5, 7 * MIB, cause="prefetch"),
            MemoryEvent("gpu_fault", at + 3.3, at + 3.3, count=5, cause="write"),
            MemoryEvent("gpu_fault", at + 3.4, at + 3.4, count=2, cause="write"),
            moved(at + 5.5, MIB, kind="d2h"),
            MemoryEvent("cpu_fault", at + 5.5, at + 5.5),
            moved(at + 6.5, 4096, kind="d2h"),  # of the check: in no counter
        ]

    steps = [[(name, at + start, at + end) for name, start, end in STEPS] for at in (0, 10, 20)]
    events = [
        *repetition(0, [64 * 1024, 128 * 1024]),
        *repetition(10, [64 * 1024]),
        *repetition(20, [2 * MIB, 64 * 1024]),
    ]
    events.sort(key=lambda event: event.start)
    found = event_counters(Window(0, end=99, events=events), steps, touched=4)
    assert found["iteration_0_h2d_bytes"] == 192 * 1024
    assert found["iteration_1_h2d_bytes"] == 0
    assert found["iteration_0_gpu_fault_groups"] == 2
    assert found["compute_gpu_fault_groups"] == found["compute_most_gpu_fault_groups"] == 2
    assert found["same_every_time"] is False
    assert found["compute_gpu_faults"] == 7
    assert found["compute_h2d_fault_bytes"] == 192 * 1024
    assert found["prefetch_h2d_prefetch_bytes"] == 7 * MIB
    assert found["prefetch_gpu_fault_groups"] == 0
    assert found["cpu_read_d2h_bytes"] == MIB
    assert found["cpu_read_cpu_faults"] == 1
    assert "check_d2h_bytes" not in found
    assert (found["smallest_record"], found["largest_record"], found["record_multiple"]) == (64 * 1024, 2 * MIB, 65536)
    assert found["bytes_per_touch"] == pytest.approx((192 + 64 + 2112) * 1024 / 3 / 4)


def test_counters_without_events_are_zero_not_absent() -> None:
    found = event_counters(Window(0), [STEPS], touched=4)
    assert found["compute_gpu_fault_groups"] == found["iteration_1_h2d_bytes"] == found["cpu_read_d2h_bytes"] == 0
    assert "smallest_record" not in found
    assert not [name for name in event_counters(Window(0, kinds=("h2d",)), [STEPS], 4) if "fault_groups" in name]


def test_a_point_with_events_raises_if_none_can_be_recorded() -> None:
    info = DeviceInfo(name="cpu", kind="cpu", title="")
    session = Session(info, seed=1, seconds=0.1, tolerance=0.1, preset="quick")
    with pytest.raises(Unsupported, match="no unified-memory events"):
        Migration().measure(Point("migration", "cpu", point(allocator="malloc", events="on")), session)


class ConstantlyMovingDriver(Untotalled):
    """A driver that moves 4 KiB every 0.1 ms."""

    def __init__(self) -> None:
        super().__init__()
        self.time = time.monotonic()

    def take(self) -> list[MemoryEvent]:
        start, self.time = self.time, time.monotonic()
        return [moved(start + n * 1e-4, 4096) for n in range(int((self.time - start) / 1e-4))]

    def dropped(self) -> int:
        return 3


def test_a_point_with_events_records_what_moved_in_its_steps() -> None:
    try:
        info = describe_devices("opencl")[0]
    except _core.Unavailable as reason:
        pytest.skip(str(reason))
    opened = OpenDevices(info)
    session = Session(info, seed=1, seconds=0.01, tolerance=0.1, preset="quick", opened=opened)
    assert session.device is not None
    opened.events = EventLog(ConstantlyMovingDriver())
    measured = Migration().measure(
        Point("migration", info.name, point(allocator="svm-fine", events="on", size=MIB, iterations=3)), session
    )
    seen = measured.counters
    assert measured.verified
    assert len(measured.samples) <= 5
    assert seen["events_dropped"] == 3
    assert int(str(seen["initialise_h2d_bytes"])) % 4096 == 0
    assert "check_h2d_bytes" not in seen
    assert seen["iteration_2_gpu_fault_groups"] == 0


# ---------------------------------------------------------------------------------------------- words


def record(
    times: list[float], total: float | None = None, counters: dict[str, Scalar] | None = None, **changed: Scalar
) -> Record:
    factors = point(iterations=len(times), **changed)
    value = sum(times) if total is None else total
    names = [name for name, base in BASE.items() if factors[name] != base]
    family = ["allocator"] * (factors["allocator"] != "managed") + names
    passes = {f"iteration_{n}_ms": time for n, time in enumerate(times)}
    words = {"family": ", ".join(family) or "base", "case": case_of(factors, gpu())}
    return a_record("migration", value, factors, spread=0, **{**passes, **words, **(counters or {})})


def raised(groups: int) -> dict[str, Scalar]:
    return {"compute_most_gpu_fault_groups": groups}


@pytest.mark.parametrize(("times", "kind"), [([1, 1.1, 1, 1], "is there"), ([1.7, 1, 1, 1], "settles")])
def test_passes_take_the_same_time_only_within_a_quarter(times: list[float], kind: str) -> None:
    (found,) = Migration().findings([record(times, allocator="device")], gpu())
    value, most = Quantity(1, "ms"), Quantity(max(times), "ms")
    assert_finding([found], PASSES[kind], allocator="device", value=value, most=most)


def test_findings_name_what_moves_what_helps_and_the_cost_of_events() -> None:
    found = Migration().findings(
        [
            record([20, 1, 1, 1]),
            record([1, 1, 1, 1], allocator="device", total=5),
            record([4, 4, 4, 4], allocator="pinned"),
            record([9, 5, 2, 1], allocator="managed-static"),
            record([1, 1, 1, 1], prefetch="whole", total=10),
            record([4, 4, 4, 4], advice="preferred-cpu"),
            record([1, 1, 1, 1], prefetch="back", total=4, counters={"prefetch_back_ms": 5.0}),
            record([22, 1, 1, 1], events="on", total=46),
            record([1, 1, 1, 1], prefetch="whole", events="on", total=10, counters=raised(0)),
            record([1, 1, 1, 1], touch="per-64KiB", order="sequential", events="on", counters={
                "compute_h2d_bytes": 64 * MIB, "touched": 1024, "bytes_per_touch": 65536, "smallest_record": 4096,
                "largest_record": MIB, "record_multiple": 4096, "compute_h2d_fault_bytes": MIB,
                "compute_h2d_speculative_bytes": 63 * MIB, "same_every_time": True}),
        ],
        gpu(),
    )  # fmt: skip
    one = Quantity(1, "ms")
    assert_finding(found, PASSES["moves at once"], allocator="managed", first=Quantity(20, "ms"), value=one)
    assert_finding(found, PASSES["stays"], allocator="pinned", value=Quantity(4, "ms"), ratio=4)
    gradually = {"first": Quantity(9, "ms"), "value": one, "passes": Quantity(2, "passes")}
    assert_finding(found, PASSES["moves gradually"], allocator="managed-static", **gradually)
    assert_finding(found, PASSES["is there"], allocator="device", value=one)
    speedups = [(f.conditions["case"], f.details["speedup"].value) for f in found if f.claim == SPEEDUP]
    assert speedups == [("prefetch whole", 2.3), ("preferred-cpu", pytest.approx(1.44, rel=5e-3))]
    assert NO_FAULTS in claims(found)
    assert_finding(found, BACK, allocator="managed", value=Quantity(5, "ms"), size=64 * MIB)
    touches = {"touched": 1024, "touch": "per-64KiB", "value": Quantity(64 * MIB, "B"), "each": Quantity(65536, "B")}
    records = {"smallest": 4096, "largest": MIB, "multiple": 4096, "same": "the same"}
    assert_finding(found, MOVED, **touches, causes=("1 MiB fault", "63 MiB speculative"), **records)
    assert_finding(found, EVENTS, value=Quantity(1.5, "", 1, 2), over="2 pairs")


def test_a_fault_after_a_prefetch_is_a_finding() -> None:
    rows = [
        record([1, 1]),
        record([1, 1], prefetch="whole", events="on", counters=raised(3)),
    ]
    found = Migration().findings(rows, gpu())
    assert_finding(found, FAULTS, case="prefetch whole", value=Quantity(3, "fault groups"))


@pytest.mark.parametrize(("seen", "is_said"), [(64, True), (32, False)])
def test_no_fault_among_records_is_no_finding_where_some_are_missing(seen: int, is_said: bool) -> None:
    moved = {"um_h2d_bytes": seen, "um_least_h2d_bytes": 64}
    rows = [record([1, 1]), record([1, 1], prefetch="whole", events="on", counters=raised(0) | moved)]
    assert (NO_FAULTS in claims(Migration().findings(rows, gpu()))) == is_said
    notes = {figure.note for section in Migration().sections(rows, gpu()) for figure in section.figures}
    assert any("Not seen: " in note and "50 % (prefetch whole)" in note for note in notes) != is_said


def test_ratios_are_a_section_of_their_own_with_the_highest_against_the_lowest() -> None:
    usual = record([20, 1, 1, 1])
    rows = [record([time] * 4, ratio=ratio) for ratio, time in ((0.5, 1), (1.0, 1.1), (2.0, 9))]
    rows += [record([1] * 4, ratio=ratio, allocator="pinned") for ratio in (0.5, 2.0)]
    rows.append(record([1] * 4, ratio=0.5, allocator="device"))
    first, managed, pinned, device = Migration().findings([usual, *rows], gpu())
    four = Quantity(4, "ms")
    assert_finding([managed], RATIO_COMPARED, case="managed, ratio 2", value=Quantity(36, "ms"), ratio=9, lowest="0.5")
    assert_finding([pinned], RATIO_ALIKE, case="pinned, ratio 2", value=four, other_value=four, lowest="0.5")
    assert_finding([device], RATIO_TIME, case="device, ratio 0.5", value=four)
    assert_finding([first], PASSES["moves at once"], first=Quantity(20, "ms"), value=Quantity(1, "ms"))
    assert [s.records for s in Migration().sections([usual, *rows], gpu())] == [[usual], rows]


@pytest.mark.parametrize(
    ("requested", "free", "named"),
    [(1.5, 64 * MIB / 1.5, "ratio 1.5"), (1.5, 320 * MIB, "ratio 0.2 instead of 1.5"), (2.0, 0, "ratio 2")],
)
def test_a_ratio_is_that_of_the_bytes_that_were_free(requested: float, free: float, named: str) -> None:
    """More is free than a ratio says if other programs end meanwhile; ballast once left the guard's reserve besides."""
    row = record([9] * 4, ratio=requested, counters={"free_beside_ballast_bytes": free})
    (found,) = Migration().findings([row], gpu())
    assert_finding([found], RATIO_TIME, case=f"managed, {named}", value=Quantity(36, "ms"))


def test_nothing_migrates_if_the_device_shares_host_memory() -> None:
    shared = gpu()
    shared.capabilities = msgspec.structs.replace(shared.capabilities, shares_host_memory=True)
    (found,) = Migration().findings([record([20, 1, 1, 1])], shared)
    assert_finding([found], SHARED, allocator="managed", size=64 * MIB, value=Quantity(1, "ms"))


def test_a_ratio_above_one_needs_permission_for_memory_that_moves_on_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", raising=False)
    device, experiment, beyond = gpu(), Migration(), point(ratio=2.0, allocator="malloc")
    device.facts["memory_free_bytes"] = 256 * MIB
    (plain,) = (entry for entry in device.allocators if entry.name == "malloc")
    plain.gpu = "direct"
    assert experiment.skip(beyond, device) is None
    plain.migrates_on_fault = True
    assert "--allow-oversubscription" in str(experiment.skip(beyond, device))
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    assert experiment.skip(beyond, device) is None


def test_a_ratio_above_one_needs_permission_for_managed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", raising=False)
    device = gpu()
    for entry in device.allocators:
        entry.device_memory = entry.managed or entry.name == "device"
    experiment = Migration()
    beyond = point(ratio=2.0)
    assert str(experiment.skip(beyond, device)).startswith("cuda:0 does not state")
    device.facts["memory_free_bytes"] = 256 * MIB
    refusal = str(experiment.skip(beyond, device))
    needs, _, hint = refusal.partition("; ")
    assert "64 MiB of device memory" in needs
    assert "32 MiB left free: 32 MiB" in needs
    assert "--allow-oversubscription" in hint
    assert experiment.skip(point(ratio=0.5), device) is None
    assert experiment.skip(point(ratio=2.0, allocator="pinned"), device) is None
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    assert experiment.skip(beyond, device) is None
    assert experiment.skip(point(ratio=2.0, allocator="device"), device) == needs
    assert case_of(beyond, device) == "managed, ratio 2"
    device.facts["memory_bytes"] = 512 * MIB
    refusal = str(experiment.skip(beyond, device))
    assert refusal.startswith("32 MiB would be left")
    assert "cuda:0, less than the 64 MiB" in refusal
    assert experiment.skip(point(ratio=1.0), device) is None
    device.capabilities = msgspec.structs.replace(device.capabilities, shares_host_memory=True)
    assert "shares the host's memory" in str(experiment.skip(beyond, device))
