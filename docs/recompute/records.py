"""Records by what they were measured with, and how their values are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from firsttouch.analysis.statistics import value
from firsttouch.records.reading import Results, load_results
from firsttouch.records.schema import Record, Scalar
from firsttouch.units import parse_size

Terms = Mapping[str, Scalar]


@dataclass(frozen=True)
class Directory:
    path: Path
    results: Results

    @property
    def name(self) -> str:
        return f"results/{self.path.name}"

    @property
    def records(self) -> Sequence[Record]:
        return self.results.records


@cache
def load(path: Path) -> Directory:
    return Directory(path, load_results(path))


def terms(text: str) -> Terms:
    """'allocator=malloc size=4MiB' as a mapping."""
    return {name: _value(v) for name, v in (term.split("=", 1) for term in text.split())}


def _value(text: str) -> Scalar:
    if text.endswith("iB"):
        return parse_size(text)
    return int(text) if text.lstrip("-").isdigit() else text


def matches(record: Record, wanted: Terms) -> bool:
    """Whether a record has these factors. One that it lacks, as a record of an earlier version may, does not count."""
    return all(
        record.device == v if name == "device" else record.factors.get(name, v) == v for name, v in wanted.items()
    )


def one(records: Sequence[Record], wanted: Terms) -> Record | None:
    """The only record with these factors, or None. Raises ValueError if there are several."""
    found = [record for record in records if matches(record, wanted)]
    if len(found) > 1:
        names = sorted({n for r in found for n in r.factors if len({repr(o.factors.get(n)) for o in found}) > 1})
        raise ValueError(f"{len(found)} records have {dict(wanted)}; they differ in {', '.join(names)}")
    return found[0] if found else None


def number_of(record: Record, name: str) -> float | None:
    """The median or a counter, if it is a number."""
    v = value(record, name)
    return None if isinstance(v, str | None) else float(v)


def digits(x: float) -> str:
    """Three significant digits; four of a number from 1000 on."""
    if abs(x) >= 1000:
        return f"{float(f'{x:.4g}'):,.0f}" if abs(x) >= 9999.5 else f"{x:.0f}"
    if x and abs(x) < 1e-4:
        return f"{x:.2e}"
    text = f"{float(f'{x:.3g}'):#.3g}".rstrip(".")
    return text.rstrip("0").rstrip(".") if float(x).is_integer() else text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return (
        "".join(f"| {' | '.join(row)} |\n".replace("|---", "|---") for row in lines)
        .replace("| --- ", "|---")
        .replace("|--- |", "|---|")
    )
