"""pagefault on this machine, what it does with differences that noise hides, and its presets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fake_devices import DISCRETE, opencl
from fake_records import CPU, a_record, findings_of
from msgspec.structs import replace
from preset_helpers import factors_of, left_out_of
from tests.findings import assert_finding, claims

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.base import Meaningless, Measurement, Point
from firsttouch.experiments.pagefault import COST, SINGLE
from firsttouch.model.platform import load_platform
from firsttouch.records.findings import Quantity
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo, Record, Scalar
from firsttouch.report.answers import answered

PAGEFAULT = all_experiments()["pagefault"]
OUTCOME = {"first_ns": 41_000.0, "second_ns": 40_000.0, "shown_absent": 1.0, "cpu_threads": 2.0}
MMAP = AllocatorInfo(name="mmap", available=True, cpu="direct", gpu="direct", host_memory=True, on_demand=True)
PROCESSOR = opencl(DeviceCapabilities(runs_kernels=True, on_host_processor=True, shares_host_memory=True))


# --------------------------------------------------------------------------------------------- what noise hides


def measured(monkeypatch: pytest.MonkeyPatch, samples: list[float], **factors: Scalar) -> Measurement:
    """What the experiment makes of these differences."""
    outcome = SimpleNamespace(
        samples=samples,
        errors=0,
        stopped_by="count",
        counters=dict(OUTCOME),
    )
    monkeypatch.setattr(_core, "page_faults", lambda *_, **__: outcome)
    session: Any = SimpleNamespace(device=None, info=DISCRETE, seed=1, stop=lambda **_: None)
    return PAGEFAULT.measure(Point("pagefault", "gpu:0", factors_of(PAGEFAULT, with_mmap(), **factors)), session)


@pytest.mark.parametrize(("allocator", "least"), [("managed", 8 << 20), ("mmap", 0)])
def test_managed_pages_are_not_taken_from_a_block_that_earlier_trials_used(
    monkeypatch: pytest.MonkeyPatch, allocator: str, least: int
) -> None:
    requests = []

    def page_faults(*_: Any, **request: Any) -> Any:
        requests.append(request)
        return SimpleNamespace(samples=[41_000.0] * 9, errors=0, stopped_by="count", counters=dict(OUTCOME))

    monkeypatch.setattr(_core, "page_faults", page_faults)
    session: Any = SimpleNamespace(device=None, info=with_mmap(), seed=1, stop=lambda **_: None)
    factors = factors_of(PAGEFAULT, with_mmap(), allocator=allocator, pages=1, scenario="gpu-major", threads=0)
    PAGEFAULT.measure(Point("pagefault", "gpu:0", factors), session)
    assert requests[0]["least_bytes"] == least


def with_mmap(device: DeviceInfo = DISCRETE) -> DeviceInfo:
    return DeviceInfo(
        name=device.name,
        kind=device.kind,
        title=device.title,
        capabilities=device.capabilities,
        allocators=[*device.allocators, MMAP],
    )


def test_differences_of_both_signs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [900.0, -150_594.0, 1000.0, 1100.0, 950.0, 1010.0, 990.0, 1020.0, 970.0, 1005.0, 995.0, 1030.0]
    measurement = measured(monkeypatch, samples, pages=8)
    assert measurement.samples == samples
    assert measurement.counters["pages_per_s"] == pytest.approx(1e9 / 997.5)
    assert measurement.counters["cpu_threads"] == 2
    assert "shown_absent" not in measurement.counters


def test_a_median_that_is_not_apart_from_zero_is_skipped_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unsupported) as caught:
        measured(monkeypatch, [-150_594.0, 3.0, 900.0, 1000.0, 1100.0, 1200.0])
    for value in ("41 us per page", "40 us; ", "of 6 differences is 950 ns", "from -151 us to 1.2 us"):
        assert value in str(caught.value)


@pytest.mark.parametrize(
    ("scenario", "allocator", "words"),
    [
        ("cpu", "managed", "/proc/self/pagemap"),
        ("gpu-major", "mmap", "/proc/self/pagemap"),
        ("gpu-major", "managed", "the CPU's page tables; "),
    ],
)
def test_the_record_says_whose_page_tables_showed_no_page(
    monkeypatch: pytest.MonkeyPatch, scenario: str, allocator: str, words: str
) -> None:
    measurement = measured(monkeypatch, [1000.0] * 6, scenario=scenario, allocator=allocator)
    assert words in str(measurement.counters["absent"])


# --------------------------------------------------------------------------------------------------- presets


def test_mmap_is_measured_on_every_device_and_malloc_is_a_variant() -> None:
    for device in (with_mmap(), with_mmap(PROCESSOR)):
        allocator = PAGEFAULT.factors(device, "standard")[0]
        assert "mmap" in allocator.values
        assert "malloc" not in allocator.values
        assert "malloc" in allocator.choices
        assert "malloc" in PAGEFAULT.factors(device, "full")[0].values


def test_threads_go_with_the_scenarios_that_time_the_cpu() -> None:
    def meaningless(scenario: str, threads: int) -> bool:
        factors = factors_of(PAGEFAULT, with_mmap(), scenario=scenario, threads=threads)
        return isinstance(PAGEFAULT.skip(factors, with_mmap()), Meaningless)

    assert [meaningless(scenario, 1) for scenario in ("cpu", "gpu-major", "gpu-minor", "prefault+minor")] == [
        False, True, True, False
    ]  # fmt: skip
    assert not meaningless("gpu-major", 0)


def test_where_kernels_run_on_the_cpu_its_touch_leaves_no_fault_to_them() -> None:
    for scenario, skipped in {"cpu": False, "gpu-major": False, "gpu-minor": True, "prefault+minor": True}.items():
        factors = factors_of(PAGEFAULT, PROCESSOR, allocator="svm-fine", scenario=scenario, threads=0)
        assert bool(PAGEFAULT.skip(factors, PROCESSOR)) == skipped


@pytest.mark.parametrize(
    ("platform", "page_size", "pages", "measured"),
    [
        ("gh200", "huge", 1, True),  # 512 MiB each
        ("gh200", "huge", 10, False),
        ("gh200", "base", 10_000, True),  # 64 KiB each
        ("gh200", "base", 100_000, False),
        ("p9-volta", "huge", 1000, True),  # 2 MiB each
        ("h200-pcie", "huge", 1000, True),
    ],
)
def test_a_preset_touches_pages_of_the_modelled_machine(
    platform: str, page_size: str, pages: int, measured: bool
) -> None:
    device = load_platform(platform).device
    factors = factors_of(PAGEFAULT, device, allocator="managed", scenario="gpu-major", threads=0)
    factors |= {"page_size": page_size, "pages": pages}
    assert bool(left_out_of(PAGEFAULT, factors, device, "standard")) != measured


def test_loads_are_compared_at_few_points() -> None:
    def measures(pages: int, **changed: Scalar) -> bool:
        factors = factors_of(
            PAGEFAULT, with_mmap(), allocator="managed", access="load", threads=0, pages=pages, **changed
        )
        return not left_out_of(PAGEFAULT, factors, with_mmap(), "standard")

    assert [measures(pages, scenario="gpu-major") for pages in (1, 10, 10_000)] == [True, False, True]
    assert not measures(1, scenario="gpu-minor")


# -------------------------------------------------------------------------------------------------- findings


def fault(
    median: float, scenario: str, threads: int, access: str = "store", pages: int = 100, **counters: float
) -> Record:
    factors: dict[str, Scalar] = {
        "allocator": "mmap",
        "scenario": scenario,
        "access": access,
        "page_size": "base",
        "pages": pages,
        "threads": threads,
    }
    return a_record("pagefault", median, factors, page_bytes=4096, **counters)


def test_findings_name_the_toucher_and_the_access() -> None:
    records = [fault(1000, "cpu", 1), fault(500, "cpu", 0), fault(500, "cpu", 12), fault(2000, "gpu-major", 0, "load")]
    found = findings_of("pagefault", records)
    assert claims(found) == [COST] * 4
    pages = {"pages": 100, "page_bytes": 4096, "allocator": "mmap"}
    for touch, toucher, ns, rate in (
        ("store to", "by one CPU thread", 1000, 1e6),
        ("store to", "by all CPU threads", 500, 2e6),
        ("store to", "by 12 CPU threads", 500, 2e6),
        ("load from", "by the GPU", 2000, 5e5),
    ):
        values = {"value": Quantity(ns, "ns"), "rate": Quantity(rate, "pages/s")}
        assert_finding(found, COST, **pages, touch=touch, toucher=toucher, **values)


def test_single_faults_have_a_mean_and_a_95th_percentile() -> None:
    found = findings_of("pagefault", [fault(8000, "cpu", 1, pages=1, mean_ns=9000, p95_ns=11_000)])
    page = {"page_bytes": 4096, "allocator": "mmap", "touch": "store to", "toucher": "by one CPU thread"}
    assert_finding(found, SINGLE, **page, value=Quantity(9000, "ns"), p95=Quantity(11_000, "ns"))


def test_single_faults_have_a_distribution_if_they_have_enough_samples() -> None:
    many = replace(fault(8000, "gpu-minor", 0, pages=1), samples=[1000.0 + 10 * n for n in range(101)])
    few, others = (
        replace(many, samples=many.samples[:n], factors={**many.factors, "pages": p}) for n, p in ((9, 1), (101, 2))
    )
    found, *plain = PAGEFAULT.derive([many, few, others])
    assert [found.counters[f"p{k}_ns"] for k in (1, 50, 99)] == [1010, 1500, 1990]
    assert plain == [few, others]
    (low,) = PAGEFAULT.derive([replace(many, samples=[t - 1100 for t in many.samples])])
    assert "p1_ns" not in low.counters, "the difference of two times is below zero there"
    assert low.counters["p50_ns"] == 400
    assert any(f.series == "p{}_ns" and f.where == {"pages": 1} for f in PAGEFAULT.figures)


def test_records_of_another_definition_support_no_finding() -> None:
    old = [replace(fault(500, "cpu", threads), metric_version=1) for threads in (0, 1)]
    assert findings_of("pagefault", old) == []
    (part,) = answered(old, [CPU], all_experiments())
    assert not part.answer.findings
    assert "support no finding" in part.answer.problem
