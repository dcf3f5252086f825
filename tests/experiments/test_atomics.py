"""atomics: the points, the reasons for skipped ones, and the report of a lost update."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import preset_helpers
import pytest
from fake_devices import GPU, OPENCL_GPU, opencl

from firsttouch import _core
from firsttouch.experiments.atomics import Atomics, most_gpu_threads, powers
from firsttouch.experiments.contract.base import Point
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Factors
from firsttouch.workers.session import Session

MAIN = Factors(
    {
        "allocator": "malloc",
        "type": "u64",
        "elements": 1024,
        "cpu_threads": 1,
        "gpu_threads": 0,
        "scope": "system",
        "reading": "progress",
    }
)


def a_gpu(**of_managed: bool) -> DeviceInfo:
    """A GPU behind a link. of_managed: what its driver states about managed memory."""
    direct: Any = {"cpu": "direct", "gpu": "direct"}
    return DeviceInfo(
        name="cuda:0",
        kind="cuda",
        title="a GPU",
        facts={"multiprocessors": 132, "threads_per_multiprocessor": 2048},
        capabilities=GPU,
        allocators=[
            AllocatorInfo(name="malloc", available=True, cpu="direct", gpu="none", gpu_reason="no HMM"),
            AllocatorInfo(name="device", available=True, cpu="none", gpu="direct"),
            AllocatorInfo(name="pinned", available=True, concurrent=True, shared_atomics=False, **direct),
            AllocatorInfo(name="pinned-wc", available=True, concurrent=True, shared_atomics=True, **direct),
            AllocatorInfo(name="managed", available=True, managed=True, **direct, **of_managed),
        ],
    )


plan = partial(preset_helpers.plan, "atomics")


def why(device: DeviceInfo, **changed: Any) -> str | None:
    return Atomics().skip(MAIN | {"gpu_threads": 64, **changed}, device)


def test_powers_end_with_the_last_value() -> None:
    assert powers(2, 1, 6) == [1, 2, 4, 6]
    assert powers(2, 1, 1) == [1]
    assert powers(8, 64, 0) == []


def test_most_gpu_threads_is_a_multiple_of_a_group() -> None:
    assert most_gpu_threads(a_gpu()) == 132 * 2048
    assert most_gpu_threads(opencl(OPENCL_GPU)) == 64 * 64
    assert most_gpu_threads(DeviceInfo(name="cpu", kind="cpu", title="")) == 0


@pytest.mark.parametrize("preset", ["quick", "standard", "full"])
def test_every_point_has_threads_and_a_scope_that_includes_its_agents(preset: str) -> None:
    points = plan(a_gpu(concurrent=True, shared_atomics=True), preset)
    assert len(points) < {"quick": 40, "standard": 120, "full": 1000}[preset]
    assert len({p.key for p in points}) == len(points)
    measured = [p.point.factors for p in points if not p.reason]
    for factors in measured:
        assert factors["cpu_threads"] or factors["gpu_threads"]
        assert not (factors["cpu_threads"] and factors["scope"] == "device")
    both = [f for f in measured if f["cpu_threads"] and f["gpu_threads"]]
    assert {f["allocator"] for f in both} == {"managed"}
    assert {f["reading"] for f in both} == {"progress"}
    alone = [f for f in measured if not f["cpu_threads"]]
    assert {"device", "pinned", "managed"} <= {f["allocator"] for f in alone}
    assert {f["scope"] for f in alone} == {"system", "device"}
    assert {f["reading"] for f in alone} == {"progress", "end"}


def test_reasons_why_both_agents_are_not_measured() -> None:
    whole, silent = a_gpu(concurrent=True, shared_atomics=True), a_gpu()
    assert why(whole, allocator="managed") is None
    assert "updates would be lost" in str(why(whole, allocator="pinned"))
    assert "write-combined" in str(why(whole, allocator="pinned-wc"))
    assert "not for both" in str(why(a_gpu(concurrent=False), allocator="managed"))
    assert "does not state" in str(why(silent, allocator="managed"))
    assert why(silent, allocator="managed", cpu_threads=0) is None
    assert why(whole, allocator="malloc") == "no HMM"
    assert "cannot reach" in str(why(whole, allocator="device"))
    reasons = [p.reason for p in plan(silent) if p.reason]
    assert len(reasons) == len(set(map(str, reasons))) + 1, (
        "each reason once, except that of malloc: for the GPU alone and for both agents"
    )


def test_values_given_with_set_are_measured() -> None:
    device = a_gpu(concurrent=True, shared_atomics=True)
    points = plan(device, reading=["progress", "end"], elements=["2^20"], allocator=["managed"])
    assert {p.point["elements"] for p in points} == {2**20}
    assert {p.point["reading"] for p in points} == {"progress", "end"}


def test_a_lost_update_is_reported_with_both_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(DeviceInfo(name="cpu", kind="cpu", title=""), 1, 0.01, 0.5, "quick")
    point = Point("atomics", "cpu", MAIN)
    right = Atomics().measure(point, session)
    assert right.verified is True
    assert right.verified_why == ""
    assert right.counters["found"] == right.counters["increments"]

    real = _core.atomics

    def one_lost(*given: Any, **named: Any) -> Any:
        outcome = real(*given, **named)
        counters = {**outcome.counters, "found": outcome.counters["increments"] - 1}
        return SimpleNamespace(samples=outcome.samples, errors=1, counters=counters, stopped_by=outcome.stopped_by)

    monkeypatch.setattr(_core, "atomics", one_lost)
    wrong = Atomics().measure(replace(point), session)
    assert wrong.verified is False
    assert f"{wrong.counters['found']:.0f}" in wrong.verified_why
    assert f"{wrong.counters['increments']:.0f}" in wrong.verified_why
