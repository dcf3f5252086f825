"""caching: the points, when memory counts as cached, and the report of a wrong word."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import fake_devices
import preset_helpers
import pytest
from fake_devices import opencl
from fake_records import a_record
from tests.findings import assert_finding

from firsttouch import _core
from firsttouch.base.errors import UsageError
from firsttouch.experiments.caching import (
    CACHED,
    NOT_CACHED,
    ONE_ENTRY,
    PASSES,
    SHARING,
    SINGLE_PASSES,
    Caching,
    thread_counts,
)
from firsttouch.experiments.contract.base import Point
from firsttouch.records.findings import Quantity
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Factors, Record
from firsttouch.workers.session import Session

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
        "size": "auto",
    }
)
SLOWER, FASTER, ALIKE, UNTOLD = range(4)
"""Places in SHARING and SINGLE_PASSES."""


plan = partial(preset_helpers.plan, "caching")


def record(median: float, counters: dict[str, Any] | None = None, **changed: Any) -> Record:
    return a_record("caching", median, {**MAIN, **changed}, spread=0, **(counters or {}))


@pytest.mark.parametrize("preset", ["quick", "standard", "full"])
def test_every_accessible_allocator_is_reread_by_every_agent(preset: str) -> None:
    points = plan(GPU, preset)
    assert len(points) < {"quick": 32, "standard": 120, "full": 900}[preset]
    verdicts = [p for p in points if p.point["pattern"] == "reread"]
    assert {(p.point["agent"], p.point["allocator"]) for p in verdicts if not p.reason} == {
        ("gpu", "device"),
        ("gpu", "pinned"),
        ("cpu", "pinned"),
    }
    no_hmm, unreached = sorted({p.reason for p in verdicts if p.reason})
    assert no_hmm == "no HMM"
    assert "reach device memory" in unreached
    assert len({p.key for p in points}) == len(points)
    for point in (p.point for p in points):
        assert point["pattern"] != "one" or point["padding"] == 0
        assert str(point["pattern"]).startswith("single-pass") == (point["threads"] == 0) == (point["size"] != "auto")
        assert point["agent"] == "gpu" or (
            point["loads"] == "cached" and int(str(point["threads"])) <= _core.usable_processors()
        )
    longer = preset != "quick"
    assert {p.point["loads"] for p in points} == {"cached", "uncached", *(("bypass-l1", "staged") if longer else ())}
    passes = {"single-pass", *(("single-pass-even",) if longer else ())}
    assert {p.point["pattern"] for p in points} == {"reread", "own", "even", "one", *passes}


@pytest.mark.parametrize("preset", ["quick", "standard", "full"])
def test_threads_go_from_one_to_all(preset: Any) -> None:
    assert thread_counts(GPU, "gpu", preset)[0] == 1
    assert thread_counts(GPU, "gpu", preset)[-1] == {"full": 2**23}.get(preset, 2**20)
    assert thread_counts(CPU, "cpu", preset)[-1] == _core.usable_processors()


def test_reasons_for_skipped_points() -> None:
    def why(device: DeviceInfo, **changed: Any) -> str:
        return str(Caching().skip(MAIN | {**changed}, device))

    assert "threads" in why(CPU, threads=10**6)
    assert "threads" in why(GPU, agent="gpu", allocator="device", threads=2**30 + 1)
    assert why(GPU, agent="gpu", allocator="device", threads=2**22) == "None"
    assert "one kind of load" in why(
        opencl(fake_devices.OPENCL_GPU), agent="gpu", allocator="device", loads="bypass-l1"
    )
    assert why(opencl(fake_devices.OPENCL_GPU), agent="gpu", allocator="device", loads="staged") == "None"
    assert why(GPU, agent="gpu") == "no HMM"
    assert why(GPU, allocator="pinned") == "None"
    with pytest.raises(UsageError, match="threads: '1000000' is more than"):
        plan(CPU, "quick", threads=["1", "1000000"])


def test_standard_measures_page_locked_memory_over_threads() -> None:
    points = [p.point for p in plan(GPU, "standard") if p.point["allocator"] == "pinned" and p.point["agent"] == "gpu"]
    counts = set(thread_counts(GPU, "gpu", "standard"))
    for pattern, padding in (("own", 0), ("own", 128), ("one", 0)):
        assert {p["threads"] for p in points if (p["pattern"], p["padding"]) == (pattern, padding)} == counts


def test_conditions_that_a_preset_leaves_out_can_be_requested() -> None:
    def factors(**sets: list[Any]) -> list[Factors]:
        return [p.point.factors for p in plan(GPU, "quick", agent=["gpu"], allocator=["device"], **sets)]

    assert {f["threads"] for f in factors(pattern=["own"], padding=["0"], threads=["4194304"])} == {2**22}
    assert {f["pattern"] for f in factors(size=["1GiB"])} == {"single-pass"}
    assert {f["padding"] for f in factors(pattern=["own"], padding=["0"])} == {0}
    assert {f["loads"] for f in factors(loads=["staged"])} == {"staged"}


def test_full_measures_the_conditions_of_the_studies() -> None:
    """Paddings of 0, 32 and 64 bytes, entries each or even ones alone; and 0 or 32 bytes over threads."""
    passes = {
        (p.point["allocator"], p.point["pattern"], p.point["padding"])
        for p in plan(
            GPU, "full", agent=["gpu"], pattern=["single-pass", "single-pass-even"], padding=["0", "32", "64"]
        )
        if p.point["loads"] == "cached" and not p.reason
    }
    assert len(passes) == 2 * 2 * 3
    curves = [p.point for p in plan(GPU, "full", agent=["gpu"], pattern=["own", "one"], padding=["0", "32"])]
    for allocator in ("device", "pinned"):
        own = {
            p["threads"] for p in curves if p["allocator"] == allocator and (p["pattern"], p["padding"]) == ("own", 32)
        }
        assert own == set(thread_counts(GPU, "gpu", "full"))


@pytest.mark.parametrize(("pattern", "entries"), [("single-pass", 1024), ("single-pass-even", 512)])
def test_a_single_pass_updates_an_array_of_the_given_size(pattern: str, entries: int) -> None:
    session = Session(CPU, 1, 0.01, 0.5, "quick")
    factors = MAIN | {"pattern": pattern, "size": 64 * 1024, "padding": 64, "threads": 0}
    found = Caching().measure(Point("caching", "cpu", factors), session)
    assert found.verified is True
    assert found.counters["updates"] == len(found.samples) + 1, "one warm-up, and once in each sample"
    assert 0 < float(str(found.counters["entry_ns"])) < 1e9
    assert found.buffers[0].bytes == 64 * 1024


def test_slowdown_is_relative_to_no_padding() -> None:
    seen = [
        record(10, threads=8),
        record(40, threads=8, padding=64),
        record(1, threads=1),
        record(3, threads=1, padding=64),
        record(5, threads=8, pattern="one"),
        record(2, pattern="single-pass", size=2**26, threads=0),
        record(3, pattern="single-pass", size=2**26, threads=0, padding=128),
    ]
    derived = [(r.counters.get("slowdown"), r.counters.get("most_threads")) for r in Caching().derive(seen)]
    assert derived == [(1, True), (4, True), (1, False), (3, False), (None, None), (1, True), (1.5, True)]
    assert not any("slowdown" in r.counters for r in seen), "measured records are unchanged"


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
    found = Caching().findings(seen, GPU)
    assert_finding(found, CACHED, agent="gpu", allocator=("device",), value="cached")
    assert_finding(found, NOT_CACHED, agent="gpu", allocator=("pinned",), value="not cached")
    assert_finding(found, CACHED, agent="cpu", allocator=("pinned",), value="cached")
    apart = {"other_padding": 64, "other_value": Quantity(2, "ns")}
    assert_finding(found, SHARING[SLOWER], agent="cpu", threads=8, value=Quantity(40, "ns"), ratio=20, **apart)
    assert len(found) == 4
    assert Caching().findings([], GPU) == []


@pytest.mark.parametrize(
    ("near", "apart", "claim"),
    [
        ((1.7, 1.6, 1.8), (1.75, 1.7, 1.9), ALIKE),
        ((1.7, 0.2, 11.0), (0.23, 0.22, 0.24), UNTOLD),
        ((1.7, 1.0, 11.0), (1.7, 1.0, 11.0), UNTOLD),
        ((1.7, 1.7, 1.7), (1.7, 0.9, 1.8), UNTOLD),
    ],
)
def test_that_paddings_make_no_difference_is_shown_by_intervals(
    near: tuple[float, float, float], apart: tuple[float, float, float], claim: int
) -> None:
    usual = ((SHARING, {"threads": 8}), (SINGLE_PASSES, {"pattern": "single-pass", "size": 2**26, "threads": 0}))
    for known, factors in usual:
        pair = [record(near[0], **factors), record(apart[0], **factors, padding=64)]
        for made, (_, low, high) in zip(pair, (near, apart), strict=True):
            assert made.summary is not None
            made.summary.ci_low, made.summary.ci_high = low, high
        found = Caching().findings(pair, None)
        assert_finding(
            found, known[claim], value=Quantity(near[0], "ns"), other_value=Quantity(apart[0], "ns"), other_padding=64
        )


def test_findings_compare_paddings_in_a_single_pass() -> None:
    usual = {"agent": "gpu", "allocator": "device", "pattern": "single-pass", "size": 2**26, "threads": 0}
    seen = [record(1, **usual), record(4, **usual, padding=128)]
    (found,) = Caching().findings(seen, GPU)
    where = {"agent": "gpu", "allocator": "device", "size": 2**26, "other_padding": 128}
    times = {"value": Quantity(1, "ns"), "other_value": Quantity(4, "ns")}
    assert_finding([found], SINGLE_PASSES[FASTER], **where, **times)


def test_updates_in_other_memory_are_told_over_those_in_device_memory():
    def on(allocator: str, median: float, **changed: Any) -> Record:
        return record(median, {}, agent="gpu", allocator=allocator, **changed)

    one = {"pattern": "one", "threads": 64}
    even = {"pattern": "single-pass-even", "threads": 0, "size": 2**20}
    rows = [
        on("device", 10.0, **one),
        on("svm-fine", 12.0, **one),
        on("svm-fine", 3.0, pattern="one", threads=1),
        *(on("device", 2.0, padding=padding, **even) for padding in (0, 32)),
        *(on("svm-fine", 2.0 * slow, padding=padding, **even) for padding, slow in ((0, 3.0), (32, 1.5))),
    ]
    derived = Caching().derive(rows)
    ratios = {
        (r.factors["pattern"], r.factors["padding"], r.factors["threads"]): r.counters["over_device"]
        for r in derived
        if "over_device" in r.counters
    }
    assert ratios == {("one", 0, 64): 1.2, ("single-pass-even", 0, 0): 3.0, ("single-pass-even", 32, 0): 1.5}
    found, memories = Caching().findings(derived, GPU), {"allocator": "svm-fine", "other_allocator": "device"}
    assert_finding(found, ONE_ENTRY, **memories, threads=64, ratio=1.2)
    assert_finding(found, PASSES, **memories, entries="every second entry", ratio=3)
