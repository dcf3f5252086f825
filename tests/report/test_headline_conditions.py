"""Headlines and the picture of a first screen are of records that differ only in what they name."""

from __future__ import annotations

import msgspec
import pytest
from tests.kept_runs import stored_run

from firsttouch.records.findings import EVERY
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record
from firsttouch.report.conclusions import conclusions
from firsttouch.report.first_screen import FirstScreen

RUNS = ["h200-quick", "h200-standard-2", "xeon-vm-quick"]


def scaled(record: Record, value: str, times: float) -> Record:
    """The record under a value of a factor that no experiment knows, and so many times as high."""
    factors = {**record.factors, "firmware": value}
    if record.summary is None:
        return msgspec.structs.replace(record, factors=factors)
    numbers = {name: v if name == "n" else v * times for name, v in msgspec.structs.asdict(record.summary).items()}
    return msgspec.structs.replace(record, factors=factors, summary=type(record.summary)(**numbers))


def screen_of(run: str, **values: float) -> FirstScreen:
    results = load_results(stored_run(run))
    kinds = ("latency", "bandwidth", "transfer", "pagefault", "migration", "context")
    rows = [r for r in results.records if r.experiment in kinds]
    changed = [scaled(r, value, times) for value, times in values.items() for r in rows] if values else rows
    results.records = changed
    return conclusions(results).screen


@pytest.mark.parametrize("run", RUNS)
def test_records_under_another_unknown_condition_are_in_no_number_and_no_bar(run: str) -> None:
    plain, mixed = screen_of(run), screen_of(run, a=1, b=1000)
    for one, other in zip(plain.numbers, mixed.numbers, strict=True):
        assert (one.value, one.rest) == (other.value, other.rest)
        assert f"{one.head} (firmware a)" == other.head
        assert {msgspec.json.decode(point)[2]["firmware"] for point in other.finding.points} == {"a"}
    assert {r.factors["firmware"] for r in mixed.shown} == {"a"}
    assert len(mixed.shown) == len(plain.shown)


@pytest.mark.parametrize("run", RUNS)
def test_the_picture_and_the_numbers_are_of_the_same_loads(run: str) -> None:
    screen = screen_of(run)
    names = ("device", *[name for name in screen.shown[0].factors if name not in ("agent", "allocator")])
    assert all(r.factors.get(name) == screen.shown[0].factors.get(name) for r in screen.shown for name in names[1:])
    shown = {(r.factors["agent"], r.factors["allocator"]): r.factors["size"] for r in screen.shown}
    of_loads = [msgspec.json.decode(p)[2] for n in screen.numbers for p in n.finding.points if '"latency"' in p]
    assert of_loads
    for factors in of_loads:
        assert shown.get((factors["agent"], factors["allocator"]), factors["size"]) == factors["size"]


def test_a_picture_of_memory_is_of_buffers_beyond_the_caches() -> None:
    """A quick run on an H200 has most memories at 16 MiB, which its caches of 60 MiB hold, and some at 128 MiB."""
    screen = screen_of("h200-quick")
    assert {r.factors["size"] for r in screen.shown} == {128 * 2**20}
    assert screen.message.startswith("A random load from 128 MiB of memory takes the GPU 306 ns (device or managed)")


def test_what_a_cache_may_hold_is_not_called_memory() -> None:
    results = load_results(stored_run("h200-quick"))
    results.records = [
        r for r in results.records if r.experiment == "latency" and int(str(r.factors["size"])) <= 16 * 2**20
    ]
    screen = conclusions(results).screen
    assert screen.message.startswith("A random load from 16 MiB, which a cache may hold, takes")
    assert all("which a cache may hold" in number.text for number in screen.numbers)


def test_a_run_of_one_of_several_sizes_says_which() -> None:
    results = load_results(stored_run("h200-apps-4"))
    (app,) = {r.factors["app"] for r in results.records} - {"producer_consumer", "bfs", "pointer_tree"}
    rows = [r for r in results.records if r.factors["app"] == app]
    small = [msgspec.structs.replace(r, factors={**r.factors, "size": "256 MiB"}) for r in rows]
    heads: list[set[bool]] = []
    for records in (rows, [*rows, *small]):
        results.records = records
        heads.append({"(size " in number.head for number in conclusions(results).screen.numbers})
    assert heads == [{False}, {True}]


@pytest.mark.parametrize("run", ["h200-apps-4", "h200-ranked-apps", "h200-placements", "h200-gpu-share"])
def test_findings_of_applications_mix_no_unknown_condition(run: str) -> None:
    results = load_results(stored_run(run))
    plain = {part.title: part.answer.findings for part in conclusions(results).answers}
    results.records = [scaled(r, value, times) for value, times in (("a", 1), ("b", 1000)) for r in results.records]
    for part in conclusions(results).answers:
        told = {f.claim.id for f in part.answer.findings}
        assert {f.claim.id for f in plain[part.title]} <= told
        for finding in part.answer.findings:
            others = finding.comparison.points if finding.comparison else ()
            values = {msgspec.json.decode(point)[2]["firmware"] for point in (*finding.points, *others)}
            assert len(values) == 1 or EVERY in finding.claim.names


def test_where_host_and_device_have_one_memory_the_allocator_tells_its_kinds_apart() -> None:
    results = load_results(stored_run("h200-quick"))
    for device in results.machine.devices:
        device.capabilities.shares_host_memory = True
    heads = {number.head.partition(" (")[0] for number in conclusions(results).screen.numbers}
    assert {"The GPU, in device memory", "The GPU, in pinned memory", "The CPU, in malloc memory"} <= heads
    assert not any("its own" in head or "host's" in head for head in heads), heads
