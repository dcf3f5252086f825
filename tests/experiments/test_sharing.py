"""concurrency and locking: what may be measured where, and how a livelock ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firsttouch.experiments.base import Experiment
from firsttouch.experiments.concurrency import Concurrency
from firsttouch.experiments.locking import Locking
from firsttouch.run.store import load_results
from firsttouch.schema import AllocatorInfo, DeviceInfo, Factors, Record, Summary

DISCRETE = DeviceInfo(
    name="gpu:0",
    kind="cuda",
    title="a GPU that reaches no plain memory",
    facts={"multiprocessors": 132},
    allocators=[
        AllocatorInfo(name="malloc", available=True, cpu="direct", gpu_reason="no page faults", host_memory=True),
        AllocatorInfo(name="device", available=True, gpu="direct", device_memory=True),
        AllocatorInfo(
            name="pinned",
            available=True,
            cpu="direct",
            gpu="direct",
            host_memory=True,
            concurrent=True,
            shared_atomics=False,
            disjoint=True,
        ),
        AllocatorInfo(
            name="managed",
            available=True,
            cpu="direct",
            gpu="direct",
            host_memory=True,
            device_memory=True,
            managed=True,
        ),
    ],
)


def factors_of(experiment: Experiment, device: DeviceInfo = DISCRETE, **changed: object) -> Factors:
    """The first value of every factor, and what is changed."""
    return {factor.name: factor.values[0] for factor in experiment.factors(device, "quick")} | changed  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("allocator", "strategy", "reason"),
    [
        ("malloc", "concurrent", "no page faults"),
        ("device", "concurrent", "the CPU cannot reach device memory"),
        ("device", "lockstep", "the CPU cannot reach device memory"),
        ("device", "copying", None),
        ("pinned", "concurrent", None),
        ("pinned", "lockstep", None),
        ("managed", "concurrent", "does not allow the CPU to use managed memory while a kernel does"),
        ("managed", "lockstep", None),
    ],
)
def test_a_strategy_is_measured_where_the_memory_allows_it(allocator, strategy, reason):
    experiment = Concurrency()
    found = experiment.skip(factors_of(experiment, allocator=allocator, strategy=strategy), DISCRETE)
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


def test_copies_are_for_memory_that_is_apart():
    experiment = Concurrency()
    copied = {
        entry.name
        for entry in DISCRETE.allocators
        if not experiment.thin(factors_of(experiment, allocator=entry.name, strategy="copying"), DISCRETE, "full")
    }
    assert copied == {"device"}


@pytest.mark.parametrize("size", [0, 1, 4096, 128 * 1024 + 4])
def test_halves_that_are_no_whole_pages_are_refused(size):
    experiment = Concurrency()
    assert "whole pages" in experiment.skip(factors_of(experiment, allocator="pinned", size=size), DISCRETE)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"allocator": "pinned"}, None),
        ({"allocator": "managed"}, "do not see each other's stores to managed memory"),
        ({"allocator": "managed", "rivals": "gpu"}, None),
        ({"allocator": "device"}, "the CPU cannot reach device memory"),
        ({"allocator": "device", "rivals": "gpu"}, None),
        ({"allocator": "malloc", "rivals": "gpu"}, "no page faults"),
        ({"allocator": "pinned", "gpu_groups": 133}, "gpu_groups 133: 1 to 132 run at once here"),
        ({"allocator": "pinned", "gpu_groups": 133, "rivals": "cpu"}, None),
        ({"allocator": "pinned", "cpu_threads": 0}, "cpu_threads 0"),
        ({"allocator": "pinned", "cpu_threads": 10**6}, "cpu_threads 1000000"),
        ({"allocator": "pinned", "inside": 0}, "1 to 256 accesses"),
        ({"allocator": "pinned", "inside": 257}, "1 to 256 accesses"),
        ({"allocator": "pinned", "sections": 0}, "no sections"),
    ],
)
def test_a_contest_that_cannot_be_says_why(changed, reason):
    experiment = Locking()
    found = experiment.skip(factors_of(experiment, **{"rivals": "both", **changed}), DISCRETE)
    assert (found is None) == (reason is None)
    assert reason is None or reason in found


def test_full_varies_one_number_at_a_time():
    experiment = Locking()
    usual = factors_of(experiment, allocator="pinned", rivals="both", outside=0)
    assert not experiment.thin(usual, DISCRETE, "full")
    assert not experiment.thin(usual | {"outside": 1000}, DISCRETE, "full")
    assert not experiment.thin(usual | {"inside": 1}, DISCRETE, "full")
    assert experiment.thin(usual | {"inside": 1, "outside": 1000}, DISCRETE, "full")
    assert experiment.thin(usual | {"inside": 1, "gpu_groups": 1}, DISCRETE, "full")
    assert experiment.thin(usual | {"rivals": "cpu", "gpu_groups": 1}, DISCRETE, "full")
    assert not experiment.thin(usual | {"rivals": "gpu", "gpu_groups": 1}, DISCRETE, "full")


def a_record(experiment: str, median: float, factors: Factors, **counters: float) -> Record:
    summary = Summary(n=3, median=median, p5=median, p95=median, min=median, max=median, ci_low=median, ci_high=median)
    return Record(
        schema="firsttouch/1",
        experiment=experiment,
        device="gpu:0",
        factors=factors,
        unit="",
        status="ok",
        samples=[median] * 3,
        summary=summary,
        counters=dict(counters),
    )


def test_the_verdicts_say_what_was_measured():
    rows = [
        a_record(
            "concurrency",
            together,
            {"allocator": allocator, "strategy": strategy},
            overlap=6 / together,
            cpu_alone_ms=2.0,
            gpu_alone_ms=4.0,
        )
        for allocator, strategy, together in [
            ("managed", "lockstep", 12.0),
            ("pinned", "concurrent", 4.0),
            ("pinned", "lockstep", 6.0),
        ]
    ]
    words = Concurrency().verdict(rows, DISCRETE)
    assert "least on pinned memory, concurrent: 4 ms, against 6 ms" in words
    assert "on pinned, concurrent: 1.50 where 1.50 is the most" in words
    assert words.endswith("At once is faster than in turns by a factor of 1.50 on pinned.")
    usual: Factors = {"outside": 0, "inside": 16}
    locks = [
        a_record("locking", 20_000, {"allocator": "managed", "rivals": "both"} | usual, cpu_share=0.5),
        a_record("locking", 5000, {"allocator": "pinned", "rivals": "both"} | usual, cpu_share=0.75),
        a_record("locking", 25, {"allocator": "pinned", "rivals": "cpu"} | usual),
        a_record("locking", 1000, {"allocator": "device", "rivals": "gpu"} | usual),
    ]
    words = Locking().verdict(locks, DISCRETE)
    assert "takes 5000 ns on pinned memory, against 25 ns by the CPU alone; slowest on managed, 20 us" in words
    assert "75% of the sections" in words


@pytest.mark.parametrize(("device", "rivals"), [("cpu", "cpu"), ("opencl:0", "cpu"), ("opencl:0", "gpu")])
def test_a_livelock_is_a_failed_point_that_says_so(device, rivals, tmp_path):
    out = tmp_path / "out"
    allocator = "malloc" if device == "cpu" else "svm-atomic"
    command = [sys.executable, "-m", "firsttouch.cli.main", "run", "stuck", "--device", device, "--out", str(out)]
    command += ["--set", f"rivals={rivals}", "--set", f"allocator={allocator}", "--set", "outside=0"]
    environment = os.environ | {"FIRSTTOUCH_EXPERIMENTS": str(Path(__file__).with_name("stuck.py"))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110, env=environment)
    if "is not available" in done.stderr and not os.environ.get("CI"):
        pytest.skip(done.stderr)
    assert done.returncode == 1, done.stderr
    (record,) = load_results(out).records
    assert record.status == "failed"
    assert record.reason.startswith("RuntimeError: livelock: no critical section was entered for 0.2")
    assert record.seconds < 20
