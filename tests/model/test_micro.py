"""Experiments on a machine of a file: what follows from its values, and that a value that is missing is named."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from firsttouch.base.errors import NotModelled, Unsupported
from firsttouch.engine.on_device import on_device
from firsttouch.experiments import find_experiment
from firsttouch.experiments.contract.base import Experiment, Measurement
from firsttouch.model.measured import MeasuredPrices
from firsttouch.model.micro.passes import MigrationPasses, passes
from firsttouch.model.page_steps import CountingSettings
from firsttouch.model.pages import Kind
from firsttouch.model.platform import MissingValue, load_platform
from firsttouch.records.reading import load_results
from firsttouch.records.schema import DeviceInfo, Factors, Point

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
RESULTS = Path(__file__).parents[2] / "results"
Values = dict[str, dict[str, Any]]


def predicted(
    file: Path, values: Values, experiment: str, *, extends: str = "gh200", on: str = "", **factors: Any
) -> Measurement:
    """A point on a platform with further values. on: the part of its device's name after that of the platform."""
    entries = {}
    for name, value in values.items():
        bounds = {"low": value["value"], "high": value["value"]} if type(value.get("value")) in (int, float) else {}
        entries[name] = {**value, **bounds, "how": "assumed", "source": "a test"}
    file.write_text(json.dumps({"title": "a test", "extends": extends, "parameters": entries}))
    platform = load_platform(str(file))
    found = find_experiment(experiment)
    assert found is not None
    point = Point(experiment, platform.device.name + on, Factors(factors))
    return found.predict(point, platform.under(point.factors))


STREAM = {"arrays": "memory", "kernel": "triad", "first_touch": "self", "stores": "normal", "threads": 0, "size": GIB}
CHASE = {"agent": "gpu", "allocator": "device", "first_touch": "self", "order": "random"}
LEVELS: Values = {
    "load.gpu.device": {"points": [[KIB, 50, 50, 50], [MIB, 200, 200, 200], [GIB, 600, 600, 600]], "unit": "ns"}
}
ACROSS = {"agent": "gpu", "allocator": "pinned", **STREAM}
COPY = {"direction": "h2d", "engine": "copy-engine", "allocator": "pinned", "other": "device", "streams": 1, "chunk": 0,
        "size": GIB}  # fmt: skip
WITHIN: Values = {"copy_within.device": {"value": 1500, "unit": "GB/s"}}
CALL: Values = {"allocation.allocate.device": {"value": 2, "unit": "us"}}
TOUCH: Values = {
    "driver.ats": {"value": False},
    "host.page": {"value": 4, "unit": "KiB"},
    "host_touch.base.one": {"value": 1000 / 4096, "unit": "ns/B"},
    "host_touch.base.all": {"value": 100 / 4096, "unit": "ns/B"},
    "gpu_fault.update.dense.none.mmap": {"value": 500 / 4096, "unit": "ns/B"},
    "lone_fault.cpu": {"value": 3, "unit": "us"},
}
FAULT = {"scenario": "cpu", "access": "store", "allocator": "mmap", "page_size": "base", "threads": 1}
FAULTS = {"first_touch": "cpu", "streamed_by": "cpu", "size": 64 * MIB}


