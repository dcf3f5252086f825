"""locking: the possible competitors, the findings, and the end of a livelock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_devices import DISCRETE, PROCESSOR, opencl
from fake_records import a_record
from preset_helpers import factors_of, left_out_of, plan
from tests.calls import call
from tests.findings import assert_finding, claims
from tests.matrix import matrix

from firsttouch.experiments.locking import (
    ALONE,
    ALONE_BEST,
    CONTENDED,
    IN_GROUPS,
    MANY_OUTSIDE,
    SLOWEST,
    Locking,
)
from firsttouch.records.findings import Quantity
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Factors


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"allocator": "pinned"}, None),
        ({"allocator": "managed"}, "stores to managed memory"),
        ({"allocator": "managed", "rivals": "gpu"}, None),
        ({"allocator": "device"}, "cannot reach device memory"),
        ({"allocator": "device", "rivals": "gpu"}, None),
        ({"allocator": "malloc", "rivals": "gpu"}, "no page faults"),
        ({"allocator": "pinned", "gpu_groups": 133}, "gpu_groups=133: from 1 to 132"),
        ({"allocator": "pinned", "gpu_groups": 133, "rivals": "cpu"}, None),
        ({"allocator": "pinned", "gpu_group_threads": 256}, None),
        ({"allocator": "pinned", "cpu_threads": 0}, "cpu_threads=0"),
        ({"allocator": "pinned", "flush": "fence"}, None),
        ({"allocator": "managed", "flush": "fence"}, "stores to managed memory"),
        ({"allocator": "pinned", "cpu_threads": 10**6}, "cpu_threads=1000000"),
    ],
)
def test_reasons_for_skipped_points(changed, reason):
    experiment = Locking()
    found = experiment.skip(factors_of(experiment, **{"rivals": "both", **changed}), DISCRETE)
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


@pytest.mark.parametrize(("flush", "reason"), [("never", "--set flush=fence"), ("fence", None)])
def test_memory_that_is_coherent_at_synchronisation_only_is_used_by_both_where_fences_are_relied_on(flush, reason):
    experiment, device = Locking(), opencl(PROCESSOR)
    usual = factors_of(experiment, rivals="both", cpu_threads=1, gpu_groups=1, flush=flush)
    found = experiment.skip(usual | {"allocator": "svm-fine"}, device)
    assert (reason in found) if reason else found is None
    assert "to svm-coarse memory" in experiment.skip(usual | {"allocator": "svm-coarse"}, device)


def test_full_varies_one_number_at_a_time():
    experiment = Locking()
    usual = factors_of(experiment, allocator="pinned", rivals="both", outside=0)
    assert not left_out_of(experiment, usual, DISCRETE, "full")
    assert not left_out_of(experiment, usual | {"outside": 1000}, DISCRETE, "full")
    assert not left_out_of(experiment, usual | {"inside": 1}, DISCRETE, "full")
    assert left_out_of(experiment, usual | {"inside": 1, "outside": 1000}, DISCRETE, "full")
    assert left_out_of(experiment, usual | {"inside": 1, "gpu_groups": 1}, DISCRETE, "full")
    assert left_out_of(experiment, usual | {"rivals": "cpu", "gpu_groups": 1}, DISCRETE, "full")
    assert not left_out_of(experiment, usual | {"rivals": "gpu", "gpu_groups": 1}, DISCRETE, "full")


def test_contention_within_a_group_is_measured_where_its_threads_run_at_once():
    points = [p.point for p in plan("locking", DISCRETE, "standard") if p.point["gpu_group_threads"] != 1]
    assert {(p["allocator"], p["rivals"], p["outside"]) for p in points} == {
        ("pinned", "both", 0),
        ("pinned", "gpu", 0),
    }
    full = [p.point for p in plan("locking", DISCRETE, "full") if p.point["gpu_group_threads"] != 1]
    assert {p["gpu_group_threads"] for p in full} == {64, 256}
    assert not any(p["rivals"] == "cpu" or p["outside"] for p in full)
    (asked,) = plan(
        "locking", opencl(PROCESSOR), gpu_group_threads=[64], rivals=["gpu"], outside=[0], allocator=["svm-atomic"]
    )
    assert asked.reason.endswith("after another on opencl:0")


def test_findings_give_the_time_of_a_critical_section():
    usual: Factors = {"outside": 0, "inside": 16}
    locks = [
        a_record("locking", 20_000, {"allocator": "managed", "rivals": "both"} | usual, cpu_share=0.5),
        a_record("locking", 5000, {"allocator": "pinned", "rivals": "both"} | usual, cpu_share=0.75),
        a_record("locking", 25, {"allocator": "pinned", "rivals": "cpu"} | usual),
        a_record("locking", 1000, {"allocator": "device", "rivals": "gpu"} | usual),
    ]
    found = Locking().findings(locks, DISCRETE)
    contended = {"rivals": "both", "value": Quantity(5000, "ns"), "share": Quantity(75, "%")}
    assert_finding(found, CONTENDED, allocator="pinned", **contended)
    assert_finding(found, ALONE, allocator="pinned", rivals="cpu", value=Quantity(25, "ns"))
    slowest = {"allocator": "managed", "value": Quantity(20_000, "ns")}
    assert_finding(found, SLOWEST, **slowest, ratio=4, other_allocator="pinned")


@pytest.mark.parametrize(("cached", "told"), [(2000, True), (90_000, False)])
def test_findings_name_the_memory_that_many_accesses_outside_make_faster(cached, told):
    locks = [
        a_record("locking", ns, {"allocator": name, "rivals": "both", "outside": n, "inside": 16}, cpu_share=0.5)
        for name, n, ns in (
            ("pinned", 0, 900),
            ("pinned-noncoherent", 0, 1500),
            ("pinned", 10_000, 80_000),
            ("pinned-noncoherent", 10_000, cached),
        )
    ]
    found = Locking().findings(locks, DISCRETE)
    assert (MANY_OUTSIDE in claims(found)) == told
    if told:
        faster = {"allocator": "pinned-noncoherent", "outside": 10_000, "value": Quantity(2000, "ns")}
        assert_finding(found, MANY_OUTSIDE, **faster, ratio=0.025, other_allocator="pinned")


def test_findings_compare_contention_within_a_group():
    usual: Factors = {"allocator": "pinned", "rivals": "gpu", "outside": 0, "inside": 16}
    locks = [a_record("locking", 1000 * (1 + n // 8), {**usual, "gpu_group_threads": n}) for n in (1, 64, 256)]
    found, one = Locking().findings(locks, DISCRETE), Quantity(1000, "ns")
    assert_finding(found, ALONE_BEST, allocator="pinned", rivals="gpu", value=one)
    most = {"gpu_group_threads": 256, "value": Quantity(33_000, "ns"), "ratio": 33}
    assert_finding(found, IN_GROUPS, **most, other_gpu_group_threads=1, other_value=one)


@pytest.mark.parametrize(("device", "rivals"), matrix([("cpu", "cpu"), ("opencl:0", "cpu"), ("opencl:0", "gpu")], 1))
def test_a_livelock_is_recorded_as_failed_with_its_reason(device, rivals, tmp_path):
    out = tmp_path / "out"
    allocator = "malloc" if device == "cpu" else "svm-atomic"
    sets = ["--set", f"rivals={rivals}", "--set", f"allocator={allocator}", "--set", "outside=0"]
    words = ["--device", device, "--out", out, *sets]
    done = call("run", "stuck", *words, FIRSTTOUCH_MODULES=str(Path(__file__).with_name("stuck.py")))
    if "is not available" in done.stderr and not os.environ.get("CI"):
        pytest.skip(done.stderr)
    assert done.returncode == 1, done.stderr
    (record,) = load_results(out).records
    assert record.status == "failed"
    assert record.reason.startswith("RuntimeError: livelock: ")
    assert "entered for 0.2" in record.reason
