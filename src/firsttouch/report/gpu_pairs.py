"""Several GPUs of a machine on the first screen: a picture of their pairs, and a table of each beside its equals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from firsttouch.experiments.views.equals import FEWEST, alikeness
from firsttouch.experiments.views.gpus import SHARE, EqualGpus, PairsOfLink, equal_gpus, pairs_by_link, picture_of_pairs
from firsttouch.experiments.views.pairs import BY, OWN, OWNER, actor_of, owner_of
from firsttouch.records.figures import Figure, Heat
from firsttouch.records.findings import quantity, ratio_of
from firsttouch.records.schema import PEER, Machine, Record
from firsttouch.records.statements import paragraph
from firsttouch.records.statistics import median_of
from firsttouch.records.text import RATIO, compact, label
from firsttouch.report.sentences import quantity_text, statements

PAIRS = Heat(
    x=OWNER, y=BY, facet="direction", x_title="to", y_title="from", z_title="GB/s", diagonal=OWN,
    title="Copies between GPUs",
)  # fmt: skip
OF_PEAK = replace(
    PAIRS, z=SHARE, z_unit="%", z_title="% of the link's stated peak, of the busier direction",
    title="Copies between GPUs in % of the link's stated peak",
)  # fmt: skip


def pairs_picture(records: Sequence[Record], machine: Machine) -> tuple[Figure | None, Sequence[Record], str]:
    """A picture of the copies between at least three GPUs, its records and its message."""
    shown, findings = picture_of_pairs(records, machine)
    if not shown:
        return None, [], ""
    return OF_PEAK if SHARE in shown[0].counters else PAIRS, shown, " ".join(paragraph(statements(findings)))


@dataclass(frozen=True)
class GpuTable:
    """rows: one of each GPU. kinds: 'apart' for those with a value that is apart from those of the others. notes:
    sentences about the columns.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    kinds: Sequence[str]
    notes: Sequence[str]


def gpu_tables(records: Sequence[Record], machine: Machine) -> list[GpuTable]:
    """What was measured of each GPU beside its equals; one table for each kind of GPU of which there are several."""
    links = pairs_by_link(records, machine, "p2p-copy", direction="out")
    return [_table_of_gpus(equals, links) for equals in equal_gpus(records, machine)]


def _table_of_gpus(equals: EqualGpus, links: Sequence[PairsOfLink]) -> GpuTable:
    columns = {
        f"{measure.title}, {label('size', rows[0].factors['size'])}": _worst_by_gpu(rows, lambda r: r.device)
        for measure, rows in equals.measured
    }
    of_pairs = links if len(equals.names) >= FEWEST else ()
    for title, name_of, other_end in _ENDS if of_pairs else ():
        cells = [_worst_by_gpu(pairs.records, name_of, other_end) for pairs in of_pairs]
        columns[title] = {name: cell for column in cells for name, cell in column.items()}
    rows = [[column.get(name, ("", False)) for column in columns.values()] for name in equals.names]
    texts = [[name, *(text for text, _ in cells)] for name, cells in zip(equals.names, rows, strict=True)]
    kinds = ["apart" if any(apart for _, apart in cells) else "" for cells in rows]
    notes = ["In brackets: the ratio to the usual value, for outliers."] if any(kinds) else []
    if of_pairs:
        first = of_pairs[0].records[0].factors
        notes.append(f"Copies between GPUs: {first['engine']}, {label('size', first['size'])}, one way.")
    return GpuTable(["GPU", *columns], texts, kinds, notes)


_ENDS: Sequence[tuple[str, Callable[[Record], str], Callable[[Record], str]]] = (
    ("slowest copy to another", lambda r: r.device, lambda r: f"to {owner_of(r)}"),
    ("slowest copy from another", lambda r: str(r.factors[PEER]), lambda r: f"from {actor_of(r)}"),
)
"""Columns about the pairs of a GPU: the title, to which GPU a point belongs, and what the other one is called."""


def _worst_by_gpu(
    records: Sequence[Record], name_of: Callable[[Record], str], named: Callable[[Record], str] | None = None
) -> dict[str, tuple[str, bool]]:
    """For each GPU its worst record as text, and whether that is apart from the usual one, whose ratio it then has."""
    alikeness_of_records, cells = alikeness(records), dict[str, tuple[str, bool]]()
    for record in sorted(records, key=median_of, reverse=records[0].better == "lower"):
        text, apart = (
            quantity_text(quantity(record)),
            any(record is apart_record for apart_record in alikeness_of_records.apart),
        )
        if apart:
            ratio = compact(ratio_of(quantity(record), quantity(alikeness_of_records.usual)).value, RATIO)
            text += f" ({ratio}" + (f", {named(record)})" if named else ")")
        cells.setdefault(name_of(record), (text, apart))
    return cells
