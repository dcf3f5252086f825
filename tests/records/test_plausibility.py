"""Which records are suspect, on records and machines made by hand, and that marks are stored and read."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored import MACHINE_HERE, fill

import firsttouch
from firsttouch.records.codebook import codebooks
from firsttouch.records.plausibility import RULES, explain, mark
from firsttouch.records.reading import RESULTS, load_results
from firsttouch.records.schema import (
    SCHEMA,
    AllocatorInfo,
    DeviceCapabilities,
    DeviceInfo,
    Machine,
    Party,
    Record,
    Scalar,
    Summary,
)
from firsttouch.records.statistics import measured

MiB = 2**20
RESULTS_HERE = Path(__file__).parents[2] / "results"


def gpu(**capabilities: bool) -> DeviceInfo:
    """A GPU with its own memory of 2 * 1 GHz * 1024 bit = 256 GB/s and a cache of 1 MiB."""
    own = {"cpu": "direct", "gpu": "direct", "available": True}
    return DeviceInfo(
        name="cuda:0",
        kind="cuda",
        title="a GPU",
        facts={"memory_clock_khz": 10**6, "memory_bus_bits": 1024, "l2_bytes": MiB, "compute_capability": "9.0"},
        capabilities=DeviceCapabilities(runs_kernels=True, **capabilities),
        allocators=[
            AllocatorInfo(name="device", device_memory=True, on_demand=False, **own),
            AllocatorInfo(name="pinned", host_memory=True, on_demand=False, **own),
            AllocatorInfo(name="malloc", host_memory=True, on_demand=True, **own),
            AllocatorInfo(name="managed", host_memory=True, device_memory=True, managed=True, on_demand=True, **own),
        ],
    )


def processor() -> DeviceInfo:
    """An OpenCL device that is the host's processor."""
    shared = AllocatorInfo(name="svm", available=True, host_memory=True, device_memory=True)
    able = DeviceCapabilities(runs_kernels=True, on_host_processor=True, shares_host_memory=True)
    return DeviceInfo(name="opencl:0", kind="opencl", title="CPU", capabilities=able, allocators=[shared])


HOST = DeviceInfo(
    name="cpu", kind="cpu", title="CPU", allocators=[AllocatorInfo(name="mmap", available=True, host_memory=True)]
)
PCIE_4 = {"gpu0_pcie_generation_max": 4, "gpu0_pcie_width_max": 16, "gpu0_c2c": False}
"""Links with 32 GB/s each way."""


def machine(links: dict[str, Scalar] | None = None, device: DeviceInfo | None = None) -> Machine:
    facts: dict[str, dict[str, Scalar]] = {"cpu": {"cores_usable": 4}, "links": PCIE_4 if links is None else links}
    devices = [HOST, processor(), device or gpu()]
    return msgspec.structs.replace(MACHINE_HERE, facts=facts, devices=devices)


def point(experiment: str, median: float, unit: str = "ns", device: str = "cpu", low: float | None = None,
          **more: object) -> Record:  # fmt: skip
    low = median if low is None else low
    bounds = {"p5": low, "p95": median, "min": low, "max": median, "ci_low": low, "ci_high": median}
    fields = {"factors": {}, "better": "lower", "samples": [low, median], "verified": True}
    return Record(
        schema=SCHEMA,
        experiment=experiment,
        device=device,
        unit=unit,
        status="ok",
        summary=Summary(n=2, median=median, **bounds),
        **(fields | more),  # type: ignore[arg-type]
    )


def broken(*records: Record, on: Machine | None = None) -> list[str]:
    """The rules that the records break."""
    mark(records, on or machine())
    return [record.suspect for record in records]


# ------------------------------------------------------------------------------------------------ one record by itself


def test_times_and_rates_are_above_zero():
    assert broken(point("a", 5.0), point("a", 0.0), point("a", -30_839.0)) == ["", "not-positive", "not-positive"]
    assert broken(point("a", -1.0, "M/s", better="higher")) == ["not-positive"]
    assert broken(point("a", 6.5, low=-5.9)) == ["not-positive"], "its interval reaches zero"
    assert broken(point("a", -5.0, better="neither")) == [""], "a difference may be negative"


def test_counts_may_be_zero_and_memory_in_use_may_shrink():
    assert broken(point("a", 0.0, "faults/MiB"), point("a", -4096.0, "B")) == ["", ""]
    assert broken(point("a", 1.0, "faults/MiB", low=-1.0)) == ["not-positive"]


