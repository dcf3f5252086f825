"""What `import firsttouch` offers: the commands as functions. They return what the commands print with --json.

firsttouch/__init__.py has the functions with their documentation and imports this module when one is called.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.base.errors import UsageError
from firsttouch.cli import commands
from firsttouch.records.reading import Results, flat_rows, load_results
from firsttouch.records.schema import Record
from firsttouch.records.text import compact, count

if TYPE_CHECKING:
    from firsttouch.cli.commands import CommandResult
    from firsttouch.engine.planned import Planned
    from firsttouch.engine.work import Work

PathLike: TypeAlias = "str | os.PathLike[str]"
Data: TypeAlias = dict[str, Any]
Strings: TypeAlias = "str | Iterable[str] | None"
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


def compare(sides: Sequence[PathLike], fail_over: float | str | None) -> Data:
    from firsttouch.comparison.compare import limit_of

    limit = None if fail_over is None else limit_of(str(fail_over))
    return _builtins(commands.compare([os.fspath(side) for side in sides], limit))


def advise(directories: Sequence[PathLike], modules: Strings, profile: PathLike | None, **options: Any) -> Data:
    traced = None if profile is None else Path(profile)
    return _builtins(commands.advise([*map(Path, directories)], modules=_paths(modules), profile=traced, **options))


def port(directory: PathLike, process: int | None) -> Data:
    return _builtins(commands.port(Path(directory), process))


def platforms(name: str | None, what_if: Mapping[str, str] | None) -> Data:
    return _builtins(commands.platforms(name, [f"{value}={text}" for value, text in (what_if or {}).items()]))


def published(search: str | None, figures: bool) -> Data:
    return _builtins(commands.paper_figures(search) if figures else commands.published(search))


def claims(directories: Sequence[PathLike]) -> Data:
    return _builtins(commands.claims([*map(Path, directories)]))


def validate(names: Sequence[str], rows: PathLike | None, measured: Sequence[PathLike]) -> Data:
    return _builtins(commands.validate(names, None if rows is None else Path(rows), [*map(Path, measured)]))


def interfaces(directory: PathLike, kind: Strings) -> Data:
    return _builtins(commands.interfaces(Path(directory), _words(kind)))


def describe_machine() -> Data:
    return _builtins(commands.machine())


def methods(device: Strings, verify: bool) -> Data:
    return _builtins(commands.methods(_words(device), (lambda cell: None) if verify else None))


def measure(
    kind: str,
    names: Sequence[str],
    *,
    device: Strings,
    what_if: Mapping[str, Any] | None,
    sets: Mapping[str, Any] | None,
    out: PathLike | None,
    modules: Strings,
    trust_verified: PathLike | None,
    placements: bool = False,
    explain: bool = False,
    kernels: PathLike | None = None,
    **options: Any,
) -> Data:
    """Carries out `firsttouch run` or `firsttouch app`."""
    from firsttouch.engine.request import RunOptions
    from firsttouch.engine.runner import run
    from firsttouch.engine.verified import read_verified_facts
    from firsttouch.engine.work_kinds import KINDS
    from firsttouch.harness.placements import with_search
    from firsttouch.model.what_if import with_changes, with_kernels

    work: Work = KINDS[kind]
    chosen = {name: _values(values) for name, values in (sets or {}).items()}
    changes = [f"{n}={','.join(_values(v))}" for n, v in (what_if or {}).items()]
    options_of_run = RunOptions(
        experiments=list(names),
        devices=with_kernels(with_changes(_words(device), changes), None if kernels is None else str(kernels)),
        set=with_search(chosen) if placements else chosen,
        out=None if out is None else Path(out),
        modules=_paths(modules),
        trust=None if trust_verified is None else read_verified_facts(Path(trust_verified)).apply,
        **options,
    )
    if explain:
        commands.check_explained(options_of_run.devices)
    outcome = run(work, options_of_run, _Silent())
    if explain:
        commands.explained(work, outcome)
    return _builtins(commands.measured(outcome))


class _Silent:
    """Shows no progress. Warnings become warnings of Python."""

    def warn(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)

    def note(self, text: str) -> None:
        pass

    def begin(self, directory: Path, todo: Sequence[Planned], held: int) -> None:
        pass

    def point(self, planned: Planned) -> None:
        pass

    def recorded(self, planned: Planned, record: Record) -> None:
        pass


def _builtins(result: CommandResult[Any]) -> Data:
    """What --json prints, as Python's own types."""
    return msgspec.json.decode(encode_json(result.output), type=Data)


def _words(texts: Strings) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts or [])


def _paths(paths: Strings) -> list[str]:
    return [os.path.abspath(path) for path in _words(paths)]


def _values(values: Any) -> list[Any]:
    """The values of a factor as --set has them: a text may hold several, separated by commas."""
    if isinstance(values, str):
        return [word.strip() for word in values.split(",")]
    return [str(value) for value in values] if isinstance(values, Iterable) else [str(values)]
