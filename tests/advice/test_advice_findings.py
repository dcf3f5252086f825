"""The advice of the first screen: which findings, of which points."""

from __future__ import annotations

from pathlib import Path

import pytest

from firsttouch.advice.findings import advice_of
from firsttouch.records.findings import Quantity
from firsttouch.records.reading import Results, key_of, load_results
from firsttouch.records.statistics import measured

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def standard() -> Results:
    return load_results(RESULTS / "h200-standard")


def test_advice_of_a_run_names_a_strategy_and_its_points(standard: Results) -> None:
    found = [advised.finding for advised in advice_of(standard)]
    assert 1 <= len(found) <= 3
    assert (found[0].claim.id, found[0].conditions["best"]) == ("advice.estimate", "managed+prefetch")
    known = {key_of(r) for r in measured(standard.records)}
    assert all(one.points and set(one.points) <= known for one in found)


def test_advice_of_measured_applications_counts_them() -> None:
    run = load_results(RESULTS / "h200-apps")
    first = advice_of(run)[0].finding
    times: dict[object, dict[str, float]] = {}
    for r in measured(run.records):
        if r.factors.get("events") == "off" and r.summary is not None:
            times.setdefault(r.factors["app"], {})[str(r.factors["strategy"])] = r.summary.median
    won = sum(rows.get(str(first.conditions["best"])) == min(rows.values()) for rows in times.values())
    assert first.claim.id == "advice.fastest"
    assert first.value == Quantity(won)
    assert (first.conditions["wins"], first.conditions["of"]) == (won, len(times))


def test_a_run_of_the_cpu_alone_says_how_to_touch_memory() -> None:
    run = load_results(RESULTS / "xeon-vm-quick")
    run.records = [r for r in run.records if r.device == "cpu"]
    no_gpu, advised = advice_of(run)
    assert (no_gpu.finding.claim.id, no_gpu.finding.conditions["device"]) == ("advice.no-gpu", "opencl:0")
    assert (advised.estimated, advised.finding.claim.id) == (True, "advice.page_size")
    assert set(advised.finding.points) <= {key_of(r) for r in run.records if r.experiment == "pagefault"}
    run.machine.devices = [d for d in run.machine.devices if d.name == "cpu"]
    assert advice_of(run) == [advised]


def test_there_is_no_advice_from_too_few_records() -> None:
    assert advice_of(load_results(RESULTS / "h200-pagefault")) == []
