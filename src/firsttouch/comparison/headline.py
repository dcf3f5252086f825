"""The first sentence on a side: what matters of it, by kind of device and kind of experiment.

An experiment on a device is faster or slower, the same within a bound that its interval shows, mixed, or not told
apart. Experiments of a device that are alike in this are named together by kind, with the range of their median ratios.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from firsttouch.base.units import format_number
from firsttouch.comparison.compare import ResultsComparison
from firsttouch.comparison.differences import (
    CANNOT_TELL,
    FASTER,
    HIGHER,
    LOWER,
    SAME,
    SLOWER,
    Difference,
    ExperimentDifference,
    judge,
)
from firsttouch.comparison.places import LEAST, MOST, ROLES, PlaceDifference, has_several, how_many
from firsttouch.comparison.runs import factors_of
from firsttouch.records.codebook import codebook_of
from firsttouch.records.text import count, first_few, join_names, label, quantity

ALIKE_WITHIN = 0.10
"""The widest bound within which experiments are called the same."""
FEW_POINTS = 0.05
"""Experiments are the same only if at most this part of their points differs clearly."""
_MOST_NAMES = 3
MOST_PLACES = 4
"""The most places, and devices, that a headline names."""
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
    devices = sorted(by_device, key=lambda device: -max(map(_shift_size, by_device[device])))
    clauses = [lacking.text for lacking in comparison.missing if lacking.side == side]
    if not has_several(comparison.sides) or comparison.of_devices:
        parts = (part for device in devices for part in _device_clauses(names.get(device, device), by_device[device]))
        return "; ".join([*clauses, *parts])
    named = [place for place in comparison.places if place.side == side and place.can_tell]
    clauses += [place_text(place) for place in named[:MOST_PLACES]]
    clauses += [f"{len(named) - MOST_PLACES} more places differ"] if len(named) > MOST_PLACES else []
    explained = {d.column.group for place in named for d in place.points}
    left = {device: [s for s in some if (s.group.experiment, device) not in explained]
            for device, some in by_device.items()}  # fmt: skip
    return "; ".join([*clauses, *_role_clauses(comparison, left, others=bool(named))])


def _role_clauses(
    comparison: ResultsComparison, by_device: Mapping[str, Sequence[_Shift]], *, others: bool
) -> Iterable[str]:
    """What is left to say of the devices of each role: of all together, but of a few that differ by name.

    others: whether something was said of some of their points before.
    """
    roles = device_roles(comparison)
    together: dict[str, list[str]] = {}
    for device in by_device:
        together.setdefault(roles.get(device, device), []).append(device)
    for role, devices in together.items():
        called, several = ROLES.get(role, role), len(devices) > 1
        number = how_many(devices)
        differing = Counter(s.group.experiment for device in devices for s in by_device[device] if _is_notable(s))
        few = {name for name, n in differing.items() if several and n < MOST * len(devices)}
        notable_shifts = {device: [s for s in by_device[device] if _is_notable(s) and s.group.experiment in few]
               for device in devices}  # fmt: skip
        alone = [
            device
            for device in sorted(devices, key=lambda d: -max(map(_shift_size, notable_shifts[d]), default=0))
            if notable_shifts[device]
        ]
        for device in alone[:MOST_PLACES]:
            yield from _device_clauses(device, notable_shifts[device])
        if len(alone) > MOST_PLACES:
            yield f"{len(alone) - MOST_PLACES} more {called}s differ"
        other_shifts = [s for device in devices for s in by_device[device] if s not in notable_shifts[device]]
        if other_shifts:
            all_of_them = f"{number} {called}s" if number > 1 else _ALONE.get(called, called)
            yield from _device_clauses(
                called, other_shifts, f"all else on {all_of_them}" if others or alone else all_of_them
            )


def _is_notable(shift: _Shift) -> bool:
    return shift.state in (FASTER, SLOWER, HIGHER, LOWER, MIXED)


def place_text(place: PlaceDifference) -> str:
    """Such as 'cuda:2 to cuda:5 is 47 % slower (copies between GPUs of 256 MiB: 198 GB/s instead of 374 GB/s; ...)'."""
    d, with_own_memory = place.example, place.of_own_memory
    first, *more = [name for name in place.experiments if name not in with_own_memory] or [""]
    size, unit = factors_of(d.column.factors).get("size"), d.column.definition.unit
    subject = kind_called(first) if first else f"its own memory in {join_names(with_own_memory)}"
    also = [name for name in dict.fromkeys(map(kind_called, more)) if name != subject]
    also += [f"its own memory in {join_names(with_own_memory)}"] if first and with_own_memory else []
    text = subject + ("" if size is None else f" of {label('size', size)}")
    text += f": {quantity(d.value.value, unit)} instead of {quantity(d.base.value, unit)}"
    text += f"; also {join_names(also)}" if also else ""
    be = "are" if place.is_several else "is"
    if place.whole is not None and place.whole.ratio:
        slower = place.whole.ratio > 1  # the ratio is one of times
        share = 1 - 1 / place.whole.ratio if slower else 1 / place.whole.ratio - 1
        how, points = f"{100 * share:.0f} % {place.verdict}", f"the median of {count(place.total, 'point')}"
    else:
        how, points = format_change(d), f"{len(place.points):,} of {count(place.total, 'point')}"
    return f"{place.name} {be} {how} ({text}; {points})"


def format_change(d: Difference) -> str:
    """'47 % slower': of a rate, the part of it that is lost. Where one run a side cannot tell, '47 % apart'."""
    ratio = d.ratio or 1.0
    if d.verdict == CANNOT_TELL:
        return f"{100 * (1 - min(ratio, 1 / ratio)):.0f} % apart"
    if d.verdict in (HIGHER, LOWER):
        return (
            f"{_times(ratio)} times as high" if not 0.5 < ratio < 1.5 else f"{100 * abs(ratio - 1):.0f} % {d.verdict}"
        )
    is_rate = d.column.definition.better == "higher"
    if d.verdict == SLOWER and is_rate:
        return f"{100 * (1 - ratio):.0f} % slower"
    times = max(ratio, 1 / ratio)
    return f"{_times(times)} times {_WORDS[d.verdict]}" if times > 1.5 else f"{100 * (times - 1):.0f} % {d.verdict}"


def device_names(comparison: ResultsComparison) -> dict[str, str]:
    """The devices as users call them: CPU or GPU, or by name where a machine has several of a kind."""
    roles = device_roles(comparison)
    if comparison.of_devices:  # the sides are devices of one kind
        return {device: ROLES.get(role, device) for device, role in roles.items()}
    values = list(roles.values())
    return {d: ROLES.get(role, d) if values.count(role) == 1 else d for d, role in roles.items()}


def device_roles(comparison: ResultsComparison) -> dict[str, str]:
    """The role of each device, by its name on the first side that has it."""
    roles: dict[str, str] = {}
    for side, renamed in zip(comparison.sides, comparison.table.devices, strict=True):
        slots = {own_name: slot for slot, own_name in renamed.items()}
        for run in side.runs:
            for device in run.devices:
                roles.setdefault(slots.get(device.name, device.name), device.role)
    return roles


def kind_of(group: ExperimentDifference) -> str:
    """What users call an experiment."""
    return kind_called(group.experiment)


def kind_called(experiment: str) -> str:
    return codebook_of(experiment.partition(" ")[0]).called or experiment


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


def _shift_size(shift: _Shift) -> float:
    return abs(math.log(shift.extent)) if shift.state in (FASTER, SLOWER, HIGHER, LOWER) else 0.0


def _device_clauses(device: str, shifts: Sequence[_Shift], alone: str = "") -> Iterable[str]:
    """The clauses on one device, or several: what differs, what does not, and what cannot be told. alone: what they are
    called if that is all one.
    """
    by_state: dict[str, list[_Shift]] = {}
    for shift in sorted(shifts, key=_shift_size, reverse=True):
        by_state.setdefault(shift.state, []).append(shift)
    order = (FASTER, SLOWER, HIGHER, LOWER, MIXED, ALIKE, UNCLEAR)
    most = max(by_state, key=lambda state: len(by_state[state]))
    most_common_state = (
        most if len(by_state) > 1 and len(_experiment_names(by_state[most], shifts)) > _MOST_NAMES else ""
    )
    for state in sorted(by_state, key=lambda s: (s == most_common_state, -_shift_size(by_state[s][0]), order.index(s))):
        subject = f"{device} {join_names(_experiment_names(by_state[state], shifts)[: _MOST_NAMES + 1])}"
        if len(by_state) == 1 or state == most_common_state:
            subject = alone or _ALONE.get(device, device) if len(by_state) == 1 else f"other {device} experiments"
        yield f"{subject} {_extent_words(state, by_state[state])}"


def _experiment_names(alike: Sequence[_Shift], all_of_device: Sequence[_Shift]) -> list[str]:
    """The kinds of these experiments; an experiment by its name where others of its kind are in another state."""
    other_kinds = {kind_of(shift.group) for shift in all_of_device if shift not in alike}
    names = list(dict.fromkeys(
        shift.group.experiment if kind_of(shift.group) in other_kinds else kind_of(shift.group) for shift in alike
    ))  # fmt: skip
    return names if len(names) <= _MOST_NAMES + 1 else [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]


def _extent_words(state: str, alike: Sequence[_Shift]) -> str:
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
    scaled = extents if many else [_percent(shift) for shift in alike]
    return f"{_range(scaled, many)} {f'times {_WORDS[state]}' if many else f'% {state}'}"


def _percent(shift: _Shift) -> float:
    """How many percent slower, faster or higher: of a rate that is lower, the part of it that is lost."""
    lost = shift.state == SLOWER and shift.group.better == "higher"
    return 100 * (1 - 1 / shift.extent if lost else abs(shift.extent - 1))


def _range(values: Iterable[float], many: bool) -> str:
    ordered = sorted(values)
    least, most = (_times(v) if many else f"{v:.0f}" for v in (ordered[0], ordered[-1]))
    return least if least == most else f"{least} to {most}"


def _times(value: float) -> str:
    return f"{value:.1f}" if 1 <= value < 10 else format_number(value, 2) if value < 1 else f"{value:,.0f}"


def ratios_seen(comparison: ResultsComparison, side: int) -> str:
    """With too few runs: the range of the median ratios of each device, or of all of a role where there are several, of
    which none can be called a difference.
    """
    roles, names, speeds = device_roles(comparison), device_names(comparison), dict[str, list[float]]()
    compared = {group.device for group in comparison.groups if group.side == side}
    alike = {role: [device for device in compared if roles.get(device) == role] for role in roles.values()}
    for group in comparison.groups:
        if group.side == side and group.ratio and judge(group.unit, group.better, 1)[0] in (FASTER, SLOWER):
            role = roles.get(group.device, "")
            n = how_many(alike.get(role, [group.device]))
            name = names.get(group.device, group.device)
            if n > 1 and not comparison.of_devices:
                name = f"{n} {ROLES.get(role, role)}s"
            speeds.setdefault(name, []).append(group.ratio if group.better == "higher" else 1 / group.ratio)
    parts = [f"{_ALONE.get(name, name)} {_speeds(values)} times" for name, values in speeds.items()]
    return ", ".join((f"{parts[0]} as fast", *parts[1:])) if parts else ""


def furthest_apart(comparison: ResultsComparison, side: int) -> str:
    """With too few runs: the places that are further apart than samples vary, in a sentence, or ''."""
    texts = [place_text(place) for place in comparison.places if place.side == side]
    return f" Furthest apart: {first_few(texts, MOST_PLACES, '; ')}." if texts else ""


def _speeds(values: Sequence[float]) -> str:
    least, most = (f"{v:.2f}" if v < 9.995 else f"{v:.0f}" for v in (min(values), max(values)))
    return least if least == most else f"{least} to {most}"
