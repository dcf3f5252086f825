"""The page of a comparison: the conditions that differ, the answer, and dot plots of ratios.

Opened on demand: a table of experiments, and for each that differs its figures and its points.

Figures are those of the experiment, with a colour for each side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from firsttouch.base.encoding import encode_json, encode_text
from firsttouch.base.errors import UsageError
from firsttouch.base.files import write_atomically
from firsttouch.comparison.answers import answers, phase_answers
from firsttouch.comparison.compare import ResultsComparison, compare_results
from firsttouch.comparison.differences import ExperimentDifference, SideValue
from firsttouch.comparison.runs import PHASE, factors_of
from firsttouch.comparison.table import Column, with_peer
from firsttouch.comparison.tables import (
    ComparisonTable,
    table_of_experiments,
    table_of_place,
    table_of_places,
    table_of_points,
)
from firsttouch.comparison.words import (
    condition_rows,
    conditions_by_column,
    group_line,
    not_judged,
    notes,
    regression_lines,
    sentences,
    short_names,
    title_of,
    what_to_type,
)
from firsttouch.experiments.contract.base import Experiment
from firsttouch.records.reading import load_results, point_key
from firsttouch.records.schema import Record
from firsttouch.records.statistics import measured
from firsttouch.records.text import count, join_names
from firsttouch.report.drawing import Drawing, DrawnFigure
from firsttouch.report.overlay import overlaid, with_factor
from firsttouch.report.palette import Palette
from firsttouch.report.permalinks import SIDE, id_of, section_id, unused
from firsttouch.report.ratios import dot_plots
from firsttouch.report.said_once import of_several
from firsttouch.report.svg import to_svgs
from firsttouch.report.templates import filled_in

PAGE = "compare.html"
MOST_SIDES = 8
"""The most sides in a figure."""
MOST_SECTIONS = 16
MOST_POINTS = 200
MOST_PLACE_POINTS = 40
MOST_SAID = 3


@dataclass
class ComparedExperiment:
    """An experiment on one device: the rows of its points for each side, and its figures."""

    anchor: str
    title: str
    says: str
    """What differs in it."""
    question: str
    tables: list[tuple[str, ComparisonTable, list[str]]]
    """For each side: its name, its points, and their ids."""
    drawings: list[DrawnFigure] = field(default_factory=list)
    phases: ComparisonTable | None = None
    """The phases of an application, if some differ."""


def render(comparison: ResultsComparison, experiments: Mapping[str, Experiment]) -> str:
    """The comparison as one self-contained HTML page."""
    short, conditions = short_names(comparison), conditions_by_column(comparison.table.columns)
    by_experiment: dict[tuple[str, str], list[ExperimentDifference]] = {}
    for group in comparison.groups:
        by_experiment.setdefault((group.experiment, group.device), []).append(group)
    records, phases = _records(comparison, short), _phases(comparison)
    palette = Palette()
    sections: list[ComparedExperiment] = []
    keys: list[tuple[str, str]] = []
    ids: dict[Column, str] = {}
    taken = {"experiments", "conditions", "notes", "places", "ratios"}
    for key, groups in by_experiment.items():
        if len(sections) == MOST_SECTIONS or not (any(comparison.is_shown(group) for group in groups) or key in phases):
            continue
        section = _section(section_id(key, "", taken), comparison, groups, short, conditions, experiments, taken)
        ids |= {d.column: _id(d.column) for g in groups for d in comparison.points_of(g)[:MOST_POINTS]}
        keys.append(key)
        section.drawings = [
            DrawnFigure(drawing, "") for drawing in _drawings(records.get(key, []), experiments, palette)
        ]
        if of_it := phases.get(key):
            section.phases = table_of_experiments(comparison, of_it, len(of_it), "phase")
        sections.append(section)
    anchors = {key: section.anchor for section, key in zip(sections, keys, strict=True)}
    plots = dot_plots(comparison, conditions, anchors, ids)
    of_several(plots, plots, ())
    images = iter(
        to_svgs([d.spec for d in (*plots, *(shown.drawing for section in sections for shown in section.drawings))])
    )
    drawn = [DrawnFigure(drawing, next(images)) for drawing in plots]
    for section in sections:
        section.drawings = [DrawnFigure(shown.drawing, next(images)) for shown in section.drawings]
    shown = [g for g in comparison.groups if not comparison.differences.fleet or g.differing]
    return filled_in(
        "comparison.html.j2",
        title=_title(comparison, short),
        headlines=sentences([*answers(comparison), *phase_answers(comparison)], comparison),
        limit=comparison.limit,
        not_judged=not_judged(comparison),
        regressions=regression_lines(comparison),
        places=table_of_places(comparison, MOST_POINTS) if comparison.places else None,
        of_places=[
            table_of_place(comparison, place, conditions, MOST_PLACE_POINTS)
            for place in comparison.places[:MOST_SECTIONS]
        ],
        all_experiments=table_of_experiments(comparison, shown, MOST_POINTS),
        plots=drawn,
        calls=what_to_type(comparison),
        sections=sections,
        conditions=condition_rows(comparison),
        base=short[comparison.base],
        notes=[*notes(comparison), *(f"Left out: {bad.reason}." for bad in comparison.unreadable)],
    )  # fmt: skip


def _phases(comparison: ResultsComparison) -> dict[tuple[str, str], list[ExperimentDifference]]:
    """The phases of each application and device of which some differ, those that differ most first."""
    if comparison.phases is None:
        return {}
    by_application: dict[tuple[str, str], list[ExperimentDifference]] = {}
    for group in comparison.phases.groups:
        by_application.setdefault((group.experiment.partition(":")[0], group.device), []).append(group)
    return {key: groups for key, groups in by_application.items() if any(comparison.is_shown(g) for g in groups)}


def _title(comparison: ResultsComparison, short: Mapping[str, str]) -> str:
    first, *other_sides = [short[name] for name in comparison.names]
    return (
        f"{count(len(comparison.sides), comparison.kind)} compared"
        if comparison.differences.fleet
        else f"{join_names(other_sides)} against {first}"
    )


def _section(
    anchor: str,
    comparison: ResultsComparison,
    groups: Sequence[ExperimentDifference],
    short: Mapping[str, str],
    conditions: Mapping[Column, str],
    experiments: Mapping[str, Experiment],
    taken: set[str],
) -> ComparedExperiment:
    tables = []
    for group in groups:
        if points := comparison.points_of(group):
            ids = [unused(_id(d.column), taken) for d in points[:MOST_POINTS]]
            table = table_of_points(comparison, group, points, conditions, MOST_POINTS)
            tables.append((short[group.side], table, ids))
    name = comparison.points_of(groups[0])[0].column.definition.experiment if comparison.points_of(groups[0]) else ""
    experiment = experiments.get(name)
    return ComparedExperiment(
        anchor,
        title_of(groups[0], of_devices=comparison.of_devices),
        _says([group for group in groups if comparison.is_shown(group)], comparison, short),
        experiment.question if experiment else "",
        tables,
    )


def _says(groups: Sequence[ExperimentDifference], comparison: ResultsComparison, short: Mapping[str, str]) -> str:
    parts = []
    for group in groups[:MOST_SAID]:
        side = f"{short[group.side]}: " if comparison.has_several_sides else ""
        parts.append(f"{side}{group_line(group)}")
    more = [f"{len(groups) - MOST_SAID} more"] if len(groups) > MOST_SAID else []
    return "; ".join([*parts, *more])


def _id(column: Column) -> str:
    """The id of a point, which is that of its marks in the figures."""
    return id_of(_key(column))


def _key(column: Column) -> str:
    return point_key(column.definition.experiment, column.device, msgspec.json.decode(column.factors))


def _records(comparison: ResultsComparison, short: Mapping[str, str]) -> dict[tuple[str, str], list[Record]]:
    """The records of the points that were compared, by experiment and device, with the side as a factor. The values of
    a side of several runs are the medians of the runs.
    """
    compared_columns = {_key(column): column for column in comparison.table.columns}
    values: dict[tuple[str, Column], SideValue] = {}
    for d in comparison.differences.points:
        values[d.side, d.column] = d.value
        if not comparison.differences.fleet:
            values[comparison.base, d.column] = d.base
    counted = _phase_counters(comparison)
    records: dict[tuple[str, str], list[Record]] = {}
    shown_sides = _shown(comparison)
    for side, renamed in zip(comparison.sides, comparison.table.devices, strict=True):
        if side.name not in shown_sides:
            continue
        added_keys: set[str] = set()
        slots = {own_name: slot for slot, own_name in renamed.items()}
        for run in side.runs:
            for record in measured(load_results(Path(run.name)).records):
                device = slots.get(record.device, record.device)
                factors = msgspec.json.decode(with_peer(encode_json(record.factors).decode(), slots))
                key = point_key(record.experiment, device, factors)
                if key not in compared_columns or key in added_keys:
                    continue
                added_keys.add(key)
                column = compared_columns[key]
                name = short[side.name]
                counters = {**record.counters, **counted.get((side.name, key), {})}
                shown = with_factor(record, SIDE, name, device=device, factors=factors, counters=counters)
                if (value := values.get((side.name, column))) is not None and value.runs > 1:
                    _set_summary(shown, value)
                records.setdefault(column.group, []).append(shown)
    return records


def _phase_counters(comparison: ResultsComparison) -> dict[tuple[str, str], dict[str, float]]:
    """The medians of the phases by side and point, as the counters of a record."""
    counters: dict[tuple[str, str], dict[str, float]] = {}
    for d in comparison.phases.differences.points if comparison.phases is not None else ():
        factors = factors_of(d.column.factors)
        name = f"phase_{factors.pop(PHASE)}_ms"
        key = point_key(d.column.definition.experiment, d.column.device, factors)
        counters.setdefault((d.side, key), {})[name] = d.value.value
        if not comparison.differences.fleet:
            counters.setdefault((comparison.base, key), {})[name] = d.base.value
    return counters


def _set_summary(record: Record, value: SideValue) -> None:
    assert record.summary is not None
    low, high = (value.value if v is None else v for v in (value.low, value.high))
    record.summary = msgspec.structs.replace(record.summary, median=value.value, ci_low=low, ci_high=high)


def _shown(comparison: ResultsComparison) -> set[str]:
    """The sides that figures show: of many, those with most differences."""
    if len(comparison.sides) <= MOST_SIDES:
        return {side.name for side in comparison.sides}
    return {side for side, _ in Counter(d.side for d in comparison.differences.points).most_common(MOST_SIDES)}


def _drawings(records: Sequence[Record], experiments: Mapping[str, Experiment], palette: Palette) -> list[Drawing]:
    """The experiment's figures of the records of all sides."""
    experiment = experiments.get(records[0].experiment) if records else None
    return list(overlaid(experiment.figures, records, SIDE, palette)) if experiment else []


def write_comparison(specs: Sequence[str], output: Path, limit: float | None = None) -> Path:
    """Writes the page of a comparison into a file, or into a folder as PAGE. Returns its path.

    Raises:
        UsageError: the sides cannot be compared, or the file cannot be written.
    """
    from firsttouch.engine.work_kinds import reportable_experiments

    path = output if output.suffix.lower() in (".html", ".htm") and not output.is_dir() else output / PAGE
    page = render(compare_results(specs, limit), reportable_experiments())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, encode_text(page))
    except OSError as error:
        raise UsageError(f"cannot write the page to {path}: {error.strerror}") from None
    return path
