"""Published values of other machines stand in the sections of their experiments, and say whose they are."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.comparison.made_up import results_of
from tests.comparison.test_beside import app_records
from tests.texts import assert_states

from firsttouch.experiments import all_experiments
from firsttouch.harness.experiment import Applications
from firsttouch.records.papers.rows import APPLICATIONS, all_rows
from firsttouch.records.reading import Results, load_results
from firsttouch.report.chapters import chapters
from firsttouch.report.published import published_tables

RUN = load_results(Path(__file__).resolve().parents[2] / "results" / "h200-standard")


def test_the_tables_name_the_machine_and_the_source() -> None:
    table = published_tables(RUN.records, RUN.machine.devices)["latency", "cuda:0", None]
    row = next(row for row in table.rows if "4 GiB" in row[0])
    assert row[1:] == ["336 ns", "333 to 350 ns", "AMD Instinct MI300A", "Wahlgren et al. 2025, Sec. IV-A"]
    (stated,) = (each for each in all_rows() if each.says.rstrip(".") == row[0])
    assert stated.note
    assert any(caveat.rstrip(".") == stated.note.rstrip(".") for caveat in table.caveats)


def test_the_first_section_of_an_experiment_on_a_device_has_the_table() -> None:
    records = [r for r in RUN.records if r.experiment in ("allocation", "tlb")]
    machine = msgspec.structs.replace(RUN.machine, warnings=[])
    (chapter,) = chapters({"h200": Results(machine, RUN.request, records)}, all_experiments())
    with_table = {(s.experiment, s.device) for s in chapter.sections if s.published}
    assert with_table == {("allocation", "cuda:0")}
    section = next(s for s in chapter.sections if s.published)
    assert "published results" in section.more


def test_each_application_has_a_table_of_its_own() -> None:
    times = {"explicit": 100.0, "unified": 80.0}
    records = [r for app in ("backprop", "dwt2d", "nw") for r in app_records("mi300a-xnack", app, times)]
    known = {**all_experiments(), APPLICATIONS: Applications()}
    (chapter,) = chapters({"out": results_of("mi300a-xnack", records)}, known)
    tables = {str(s.records[0].factors["app"]): s.published for s in chapter.sections if not s.overview}
    assert {app for app, table in tables.items() if table} == {"backprop", "dwt2d"}
    assert tables["backprop"] is not None
    here = {row[1] for row in tables["backprop"].rows}
    assert_states(here, "0.8 times", "unified over explicit", "app backprop", "size default")
    assert ([row[2] for row in tables["backprop"].rows], len(here)) == (["0.65 times", "0.81 times"], 1)
