"""Published values of other machines stand in the sections of their experiments, and say whose they are."""

from __future__ import annotations

from pathlib import Path

import msgspec

from firsttouch.experiments import all_experiments
from firsttouch.records.reading import Results, load_results
from firsttouch.report.chapters import chapters
from firsttouch.report.published import published_tables

RUN = load_results(Path(__file__).resolve().parents[2] / "results" / "h200-standard")


def test_the_tables_name_the_machine_and_the_source() -> None:
    table = published_tables(RUN.records, RUN.machine.devices)["latency", "cuda:0"]
    row = next(row for row in table.rows if "4 GiB" in row[0])
    assert row == [
        "A GPU load served by HBM takes 333 to 350 ns at 4 GiB",
        "336 ns",
        "333 to 350 ns",
        "AMD Instinct MI300A",
        "Wahlgren et al. 2025, Sec. IV-A",
    ]
    assert "The text gives the spread over all allocators." in table.caveats


def test_the_first_section_of_an_experiment_on_a_device_has_the_table() -> None:
    records = [r for r in RUN.records if r.experiment in ("allocation", "tlb")]
    machine = msgspec.structs.replace(RUN.machine, warnings=[])
    (chapter,) = chapters({"h200": Results(machine, RUN.request, records)}, all_experiments())
    with_table = {(s.experiment, s.device) for s in chapter.sections if s.published}
    assert with_table == {("allocation", "cuda:0")}
    section = next(s for s in chapter.sections if s.published)
    assert "published results" in section.more
