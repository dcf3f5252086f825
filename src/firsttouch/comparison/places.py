"""Where machines with several devices differ: on which of them, between which two, or in what all do together.

Points of one pair are many: each engine, direction, kernel, size and interface, measured from either end. A reader asks
for the pair, so they are one place, and if most pairs of a GPU differ alike, the GPU is the place.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from firsttouch.comparison.differences import (
    CANNOT_TELL,
    Difference,
    Differences,
    ExperimentDifference,
    times_as_fast,
)
from firsttouch.comparison.runs import IN, OUT, factors_of
from firsttouch.comparison.table import AlignedPoints, Column, Side
from firsttouch.experiments.views.pairs import actor
from firsttouch.machine.backends import kind_of
from firsttouch.records.schema import PEER, RANKS, SELF, as_number

ROLES = {"gpu": "GPU", "host": "CPU", "processor": "CPU-kernel"}
"""What users call a device by its role."""
SHARE = 0.1
"""A place is named for an experiment if at least this part of its points there differs."""
LEAST = 0.02
"""A difference below this is none in a sentence."""
MOST = 0.75
"""What at least this part of all pairs, or of those of one GPU, has in common is said of them together."""
FAR_POINTS = 3
"""Of many sides, a place is named from this many points on, since some are far off by chance."""


@dataclass(frozen=True)
class ComparedPlace:
    """One device, two of which one uses the memory of the other, or those of several ranks. A pair has no direction."""

    devices: tuple[str, ...]
    ranks: int = 0

    @property
    def is_pair(self) -> bool:
        return len(self.devices) == 2


@dataclass(frozen=True)
class PlaceDifference:
    """The points of one place, or of several that differ alike, that are apart on one side and in one direction.

    name: such as 'cuda:2 to cuda:5'. points: those that are apart, the largest differences first. total: all points of
    the place in the experiments of these.
    """

    name: str
    side: str
    places: tuple[ComparedPlace, ...]
    points: tuple[Difference, ...]
    total: int
    is_of_one: bool = False
    """Whether all of the places are one device with others."""
    whole: ExperimentDifference | None = None
    """The median of all points, as a time, if it differs rather than the points."""

    @property
    def is_several(self) -> bool:
        return (len(self.places) > 1 and not self.is_of_one) or any(place.ranks for place in self.places)

    @property
    def verdict(self) -> str:
        return (self.whole or self.points[0]).verdict

    @property
    def worse(self) -> bool | None:
        return (self.whole or self.points[0]).worse

    @property
    def can_tell(self) -> bool:
        return self.verdict != CANNOT_TELL

    @property
    def size(self) -> float:
        """The typical difference of the experiment that differs most, as a logarithm without its sign."""
        if self.whole is not None and self.whole.ratio:
            return abs(math.log(self.whole.ratio))
        return median(d.size for d in self.points if d.column.group[0] == self.experiments[0])

    @property
    def ratio_with_bounds(self) -> tuple[float | None, float | None, float | None]:
        """The median ratio of the points of the experiment that differs most, in which rates and times do not mix; of
        the place as a whole, with its interval.
        """
        if self.whole is not None and self.whole.ratio:
            ratio, low, high = self.whole.ratio, self.whole.low, self.whole.high  # of times
            is_rate = self.example.column.definition.better == "higher"
            return times_as_fast("lower", ratio, low, high) if is_rate else (ratio, low, high)
        ratios = [d.ratio for d in self.points if d.ratio and d.column.group[0] == self.experiments[0]]
        return median(ratios) if ratios else None, None, None

    @cached_property
    def example(self) -> Difference:
        """Of the experiment that differs most: a point with the largest size, of data that cross one way if it can."""
        first = self.experiments[0]
        of_first = [d for d in self.points if d.column.group[0] == first]
        typical = median(d.size for d in of_first)

        def order(d: Difference) -> tuple[bool, float, bool, float]:
            size = as_number(factors_of(d.column.factors).get("size")) or 0.0
            rate = d.base.value if d.column.definition.better == "higher" else 0.0
            return d.size >= 0.9 * typical, size, bool(d.column.flow), rate

        return max(of_first, key=order)

    @cached_property
    def experiments(self) -> list[str]:
        """The experiments, those that differ most first; with a device's own memory as a peer after others."""
        sizes: dict[str, list[float]] = defaultdict(list)
        for d in self.points:
            sizes[d.column.group[0]].append(d.size)
        own_memory = set(self.of_own_memory)
        return sorted(sizes, key=lambda name: (name in own_memory, -round(median(sizes[name]), 1), -len(sizes[name])))

    @cached_property
    def of_own_memory(self) -> list[str]:
        """The experiments between devices in which a device differs with itself as the peer."""
        own_memory_points = (d for d in self.points if factors_of(d.column.factors).get(PEER) == SELF)
        return list(dict.fromkeys(d.column.group[0] for d in own_memory_points))


