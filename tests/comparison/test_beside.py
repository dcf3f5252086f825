"""Published values beside a run's: only where hardware and conditions allow a comparison, and with their machine."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest
from tests.experiments.fake_records import a_record
from tests.fabricated import MACHINES
from tests.kept_runs import stored_run
from tests.texts import assert_states

from firsttouch.comparison.papers.beside import Beside, beside
from firsttouch.records.reading import load_results
from firsttouch.records.schema import DeviceInfo, Record, Scalar


@cache
def found(name: str) -> dict[tuple[str, str], Beside]:
    run = load_results(stored_run(name))
    return {(entry.paper, entry.says): entry for entry in beside(run.records, run.machine.devices)}


def one(name: str, words: str) -> Beside:
    return next(entry for (_, says), entry in found(name).items() if words in says)


def test_a_value_stands_beside_that_of_the_same_point() -> None:
    triad = one("h200-standard", "hipMalloc memory gives the GPU")
    assert (triad.device, triad.unit, triad.stated) == ("cuda:0", "GB/s", (3500, 3600))
    assert 4000 < triad.value < 5000
    assert (triad.factors["allocator"], triad.factors["size"]) == ("device", 256 << 20)
    assert (triad.machine, triad.section) == ("AMD Instinct MI300A", "Sec. IV-B")
    latency = one("h200-standard", "A CPU load served by L1")
    assert (latency.device, latency.factors["allocator"]) == ("cpu", "malloc")


def test_what_a_statement_leaves_open_is_named_where_other_points_differ_in_it() -> None:
    assert one("h200-standard", "STREAM on the GPU reaches").conditions == "kernel triad, size 1 GiB"
    assert one("h200-standard", "hipMalloc memory gives the GPU").conditions == ""


def test_memory_of_the_other_side_is_not_compared_with_one_memory() -> None:
    """Page-locked memory is the GPU's own on an APU; behind PCIe it is not, and copies cross a link."""
    for (paper, says), entry in found("h200-standard").items():
        if paper == "mi300a-upm":
            assert entry.experiment != "transfer", says
            assert not (entry.factors.get("agent") == "gpu" and entry.factors["allocator"] == "pinned"), says
    assert one("h200-standard", "375 GB/s").value < 60  # both have a link


def test_on_one_memory_the_same_values_are_compared() -> None:
    run = load_results(stored_run("h200-standard"))

    def unified(device: DeviceInfo) -> DeviceInfo:
        capabilities = msgspec.structs.replace(device.capabilities, shares_host_memory=True)
        return msgspec.structs.replace(device, capabilities=capabilities)

    entries = beside(run.records, [unified(device) for device in run.machine.devices])
    assert any("2.1 to 2.2 TB/s" in e.says and e.factors["allocator"] == "pinned" for e in entries)


def test_kernels_on_the_host_processor_are_not_compared_with_a_gpu() -> None:
    assert {entry.device for entry in found("xeon-vm-standard").values()} == {"cpu"}


def app_records(machine: str, app: str, ms: dict[str, float], **more: Scalar) -> list[Record]:
    """A run of an application, by its time under each strategy."""
    records = []
    for strategy, median in ms.items():
        record = a_record("latency", median, {"app": app, "strategy": strategy, "size": "default", **more})
        counters: dict[str, Scalar] = {"phase_compute_ms": median / 2, "gpu_ms": median / 4, "footprint_bytes": 2**30}
        fields = {"experiment": "app", "device": MACHINES[machine].devices[1].name, "unit": "ms", "metric_version": 1}
        records.append(msgspec.structs.replace(record, counters=counters, **fields))
    return records


def run_of(machine: str, app: str, ms: dict[str, float], **more: Scalar) -> list[Beside]:
    return beside(app_records(machine, app, ms, **more), MACHINES[machine].devices)


def test_runs_of_applications_have_the_ratios_that_papers_state_beside_them() -> None:
    entries = run_of("mi300a-xnack", "backprop", {"explicit": 100.0, "unified": 80.0})
    assert [(e.stated, e.value, e.unit) for e in entries] == [
        (pytest.approx((0.65, 0.65)), 0.8, "times"),
        (pytest.approx((0.81, 0.81)), 0.8, "times"),
    ]
    (conditions,) = {entry.conditions for entry in entries}
    assert_states(conditions, "unified over explicit", "app backprop", "size default")
    assert not run_of("mi300a-xnack", "backprop", {"unified": 80.0})  # nothing to divide by
    assert not run_of("volta", "backprop", {"explicit": 100.0, "unified": 80.0})  # an APU's saving, of no other GPU


def test_data_that_exceed_memory_do_not_stand_beside_data_that_fit() -> None:
    times = {"managed": 100.0, "managed+advise": 290.0}
    exceeding = run_of("power9", "fdtd3d", times, placement="paper", oversubscribe=1.5)
    assert [(entry.stated, entry.value) for entry in exceeding] == [((3, 3), 2.9)]  # not the 60.9 s of another input
    assert not run_of("power9", "fdtd3d", times, placement="paper")
    assert not run_of("power9", "fft_conv_fused", {"explicit": 1.0, "managed": 2.0}, placement="paper", events="on")
