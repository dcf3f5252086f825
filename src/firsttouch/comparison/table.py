"""Aligns the points of several sides: one column per point that can be compared, one row per run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from firsttouch.comparison.runs import PROCESSOR, SHOULD_NOT_BE_LOST, Definition, Device, Interval, Run, factors_of
from firsttouch.papers.rows import MEDIAN, includes
from firsttouch.papers.rows import Side as Stated
from firsttouch.records.schema import PEER, Factors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One side of a comparison, under the name that the call gave it: the runs of one machine, or a paper's values."""

    name: str
    runs: list[Run]
    stated: Sequence[Stated] = ()


@dataclass(frozen=True)
class Column:
    """A point that can be compared. device: the name of the device on the first side that has it."""

    definition: Definition
    device: str
    factors: str

    @cached_property
    def group(self) -> tuple[str, str]:
        """The experiment, for an application with its name, and the device."""
        return group_name(self.definition.experiment, self.factors), self.device


def group_name(experiment: str, factors: str) -> str:
    """The experiment of a point; for applications, which are one experiment, with the application's name."""
    application = factors_of(factors).get(APPLICATION)
    return f"{experiment} {application}" if isinstance(application, str) else experiment


APPLICATION = "app"
"""The factor that names the application of a point."""


STATED = 2
"""Counts as a number of samples for which there is an interval."""


class Missing(NamedTuple):
    """A point that was measured on another side and failed on this one. side: its place among the sides."""

    side: int
    experiment: str
    device: str
    factors: str
    why: str


@dataclass
class Table:
    """Medians and their bounds, one row per run and one column per point, in the order of the first side's records.

    Missing numbers are NaN. sides: for each side the rows of its runs. redefined: the experiments whose values two
    sides define differently, with the definitions. lost: the points that failed on one side and not on another.
    """

    columns: list[Column]
    value: Values
    low: Values
    high: Values
    sides: list[list[int]]
    redefined: dict[str, list[Definition]] = field(default_factory=dict)
    alone: list[Counter[str]] = field(default_factory=list)
    """For each side: how many points by experiment have no counterpart on any other side."""
    lost: list[Missing] = field(default_factory=list)
    devices: list[dict[str, str]] = field(default_factory=list)
    """For each side: its devices that stand for a device of another name on the sides before it."""


def align(sides: Sequence[Side]) -> Table:
    """The table of all points that at least two sides have in the same definition."""
    import numpy as np

    columns: dict[tuple[str, str, str], int] = {}
    definitions: list[Definition] = []
    cells: list[list[tuple[int, Interval]]] = []
    present: list[set[int]] = []
    redefined: dict[str, dict[Definition, None]] = {}
    slots: list[Device] = []
    renamed: list[dict[str, str]] = []
    failed: list[dict[tuple[str, str, str], str]] = []
    without: list[Counter[str]] = []
    rows: list[list[int]] = []
    for side in sides:
        rows.append([])
        present.append(set())
        renamed.append({})
        failed.append({})
        without.append(Counter())
        for run in side.runs:
            names = assign_slots(run.devices, slots)
            renamed[-1] |= {slot: name for name, slot in names.items() if slot != name}
            found = []
            for point in run.points:
                definition = run.definitions[point.definition]
                key = (definition.experiment, names[point.device], with_peer(point.factors, names))
                place = columns.setdefault(key, len(columns))
                if place == len(definitions):
                    definitions.append(definition)
                if definition != definitions[place]:
                    redefined.setdefault(definition.experiment, {})[definitions[place]] = None
                    redefined[definition.experiment][definition] = None
                    continue
                found.append((place, point.value))
                present[-1].add(place)
            for lost in run.lost:
                if lost.why in SHOULD_NOT_BE_LOST:
                    failed[-1][lost.experiment, names[lost.device], with_peer(lost.factors, names)] = lost.why
            rows[-1].append(len(cells))
            cells.append(found)
    roles = {slot.name: slot.role for slot in slots}
    for i, side in enumerate(sides):
        if not side.stated:
            continue
        measured = {place: v[0] for found in reversed(cells) for place, v in found}
        stated, unmatched = _stated(side.stated, list(columns), definitions, roles, measured)
        without[i].update(unmatched)
        present[i] |= {place for place, _ in stated}
        rows[i].append(len(cells))
        cells.append(stated)
    tally = Counter(place for places in present for place in places)
    keys = list(columns)
    kept = {place: i for i, place in enumerate(sorted(place for place, n in tally.items() if n > 1))}
    shape = (len(cells), len(kept))
    value, low, high = (np.full(shape, np.nan) for _ in range(3))
    for row, found in enumerate(cells):
        usable = [(kept[place], v) for place, v in found if place in kept]
        at = [place for place, _ in usable]
        value[row, at] = [v[0] for _, v in usable]
        low[row, at] = [v[1] if v[3] > 1 else np.nan for _, v in usable]
        high[row, at] = [v[2] if v[3] > 1 else np.nan for _, v in usable]
    return Table(
        [Column(definitions[place], *keys[place][1:]) for place in kept],
        value,
        low,
        high,
        rows,
        redefined={name: list(found) for name, found in redefined.items()},
        alone=[
            more + Counter(keys[place][0] for place in places if place not in kept)
            for places, more in zip(present, without, strict=True)
        ],
        lost=[
            Missing(i, *key, why)
            for i, points in enumerate(failed)
            for key, why in points.items()
            if key in columns and columns[key] not in present[i]
        ],
        devices=renamed,
    )


def _stated(
    values: Sequence[Stated],
    keys: Sequence[tuple[str, str, str]],
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
        if roles.get(device) != PROCESSOR and any(value.experiment == experiment for value in values):
            by_experiment.setdefault(experiment, []).append((place, factors_of(factors)))
    found: dict[int, Interval] = {}
    unmatched: Counter[str] = Counter()
    for value in values:
        places: dict[tuple[object, ...], int] = {}
        for place, point in by_experiment.get(value.experiment, ()):
            matches = all(includes(wanted, point.get(name)) for name, wanted in value.factors.items())
            meant = value.metric == MEDIAN and (value.unit, value.metric_version) == (
                definitions[place].unit,
                definitions[place].version,
            )
            if not matches or not meant or place not in measured:
                continue
            named = (keys[place][1], *(repr(point.get(name)) for name in value.factors))
            best = places.setdefault(named, place)
            lower = definitions[place].better == "lower"
            if measured[place] != measured[best] and (measured[place] < measured[best]) == lower:
                places[named] = place
        for place in places.values():
            found.setdefault(place, _as_interval(value))
        unmatched[value.experiment] += not places
    return list(found.items()), +unmatched


def _as_interval(value: Stated) -> Interval:
    """A stated value with its range, or with the half unit of its last digit: 57 may be 56.5 to 57.5."""
    digits = f"{value.value:.6g}".partition("e")[0].lstrip("-").replace(".", "").strip("0")
    unit = 10.0 ** (math.floor(math.log10(abs(value.value))) - len(digits) + 1) if value.value else 0.0
    return value.value, min(value.low, value.value - unit / 2), max(value.high, value.value + unit / 2), STATED


def assign_slots(devices: Sequence[Device], slots: list[Device]) -> dict[str, str]:
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
    found = factors_of(factors)
    peer = found.get(PEER)
    if isinstance(peer, str) and peer in names:
        found[PEER] = names[peer]
    return msgspec.json.encode(found, order="sorted").decode()
