"""Every experiment with few points on every device of this machine, in one run of all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from small import SMALL, small_plan
from tests.calls import DRAWN_BESIDES, call

from firsttouch import _core
from firsttouch.cli import first_findings
from firsttouch.engine.on_device import on_device
from firsttouch.experiments import all_experiments
from firsttouch.experiments.bandwidth import thread_counts
from firsttouch.experiments.contract.common import MiB, last_level_bytes
from firsttouch.records.reading import Results, load_results, point_key
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.records.statistics import measured
from firsttouch.report.conclusions import conclusions
from firsttouch.report.draw import draw
from firsttouch.report.drawing import DrawingContext
from firsttouch.report.palette import Palette
from firsttouch.report.sentences import sentences


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Results]:
    """The results of each experiment."""
    out = tmp_path_factory.mktemp("small") / "out"
    with small_plan({name: small.sets for name, small in SMALL.items()}):
        done = call("run", *SMALL, "--out", out, drawn=DRAWN_BESIDES)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[-2]) == out / "report.html"
    every = load_results(out)
    assert {r.experiment for r in every.records} == SMALL.keys()
    return {
        name: dataclasses.replace(every, records=[r for r in every.records if r.experiment == name]) for name in SMALL
    }


def ok_of(results: Results) -> list[Record]:
    return [r for r in results.records if r.status == "ok"]


@pytest.mark.parametrize("name", SMALL)
def test_every_point_is_measured_and_verified(name: str, found: Mapping[str, Results]) -> None:
    for record in found[name].records:
        assert record.status in ("ok", "skipped"), record.reason
        assert record.status == "ok" or record.reason
        assert record.verified is not False, record.factors
    for record in ok_of(found[name]):
        assert record.summary is not None
        assert record.summary.n == len(record.samples)
        assert record.summary.min <= record.summary.ci_low <= record.summary.median <= record.summary.ci_high
        assert record.verified is True or record.verified_why
        assert SMALL[name].negative or record.summary.median >= 0


@pytest.mark.parametrize("name", SMALL)
def test_every_device_that_supports_the_experiment_is_measured(name: str, found: Mapping[str, Results]) -> None:
    experiment = all_experiments()[name]
    able = {
        d.name
        for d in found[name].machine.devices
        if d.available and not on_device(name, experiment, d, "quick", {}).reason
    }
    assert "opencl:0" in able
    assert {r.device for r in ok_of(found[name])} == able


@pytest.mark.parametrize("name", SMALL)
def test_findings_refer_to_points_and_the_expected_figures_are_drawn(name: str, found: Mapping[str, Results]) -> None:
    experiment, small = all_experiments()[name], SMALL[name]
    for device in found[name].machine.devices:
        unmarked = [replace(r, suspect="") for r in ok_of(found[name])]  # what others use makes points suspect
        good = measured([r for r in unmarked if r.device == device.name])
        if not good:
            continue
        said = experiment.findings(good, device)
        held = {point_key(r.experiment, r.device, r.factors) for r in good}
        assert {one.claim.id.partition(".")[0] for one in said} == {name}
        assert all(held.issuperset(one.points) and one.points for one in said)
        assert all(sentence.endswith(".") for sentence in sentences(said))
        shown = experiment.derive(good) if small.derived else good
        drawn = {i for i, f in enumerate(experiment.figures) if draw(f, shown, DrawingContext(device, Palette()))}
        expected = set(range(len(experiment.figures))) - small.empty.get(device.name, set())
        unsure = small.unsure.get(device.name, set())
        assert drawn - unsure == expected - unsure


@pytest.mark.parametrize("name", SMALL)
def test_the_screen_has_findings_of_the_experiment(
    name: str, found: Mapping[str, Results], capsys: pytest.CaptureFixture[str]
) -> None:
    first_findings.show(conclusions(found[name]))
    assert f"{name} on " in capsys.readouterr().out


@pytest.mark.parametrize("name", SMALL)
def test_no_records_have_no_findings(name: str) -> None:
    assert list(all_experiments()[name].findings([], DeviceInfo(name="cpu", kind="cpu", title=""))) == []


@pytest.mark.parametrize("name", SMALL)
def test_buffers_of_the_host_say_where_they_are(name: str, found: Mapping[str, Results]) -> None:
    facts = [fact for r in ok_of(found[name]) if r.device == "cpu" for fact in r.buffers]
    assert bool(facts) == SMALL[name].buffers
    for fact in facts:
        assert fact.numa_node is not None
        assert fact.page_bytes in (4096, 16384, 65536, 2 * 1024**2)


def test_bandwidth_with_the_fastest_of_several_numbers_of_threads(found: Mapping[str, Results]) -> None:
    ok = [r for r in ok_of(found["bandwidth"]) if r.factors["agent"] == "cpu"]
    counts = thread_counts(_core.usable_cores(), _core.usable_processors())
    searched = [r for r in ok if r.factors["threads"] == "best"]
    assert searched
    for record in searched:
        tried = {name: value for name, value in record.counters.items() if name.startswith("tried_")}
        assert set(tried) >= {f"tried_{count}" for count in counts}
        assert tried[f"tried_{record.counters['threads']:.0f}"] == max(tried.values(), key=float)
    for record in (r for r in ok if r.factors["threads"] == 0):
        assert record.counters["threads"] == _core.usable_processors()


def test_bandwidth_of_arrays_of_any_size_and_their_ratio_to_the_cache(found: Mapping[str, Results]) -> None:
    devices = {device.name: device for device in found["bandwidth"].machine.devices}
    ok = ok_of(found["bandwidth"])
    for record in ok:
        ratio = record.count("size") / last_level_bytes(devices[record.device])
        expected = ratio if record.factors["arrays"] == "memory" else None
        assert record.counters.get("size_over_last_cache") == pytest.approx(expected)
    sizes = {(r.device, r.factors["arrays"], r.factors["size"]) for r in ok}
    assert sizes >= {("cpu", "memory", 65536), ("cpu", "memory", MiB), ("cpu", "sweep", MiB)}


def test_page_faults_of_pages_that_were_absent_take_longer_than_nothing(found: Mapping[str, Results]) -> None:
    good = ok_of(found["pagefault"])
    for record in good:
        assert record.metric_version == 2
        assert record.summary is not None
        assert record.summary.ci_low > 0
        assert record.counter("pages_per_s") == pytest.approx(1e9 / record.summary.median)
        assert str(record.counters["absent"]).startswith("shown")
    assert {r.factors["allocator"] for r in good if r.device == "cpu"} == {"mmap"}


def test_page_faults_of_one_page_have_a_distribution_of_single_faults(found: Mapping[str, Results]) -> None:
    single = [r for r in ok_of(found["pagefault"]) if r.factors["pages"] == 1]
    assert {"cpu"} <= {r.device for r in single}
    for record in single:
        assert len(record.samples) >= 100
        assert record.counter("p50_ns") <= record.counter("p95_ns") <= record.counter("p99_ns")
        assert min(record.samples) <= record.counter("mean_ns") <= max(record.samples)
        assert record.summary is not None
        assert record.counter("p95_ns") == pytest.approx(record.summary.p95)
    assert not any("p95_ns" in r.counters for r in found["pagefault"].records if r.factors["pages"] != 1)


def test_page_faults_that_cannot_be_measured_say_why_in_words(found: Mapping[str, Results]) -> None:
    known = (
        "below what this machine",
        "before the first touch",
        "fine-grained system SVM",
        "use the CPU's page tables",
        "huge pages were requested",
    )
    reasons = [r.reason for r in found["pagefault"].records if r.status == "skipped"]
    assert all(any(words in reason for words in known) for reason in reasons), reasons
