"""The points of results directories in Python: `firsttouch.load`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, overload

from firsttouch.base.errors import UsageError
from firsttouch.records.reading import Results, flat_rows, load_results
from firsttouch.records.text import compact, count

PathLike: TypeAlias = "str | os.PathLike[str]"
Data: TypeAlias = dict[str, Any]
MOST_ROWS = 20
"""The most rows that a notebook shows."""


class Points(Sequence[Data]):
    """The points of one or several results directories, as a sequence of flat rows.

    A notebook shows it as a table; `to_pandas` makes it a data frame, and `plot` draws an experiment.
    """

    def __init__(self, results: Mapping[str, Results]) -> None:
        self._results = results
        self._rows = flat_rows(results)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: slice) -> list[Data]: ...
    def __getitem__(self, index: int | slice) -> Data | list[Data]:
        return self._rows[index]

    def __repr__(self) -> str:
        predicted = sum(row["modelled"] is not None for row in self._rows)
        predicted_words = f", {predicted} of them predicted" if predicted else ""
        return (
            f"<{count(len(self), 'point')} of {', '.join(self._results)}{predicted_words}: "
            f"{', '.join(self.experiments)}>"
        )

    def _repr_html_(self) -> str:
        """The first rows, with the factors that any of them has. All text is escaped."""
        from html import escape

        shown = self._rows[:MOST_ROWS]
        factors = [
            name for name in self.columns if name.startswith("factors.") and any(r[name] is not None for r in shown)
        ]
        heads = [*(["run"] if len(self._results) > 1 else []), "experiment", "device", *factors]
        heads += ["modelled"] if any(row["modelled"] is not None for row in self._rows) else []
        cells = [
            [*("" if row[n] is None else str(row[n]) for n in heads), _median(row), row["status"]] for row in shown
        ]
        names = [*(name.removeprefix("factors.") for name in heads), "median", "status"]
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
        more = f"<p>{count(len(self) - len(shown), 'more point')}</p>" if len(self) > len(shown) else ""
        heading = "".join(f"<th>{escape(name)}</th>" for name in names)
        return f"<table><thead><tr>{heading}</tr></thead><tbody>{rows}</tbody></table>{more}"

    @property
    def columns(self) -> list[str]:
        """The names of the columns, which all rows have."""
        return [*self._rows[0]] if self._rows else []

    @property
    def experiments(self) -> list[str]:
        """The experiments that the points are of."""
        return list(dict.fromkeys(row["experiment"] for row in self._rows))

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a row per point. Raises UsageError if pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise UsageError("to_pandas() needs pandas; install it with `pip install pandas`") from None
        return pandas.DataFrame(self._rows, columns=self.columns)

    def plot(self, experiment: str | None = None, device: str | None = None) -> Any:
        """An altair chart: the first figure of an experiment on a device, with a colour for each of several runs.

        experiment: by default the first that was measured. device: by default a GPU if it has points. Raises
        UsageError if there is nothing to draw, or if altair is not installed.
        """
        from firsttouch.report.overlay import chart

        return chart(self._results, experiment, device)


def _median(row: Data) -> str:
    median = row.get("summary.median")
    return "" if median is None else f"{compact(median, '')} {row['unit']}"


def load(directories: Sequence[PathLike]) -> Points:
    if not directories:
        raise UsageError("name a results directory to load, such as firsttouch.load('results/h200-standard')")
    return Points({os.fspath(directory): load_results(Path(directory)) for directory in directories})