def has_several(sides: Sequence[Side]) -> bool:
    """Whether a side has several devices of one kind, so that it matters where points differ."""
    kinds = ({d.name: (d.role, kind_of(d.name)) for run in side.runs for d in run.devices} for side in sides)
    return any(n > 1 for by_name in kinds for n in Counter(by_name.values()).values())


def how_many(devices: Iterable[str]) -> int:
    """How many of one role there are at least; two backends may have the same ones."""
    return max(Counter(map(kind_of, devices)).values())


def place_of(column: Column, device: str = "") -> ComparedPlace:
    """device: the one that acts, if it is another than the column's, as where sides are devices."""
    factors = factors_of(column.factors)
    ranks, peer, acting = factors.get(RANKS), factors.get(PEER), actor(factors, device or column.device)
    if peer not in (None, SELF, acting):
        return ComparedPlace(tuple(sorted((acting, str(peer)))))
    return ComparedPlace((column.device,), ranks) if isinstance(ranks, int) and ranks > 1 else ComparedPlace((acting,))


def pairs_of_one(table: AlignedPoints, differences: Differences) -> list[PlaceDifference]:
    """The pairs whose points are far from those of the others; the sides are many devices of one machine."""
    found: list[PlaceDifference] = []
    if not differences.fleet:
        return found
    totals: Counter[tuple[ComparedPlace, str]] = Counter()
    for name, rows in table.sides.items():
        has_value = (table.value[rows] == table.value[rows]).any(axis=0)  # only NaN differs from itself
        of_side = [column for column, has in zip(table.columns, has_value, strict=True) if has]
        totals.update((place_of(column, name), column.group[0]) for column in of_side)
    ends: dict[tuple[ComparedPlace, bool | None], list[Difference]] = {}
    for d in differences.points:
        if (place := place_of(d.column, d.side)).is_pair and d.size >= math.log1p(LEAST):
            ends.setdefault((place, _is_worse(d)), []).append(d)
    for (place, _), points in ends.items():
        if len(points) >= FAR_POINTS:
            points.sort(key=lambda d: -d.size)
            flows = {_sender(d.column, d.side) for d in points}
            total = sum(totals[place, experiment] for experiment in {d.column.group[0] for d in points})
            found.append(PlaceDifference(_direction_name(place, flows), points[0].side, (place,), tuple(points), total))
    return sorted(found, key=lambda p: -p.size)


def places_of(
    sides: Sequence[Side],
    table: AlignedPoints,
    differences: Differences,
    wholes: Sequence[ExperimentDifference] = (),
) -> list[PlaceDifference]:
    """The places that differ, the largest differences first; those that one run a side cannot tell last. wholes: of
    pooled_pairs.py.
    """
    if not has_several(sides):
        return []
    totals: Counter[tuple[ComparedPlace, str]] = Counter()
    of_column = {column: place_of(column) for column in table.columns}
    for column, place in of_column.items():
        totals[place, column.group[0]] += 1
    apart: dict[tuple[str, bool | None], dict[tuple[ComparedPlace, str], list[Difference]]] = {}
    for d in differences.points:
        if d.is_apart and d.size >= math.log1p(LEAST):
            some = apart.setdefault((d.side, _is_worse(d)), {})
            some.setdefault((of_column[d.column], d.column.group[0]), []).append(d)
    least = FAR_POINTS if differences.fleet else 1
    roles = {d.name: d.role for side in sides for run in side.runs for d in run.devices}
    found: list[PlaceDifference] = []
    for (side, _), by_experiment in apart.items():
        by_place: dict[ComparedPlace, list[tuple[str, list[Difference]]]] = {}
        for (place, experiment), points in by_experiment.items():
            if len(points) >= SHARE * totals[place, experiment]:
                by_place.setdefault(place, []).append((experiment, points))
        enough = {p: some for p, some in by_place.items() if sum(len(points) for _, points in some) >= least}
        found += _join_places(side, enough, totals, roles)
    found += _pairs_as_a_whole(differences, wholes, found)
    return sorted(found, key=lambda p: (not p.can_tell, -p.size))


def _pairs_as_a_whole(
    differences: Differences, wholes: Sequence[ExperimentDifference], found: Sequence[PlaceDifference]
) -> list[PlaceDifference]:
    """The pairs that differ as a whole, without those of which points differ; most of all pairs as one place."""
    found_places = {(p.side, place, p.worse) for p in found for place in p.places}
    points: dict[tuple[str, str], list[Difference]] = defaultdict(list)
    for d in differences.points:
        if name := directed_pair(d.column):
            points[d.side, name].append(d)
    made: dict[str, list[PlaceDifference]] = defaultdict(list)
    for whole in wholes:
        pair_points = sorted(points[whole.side, whole.device], key=lambda d: -d.size)
        place = place_of(pair_points[0].column)
        large = whole.differs and abs(math.log(whole.ratio or 1)) >= math.log1p(LEAST)
        if large and (whole.side, place, whole.worse) not in found_places:
            made[whole.side].append(
                PlaceDifference(whole.device, whole.side, (place,), tuple(pair_points), len(pair_points), whole=whole)
            )
    for side, pairs in made.items():
        total = sum(whole.side == side for whole in wholes)
        for worse in (True, False):
            alike = [p for p in pairs if p.worse == worse]
            if total > 2 and len(alike) >= MOST * total:
                made[side] = [p for p in made[side] if p not in alike] + [_join_pairs(alike, total)]
    return [p for pairs in made.values() for p in pairs]