@pytest.mark.parametrize(
    ("experiment", "values", "factors", "expected"),
    [
        ("bandwidth", {}, {"agent": "gpu", "allocator": "device", **STREAM}, 3400),
        ("bandwidth", {}, {"agent": "gpu", "allocator": "managed", **STREAM}, 3400),
        ("bandwidth", {}, ACROSS, 3 / (2 / 375)),
        ("bandwidth", {}, ACROSS | {"kernel": "write"}, 297),
        ("bandwidth", {}, {"agent": "cpu", "allocator": "malloc", **STREAM}, 486),
        (
            "bandwidth",
            {"host.thread_bandwidth": {"value": 10, "unit": "GB/s"}},
            {"agent": "cpu", "allocator": "malloc", **STREAM, "threads": 4},
            40,
        ),
        ("latency", LEVELS, CHASE | {"size": MIB}, 200),
        ("latency", LEVELS, CHASE | {"size": 32 * MIB}, 400),
        ("latency", LEVELS, CHASE | {"size": 4 * GIB}, 600),
        ("transfer", {}, COPY, 375),
        ("transfer", {}, COPY | {"direction": "d2h", "engine": "kernel"}, 297),
        ("transfer", WITHIN, COPY | {"direction": "d2d", "allocator": "device"}, 1500),
        ("allocation", CALL, {"allocator": "device", "size": MIB, "call": "allocate", "chunks": 100}, 2000),
        ("pagefault", TOUCH, FAULT | {"pages": 1000}, 1000),
        ("pagefault", TOUCH, FAULT | {"pages": 1000, "threads": 4}, 250),
        ("pagefault", TOUCH, FAULT | {"pages": 1000, "threads": 0}, 100),
        ("pagefault", TOUCH, FAULT | {"pages": 2, "threads": 0}, 1500),  # no less than one alone
        ("pagefault", TOUCH, FAULT | {"pages": 1}, 3000),
        ("pagefault", TOUCH, FAULT | {"scenario": "prefault+minor", "pages": 1000, "threads": 0}, 600),
        ("faultcount", {}, FAULTS | {"allocator": "malloc"}, 16),
        ("faultcount", {"host.page": {"value": 4, "unit": "KiB"}}, FAULTS | {"allocator": "malloc"}, 256),
        ("faultcount", {}, FAULTS | {"allocator": "device", "first_touch": "gpu", "streamed_by": "gpu"}, 0),
        ("faultcount", {"faults.pinned": {"value": 2}}, FAULTS | {"allocator": "pinned"}, 2),
    ],
)
def test_a_value_follows_from_those_of_the_file(
    experiment: str, values: Values, factors: dict[str, Any], expected: float, tmp_path: Path
) -> None:
    answer = predicted(tmp_path / "machine.json", values, experiment, **factors)
    assert answer.samples == [pytest.approx(expected)]
    assert answer.low is not None
    assert answer.high is not None
    assert answer.low <= answer.samples[0] <= answer.high


