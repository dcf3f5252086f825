"""Records by what they were measured with, and how their values are written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from firsttouch.base.units import parse_size
from firsttouch.model.fit import file_text, fitted_platform
from firsttouch.model.platform import Platform, load_platform
from firsttouch.records.reading import Results, load_results
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.statistics import value

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT, ROOT / "evidence")
"""Those with a folder results/: of the runs that the package ships, and of the others."""
Terms = Mapping[str, Scalar]


@dataclass(frozen=True, eq=False)
class Directory:
    path: Path
    results: Results

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def records(self) -> Sequence[Record]:
        return self.results.records


def matching(pattern: str) -> list[Path]:
    """The directories that a pattern such as results/h200-apps* means, by name."""
    return sorted((path for folder in FOLDERS for path in folder.glob(pattern)), key=lambda path: path.name)


@cache
def load(path: Path) -> Directory:
    return Directory(path, load_results(path))


def directory(name: str) -> Directory:
    """The results of a name, kept for tests or as evidence."""
    return load(matching(f"results/{name}")[0])


@cache
def known_platform(name: str) -> Platform:
    """A platform of the program, read once."""
    return load_platform(name)


@cache
def fitted(directories: tuple[Directory, ...], base: str) -> Platform:
    """The platform of a file that is fitted to the first GPU of micro-measurements."""
    device = next(d for d in directories[0].results.machine.devices if d.name == "cuda:0")
    content = fitted_platform({d.name: d.results for d in directories}, device, "one machine", base)
    with TemporaryDirectory() as folder:
        (path := Path(folder) / "fitted.json").write_text(file_text(content), encoding="utf-8")
        return load_platform(str(path))


def terms(text: str) -> Terms:
    """'allocator=malloc size=4MiB' as a mapping."""
    return {name: _value(v) for name, v in (term.split("=", 1) for term in text.split())}


def _value(text: str) -> Scalar:
    try:
        return parse_size(text) if text.endswith("B") else int(text)
    except ValueError:
        return text


def matches(record: Record, wanted: Terms) -> bool:
    """Whether a record has these factors. One that it lacks, as a record of an earlier version may, does not count."""
    return all(
        record.device == v if name == "device" else record.factors.get(name, v) == v for name, v in wanted.items()
    )


def only(records: Sequence[Record], wanted: Terms) -> Record | None:
    """The only record with these factors, or None. Raises ValueError if there are several."""
    matching = [record for record in records if matches(record, wanted)]
    if len(matching) > 1:
        names = sorted({n for r in matching for n in r.factors if len({repr(o.factors.get(n)) for o in matching}) > 1})
        raise ValueError(f"{len(matching)} records have {dict(wanted)}; they differ in {', '.join(names)}")
    return matching[0] if matching else None


def number_of(record: Record, name: str) -> float | None:
    """The median or a counter, if it is a number."""
    v = value(record, name)
    return None if isinstance(v, str | None) else float(v)


def digits(x: float) -> str:
    """Three significant digits without an exponent; four of a number from 1000 on."""
    if abs(x) >= 999.5:
        rounded = float(f"{x:.4g}")
        return f"{rounded:,.0f}" if abs(rounded) >= 10_000 else f"{rounded:.0f}"
    text = f"{Decimal(f'{x:.2e}'):f}"
    return text.rstrip("0").rstrip(".") if float(x).is_integer() and "." in text else text


def exact(x: float) -> str:
    """A count, with commas from 10,000 on."""
    return f"{x:,.0f}" if abs(x) >= 10_000 else f"{x:.0f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, *rows]
    first, *rest = [re.sub(r"  +", " ", f"| {' | '.join(row)} |") for row in lines]
    return "\n".join([first, "|---" * len(head) + "|", *rest, ""])
