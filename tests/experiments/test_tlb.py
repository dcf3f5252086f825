"""tlb: the visited lines, the points, and the findings for curves with known TLBs."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from fake_records import a_record
from preset_helpers import plan
from tests.findings import assert_finding, claims

from firsttouch.experiments.contract.common import KiB, MiB
from firsttouch.experiments.tlb import ENTRY, MISSES, NO_KNEE, PAGES, REACH, Tlb, node_stride
from firsttouch.records.findings import Quantity
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Record, Scalar

CPU = DeviceInfo(
    name="cpu",
    kind="cpu",
    title="a processor",
    facts={"line_bytes": 64, "l3_bytes": 32 * MiB},
    allocators=[AllocatorInfo(name=name, available=True, cpu="direct") for name in ("malloc", "mmap", "malloc-thp")],
)


@pytest.mark.parametrize("line", [64, 128])
@pytest.mark.parametrize("stride", PAGES)
def test_every_line_is_on_a_separate_page(stride: int, line: int) -> None:
    apart = node_stride(stride, line)
    places = [i * apart for i in range(4096)]
    for page in [page for page in PAGES if page <= stride]:
        assert len({place // page for place in places}) == len(places), "a page of any size up to the stride"


@pytest.mark.parametrize("stride", PAGES)
def test_lines_and_pages_spread_over_the_sets_of_caches_and_tlbs(stride: int) -> None:
    places = [i * node_stride(stride, 64) for i in range(4096)]
    for unit in (64, *(page for page in PAGES if page <= stride)):
        for sets in (16, 64, 256):
            most = max(Counter(place // unit % sets for place in places).values())
            assert most <= 2 * len(places) / sets, f"units of {unit} bytes in {sets} sets"


def test_the_dense_cycle_has_adjacent_lines() -> None:
    assert node_stride(64, 64) == 64


@pytest.mark.parametrize(("preset", "most"), [("quick", 45), ("standard", 260)])
def test_a_preset_is_small_and_has_the_curves_that_show_the_page_size(preset: str, most: int) -> None:
    points = [one.point.factors for one in plan("tlb", CPU, preset)]
    assert len(points) <= most
    chases = [p for p in points if p["method"] == "chase"]
    for allocator in ("malloc", "malloc-thp"):
        strides = Counter(p["stride"] for p in chases if p["allocator"] == allocator)
        assert len([stride for stride, count in strides.items() if count >= 4]) >= 2
    assert all(p["stride"] is not None and p["pages"] is not None for p in chases)
    counted = [p for p in points if p["method"] == "counter"]
    assert [p["allocator"] for p in counted] == ["malloc", "mmap", "malloc-thp"]
    assert all(p["stride"] is None and p["pages"] is None for p in counted)


def _record(allocator: str, stride: int | None, pages: int | None, **counters: float) -> Record:
    factors: dict[str, Scalar] = {"method": "chase", "agent": "cpu", "allocator": allocator}
    return a_record("tlb", 1, {**factors, "stride": stride, "pages": pages}, spread=0, **counters)


def _curve(allocator: str, stride: int, page: int) -> list[Record]:
    """The curve of a TLB with 64 entries of `page` bytes: a load takes 1 ns within its reach and 3 ns beyond it."""
    pages = [1 << k for k in range(3, 17)]
    return [
        _record(allocator, stride, n, translated_ns=1.0 if n * min(stride, page) <= 64 * page else 3.0) for n in pages
    ]


def test_findings_have_reach_cost_and_page() -> None:
    records = [
        *_curve("malloc", 4 * KiB, 4 * KiB),
        *_curve("malloc", 2 * MiB, 4 * KiB),
        *_curve("malloc-thp", 4 * KiB, 2 * MiB),
        *_curve("malloc-thp", 2 * MiB, 2 * MiB),
        _record("malloc", 64, 8, translated_ns=1.0),
        _record("mmap", None, None, misses_per_mib=250.0),
    ]
    found = Tlb().findings(records, CPU)
    assert claims(found) == [REACH, ENTRY, ENTRY, MISSES]
    reach = {
        "agent": "cpu",
        "allocator": "malloc",
        "stride": 4 * KiB,
        "level": "L1 TLB",
        "value": Quantity(64, "pages"),
    }
    assert_finding(found, REACH, **reach, bytes=Quantity(256 * KiB, "B"), extra=Quantity(2, "ns"))
    for name, bound, size in (("malloc", "at most", 4 * KiB), ("malloc-thp", "at least", 2 * MiB)):
        assert_finding(found, ENTRY, agent="cpu", allocator=(name,), bound=bound, value=Quantity(size, "B"))
    assert_finding(found, MISSES, allocator="mmap", value=Quantity(250, "per MiB"))


def test_an_agent_without_a_knee_has_a_finding_too() -> None:
    """The finding names the largest buffer, which is not the one with the most pages."""
    flat = {4 * KiB: 256, 2 * MiB: 128}
    gpu = [
        msgspec.structs.replace(r, factors={**r.factors, "agent": "gpu"})
        for stride, most in flat.items()
        for r in (_record("device", stride, n, translated_ns=1.0) for n in (8, 16, 32, 64, most))
    ]
    first, second, *_ = Tlb().findings([*gpu, *_curve("malloc", 4 * KiB, 4 * KiB)], CPU)
    none = {"agent": "gpu", "allocator": "device", "stride": 2 * MiB, "bytes": Quantity(256 * MiB, "B")}
    assert_finding([first], NO_KNEE, **none, value=Quantity(128, "pages"))
    assert_finding([second], REACH, agent="cpu", allocator="malloc")


def test_no_knee_is_a_finding() -> None:
    flat = [_record("malloc", 4 * KiB, 1 << k, translated_ns=1.0) for k in range(3, 9)]
    (none,) = Tlb().findings(flat, CPU)
    chase = {"agent": "cpu", "allocator": "malloc", "stride": 4 * KiB, "bytes": Quantity(MiB, "B")}
    assert_finding([none], NO_KNEE, **chase, value=Quantity(256, "pages"))
