"""From what predictions of published rows came: the rows on which a platform's values, its statements about devices,
and the rules of the model rest. What came from a row does not judge a prediction by that row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files

import msgspec

from firsttouch.comparison.validation.results import RowRole
from firsttouch.model.platform import Platform
from firsttouch.model.platform_files import StatementSource
from firsttouch.model.values import Value
from firsttouch.records.papers.rows import PaperRow, all_rows, are_met, models_of, papers
from firsttouch.records.reading import PointIdentity

FILE = files("firsttouch.model") / "data" / "rules.json"
"""The rules of the model that are taken from studies, each with the rows that state it, or patterns of their names."""
FITTED = ("fitted", "derived")
"""How values are known that are chosen so that the rows which they name come out; others restate them."""
NOT_TOLD_APART = ("size", "pages", "page_size", "arrays", "access", "stores", "threads")
"""Factors by which values of a file are not told apart: what it has for one of their values, it has for others."""
TIMES = ("ns", "us", "ms", "s", "GB/s", "pages/s")
"""Units of times and rates, of which one follows from the other."""


@cache
def rule_sources() -> list[StatementSource]:
    """What rules are from, with the names of all rows."""
    sources = msgspec.json.decode(FILE.read_bytes(), type=list[StatementSource])
    names = [row.name for row in all_rows()]
    return [
        msgspec.structs.replace(s, rows=[n for n in names if any(fnmatchcase(n, pattern) for pattern in s.rows)])
        for s in sources
    ]


def values_of(platform: Platform) -> Iterator[Value]:
    """The values of a platform, also those that it has under conditions only."""
    described = platform.description
    for values in (described.values, *(part.values for part in described.when)):
        yield from (value for value in values.values() if value is not None)


@dataclass(frozen=True)
class Origins:
    """The origins of a platform's predictions."""

    platform: Platform

    def role(
        self, rows: Collection[PaperRow], unit: str = "", points: Iterable[PointIdentity] = ()
    ) -> tuple[RowRole, str]:
        """The role of what some rows state, and why it is not held. unit, points: of what is predicted for it."""
        named = [self._named[row.name] for row in rows if row.name in self._named]
        if named:
            return min(named, key=lambda role: role[0] != "fitted")
        studies = {row.paper for row in rows}
        stating = [self._row_about(point, studies) for point in points] if unit in TIMES else []
        if stating and all(stating):
            return "input", f"the file has {' and '.join(sorted(set(stating)))}"
        return "held", ""

    @cached_property
    def _named(self) -> Mapping[str, tuple[RowRole, str]]:
        """The role of each row that something names, and what does."""
        named: dict[str, tuple[RowRole, str]] = {
            row.name: ("input", row.here.set_by_call) for row in all_rows() if row.here and row.here.set_by_call
        }
        for statement in (*self.platform.description.sources, *rule_sources()):
            named |= dict.fromkeys(statement.rows, ("input", f"{statement.says} is from it"))
        for value in sorted(values_of(self.platform), key=lambda value: value.entry.how in FITTED):
            role: RowRole = "fitted" if value.entry.how in FITTED else "input"
            named |= dict.fromkeys(value.entry.rows, (role, f"the value {value.name} is {value.entry.how} from it"))
        return named

    @cached_property
    def _rows_with_points(self) -> list[PaperRow]:
        """The rows that values name, and that state a time or a rate of points of this platform, or a ratio of two."""
        names = {row for value in values_of(self.platform) for row in value.entry.rows}
        named = [row for row in all_rows() if row.name in names and row.here]
        named = [row for row in named if row.here and (row.here.unit in TIMES or row.here.relative_to)]
        return [row for row in named if self.platform.name in models_of(papers()[row.paper], row.platform)]

    def _row_about(self, point: PointIdentity, studies: Collection[str]) -> str:
        """The row of a study that states a time or a rate of a point and that the file has; '' if there is none."""
        for row in self._rows_with_points:
            here = row.here
            if here is None or row.paper not in studies or here.experiment != point.experiment:
                continue
            for factors in (here.factors, {**here.factors, **here.relative_to}):
                if are_met({n: v for n, v in factors.items() if n not in NOT_TOLD_APART}, point.factors):
                    return row.id
        return ""
