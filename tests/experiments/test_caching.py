"""caching: the points, when memory counts as cached, and the report of a wrong word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import fake_devices
import pytest
from small import SmallRun

from firsttouch import _core
from firsttouch.engine.plan import make_plan
from firsttouch.errors import UsageError
from firsttouch.experiments.base import Point
from firsttouch.experiments.caching import Caching, thread_counts
from firsttouch.records.schema import SCHEMA, AllocatorInfo, DeviceInfo, Factors, Record, Request, Summary
from firsttouch.report.sentences import sentences
from firsttouch.session import Session

CPU = DeviceInfo(
    name="cpu", kind="cpu", title="", allocators=[AllocatorInfo(name="malloc", available=True, cpu="direct")]
)
GPU = DeviceInfo(
    name="cuda:0",
    kind="cuda",
    title="",
    capabilities=fake_devices.GPU,
    allocators=[
        AllocatorInfo(name="malloc", available=True, cpu="direct", gpu="none", gpu_reason="no HMM"),
        AllocatorInfo(name="device", available=True, cpu="none", gpu="direct"),
        AllocatorInfo(name="pinned", available=True, cpu="direct", gpu="direct"),
    ],
)
MAIN = Factors(
    {
        "agent": "cpu",
        "allocator": "malloc",
        "pattern": "own",
        "padding": 0,
        "threads": 1,
        "loads": "cached",
    }
)


def plan(device: DeviceInfo, preset: str, **sets: list[Any]) -> list[Any]:
    request = Request(
        schema=SCHEMA, experiments=["caching"], devices=[device.name], preset=preset, seed=1, set=dict(sets)
    )
    return make_plan(request, [device], {"caching": Caching()}, {})


def record(median: float, counters: dict[str, Any] | None = None, **changed: Any) -> Record:
    summary = Summary(n=3, median=median, p5=median, p95=median, min=median, max=median, ci_low=median, ci_high=median)
    return Record(
        schema=SCHEMA,
        experiment="caching",
        device="cuda:0",
        factors={**MAIN, **changed},
        unit="ns",
        status="ok",
        samples=[median] * 3,
        summary=summary,
        verified=True,
        counters=counters or {},
    )


@pytest.mark.parametrize("preset", ["quick", "standard", "full"])
def test_every_accessible_allocator_is_reread_by_every_agent(preset: str) -> None:
    points = plan(GPU, preset)
    assert len(points) < {"quick": 30, "standard": 100, "full": 700}[preset]
    verdicts = [p for p in points if p.point["pattern"] == "reread"]
    assert {(p.point["agent"], p.point["allocator"]) for p in verdicts if not p.reason} == {
        ("gpu", "device"),
        ("gpu", "pinned"),
        ("cpu", "pinned"),
    }
    assert {p.reason for p in verdicts if p.reason} == {"no HMM", "the CPU cannot reach device memory"}
    assert len({p.key for p in points}) == len(points)
    for point in (p.point for p in points):
        assert point["pattern"] != "one" or point["padding"] == 0
        assert point["agent"] == "gpu" or (
            point["loads"] == "cached" and int(str(point["threads"])) <= _core.usable_processors()
        )
    assert {p.point["loads"] for p in points} == {"cached", "uncached"}
    assert {p.point["pattern"] for p in points} == {"reread", "own", "even", "one"}


@pytest.mark.parametrize("preset", ["quick", "standard", "full"])
def test_threads_go_from_one_to_all(preset: Any) -> None:
    assert thread_counts(GPU, "gpu", preset)[0] == 1
    assert thread_counts(GPU, "gpu", preset)[-1] == 2**20
    assert thread_counts(CPU, "cpu", preset)[-1] == _core.usable_processors()


def test_reasons_for_skipped_points() -> None:
    def why(device: DeviceInfo, **changed: Any) -> str:
        return str(Caching().skip(MAIN | {**changed}, device))

    assert "threads" in why(CPU, threads=10**6)
    assert "threads" in why(GPU, agent="gpu", allocator="device", threads=2**20 + 1)
    assert why(GPU, agent="gpu") == "no HMM"
    assert why(GPU, allocator="pinned") == "None"
    with pytest.raises(UsageError, match="threads: '1000000' is more than can be measured"):
        plan(CPU, "quick", threads=["1", "1000000"])


def test_memory_is_cached_if_rereading_takes_less_than_half(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(CPU, 1, 0.01, 0.5, "quick")
    point = Point("caching", "cpu", MAIN | {"pattern": "reread"})
    real = Caching().measure(point, session)
    assert real.verified is True
    assert real.counters["cached"] is True, "plain memory is cached by any processor that runs this"
    for again, cached in ((10.0, True), (60.0, False)):
        counters = {"reread_ns": again, "cold_ns": 100.0}
        outcome = SimpleNamespace(samples=[again] * 3, errors=0, stopped_by="count", counters=counters)
        monkeypatch.setattr(_core, "reread", lambda *_, outcome=outcome, **__: outcome)
        assert Caching().measure(point, session).counters["cached"] is cached


def test_a_wrong_word_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(CPU, 1, 0.01, 0.5, "quick")
    for pattern in ("own", "even", "one"):
        right = Caching().measure(Point("caching", "cpu", MAIN | {"pattern": pattern}), session)
        assert right.verified is True
        assert ("one and all" in right.verified_why) == (pattern == "one")
    wrong = SimpleNamespace(samples=[1.0] * 3, errors=1, stopped_by="count", counters={})
    monkeypatch.setattr(_core, "caching", lambda *_, **__: wrong)
    assert Caching().measure(Point("caching", "cpu", MAIN), session).verified is False


def test_findings_name_what_each_agent_caches_and_the_cost_of_sharing() -> None:
    seen = [
        record(1, {"cached": True}, agent="gpu", allocator="device", pattern="reread"),
        record(1, {"cached": False}, agent="gpu", allocator="pinned", pattern="reread"),
        record(1, {"cached": True}, allocator="pinned", pattern="reread"),
        record(40, threads=8),
        record(9, threads=8, padding=32),
        record(2, threads=8, padding=64),
        record(1, threads=1),
        record(1, threads=1, padding=64),
    ]
    answer = " ".join(sentences(Caching().findings(seen, GPU)))
    assert "The GPU caches device memory." in answer
    assert "The GPU does not cache pinned memory." in answer
    assert "The CPU caches pinned memory." in answer
    assert "8 threads of the CPU" in answer
    assert "an update takes 40 ns where entries share lines, 20 times as long as where they are 64 B apart" in answer
    assert "20 times" in answer
    assert Caching().findings([], GPU) == []


class TestSmallRun(SmallRun):
    name = "caching"
    states_buffers = True
