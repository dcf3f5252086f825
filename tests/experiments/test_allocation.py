"""allocation on this machine, and the comparison of allocators' costs."""

from __future__ import annotations

from fake_records import MIB, a_record, findings_of, sentences_of
from small import SmallRun

from firsttouch.analysis.findings import Quantity
from firsttouch.records.schema import Record
from firsttouch.report.sentences import sentences


class TestSmallRun(SmallRun):
    name = "allocation"


def allocations(curves: dict[str, dict[int, float]], spread: float = 0.01) -> list[Record]:
    return [
        a_record("allocation", ns, {"allocator": name, "size": size}, spread)
        for name, curve in curves.items()
        for size, ns in curve.items()
    ]


def test_allocators_are_compared_at_one_size() -> None:
    """vmm's least is above pinned's least, but at 64 MiB pinned costs a thousand times as much."""
    curves = {"vmm": {64: 47_700.0, 64 * MIB: 51_000.0}, "pinned": {64: 1_500.0, 64 * MIB: 36.6e6}}
    first, second, *_ = sentences(findings_of("allocation", allocations(curves)))
    assert first == "Allocating 64 MiB costs most with pinned: 36.6 ms a call, 718 times as much as with vmm (51 us)."
    assert second.startswith("Allocating 64 B costs most with vmm: 47.7 us a call")


def test_a_size_measured_for_only_one_allocator_is_not_compared() -> None:
    curves = {"vmm": {64: 47_700.0}, "pinned": {64: 1_500.0, 64 * MIB: 36.6e6}}
    assert sentences_of("allocation", allocations(curves)).startswith("Allocating 64 B costs most with vmm")


def test_costs_with_overlapping_intervals_are_not_ranked() -> None:
    words = sentences_of("allocation", allocations({"malloc": {64: 20.0}, "mmap": {64: 21.0}}, spread=0.1))
    assert "times" not in words
    assert "with any allocator" in words


def test_values_of_findings_are_quantities_or_text() -> None:
    values = {type(f.value) for f in findings_of("allocation", allocations({"mmap": {MIB: 1.0, 4 * MIB: 1.0}}))}
    assert values == {Quantity, str}
