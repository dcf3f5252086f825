"""Aligns the points of several sides: one column per point that can be compared, one row per run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.comparison.runs import (
    APPLICATION,
    PHASE,
    SHOULD_NOT_BE_LOST,
    ComparedDevice,
    ComparedRun,
    Definition,
    Interval,
    factors_of,
)
from firsttouch.records.papers.files import MEDIAN
from firsttouch.records.papers.rows import PublishedValue, are_met
from firsttouch.records.predicted import predicted_for
from firsttouch.records.schema import PEER, Factors, Scalar
from firsttouch.records.text import join_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One side of a comparison, under the name that the call gave it: the runs of one machine, or a paper's values."""

    name: str
    runs: list[ComparedRun]
    stated: Sequence[PublishedValue] = ()

    @property
    def predicted(self) -> str:
        """'predicted for gh200' if nothing of it was measured; otherwise ''."""
        return predicted_for(device.name for run in self.runs for device in run.devices)


@dataclass(frozen=True)
class Column:
    """A point that can be compared. device: the name of the device on the first side that has it. flow: see runs.py."""

    definition: Definition
    device: str
    factors: str
    flow: str = ""

    @cached_property
    def group(self) -> tuple[str, str]:
        """The experiment, for an application with its name, and the device."""
        return group_name(self.definition.experiment, self.factors), self.device


def what_differs(definitions: Sequence[Definition]) -> str:
    """In what definitions differ: units and versions, or the inputs of an application."""
    if len({d.metric for d in definitions}) > 1:
        return join_names([f"{d.unit}, version {d.version}" for d in definitions])
    return join_names([d.inputs for d in definitions])


def group_name(experiment: str, factors: str) -> str:
    """The experiment of a point; for applications, which are one experiment, with the application's name, and of a
    phase with its name.
    """
    point = factors_of(factors)
    application, phase = point.get(APPLICATION), point.get(PHASE)
    if not isinstance(application, str):
        return experiment
    return f"{experiment} {application}: {phase}" if isinstance(phase, str) else f"{experiment} {application}"


PointKey: TypeAlias = tuple[str, str, str]
"""The experiment, the device and the factors of a point, as on the first side."""
STATED = 2
"""Counts as a number of samples for which there is an interval."""


class FailedPoint(msgspec.Struct, frozen=True, tag_field="kind", tag="failed"):
    """A point that another side measured and that failed on this one."""

    side: str
    experiment: str
    device: str
    factors: Mapping[str, Scalar]
    why: str


@dataclass
class AlignedPoints:
    """Medians and their bounds, one row per run and one column per point, in the order of the first side's records.

    Missing numbers are NaN. sides: the rows of the runs of each side, by its name. redefined: the experiments whose
    values two sides define differently, with the definitions. lost: the points that failed on one side and not on
    another.
    """

    columns: list[Column]
    value: Floats
    low: Floats
    high: Floats
    sides: dict[str, list[int]]
    redefined: dict[str, list[Definition]] = field(default_factory=dict)
    alone: list[Counter[str]] = field(default_factory=list)
    """For each side: how many points by experiment have no counterpart on any other side."""
    lost: list[FailedPoint] = field(default_factory=list)
    devices: list[dict[str, str]] = field(default_factory=list)
    """For each side: its devices that stand for a device of another name on the sides before it."""
    disturbed: NDArray[np.bool_] | None = None
    """The values that were measured while other programs used the processors; None if there are none."""


@dataclass
class _SideRows:
    """What one side adds to the table. rows: the places of its runs in `_Alignment.rows`. columns: the places of the
    columns that it has a value in. renamed: see AlignedPoints.devices. failed: the points without a value, and why.
    unmatched: how many values of a paper by experiment correspond to no point.
    """

    rows: list[int] = field(default_factory=list)
    columns: set[int] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    failed: dict[PointKey, str] = field(default_factory=dict)
    unmatched: Counter[str] = field(default_factory=Counter)