def test_numbers_are_finite():
    assert broken(point("a", 5.0, samples=[1.0, math.inf])) == ["not-finite"]
    assert broken(point("a", 5.0, counters={"x": math.nan})) == ["not-finite"]
    assert broken(point("a", 5.0, counters={"x": None, "y": "text", "z": 2**64 - 1})) == [""]


@pytest.mark.parametrize(
    ("experiment", "factors", "counters", "expected"),
    [
        ("app", {}, {"phase_compute_ms": 6.0}, ""),
        ("app", {}, {"phase_compute_ms": 11.0}, "part-above-whole"),
        ("app", {}, {"phase_context_ms": 400.0}, ""),
        ("app", {}, {"iteration_3_ms": 10.5}, "part-above-whole"),
        ("app", {}, {"kernel_ms": 7.003, "kernel_compute_ms": 7.0}, ""),  # by two clocks
        ("app", {}, {"kernel_ms": 7.1, "kernel_compute_ms": 7.0}, "part-above-whole"),
        ("app", {}, {"memory_compute_bytes": 7, "peak_bytes": 6}, "part-above-whole"),
        ("app", {}, {"um_h2d_fault_bytes": 7, "um_h2d_bytes": 6}, "part-above-whole"),
        ("app", {}, {"um_h2d_fault_bytes": 6, "um_h2d_bytes": 6}, ""),
        ("migration", {}, {"compute_d2h_eviction_bytes": 2, "compute_d2h_bytes": 1}, "part-above-whole"),
        ("migration", {}, {"iteration_0_ms": 10.5}, "part-above-whole"),
        ("migration", {}, {"cpu_read_ms": 10.5}, ""),
        ("atomics", {"gpu_threads": 64}, {"gpu_threads_seen": 65.0}, "part-above-whole"),
        ("locking", {}, {"cpu_share": 1.5}, "part-above-whole"),
        ("locking", {}, {"iteration_0_ms": 10.5}, ""),
    ],
)
def test_a_part_is_not_more_than_its_whole(experiment, factors, counters, expected):
    assert broken(point(experiment, 10.0, "ms", factors=factors, counters=counters)) == [expected]


def test_what_was_not_measured_is_not_judged_and_marks_stay():
    record = point("a", -1.0)
    record.status = "failed"
    assert broken(record, point("a", 1.0, suspect="rule-of-2.9")) == ["", "rule-of-2.9"]


# ------------------------------------------------------------------------------------------------ against other records


def load(ns: float, size: int, agent: str = "cpu", device: str = "cpu") -> Record:
    return point("latency", ns, device=device, factors={"agent": agent, "size": size, "allocator": "malloc"})


def fault(ns: float, scenario: str, pages: int, device: str, allocator: str, **factors: Scalar) -> Record:
    named = {"scenario": scenario, "pages": pages, "allocator": allocator}
    return point("pagefault", ns, device=device, factors={**named, **factors})


LOADS = (load(1.0, 4096), load(90.0, 2**28), load(120.0, 2**28), load(600.0, 2**28, "gpu", "cuda:0"),
         load(130.0, 2**28, "gpu", "opencl:0"))  # fmt: skip


def test_a_fault_is_compared_by_intervals():
    noisy = load(90.0, 2**28)
    noisy.summary.ci_low = 40.0
    assert broken(fault(60.0, "cpu-1", 1, "cpu", "mmap"), noisy)[0] == ""
    assert broken(fault(39.0, "cpu-1", 1, "cpu", "mmap"), noisy)[0] == "below-load"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (fault(1444.0, "cpu-1", 1, "cpu", "mmap"), ""),
        (fault(11.0, "cpu-1", 1, "cpu", "mmap"), "below-load"),
        (fault(1.1, "cpu-1", 8, "cpu", "mmap"), "below-load"),
        (fault(24.0, "cpu-n", 4096, "cpu", "mmap"), ""),  # four processors at once
        (fault(22.0, "cpu-n", 4096, "cpu", "mmap"), "below-load"),
        (fault(50.0, "cpu-n", 1, "cpu", "mmap"), "below-load"),  # one page: one processor
        (fault(30.0, "cpu-n", 4096, "cpu", "mmap", threads=2), "below-load"),
        (fault(24.0, "cpu", 4096, "cpu", "mmap", threads=0), ""),  # 0 is all
        (fault(24.0, "cpu", 4096, "cpu", "mmap", threads=1), "below-load"),
        (fault(46.0, "cpu", 4096, "cpu", "mmap", threads=2), ""),
        (fault(44.0, "cpu", 4096, "cpu", "mmap", threads=2), "below-load"),
        (fault(89.0, "cpu", 1, "cpu", "mmap", threads=0), "below-load"),  # one page: one thread
        (fault(91.0, "cpu", 1, "cpu", "mmap", threads=0), ""),
        (fault(4.3, "gpu-minor", 100_000, "opencl:0", "svm"), "below-load"),
        (fault(500.0, "gpu-major", 1, "cuda:0", "managed"), "below-load"),
        (fault(20.0, "gpu-major", 4096, "cuda:0", "managed"), ""),  # a GPU's threads fault at once
        (fault(20.0, "cpu-1", 4096, "cuda:0", "managed"), ""),  # one fault brings many pages
    ],
)
def test_no_fault_is_cheaper_than_a_load(record, expected):
    assert broken(record, *LOADS)[0] == expected
    record.suspect = ""
    assert broken(record) == [""], "without loads of the same run it is not judged"