@pytest.mark.parametrize(
    ("experiment", "factors"),
    [
        ("bandwidth", {"agent": "gpu", "allocator": "device", **STREAM, "arrays": "sweep", "size": MIB}),
        ("pagefault", FAULT | {"allocator": "managed", "threads": 0, "pages": 64}),
        ("latency", CHASE | {"order": "by-page", "size": MIB}),
        ("transfer", COPY | {"streams": 2}),
    ],
)
def test_what_no_price_says_anything_of_is_not_modelled(
    experiment: str, factors: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(NotModelled):
        predicted(tmp_path / "machine.json", {}, experiment, extends="h200-pcie", **factors)


def test_nothing_is_said_between_sizes_whose_times_are_far_apart(tmp_path: Path) -> None:
    far: Values = {"load.gpu.device": {"points": [[KIB, 1, 1, 1], [GIB, 240, 240, 240]], "unit": "ns"}}
    assert predicted(tmp_path / "machine.json", far, "latency", **CHASE, size=GIB).samples == [240]
    with pytest.raises(NotModelled, match="between 1 KiB and 1 GiB"):
        predicted(tmp_path / "machine.json", far, "latency", **CHASE, size=MIB)


@pytest.mark.parametrize(
    ("allocator", "first_touch", "xnack", "value"),
    [
        ("malloc", "self", "1", 181),
        ("malloc", "other", "1", 208),
        ("managed", "self", "1", 181),
        ("managed", "self", "0", 208),
        ("device", "self", "0", 208),
    ],
)
def test_the_cpu_streams_faster_through_pages_that_the_gpus_driver_made(
    allocator: str, first_touch: str, xnack: str, value: float, tmp_path: Path
) -> None:
    # Wahlgren et al., IISWC 2025, Sec. IV-B: 181, 208, 179, 208 and 208 GB/s.
    factors = {**STREAM, "agent": "cpu", "allocator": allocator, "first_touch": first_touch, "xnack": xnack}
    assert predicted(tmp_path / "m.json", {}, "bandwidth", extends="mi300a", **factors).samples == [value]


def test_a_size_between_known_ones_has_the_range_of_both(tmp_path: Path) -> None:
    answer = predicted(tmp_path / "machine.json", LEVELS, "latency", **CHASE, size=32 * MIB)
    assert (answer.low, answer.high) == (200, 600)


@pytest.mark.parametrize(
    ("experiment", "factors", "name"),
    [
        ("latency", CHASE | {"agent": "cpu", "size": MIB}, "cache.cpu.l2.load"),
        ("faultcount", FAULTS | {"allocator": "pinned"}, "faults.pinned"),
    ],
)
def test_a_value_that_is_missing_is_named(experiment: str, factors: dict[str, Any], name: str, tmp_path: Path) -> None:
    with pytest.raises(MissingValue, match=name):
        predicted(tmp_path / "machine.json", {}, experiment, **factors)


@pytest.mark.parametrize(
    ("allocator", "toucher", "grows"),
    [
        ("malloc", "cpu", {"touch_rss", "touch_mem_free", "touch_headline"}),
        ("malloc", "gpu", {"touch_device_free", "touch_headline"}),
        ("device", "gpu", {"call_device_free", "call_headline"}),
        ("pinned", "gpu", {"call_rss", "call_mem_free", "call_headline"}),
        ("managed", "gpu", {"touch_device_free", "touch_headline"}),
    ],
)
def test_memory_is_counted_when_it_is_populated_and_where(
    allocator: str, toucher: str, grows: set[str], tmp_path: Path
) -> None:
    answer = predicted(tmp_path / "m.json", {}, "accounting", allocator=allocator, toucher=toucher, size=MIB)
    grown = {name for name, value in answer.counters.items() if value == MIB}
    assert grown >= grows
    assert not any(name.startswith("call" if "touch_headline" in grows else "touch") for name in grown)


@pytest.mark.parametrize("platform", ["mi300a", "h200-pcie", "gh200", "p9-volta"])
@pytest.mark.parametrize("scenario", ["cpu", "gpu-major", "gpu-minor", "prefault+minor"])
def test_more_pages_never_take_less_time_in_all(platform: str, scenario: str, tmp_path: Path) -> None:
    allocator = "mmap" if platform in ("mi300a", "gh200") or scenario == "cpu" else "managed"
    if platform == "gh200" and scenario not in ("cpu", "gpu-major"):
        pytest.skip("a page that the CPU touched causes no fault")
    factors = FAULT | {"scenario": scenario, "allocator": allocator, "threads": 0, "xnack": "1"}
    file, counts = tmp_path / "m.json", [1, 2, 10, 100, 10**4, 10**5]
    if scenario == "prefault+minor" and allocator == "managed":
        counts = [10**5, 2 * 10**5]  # fewer blocks than threads are not modelled
    in_all = [
        predicted(file, {}, "pagefault", extends=platform, pages=pages, **factors).samples[0] * pages
        for pages in counts
    ]
    assert all(more >= less * (1 - 1e-9) for less, more in pairwise(in_all))


@pytest.mark.parametrize(("scenario", "pages"), [("gpu-major", 2 * 10**6), ("cpu", 10**8)])
def test_pages_that_no_memory_holds_are_refused(scenario: str, pages: int, tmp_path: Path) -> None:
    factors = FAULT | {"scenario": scenario, "pages": pages, "threads": 0}
    with pytest.raises(Unsupported, match="which has"):
        predicted(tmp_path / "m.json", {}, "pagefault", extends="gh200", **factors)


@cache
def h200() -> MeasuredPrices:
    results = load_results(RESULTS / "h200-standard-2")
    return MeasuredPrices(results.machine, results.records, results.machine.devices[-1])


def asked(**changes: Any) -> MigrationPasses:
    usual: dict[str, Any] = {"allocator": "managed", "nbytes": 256 * MIB, "touch": "dense", "in_order": False}
    usual |= {"advice": (), "prefetch": "none", "starts_on": "cpu", "updates": True, "iterations": 12}
    return MigrationPasses(**{**usual, **changes})


@pytest.mark.parametrize(
    ("changes", "measured_ms"),
    [
        ({}, 35.6),
        ({"nbytes": GIB}, 153.0),
        ({"updates": False}, 42.2),
        ({"starts_on": "gpu"}, 1.72),
        ({"prefetch": "whole"}, 7.41),
        ({"advice": ("read-mostly",), "updates": False}, 43.5),
        ({"advice": ("accessed-by-gpu",), "updates": False}, 72.7),
        ({"touch": "per-2MiB"}, 2.22),
        ({"touch": "per-2MiB", "in_order": True}, 4.41),
        ({"touch": "per-64KiB", "in_order": True}, 33.7),
        ({"allocator": "device"}, 6.96),
    ],
)
def test_passes_take_as_long_as_the_run_that_the_prices_are_from_measured(
    changes: dict[str, Any], measured_ms: float
) -> None:
    answer = passes(h200(), asked(**changes), CountingSettings(16, Kind(4096, (580, 159))))
    assert answer.value == pytest.approx(measured_ms, rel=0.13)
    assert sum(term.ms for term in answer.terms) == pytest.approx(answer.value)


MIGRATION = {
    "allocator": "malloc", "touch": "dense", "order": "parallel", "advice": "none", "prefetch": "none",
    "starts_on": "cpu", "operation": "read", "events": "off", "size": 256 * MIB, "iterations": 12,
}  # fmt: skip


def pass_times(file: Path, platform: str, **changes: Any) -> list[float]:
    counters = predicted(file, {}, "migration", extends=platform, **MIGRATION | changes).counters
    return [counters[f"iteration_{number}_ms"] for number in (0, 1, 11)]


@pytest.mark.parametrize("platform", ["gh200", "p9-volta"])
@pytest.mark.parametrize("operation", ["read", "update"])
def test_plain_memory_that_the_gpu_touched_first_is_in_its_own(platform: str, operation: str, tmp_path: Path) -> None:
    by_gpu, by_cpu = (
        pass_times(tmp_path / "m.json", platform, starts_on=agent, operation=operation) for agent in ("gpu", "cpu")
    )
    assert by_gpu[0] == by_gpu[-1] < by_cpu[0] / 3


def test_counted_accesses_move_plain_memory_to_the_gpu(tmp_path: Path) -> None:
    file, size = tmp_path / "m.json", 4 * GIB
    first, _, last = pass_times(file, "gh200", size=size)
    assert last < 0.8 * first
    assert len(set(pass_times(file, "gh200", size=size, touch="per-64KiB"))) == 1  # too few accesses to be counted


def test_plain_memory_whose_pages_move_takes_faults_once(tmp_path: Path) -> None:
    first, second, last = pass_times(tmp_path / "m.json", "mi250x", xnack="1")
    assert first > 10 * second
    assert second == last


@pytest.mark.parametrize("changes", [{"advice": "preferred-gpu"}, {"prefetch": "whole"}, {"order": "sequential"}])
def test_what_passes_over_the_hosts_pages_do_not_follow_is_refused(changes: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(NotModelled):
        pass_times(tmp_path / "m.json", "gh200", touch="per-64KiB", **changes)


def test_stores_to_duplicated_pages_are_not_modelled() -> None:
    with pytest.raises(NotModelled):
        passes(h200(), asked(advice=("read-mostly",)))


@pytest.mark.parametrize(
    ("first_touch", "streamed_by", "faults"), [("cpu", "cpu", 576), ("gpu", "cpu", 576), ("gpu", "gpu", 0)]
)
def test_the_cpu_faults_six_times_on_a_block_of_managed_memory(
    first_touch: str, streamed_by: str, faults: int, tmp_path: Path
) -> None:
    # results/h200-standard has 642, 598 and 18, of which 66 + 88, 22 and 18 are those of its threads.
    answer = predicted(
        tmp_path / "m.json", {}, "faultcount", extends="h200-pcie", allocator="managed", size=64 * MIB,
        first_touch=first_touch, streamed_by=streamed_by,
    )  # fmt: skip
    assert answer.samples == [faults * MIB / (3 * 64 * MIB)]


def test_events_of_migration_are_counted(tmp_path: Path) -> None:
    factors = {"allocator": "managed", "touch": "dense", "order": "parallel", "advice": "none", "prefetch": "whole",
               "starts_on": "cpu", "operation": "update", "size": 64 * MIB, "iterations": 2}  # fmt: skip
    counters = {
        events: predicted(tmp_path / "m.json", {}, "migration", extends="h200-pcie", events=events, **factors).counters
        for events in ("on", "off")
    }
    assert counters["on"]["prefetch_h2d_bytes"] == 64 * MIB
    assert counters["on"]["cpu_read_cpu_faults"] == 32 * 6
    assert "prefetch_h2d_bytes" not in counters["off"]


def one_varied(experiment: Experiment, device: DeviceInfo) -> Iterator[Factors]:
    """The first combination of the preset quick, and those that differ from it in one factor."""
    factors = on_device(experiment.name, experiment, device, "quick", {}).factors
    first = {factor.name: factor.values[0] for factor in factors}
    for factor in factors:
        for value in factor.values:
            chosen = Factors({**first, factor.name: value})
            if not experiment.skip(chosen, device):
                yield chosen


@pytest.mark.parametrize("name", ["gh200", "mi300a", "tk1", "kaveri"])
def test_every_point_has_a_time_or_a_reason(name: str) -> None:
    platform, predictions = load_platform(name), 0
    for experiment in ("pagefault", "migration", "transfer", "allocation", "bandwidth", "faultcount", "accounting"):
        known = find_experiment(experiment)
        assert known is not None
        for device in platform.devices[:2]:
            for chosen in one_varied(known, device):
                try:
                    measurement = known.predict(Point(experiment, device.name, chosen), platform.under(chosen))
                except Unsupported:
                    continue
                predictions += 1
                assert 0 <= (measurement.low or 0) <= measurement.samples[0] <= (measurement.high or math.inf)
    assert predictions > 20


TURNS = {"method": "shared", "allocator": "managed", "kernel": "store", "advice": "none", "operation": "read",
         "size": 8}  # fmt: skip


def turn_us(platform: str = "h200-x2", **factors: Any) -> float:
    found, machine = find_experiment("exchange"), load_platform(platform)
    assert found is not None
    point = Point("exchange", machine.device.name, Factors({"turns": 100, "gap_us": 0, **TURNS, **factors}))
    return float(found.predict(point, machine).samples[0])


@pytest.mark.parametrize(("turns", "gap_us"), [(10, 0), (30, 0), (100, 0), (100, 100), (100, 1000)])
def test_turns_over_managed_memory_follow_from_the_rules_with_the_time_at_which_each_happens(
    turns: int, gap_us: int
) -> None:
    """Naps of thrashing pages, then pages pinned to the CPU; if turns are rare, a fault of each agent in each."""
    asked = {**TURNS, "turns": turns, "gap_us": gap_us}
    records = load_results(RESULTS / "h200-x2-quick").records
    measured = next(r for r in records if r.experiment == "exchange" and r.factors == asked and r.summary)
    assert measured.summary is not None
    assert turn_us(turns=turns, gap_us=gap_us) == pytest.approx(measured.summary.median, rel=0.4)


def test_turns_by_copies_take_a_launch_and_each_copy() -> None:
    read, update = (turn_us(method="copied", allocator="pinned", operation=word) for word in ("read", "update"))
    assert turn_us(method="launched", allocator="device") < read < update


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        ({"size": 65536}, "turns over several pages"),
        ({"advice": "preferred"}, "advice=preferred"),
        ({"method": "prefetched"}, "method=prefetched"),
        ({"kernel": "atomic"}, "exchange.atomic.managed"),
        ({"platform": "h200-pcie"}, "launched"),
    ],
)
def test_turns_that_no_rule_covers_name_what_is_missing(factors: dict[str, Any], says: str) -> None:
    with pytest.raises(Unsupported, match=says):
        turn_us(**factors)