class _Alignment:
    """The table while it is filled, side by side.

    columns: the place of each point of any side. definitions: of each column. rows: the values of each run with the
    places of their columns. slots: the devices for which others stand.
    """

    def __init__(self) -> None:
        self.columns: dict[PointKey, int] = {}
        self.definitions: list[Definition] = []
        self.flows: list[str] = []
        self.rows: list[list[tuple[int, Interval]]] = []
        self.disturbed: list[set[int]] = []
        self.redefined: dict[str, dict[Definition, None]] = {}
        self.slots: list[ComparedDevice] = []

    def add_run(self, run: ComparedRun, side: _SideRows) -> None:
        names = assign_slots(run.devices, self.slots)
        side.renamed |= {slot: name for name, slot in names.items() if slot != name}
        values: list[tuple[int, Interval]] = []
        disturbed: set[int] = set()
        for point in run.points:
            definition = run.definitions[point.definition]
            key = (definition.experiment, names[point.device], with_peer(point.factors, names))
            place = self.columns.setdefault(key, len(self.columns))
            if place == len(self.definitions):
                self.definitions.append(definition)
                self.flows.append(point.flow)
            if definition.is_that_of(self.definitions[place]):
                values.append((place, point.value))
                if point.disturbed:
                    disturbed.add(place)
            else:
                name = group_name(definition.experiment, point.factors)
                different = self.redefined.setdefault(name, {})
                different |= {self.definitions[place]: None, definition: None}
        for lost in run.lost:
            if lost.why in SHOULD_NOT_BE_LOST:
                side.failed[lost.experiment, names[lost.device], with_peer(lost.factors, names)] = lost.why
        self._add_row(values, side, disturbed)

    def add_published(self, values: Sequence[PublishedValue], side: _SideRows) -> None:
        """The values of a paper, after all runs."""
        roles = {slot.name: slot.role for slot in self.slots}
        measured = {place: interval[0] for row in reversed(self.rows) for place, interval in row}
        stated, side.unmatched = _stated_values(values, list(self.columns), self.definitions, roles, measured)
        self._add_row(stated, side)

    def _add_row(self, values: list[tuple[int, Interval]], side: _SideRows, disturbed: Collection[int] = ()) -> None:
        side.rows.append(len(self.rows))
        side.columns.update(place for place, _ in values)
        self.rows.append(values)
        self.disturbed.append(set(disturbed))

    def table(self, by_name: Mapping[str, _SideRows]) -> AlignedPoints:
        """The columns that at least two sides have."""
        sides = by_name.values()
        having = Counter(place for side in sides for place in side.columns)
        keys, kept = list(self.columns), sorted(place for place, n in having.items() if n > 1)
        return AlignedPoints(
            [Column(self.definitions[place], *keys[place][1:], self.flows[place]) for place in kept],
            *self._numbers({place: i for i, place in enumerate(kept)}),
            {name: side.rows for name, side in by_name.items()},
            redefined={name: list(definitions) for name, definitions in self.redefined.items()},
            alone=[
                side.unmatched + Counter(keys[place][0] for place in side.columns if having[place] < 2)
                for side in sides
            ],
            lost=[
                FailedPoint(name, *key[:2], factors_of(key[2]), reason)
                for name, side in by_name.items()
                for key, reason in side.failed.items()
                if key in self.columns and self.columns[key] not in side.columns
            ],
            devices=[side.renamed for side in sides],
            disturbed=self._disturbed_marks(kept),
        )

    def _disturbed_marks(self, kept: Sequence[int]) -> NDArray[np.bool_] | None:
        import numpy as np

        marks = [[place in disturbed for place in kept] for disturbed in self.disturbed]
        return np.array(marks, dtype=bool) if any(self.disturbed) else None

    def _numbers(self, kept: Mapping[int, int]) -> tuple[Floats, Floats, Floats]:
        """The medians and their bounds. kept: the places of the columns that stay, and where they come."""
        import numpy as np

        value, low, high = (np.full((len(self.rows), len(kept)), np.nan) for _ in range(3))
        for i, row in enumerate(self.rows):
            usable = [(kept[place], interval) for place, interval in row if place in kept]
            at = [place for place, _ in usable]
            value[i, at] = [v[0] for _, v in usable]
            low[i, at] = [v[1] if v[3] > 1 else np.nan for _, v in usable]
            high[i, at] = [v[2] if v[3] > 1 else np.nan for _, v in usable]
        return value, low, high


