"""Predictions for several machines beside each other: platforms, or one with values that the call changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from firsttouch.records.findings import quantity
from firsttouch.records.schema import DeviceInfo, Record, Scalar
from firsttouch.records.statistics import measured
from firsttouch.records.text import named
from firsttouch.report.sentences import quantity_text

APPLICATION = "app"
"""The factor that names an application."""
EVENTS = "events"
"""The factor of points that are predicted again for their counts alone."""
MOST = 8
"""Rows of an experiment that is no application: the points that differ most."""
LEAST = 0.02
"""The least difference that such a row shows."""


@dataclass
class MachinesTable:
    """A table with a column for each machine. notes: sentences below it."""

    columns: Sequence[str]
    rows: list[list[str]]
    notes: list[str]


def first_of_machines(devices: Sequence[DeviceInfo]) -> dict[str, str]:
    """The first device of each modelled machine that runs kernels, and what tells the machine from the first."""
    machine_keys: dict[tuple[str, ...], str] = {}
    names: dict[str, str] = {}
    for device in devices:
        modelled = device.modelled
        if modelled is None or device.role == "host":
            continue
        changes = [f"{name}={text}" for name, text in modelled.changes.items()]
        key = (modelled.platform, *changes)
        if key not in machine_keys:
            is_platform_repeated = any(platform == modelled.platform for platform, *_ in machine_keys)
            names[device.name] = (
                f"with {', '.join(changes)}"
                if is_platform_repeated and changes
                else " ".join([modelled.platform, *changes])
            )
            machine_keys[key] = device.name
    return names


def machines_table(records: Sequence[Record], devices: Sequence[DeviceInfo]) -> MachinesTable | None:
    """The same points on each machine, if there are several. The first column is what the others are compared with."""
    machines = first_of_machines(devices)
    if len(machines) < 2:
        return None
    points: dict[str, dict[frozenset[tuple[str, Scalar]], dict[str, Record]]] = {}
    for record in measured(records):
        if record.device in machines and record.factors.get(EVENTS) != "on":
            application = str(record.factors.get(APPLICATION, ""))
            of_experiment = points.setdefault(application or record.experiment, {})
            of_experiment.setdefault(frozenset(record.factors.items()), {})[record.device] = record
    rows, left_out = [], 0
    for name, of_experiment in points.items():
        shared_points = {key: by_device for key, by_device in of_experiment.items() if len(by_device) > 1}
        chosen = list(shared_points)
        if not any(APPLICATION in dict(key) for key in shared_points):
            apart = sorted(
                (key for key in shared_points if _ratio_spread(shared_points[key]) > LEAST),
                key=lambda key: -_ratio_spread(shared_points[key]),
            )
            chosen = apart[:MOST]
            left_out += len(shared_points) - len(chosen)
        rows += [_machine_row(name, key, shared_points, machines) for key in chosen]
    if not rows:
        return None
    notes = ["In brackets: the ratio to the value of the first machine."]
    notes += [f"Of experiments, the points that differ most; {left_out} others are left out."] if left_out else []
    return MachinesTable(("predicted", *machines.values()), rows, notes)


def _median(record: Record) -> float:
    assert record.summary is not None
    return record.summary.median


def _ratio_spread(found: Mapping[str, Record]) -> float:
    """How far apart the values of machines are, as the logarithm of their ratio."""
    values = [max(_median(record), 1e-12) for record in found.values()]
    return log(max(values) / min(values))


def _machine_row(
    name: str,
    key: frozenset[tuple[str, Scalar]],
    points: Mapping[frozenset[tuple[str, Scalar]], Mapping[str, Record]],
    machines: Mapping[str, str],
) -> list[str]:
    """The point by the factors in which it differs from others of its kind, and its value on each machine."""
    common = frozenset.intersection(*points)
    differing = sorted((key - common), key=lambda item: (item[0] != "strategy", item[0]))
    words = [str(value) if factor == "strategy" else named(factor, value) for factor, value in differing]
    found = points[key]
    first = next((_median(found[device]) for device in machines if device in found), 0.0)
    cells = []
    for i, device in enumerate(machines):
        if device not in found:
            cells.append("–")  # noqa: RUF001
            continue
        value = _median(found[device])
        ratio = f" ({value / first:.2f})" if i and first else ""
        cells.append(quantity_text(quantity(found[device])) + ratio)
    return [", ".join([name, *words]), *cells]
