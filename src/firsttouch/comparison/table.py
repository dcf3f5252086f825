"""Aligns the points of several sides: one column per point that can be compared, one row per run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from firsttouch.comparison.runs import SHOULD_NOT_BE_LOST, Definition, Device, Interval, Run, factors_of
from firsttouch.records.schema import PEER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One side of a comparison: the runs of one machine, under the name that the call gave it."""

    name: str
    runs: list[Run]


@dataclass(frozen=True)
class Column:
    """A point that can be compared. device: the name of the device on the first side that has it."""

    definition: Definition
    device: str
    factors: str

    @property
    def group(self) -> tuple[str, str]:
        """The experiment, for an application with its name, and the device."""
        return group_name(self.definition.experiment, self.factors), self.device


def group_name(experiment: str, factors: str) -> str:
    """The experiment of a point; for applications, which are one experiment, with the application's name."""
    application = factors_of(factors).get(APPLICATION)
    return f"{experiment} {application}" if isinstance(application, str) else experiment


APPLICATION = "app"
"""The factor that names the application of a point."""


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
    rows: list[list[int]] = []
    for side in sides:
        rows.append([])
        present.append(set())
        renamed.append({})
        failed.append({})
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
        alone=[Counter(keys[place][0] for place in places if place not in kept) for places in present],
        lost=[
            Missing(i, *key, why)
            for i, points in enumerate(failed)
            for key, why in points.items()
            if key in columns and columns[key] not in present[i]
        ],
        devices=renamed,
    )


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
