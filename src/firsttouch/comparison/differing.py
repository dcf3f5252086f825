"""Which conditions of runs differ between the sides of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firsttouch.base.units import format_number
from firsttouch.comparison.conditions import IMPORTANT, RUNS, VARYING, WARNING
from firsttouch.comparison.table import Side
from firsttouch.records.schema import Scalar, as_number


@dataclass(frozen=True)
class DifferingCondition:
    """A condition that is not the same on all sides. values: one for each side, None if it is not known there."""

    name: str
    values: list[Scalar]


def differing(sides: Sequence[Side], renamed: Sequence[Mapping[str, str]]) -> list[DifferingCondition]:
    """The conditions that are not the same on all sides, those that explain most differences first.

    renamed: for each side, its devices that stand for a device of another name (AlignedPoints.devices).
    """
    values: list[dict[str, list[Scalar]]] = []
    for side, slots in zip(sides, renamed, strict=True):
        names, merged = {own_name: slot for slot, own_name in slots.items()}, dict[str, list[Scalar]]()
        for run in side.runs:
            for name, value in run.conditions.items():
                merged.setdefault(_name_on_first_side(name, names), []).append(value)
        values.append(merged | ({RUNS: [len(side.runs)]} if side.runs else {}))
    topics = [{_topic(name) for name in side} for side in values]
    differing = [
        DifferingCondition(name, [_join_values(name, side.get(name, [None])) for side in values])
        for name in dict.fromkeys(name for side in values for name in side)
        if _differs(name, [side.get(name, [None]) for side, had in zip(values, topics, strict=True)
                           if _topic(name) in had])
    ]  # fmt: skip
    return sorted(differing, key=lambda c: next((i for i, s in enumerate(IMPORTANT) if c.name.startswith(s)), 99))


def _topic(name: str) -> str:
    """What a side states something about: one that states nothing on a topic differs in nothing of it."""
    return "cpu" if name.startswith(WARNING) or name in VARYING else name.partition(".")[0]


def _differs(name: str, stated: Sequence[Sequence[Scalar]]) -> bool:
    """Whether a condition differs. stated: for each side that states anything on the topic, the values of its runs."""
    if name.startswith(WARNING):
        return len({any(value is not None for value in values) for values in stated}) > 1
    if (least := VARYING.get(name)) is not None:
        numbers = [as_number(value) or 0.0 for values in stated for value in values]
        return max(numbers) - min(numbers) >= least
    return len({repr(_join_values(name, values)) for values in stated}) > 1


def _name_on_first_side(name: str, slots: Mapping[str, str]) -> str:
    """The name of a condition of a device, with the device's name on the first side."""
    for prefix in ("device ", "clock of ", "throttled points of "):
        if name.startswith(prefix):
            device, comma, unit = name.removeprefix(prefix).partition(",")
            return f"{prefix}{slots.get(device, device)}{comma}{unit}"
    return name


def _join_values(name: str, values: Sequence[Scalar]) -> Scalar:
    """The values of the runs of a side as one."""
    if name.startswith(WARNING):
        return next((value for value in values if value is not None), None)
    different = list(dict.fromkeys(values))
    if len(different) == 1:
        return different[0]
    if name in VARYING and all(as_number(value) is not None for value in values):
        numbers = [as_number(value) or 0.0 for value in values]
        return " to ".join(format_number(bound, 3) for bound in (min(numbers), max(numbers)) if math.isfinite(bound))
    return ", ".join("unknown" if value is None else str(value) for value in different)
