"""A small run of one experiment on this machine's devices, and the tests that every such run must pass.

A test file subclasses SmallRun with the experiment's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import pytest

from firsttouch.analysis.statistics import measured
from firsttouch.experiments import all_experiments
from firsttouch.records.reading import Results, point_key
from firsttouch.records.schema import DeviceInfo
from firsttouch.report.draw import draw
from firsttouch.report.drawing import DrawingContext
from firsttouch.report.palette import Palette
from firsttouch.report.sentences import sentences

SMALL: dict[str, list[str]] = {
    "latency": ["size=4KiB,1MiB"],
    "bandwidth": [
        "arrays=memory,sweep",
        "size=64KiB,1MiB",
        "allocator=malloc,device,svm-fine",
        "kernel=triad,read",
        "threads=0,best",
    ],
    "transfer": ["size=1,4096,1000003"],
    "allocation": ["size=64,64KiB"],
    "pagefault": ["pages=1,64"],
    "faultcount": ["size=1MiB"],
    "context": ["phase=context,launch-next"],
    "codegen": [],
    "concurrency": ["size=1MiB", "iterations=10", "cpu_half=same,svm-fine"],
    "accounting": ["size=16MiB"],
    "atomics": ["elements=2^10", "allocator=malloc,device,svm-atomic", "gpu_threads=0,64", "reading=progress"],
    "caching": ["threads=0,1,2,1024", "allocator=malloc,device,svm-fine", "padding=0,128", "size=auto,1MiB"],
    "locking": ["sections=100"],
    "tlb": ["pages=8,64", "stride=4KiB,64KiB"],
    "migration": ["size=4MiB", "iterations=4"],
}
"""The --set options of each experiment's small run."""


class SmallRun:
    name: ClassVar[str]
    empty_figures: ClassVar[Mapping[str, set[int]]] = {}
    """By device, the indices of figures that have nothing to show. All others must be drawn."""
    may_be_negative: ClassVar[bool] = False
    """True if a sample is a difference, which noise can make negative."""
    shows_derived: ClassVar[bool] = False
    """True if figures show what the experiment derives from several records."""
    may_be_empty: ClassVar[Mapping[str, set[int]]] = {}
    """By device, the indices of figures that have nothing to show where this machine cannot resolve their points."""
    states_buffers: ClassVar[bool] = False
    """True if records say where their buffers are."""

    @pytest.fixture
    def results(self, small_run: Callable[[str], Results]) -> Results:
        return small_run(self.name)

    def test_every_point_is_measured_and_verified(self, results: Results) -> None:
        for record in results.records:
            assert record.experiment == self.name
            assert record.status in ("ok", "skipped"), record.reason
            assert record.status == "ok" or record.reason
            assert record.verified is not False, record.factors
            if record.status == "ok":
                assert record.summary is not None
                assert record.summary.n == len(record.samples)
                assert record.summary.min <= record.summary.ci_low <= record.summary.median <= record.summary.ci_high
                assert record.verified is True or record.verified_why
                assert self.may_be_negative or record.summary.median >= 0

    def test_every_device_that_supports_the_experiment_is_measured(self, results: Results) -> None:
        experiment = all_experiments()[self.name]
        able = {d.name for d in results.machine.devices if d.available and not experiment.supports(d)}
        assert "opencl:0" in able
        assert {r.device for r in results.records if r.status == "ok"} == able

    def test_findings_refer_to_points_and_the_expected_figures_are_drawn(self, results: Results) -> None:
        experiment = all_experiments()[self.name]
        for device in results.machine.devices:
            good = measured([r for r in results.records if r.device == device.name])
            if not good:
                continue
            findings = experiment.findings(good, device)
            held = {point_key(r.experiment, r.device, r.factors) for r in good}
            assert {one.claim.id.partition(".")[0] for one in findings} == {self.name}
            assert all(held.issuperset(one.points) and one.points for one in findings)
            assert all(sentence.endswith(".") for sentence in sentences(findings))
            shown = experiment.derive(good) if self.shows_derived else good
            drawn = {i for i, f in enumerate(experiment.figures) if draw(f, shown, DrawingContext(device, Palette()))}
            expected = set(range(len(experiment.figures))) - self.empty_figures.get(device.name, set())
            unsure = self.may_be_empty.get(device.name, set())
            assert drawn - unsure == expected - unsure

    def test_no_records_have_no_findings(self) -> None:
        device = DeviceInfo(name="cpu", kind="cpu", title="")
        assert list(all_experiments()[self.name].findings([], device)) == []

    def test_buffers_of_the_host_say_where_they_are(self, results: Results) -> None:
        facts = [fact for r in results.records if r.device == "cpu" and r.status == "ok" for fact in r.buffers]
        assert bool(facts) == self.states_buffers
        for fact in facts:
            assert fact.numa_node is not None
            assert fact.page_bytes in (4096, 16384, 65536, 2 * 1024**2)