def align(sides: Sequence[Side]) -> AlignedPoints:
    """The table of all points that at least two sides have in the same definition."""
    alignment, rows = _Alignment(), {side.name: _SideRows() for side in sides}
    for side in sides:
        for run in side.runs:
            alignment.add_run(run, rows[side.name])
    for side in sides:
        if side.stated:
            alignment.add_published(side.stated, rows[side.name])
    return alignment.table(rows)


def _stated_values(
    values: Sequence[PublishedValue],
    keys: Sequence[PointKey],
    definitions: Sequence[Definition],
    roles: Mapping[str, str],
    measured: Mapping[int, float],
) -> tuple[list[tuple[int, Interval]], Counter[str]]:
    """What a paper states about points that were measured, by their place; and how many of its values correspond to
    none. Of the points that differ by a factor that the paper leaves open, the best is compared. Kernels on a processor
    stand for no GPU of a paper.
    """
    by_experiment: dict[str, list[tuple[int, Factors]]] = {}
    for place, (experiment, device, factors) in enumerate(keys):
        if roles.get(device) != "processor" and any(value.experiment == experiment for value in values):
            by_experiment.setdefault(experiment, []).append((place, factors_of(factors)))
    values_by_place: dict[int, Interval] = {}
    unmatched: Counter[str] = Counter()
    for value in values:
        places: dict[tuple[object, ...], int] = {}
        for place, point in by_experiment.get(value.experiment, ()):
            matches = are_met(value.factors, point)
            is_same_metric = value.metric == MEDIAN and (value.unit, value.metric_version) == (
                definitions[place].unit,
                definitions[place].version,
            )
            if not matches or not is_same_metric or place not in measured:
                continue
            named = (keys[place][1], *(repr(point.get(name)) for name in value.factors))
            best = places.setdefault(named, place)
            lower = definitions[place].better == "lower"
            if measured[place] != measured[best] and (measured[place] < measured[best]) == lower:
                places[named] = place
        for place in places.values():
            values_by_place.setdefault(place, _as_interval(value))
        unmatched[value.experiment] += not places
    return list(values_by_place.items()), +unmatched


def _as_interval(value: PublishedValue) -> Interval:
    """A stated value with its range, or with the half unit of its last digit: 57 may be 56.5 to 57.5."""
    digits = f"{value.value:.6g}".partition("e")[0].lstrip("-").replace(".", "").strip("0")
    unit = 10.0 ** (math.floor(math.log10(abs(value.value))) - len(digits) + 1) if value.value else 0.0
    return value.value, min(value.low, value.value - unit / 2), max(value.high, value.value + unit / 2), STATED


def assign_slots(devices: Sequence[ComparedDevice], slots: list[ComparedDevice]) -> dict[str, str]:
    """The device of the first side that stands for each device of another run: the one of the same name and role,
    otherwise the next of the same role. A device that has no counterpart is added to `slots`.
    """
    taken: dict[str, str] = {}
    rest = []
    for device in devices:
        if any(slot.name == device.name and slot.role == device.role for slot in slots):
            taken[device.name] = device.name
        else:
            rest.append(device)
    for device in rest:
        free = [slot.name for slot in slots if slot.role == device.role and slot.name not in taken.values()]
        if not free:
            slots.append(device)
        taken[device.name] = free[0] if free else device.name
    return taken


def with_peer(factors: str, names: Mapping[str, str]) -> str:
    """The factors with the peer's name as on the first side."""
    if f'"{PEER}"' not in factors or all(name == slot for name, slot in names.items()):
        return factors
    renamed = factors_of(factors)
    peer = renamed.get(PEER)
    if isinstance(peer, str) and peer in names:
        renamed[PEER] = names[peer]
    return encode_json(renamed, order="sorted").decode()