def test_faults_pass_at_once_on_as_many_threads_as_the_record_counted():
    """The counter says how many there were; without it and the factor, all that the machine has."""
    record = fault(24.0, "cpu", 4096, "cpu", "mmap", threads=0)
    assert broken(msgspec.structs.replace(record, counters={"cpu_threads": 3}), *LOADS)[0] == "below-load"
    assert broken(msgspec.structs.replace(record, counters={"cpu_threads": 4}), *LOADS)[0] == ""
    record = fault(24.0, "cpu", 4096, "cpu", "mmap")
    assert broken(record, *LOADS)[0] == ""
    alone = msgspec.structs.replace(machine(), facts={"cpu": {"cores_usable": 2}})
    assert broken(record, *LOADS, on=alone)[0] == "below-load"


# ------------------------------------------------------------------------------------------------ against stated peaks


def copy(rate: float, direction: str, engine: str = "copy-engine", size: int = 256 * MiB, **more: object) -> Record:
    allocator = more.pop("allocator", "device" if direction == "d2d" else "pinned")
    factors = {"direction": direction, "engine": engine, "allocator": allocator, "size": size}
    return point("transfer", rate, "GB/s", "cuda:0", factors=factors, better="higher", **more)


def stream(rate: float, kernel: str, allocator: str, arrays: str = "memory", agent: str = "gpu") -> Record:
    factors = {"arrays": arrays, "kernel": kernel, "agent": agent, "allocator": allocator, "size": 256 * MiB}
    return point("bandwidth", rate, "GB/s", "cuda:0", factors=factors, better="higher")


@pytest.mark.parametrize(
    ("record", "peak"),
    [
        (copy(1, "h2d"), 32),
        (copy(1, "d2h", "kernel"), 32 / (1 - 1 / 256)),  # a cache may hold 1 of 256 MiB
        (copy(1, "d2h", size=1), 32),
        (copy(1, "d2d"), 256 / (2 - 1 / 256)),  # read and written
        (stream(1, "triad", "device"), 256 / (1 - 1 / 768)),
        (stream(1, "write", "managed"), 256 / (1 - 1 / 256)),
        (stream(1, "read", "pinned"), 32 / (1 - 1 / 256)),
        (stream(1, "triad", "pinned"), 3 * 32 / (2 - 1 / 256)),  # two arrays one way, one the other
    ],
)
def test_no_bandwidth_is_above_the_peak_of_its_tier(record, peak):
    for factor, expected in ((0.99, ""), (1.01, "above-peak")):
        summary = msgspec.structs.replace(record.summary, median=factor * peak)
        assert broken(msgspec.structs.replace(record, summary=summary)) == [expected]


@pytest.mark.parametrize(
    ("experiment", "size", "most"),
    [
        ("p2p-copy", 1, 1.0),
        ("p2p-copy", 256 * MiB, 1.0),
        ("p2p-direct", 256 * MiB, 256 / 255),
    ],  # a cache may hold 1 MiB
)
def test_nothing_crosses_a_link_faster_than_its_peak(experiment: str, size: int, most: float) -> None:
    for factor, expected in ((0.99, ""), (1.01, "above-link-peak")):
        counters: dict[str, Scalar] = {"of_peak": factor * most}
        record = point(experiment, 5.0, "GB/s", "cuda:0", factors={"size": size}, counters=counters, better="higher")
        assert broken(record) == [expected]
    assert broken(point(experiment, 9999.0, "GB/s", "cuda:0", factors={"size": size}, better="higher")) == [""]


