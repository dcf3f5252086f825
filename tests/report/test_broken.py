"""One record on which the code of an experiment fails costs no section: it is left out, and named with the reason."""

from __future__ import annotations

import msgspec
import pytest
import sample

from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.base import Experiment, ReportSection
from firsttouch.records.figures import Bar
from firsttouch.records.findings import Claim, Quantity, finding
from firsttouch.records.schema import SCHEMA, Metric, Record
from firsttouch.report.answers import answered
from firsttouch.report.broken import without_broken
from firsttouch.report.first_screen import first_screen
from firsttouch.report.page import render

STEPS = ("derive", "sections", "findings", "claim", "none")


class Own(Experiment):
    """Fails in one step on records whose counter is missing."""

    name, question, counted, source = "own", "Whose?", "All.", "tests"
    metric = Metric("ns", "lower")
    figures = (Bar(x="size", colour=""),)

    def __init__(self, step):
        self.step = step

    def _use(self, step, records):
        if step == self.step:
            for record in records:
                record.counters["used"]

    def derive(self, records):
        self._use("derive", records)
        return list(records)

    def sections(self, records, device):
        self._use("sections", records)
        return [ReportSection(self.question, records, self.figures)]

    def findings(self, records, device):
        self._use("findings", records)
        if self.step == "claim" and any("used" not in r.counters for r in records):
            return [finding(Claim("own.odd", "{odd} here"), records, Quantity(1.0))]
        return [finding(Claim("own.all", "{value} points"), records, str(len(records)))]


def records_of(*broken, n=40):
    return [
        sample.point("own", "cpu", 5.0 + i, factors={"size": 2**i}, counters={} if i in broken else {"used": 1})
        for i in range(n)
    ]


def page_of(records, step):
    results = sample.results()
    results.records = records
    return render({"out": results}, {"own": Own(step)})


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("broken", "names"), [((7,), ["128 B"]), ((0, 39), ["1 B", "512 GiB"])])
def test_the_record_is_left_out_and_named(step, broken, names):
    page = page_of(records_of(*broken), step)
    left_out = [] if step == "none" else names
    assert ("(KeyError)" in page) == bool(left_out)
    assert all(f"size {name} (KeyError)" in page for name in left_out)
    assert f"{40 - len(left_out) if step in ('findings', 'claim', 'none') else 40} points" in page
    assert "All 40 measured points" in page


@pytest.mark.usefixtures("undrawn")
def test_what_fails_on_every_record_is_told_once():
    records = records_of(*range(40))
    (part,) = answered(records, [], {"own": Own("findings")})
    assert (part.answer.findings, part.answer.left_out) == ((), "")
    assert "(KeyError)" in part.answer.problem
    assert page_of(records, "findings").count("(KeyError)") == 1


def test_records_that_were_only_too_few_are_not_blamed():
    def at_least_three(records):
        if len(records) < 3 or any("used" not in r.counters for r in records):
            raise ValueError
        return len(records)

    for n, broken in ((8, 1), (8, 7), (5, 2)):
        spared = without_broken(records_of(broken, n=n), at_least_three)
        assert spared.value == n - 1
        assert [r.factors["size"] for r, _ in spared.broken] == [2**broken]


@pytest.mark.usefixtures("undrawn")
def test_a_figure_and_the_first_screen_do_without_it_too(monkeypatch):
    from firsttouch.report import bar
    from firsttouch.report import first_screen as screens

    class Odd(Exception):
        pass

    def fail(figure, records, context, draw=bar.draw):
        if any("used" not in r.counters for r in records):
            raise Odd
        return draw(figure, records, context)

    def odd(records, machine):
        return [r.counters["used"] for r in records][:0]

    monkeypatch.setattr("firsttouch.report.draw.KINDS", {Bar: fail})
    assert "size 8 B (Odd)" in page_of(records_of(3, n=6), "none")
    monkeypatch.setattr(screens, "headlines", odd)
    results = sample.results()
    results.records = records_of(4, n=6)
    assert "size 16 B (KeyError)" in " ".join(first_screen(results, []).left_out)
    page = page_of(records_of(*range(6), n=6), "none")
    assert "(Odd)" in page
    assert "B (Odd)" not in page  # all records fail, so that none is named


@pytest.mark.parametrize("name", all_experiments())
def test_a_device_on_which_an_experiment_was_skipped_costs_no_section(name):
    """Its one record has no factors: no experiment derives anything from it, and its table has it."""
    skipped = Record(
        schema=SCHEMA,
        experiment=name,
        device="hip:1",
        factors={},
        unit="",
        status="skipped",
        reason="no peer",
    )
    sections = list(answered([skipped], [], all_experiments()))
    assert [section.section.records for section in sections] == [[skipped]]
    assert not sections[0].answer.findings
    assert "no peer" in sections[0].answer.problem


def test_the_pairs_of_other_devices_are_shown_beside_a_skipped_one():
    pair = {"agent": "gpu", "peer": "hip:1", "allocator": "device"}
    rows = [sample.point("p2p-latency", "hip:0", 700.0, factors={**pair, "size": size}) for size in (2**20, 2**30)]
    skipped = msgspec.structs.replace(rows[0], device="hip:1", factors={}, status="skipped", reason="no peer hip:1")
    (section,) = answered([*rows, skipped], [], all_experiments())
    assert not section.answer.left_out
    assert section.answer.findings
    assert len(section.section.records) == 3


def test_devices_without_points_for_one_reason_are_one_section():
    def skipped(name, device, reason):
        return Record(
            schema=SCHEMA, experiment=name, device=device, factors={}, unit="", status="skipped", reason=reason
        )

    measured = sample.point("latency", "cuda:0", 600.0, factors={"agent": "gpu", "allocator": "device", "size": 2**20})
    rows = [measured, *(skipped("latency", f"cuda:{n}", "no kernels") for n in (1, 2, 3))]
    rows += [skipped("latency", "cpu", "no loads"), skipped("tlb", "cuda:1", "no kernels")]
    parts = [*answered(rows, [], all_experiments())]
    assert [(part.title, [*part.devices]) for part in parts] == [
        ("latency", ["cuda:0"]),
        ("latency", ["cuda:1", "cuda:2", "cuda:3"]),
        ("latency", ["cpu"]),
        ("tlb", ["cuda:1"]),
    ]
    for part, reason in zip(parts[1:], ("no kernels", "no loads", "no kernels"), strict=True):
        assert reason in part.answer.problem
