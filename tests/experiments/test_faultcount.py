"""faultcount on this machine, with one agent and with two."""

from __future__ import annotations

import pytest
from fake_devices import PROCESSOR, amd, opencl
from fake_records import MIB, a_record, findings_of
from preset_helpers import plan
from tests.findings import assert_finding, claims

from firsttouch import _core
from firsttouch.experiments.contract.base import Point
from firsttouch.experiments.contract.common import BASE_PAGE
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.faultcount import ALIKE, FEWEST, MOST, UNTOLD, FaultCount
from firsttouch.records.findings import Quantity
from firsttouch.records.schema import DeviceInfo, Factors, Record, Scalar
from firsttouch.workers.session import Session


def faults(counts: dict[str, float], spread: float = 0) -> list[Record]:
    factors: dict[str, Scalar] = {"first_touch": "cpu", "size": 64 * MIB}
    return [a_record("faultcount", n, {"allocator": name, **factors}, spread) for name, n in counts.items()]


def test_allocators_with_much_the_same_faults_are_not_ranked() -> None:
    (alike,) = findings_of("faultcount", faults({"malloc": 256.0, "mmap": 257.0, "device": 261.0}))
    assert_finding([alike], ALIKE, value=Quantity(257, "faults/MiB"), size=64 * MIB)
    assert claims(findings_of("faultcount", faults({"malloc": 256.0, "mmap": 257.0}, 0.5))) == [UNTOLD]
    assert claims(findings_of("faultcount", faults({"malloc": 0.0, "mmap": 0.0}))) == [ALIKE]
    ranked = findings_of("faultcount", faults({"malloc": 256.0, "malloc-thp": 0.5}))
    assert_finding(ranked, FEWEST, allocator="malloc-thp", value=0.5)


@pytest.mark.slow
def test_the_cpu_streams_what_a_kernel_touched_first() -> None:
    session = Session(DeviceInfo(name="opencl:0", kind="opencl", title=""), 1, 0.01, 0.5, "quick")
    try:
        session.device.capabilities()
    except _core.Unavailable as reason:
        pytest.skip(str(reason))
    who = {"first_touch": "gpu", "streamed_by": "cpu"}
    # So large that malloc, which PoCL takes it from, maps new pages.
    factors: Factors = Factors({"allocator": "svm-fine", "size": 64 * MIB, **who})
    found = FaultCount().measure(Point("faultcount", "opencl:0", factors), session)
    assert found.verified is True
    assert int(str(found.counters["touch"])) > 3 * 64 * MIB // BASE_PAGE // 2, "the kernel's threads fault"
    assert int(str(found.counters["triad"])) < 64, "the CPU finds the pages there"


@pytest.mark.parametrize(
    ("preset", "pairs"),
    [
        ("quick", {("gpu", "gpu"), ("cpu", "cpu")}),
        ("standard", {("gpu", "gpu"), ("gpu", "cpu"), ("cpu", "cpu")}),
        ("full", {("gpu", "gpu"), ("gpu", "cpu"), ("cpu", "cpu"), ("cpu", "gpu")}),
    ],
)
def test_which_agents_touch_and_stream(preset: Preset, pairs: set[tuple[str, str]]) -> None:
    points = [p.point for p in plan("faultcount", opencl(PROCESSOR), preset) if not p.reason]
    assert {(p["first_touch"], p["streamed_by"]) for p in points} == pairs


def test_a_combination_that_a_preset_leaves_out_can_be_requested() -> None:
    (point,) = plan("faultcount", amd(), first_touch=["gpu"], streamed_by=["cpu"], allocator=["pinned"])
    assert not point.reason


def test_findings_say_who_streams_where_that_is_another_agent() -> None:
    factors: dict[str, Scalar] = {"allocator": "malloc", "size": 64 * MIB, "streamed_by": "cpu"}
    seen = [
        a_record("faultcount", 256, {**factors, "first_touch": "cpu"}, spread=0),
        a_record("faultcount", 4, {**factors, "first_touch": "gpu"}, spread=0),
    ]
    fewest, most = findings_of("faultcount", seen)
    streamed = " and streamed by the CPU"
    few, many = (Quantity(n, "faults/MiB") for n in (4, 256))
    assert_finding([fewest], FEWEST, allocator="malloc", first_touch="gpu", streamed=streamed, value=few)
    assert_finding([most], MOST, allocator="malloc", first_touch="cpu", streamed="", value=many)