@pytest.mark.parametrize(
    "record",
    [
        stream(9999, "triad", "device", arrays="sweep"),  # from caches
        stream(9999, "triad", "pinned", agent="cpu"),  # the host states no peak
        stream(9999, "triad", "malloc"),  # its pages may move to the device
        copy(9999, "h2d", "kernel", allocator="malloc"),
        copy(9999, "h2h"),
        copy(9999, "d2d", size=MiB // 4),  # from caches
        copy(9999, "h2d", allocator="unknown"),
        copy(9999, "h2d", parties=[Party(device="cuda:0"), Party(device="cuda:1")]),
        point("transfer", 9999, "GB/s", "cuda:0"),
        point("transfer", 9999, "GB/s", "cuda:7", factors={"direction": "h2d"}),
    ],
)
def test_what_may_be_faster_is_not_judged(record):
    assert broken(record) == [""]


@pytest.mark.parametrize(
    "links",
    [
        {},
        PCIE_4 | {"gpu0_c2c": True},  # GH200
        PCIE_4 | {"gpu0_nvlink_peers": "CPU, GPU"},  # Power 9
        {"gpu0_pcie_generation_max": 4},
        PCIE_4 | {"gpu0_pcie_generation_max": 9},
        PCIE_4 | {"gpu0_pcie_generation_max": "four"},
    ],
)
def test_a_link_whose_peak_is_not_stated_is_not_judged(links):
    assert broken(copy(450, "h2d"), stream(450, "read", "pinned"), on=machine(links)) == ["", ""]


def test_a_device_in_the_hosts_memory_has_no_link():
    assert broken(copy(450, "h2d"), on=machine(device=gpu(shares_host_memory=True))) == [""]


# ------------------------------------------------------------------------------------------------ marks in files


def test_marks_are_stored_and_those_by_other_records_are_added_when_read(tmp_path):
    cheap = fault(11.0, "cpu-1", 1, "cpu", "mmap")
    fill(tmp_path, point("a", -1.0), cheap, load(90.0, 2**28))
    stored = [json.loads(line)["suspect"] for line in (tmp_path / RESULTS).read_text().splitlines()]
    assert stored == ["not-positive", "", ""]
    found = load_results(tmp_path).records
    assert [r.suspect for r in found] == ["not-positive", "below-load", ""]
    assert [r.experiment for r in measured(found)] == ["latency"]
    assert [row["suspect"] for row in firsttouch.load(tmp_path)] == ["not-positive", "below-load", ""]


def test_records_of_an_earlier_version_are_judged_when_read(tmp_path):
    fill(tmp_path, point("a", -1.0))
    line = json.loads((tmp_path / RESULTS).read_text())
    del line["suspect"]
    (tmp_path / RESULTS).write_text(json.dumps(line | {"schema": "firsttouch/2.0"}) + "\n")
    (record,) = load_results(tmp_path).records
    assert (record.schema, record.suspect) == (SCHEMA, "not-positive")


scalars = st.one_of(st.text(max_size=9), st.integers(-(2**63), 2**63), st.floats(-1e100, 1e100), st.booleans(),
                    st.none())  # fmt: skip
names = st.sampled_from([
    "agent", "allocator", "arrays", "direction", "engine", "kernel", "pages", "scenario", "size", "threads",
    "cpu_threads", "gpu_threads", "gpu_threads_seen", "phase_a_ms", "iteration_1_ms", "iterations_ms", "um_h2d_bytes",
    "um_h2d_fault_bytes", "cpu_share",
])  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(codebooks())),
    st.sampled_from(["cpu", "opencl:0", "cuda:0"]),
    st.dictionaries(names, scalars),
    st.dictionaries(names, scalars),
    st.floats(-1e100, 1e100),
)
def test_any_record_can_be_judged(experiment, device, factors, counters, median):
    record = point(experiment, median, "GB/s", device, factors=factors, counters=counters)
    assert broken(record, *LOADS)[0] in {"", *(rule.name for rule in RULES)}


def test_rules_have_names_and_sentences():
    assert len({rule.name for rule in RULES}) == len(RULES)
    page = (Path(__file__).parents[2] / "docs" / "records.md").read_text()
    for rule in RULES:
        assert f"| `{rule.name}` |" in page
        assert explain(rule.name) == f"{rule.name}: {rule.holds}"
    assert explain("of-a-newer-version") == "of-a-newer-version"


@pytest.mark.parametrize("directory", sorted(path.parent for path in RESULTS_HERE.rglob("results.jsonl")))
def test_committed_results_hold_no_suspect_points(directory):
    assert not [r for r in load_results(directory).records if r.suspect]