def _join_pairs(pairs: Sequence[PlaceDifference], total: int) -> PlaceDifference:
    """The most typical of some pairs, as all of them."""
    typical = sorted(pairs, key=lambda p: p.size)[len(pairs) // 2]
    places = tuple(place for p in pairs for place in p.places)
    points = tuple(d for p in (typical, *(p for p in pairs if p is not typical)) for d in p.points)
    name = f"{_part_in_words(pairs, total)} ways between devices"
    return PlaceDifference(name, typical.side, places, points, len(points), whole=typical.whole)


def _is_worse(d: Difference) -> bool | None:
    """Whether a point is worse, also where one run a side cannot tell; None if neither direction is better."""
    if d.column.definition.better == "neither" or d.ratio is None:
        return d.worse
    return (d.ratio > 1) == (d.column.definition.better == "lower")


def _join_places(
    side: str,
    by_place: dict[ComparedPlace, list[tuple[str, list[Difference]]]],
    totals: Counter[tuple[ComparedPlace, str]],
    roles: Mapping[str, str],
) -> Iterable[PlaceDifference]:
    """The places, with those joined that are most pairs of the machine or of one GPU, or most of its GPUs."""
    everywhere = list(dict.fromkeys(place for place, _ in totals))
    rest = dict(by_place)
    pairs = [place for place in everywhere if place.is_pair]
    alone = [place for place in everywhere if not place.is_pair and not place.ranks]

    def made(name: str, places: Sequence[ComparedPlace], *, is_of_one: bool = False) -> PlaceDifference:
        points = [d for place in places for _, some in rest[place] for d in some]
        total = sum(totals[place, experiment] for place in places for experiment, _ in rest[place])
        points.sort(key=lambda d: -d.size)
        for place in places:
            del rest[place]
        return PlaceDifference(name, side, tuple(places), tuple(points), total, is_of_one)

    if named := _differing_if_most(rest, pairs):
        yield made(f"{_part_in_words(named, len(pairs))} pairs of devices", named)
    ends = Counter(device for place in pairs for device in place.devices)
    for gpu in sorted(ends, key=lambda device: -sum(device in place.devices for place in rest if place.is_pair)):
        of_gpu = [place for place in pairs if gpu in place.devices]
        if named := _differing_if_most(rest, of_gpu):
            yield made(f"{gpu} with {_part_in_words(named, len(of_gpu))} others", named, is_of_one=True)
    by_role: dict[str, list[ComparedPlace]] = defaultdict(list)
    for place in alone:
        by_role[roles.get(place.devices[0], "")].append(place)
    for role, of_role in by_role.items():
        if named := _differing_if_most(rest, of_role):
            yield made(f"{_part_in_words(named, len(of_role))} {ROLES.get(role, 'device')}s", named)
    for place in list(rest):
        yield made(_name(place, [d.column for _, some in rest[place] for d in some]), [place])


def _part_in_words(some: Sized, total: int) -> str:
    return f"all {total}" if len(some) == total else f"{len(some)} of {total}"


def _differing_if_most(having: Collection[ComparedPlace], candidates: Sequence[ComparedPlace]) -> list[ComparedPlace]:
    """The candidates that differ, if these are most of at least three; otherwise none."""
    differing = [place for place in candidates if place in having]
    return differing if len(candidates) > 2 and len(differing) >= MOST * len(candidates) else []


def _name(place: ComparedPlace, columns: Sequence[Column]) -> str:
    """The name of a place, with the direction if all points that differ cross in one, or in both of which it is one."""
    if place.ranks:
        return f"{place.ranks} ranks together"
    if not place.is_pair:
        return place.devices[0]
    return _direction_name(place, {_sender(column, column.device) for column in columns})


def _direction_name(place: ComparedPlace, senders: Collection[str]) -> str:
    named_senders = {*senders} - {""}
    if len(named_senders) != 1:
        return " and ".join(place.devices)
    (sender,) = named_senders
    return f"{sender} to {next(device for device in place.devices if device != sender)}"


def directed_pair(column: Column) -> str:
    """From which device to which other all data of a point cross, such as 'cuda:2 to cuda:5'; '' for others."""
    place = place_of(column)
    sender = _sender(column, column.device) if place.is_pair else ""
    return _direction_name(place, [sender]) if sender else ""


def _sender(column: Column, device: str) -> str:
    """The device that data leave; '' if both send, or nobody says. device: the one that acts."""
    factors = factors_of(column.factors)
    if column.flow == OUT:
        return actor(factors, device)
    return str(factors[PEER]) if column.flow == IN else ""
