"""transfer: copies on this machine, and the findings for rates at several sizes."""

from __future__ import annotations

from pathlib import Path

from fake_records import MIB, a_record, findings_of
from preset_helpers import plan
from tests.findings import assert_finding, claims

from firsttouch.experiments.transfer import NEW_PAGES, PEAK
from firsttouch.records.findings import Quantity
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record

RESULTS = Path(__file__).parents[2] / "results"


def copy(size: int, rate: float, allocator: str = "pinned") -> Record:
    factors = {"direction": "h2d", "engine": "copy-engine", "allocator": allocator, "size": size}
    return a_record("transfer", rate, factors, latency_us=10.0)


def test_a_faster_copy_of_a_smaller_size_is_named_with_the_largest() -> None:
    found = findings_of("transfer", [copy(4 * MIB, 40.0), copy(64 * MIB, 6.9)])
    largest = {"direction": "h2d", "size": 64 * MIB, "allocator": "pinned", "engine": "copy-engine"}
    faster = {"other_size": 4 * MIB, "other_value": Quantity(40, "GB/s")}
    assert_finding(found, PEAK, **largest, value=Quantity(6.9, "GB/s"), **faster)
    assert PEAK not in claims(findings_of("transfer", [copy(4 * MIB, 40.0), copy(64 * MIB, 39.9)]))


def test_of_plain_host_memory_a_copy_that_no_cache_holds_is_measured() -> None:
    """The copy engine, between 1 GiB of malloc and the device; all else of 1 GiB is page-locked."""
    h200 = next(d for d in load_results(RESULTS / "h200-quick").machine.devices if d.name == "cuda:0")
    large = [p.point for p in plan("transfer", h200, "standard") if p.point["size"] == 1 << 30]
    found = {(p["allocator"], p["direction"], p["engine"]) for p in large}
    engines = [("malloc", "copy-engine"), ("pinned", "copy-engine"), ("pinned", "kernel")]
    assert found == {(name, way, engine) for name, engine in engines for way in ("h2d", "d2h")}


def test_a_copy_into_new_pages_is_compared_with_one_into_pages_that_are_there() -> None:
    factors = {"direction": "d2h", "engine": "copy-engine", "allocator": "malloc", "size": 64 * MIB}
    times = {"latency_us": 10_000.0, "new_pages_us": 35_000.0, "new_pages_low_us": 3e4, "new_pages_high_us": 4e4}
    found = findings_of("transfer", [a_record("transfer", 6.9, factors, **times)])
    new = {"size": 64 * MIB, "allocator": "malloc", "value": Quantity(35_000, "us", 30_000, 40_000)}
    assert_finding(found, NEW_PAGES, **new, ratio=3.5, other_value=Quantity(10_000, "us"))


def test_the_threads_of_the_cpus_copies_can_be_chosen() -> None:
    h200 = next(d for d in load_results(RESULTS / "h200-quick").machine.devices if d.name == "cuda:0")
    cpu = next(d for d in load_results(RESULTS / "h200-quick").machine.devices if d.name == "cpu")
    assert all("threads" not in p.point.factors for p in plan("transfer", cpu, "quick"))
    assert {p.point["threads"] for p in plan("transfer", cpu, "quick", threads=[1, 0])} == {0, 1}
    assert {p.point["engine"] for p in plan("transfer", h200, "standard", threads=[1])} == {"cpu"}
