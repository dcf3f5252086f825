"""The first sentence on a side: what matters of it, by kind of device and kind of experiment.

An experiment on a device is faster or slower, the same within a bound that its interval shows, mixed, or not told
apart. Experiments of a device that are alike in this are named together by kind, with the range of their median ratios.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from firsttouch.comparison.compare import ResultsComparison
from firsttouch.comparison.differences import (
    CANNOT_TELL,
    FASTER,
    HIGHER,
    LOWER,
    SAME,
    SLOWER,
    ExperimentDifference,
    judge,
)
from firsttouch.records.codebook import codebook_of
from firsttouch.text import count, join_names
from firsttouch.units import format_number

LEAST = 0.02
"""A difference below this is none in a headline."""
ALIKE_WITHIN = 0.10
"""The widest bound within which experiments are called the same."""
FEW_POINTS = 0.05
"""Experiments are the same only if at most this part of their points differs clearly."""
_MOST_NAMES = 3
_ROLES = {"gpu": "GPU", "host": "CPU", "processor": "CPU-kernel"}
_ALONE = {"CPU-kernel": "CPU kernels"}
ALIKE, MIXED, UNCLEAR = "the same", "mixed", "not told apart"
_WORDS = {FASTER: "as fast", SLOWER: "as slow", HIGHER: "as high", LOWER: "as high"}
"""What follows 'times'."""


@dataclass(frozen=True)
class _Shift:
    """An experiment on a device. state: a verdict, ALIKE, MIXED or UNCLEAR. extent: of a verdict, how many times as
    fast, slow or high; of ALIKE, the bound as a ratio.
    """

    group: ExperimentDifference
    state: str
    extent: float


def summary(comparison: ResultsComparison, side: int) -> str:
    """What differs between a side and the base, the largest differences first."""
    by_device: dict[str, list[_Shift]] = {}
    for group in comparison.groups:
        if group.side == side:
            ratios = [d.ratio for d in comparison.points_of(group) if d.ratio]
            by_device.setdefault(group.device, []).append(shift_of(group, ratios))
    names = device_names(comparison)
    devices = sorted(by_device, key=lambda device: -max(map(_size, by_device[device])))
    return "; ".join(part for device in devices for part in _parts(names.get(device, device), by_device[device]))


def device_names(comparison: ResultsComparison) -> dict[str, str]:
    """The devices as users call them: CPU or GPU, or by name where a machine has several of a kind."""
    roles: dict[str, str] = {}
    for side, renamed in zip(comparison.sides, comparison.table.devices, strict=True):
        slots = {own: slot for slot, own in renamed.items()}
        for run in side.runs:
            for device in run.devices:
                roles.setdefault(slots.get(device.name, device.name), device.role)
    if comparison.of_devices:  # the devices of one kind, which are the sides
        return {device: _ROLES.get(role, device) for device, role in roles.items()}
    values = list(roles.values())
    return {d: _ROLES.get(role, d) if values.count(role) == 1 else d for d, role in roles.items()}


def kind_of(group: ExperimentDifference) -> str:
    """What users call an experiment."""
    return codebook_of(group.experiment.partition(" ")[0]).called or group.experiment


def shift_of(group: ExperimentDifference, ratios: Sequence[float]) -> _Shift:
    """ratios: of its points, whose plain median must be within a bound too: the weighted one may rest on the few that
    are steady, such as loads from a cache on a busy machine.
    """
    ratio, low, high = group.ratio, group.low, group.high
    if group.verdict == CANNOT_TELL:
        return _Shift(group, UNCLEAR, 1.0)
    counts = {word: n for word, n in group.counts.items() if word not in (SAME, CANNOT_TELL)}
    one_way = max(counts, key=lambda word: counts[word], default="") if len(counts) == 1 else ""
    verdict = group.verdict if group.differs else one_way if 2 * counts.get(one_way, 0) > group.points else SAME
    large = verdict != SAME and ratio and abs(math.log(ratio)) >= math.log1p(LEAST)
    if large and ratio and judge(group.unit, group.better, 1 if ratio > 1 else -1)[0] == verdict:
        return _Shift(group, verdict, ratio if verdict in (HIGHER, LOWER) else max(ratio, 1 / ratio))
    bound = max(abs(math.log(b)) for b in (low, high)) if low and high else math.inf
    bound = max(bound, abs(math.log(median(ratios)))) if ratios else bound
    if sum(counts.values()) > max(1, FEW_POINTS * group.points):
        return _Shift(group, MIXED, 1.0)
    return _Shift(group, ALIKE, math.exp(bound)) if bound <= math.log1p(ALIKE_WITHIN) else _Shift(group, UNCLEAR, 1.0)


def _size(shift: _Shift) -> float:
    return abs(math.log(shift.extent)) if shift.state in (FASTER, SLOWER, HIGHER, LOWER) else 0.0


def _parts(device: str, shifts: Sequence[_Shift]) -> Iterable[str]:
    """The clauses on one device: what differs, what does not, and what cannot be told."""
    by_state: dict[str, list[_Shift]] = {}
    for shift in sorted(shifts, key=_size, reverse=True):
        by_state.setdefault(shift.state, []).append(shift)
    order = (FASTER, SLOWER, HIGHER, LOWER, MIXED, ALIKE, UNCLEAR)
    most = max(by_state, key=lambda state: len(by_state[state]))
    rest = most if len(by_state) > 1 and len(_named(by_state[most], shifts)) > _MOST_NAMES else ""
    for state in sorted(by_state, key=lambda s: (s == rest, -_size(by_state[s][0]), order.index(s))):
        what = f"{device} {join_names(_named(by_state[state], shifts)[: _MOST_NAMES + 1])}"
        if len(by_state) == 1 or state == rest:
            what = _ALONE.get(device, device) if len(by_state) == 1 else f"other {device} experiments"
        yield f"{what} {_extent(state, by_state[state])}"


def _named(alike: Sequence[_Shift], all_of_device: Sequence[_Shift]) -> list[str]:
    """The kinds of these experiments; an experiment by its name where others of its kind are in another state."""
    others = {kind_of(shift.group) for shift in all_of_device if shift not in alike}
    names = list(dict.fromkeys(
        shift.group.experiment if kind_of(shift.group) in others else kind_of(shift.group) for shift in alike
    ))  # fmt: skip
    return names if len(names) <= _MOST_NAMES + 1 else [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]


def _extent(state: str, alike: Sequence[_Shift]) -> str:
    if state == ALIKE:
        bound = max(LEAST, *(shift.extent - 1 for shift in alike))
        return f"the same within {math.ceil(100 * bound - 1e-9)} %"
    if state == MIXED:
        differing = sum(shift.group.differing for shift in alike)
        return f"mixed ({count(differing, 'point')} of {sum(shift.group.points for shift in alike):,} differ)"
    if state == UNCLEAR:
        return UNCLEAR
    extents = [shift.extent for shift in alike]
    many = max(extents) > 1.5 or min(extents) < 1 / 1.5
    scaled = extents if many else [100 * abs(extent - 1) for extent in extents]
    return f"{_range(scaled, many)} {f'times {_WORDS[state]}' if many else f'% {state}'}"


def _range(values: Iterable[float], many: bool) -> str:
    ordered = sorted(values)
    least, most = (_times(v) if many else f"{v:.0f}" for v in (ordered[0], ordered[-1]))
    return least if least == most else f"{least} to {most}"


def _times(value: float) -> str:
    return f"{value:.1f}" if 1 <= value < 10 else format_number(value, 2) if value < 1 else f"{value:,.0f}"


def ratios_seen(comparison: ResultsComparison, side: int) -> str:
    """With too few runs: the range of the median ratios of each device, of which none can be called a difference."""
    names, speeds = device_names(comparison), dict[str, list[float]]()
    for group in comparison.groups:
        if group.side == side and group.ratio and judge(group.unit, group.better, 1)[0] in (FASTER, SLOWER):
            speeds.setdefault(group.device, []).append(group.ratio if group.better == "higher" else 1 / group.ratio)
    names = {device: _ALONE.get(name, name) for device, name in names.items()}
    parts = [f"{names.get(device, device)} {_speeds(values)} times" for device, values in speeds.items()]
    return ", ".join((f"{parts[0]} as fast", *parts[1:])) if parts else ""


def _speeds(values: Sequence[float]) -> str:
    least, most = (f"{v:.2f}" if v < 9.995 else f"{v:.0f}" for v in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"
