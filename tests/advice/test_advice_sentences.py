"""The advice of the first screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firsttouch.advice.sentences import sentences
from firsttouch.records.reading import Results, key_of, load_results
from firsttouch.records.statistics import measured

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def standard() -> Results:
    return load_results(RESULTS / "h200-standard")


def test_advice_of_a_run_names_a_strategy_and_its_points(standard: Results) -> None:
    found = sentences(standard)
    assert 1 <= len(found) <= 3
    assert "managed+prefetch" in found[0].text
    known = {key_of(r) for r in measured(standard.records)}
    for sentence in found:
        assert sentence.text.endswith(".")
        assert all(one.points and set(one.points) <= known for one in sentence.findings)


def test_advice_of_measured_applications_counts_them() -> None:
    run = load_results(RESULTS / "h200-apps")
    first = sentences(run)[0]
    (finding,) = first.findings
    best = re.match(r"Take (\S+):", first.text)
    assert best is not None
    times: dict[object, dict[str, float]] = {}
    for r in measured(run.records):
        if r.factors.get("events") == "off" and r.summary is not None:
            times.setdefault(r.factors["app"], {})[str(r.factors["strategy"])] = r.summary.median
    won = sum(rows.get(best[1]) == min(rows.values()) for rows in times.values())
    assert f"in {won} of {len(times)} applications" in first.text
    assert not isinstance(finding.value, str)
    assert finding.value.value == won


def test_a_run_of_the_cpu_alone_says_how_to_touch_memory() -> None:
    run = load_results(RESULTS / "xeon-vm-quick")
    run.records = [r for r in run.records if r.device == "cpu"]
    (sentence,) = sentences(run)
    assert sentence.estimated
    assert sentence.text.startswith("Use huge pages, which a program must ask for here (madvise): ")
    assert set(sentence.findings[0].points) <= {key_of(r) for r in run.records if r.experiment == "pagefault"}
    run.machine.devices = [d for d in run.machine.devices if d.name == "cpu"]
    assert [again.text for again in sentences(run)] == [sentence.text]


def test_there_is_no_advice_from_too_few_records() -> None:
    assert sentences(load_results(RESULTS / "h200-pagefault")) == []
