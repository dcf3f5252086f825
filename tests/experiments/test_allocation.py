"""allocation on this machine, and how costs of allocators are compared."""

from __future__ import annotations

from curves import MIB, a_record, found, said
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
    first, second, *_ = sentences(found("allocation", allocations(curves)))
    assert first == "Allocating 64 MiB costs most with pinned: 36.6 ms a call, 718 times as much as with vmm (51 us)."
    assert second.startswith("Allocating 64 B costs most with vmm: 47.7 us a call")


def test_a_size_that_one_allocator_alone_was_measured_at_compares_nothing() -> None:
    curves = {"vmm": {64: 47_700.0}, "pinned": {64: 1_500.0, 64 * MIB: 36.6e6}}
    assert said("allocation", allocations(curves)).startswith("Allocating 64 B costs most with vmm")


def test_costs_whose_intervals_meet_are_not_ranked() -> None:
    words = said("allocation", allocations({"malloc": {64: 20.0}, "mmap": {64: 21.0}}, spread=0.1))
    assert "times" not in words
    assert "with any allocator" in words


def test_what_is_no_finding_of_a_number_is_text() -> None:
    values = {type(f.value) for f in found("allocation", allocations({"mmap": {MIB: 1.0, 4 * MIB: 1.0}}))}
    assert values == {Quantity, str}
