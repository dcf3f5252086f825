"""The figures of pairs: what a run of one pair with several allocators shows, and one of several pairs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import msgspec
from fake_records import GIB, MIB, a_record

from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.base import ReportSection
from firsttouch.experiments.views.pairs import BETWEEN, BY, OWNER
from firsttouch.records.figures import Bar, Figure, Heat, Line
from firsttouch.records.schema import Record
from firsttouch.report.draw import draw
from firsttouch.report.drawing import DrawingContext
from firsttouch.report.palette import Palette

MEMORY = ("device", "malloc", "pinned")


def copied(source: str, target: str, size: int = 8 * GIB, peer: str = "hip:1", **factors: Any) -> Record:
    usual = {"engine": "cpu", "peer": peer, "direction": "out", "source": source, "target": target}
    record = a_record("p2p-copy", 18.0, {**usual, "first_touch": "cpu", "threads": 1, "size": size, **factors})
    return msgspec.structs.replace(record, device="hip:0")


def section_of(records: Sequence[Record], experiment: str = "p2p-copy") -> ReportSection:
    known = all_experiments()[experiment]
    (section,) = known.sections(known.derive(records), None)
    return section


def titles(section: ReportSection) -> list[str]:
    drawn = [draw(f, section.records, DrawingContext(None, Palette())) for f in section.figures]
    return [drawing.title for drawing in drawn if drawing]


def test_one_pair_with_several_allocators_has_bars_and_a_matrix_of_source_and_target() -> None:
    rows = [copied(a, b, first_touch=by) for a, b, by in product(MEMORY, MEMORY, ("cpu", "gpu"))]
    section = section_of(rows)
    bars, heat = section.figures
    assert isinstance(bars, Bar)
    assert (bars.x, bars.colour) == (BETWEEN, "first_touch")
    assert isinstance(heat, Heat)
    assert (heat.y, heat.x) == ("source", "target")
    assert all(" (hip:0 to hip:1, 8 GiB), " in title for title in titles(section))
    assert [title.rpartition(", ")[2] for title in titles(section)] == ["by first_touch", "for each first_touch"]


def test_bars_are_at_the_largest_size_with_most_allocators() -> None:
    rows = [copied("device", "device", 2**k) for k in (10, 20, 33)] + [copied("pinned", "pinned", 2**20)]
    bars, *curves = section_of(rows).figures
    assert isinstance(bars, Bar)
    assert bars.where["size"] == MIB
    assert curves
    assert all(isinstance(figure, Line) for figure in curves)


def test_several_pairs_are_a_matrix_that_names_memory_and_size() -> None:
    rows = [copied("device", "device", peer=peer) for peer in ("hip:1", "hip:2")]
    (heat,) = section_of(rows).figures
    assert isinstance(heat, Heat)
    assert (heat.x, heat.y) == (OWNER, BY)
    (title,) = titles(section_of(rows))
    assert title.endswith(" (device memory, 8 GiB)")


def test_allocators_have_the_colours_where_more_of_them_than_of_engines_were_measured() -> None:
    def curves(records: Sequence[Record]) -> list[str]:
        def is_curve(figure: Figure) -> bool:
            return isinstance(figure, Line)

        return [figure.colour for figure in filter(is_curve, section_of(records).figures) if isinstance(figure, Line)]

    sizes = (MIB, GIB)
    assert set(curves([copied(a, a, size) for a in MEMORY for size in sizes])) == {BETWEEN}
    engines = [copied("device", "device", size, engine=e) for e in ("kernel", "copy-engine") for size in sizes]
    assert set(curves(engines)) == {"engine"}
