"""The neutrons of transport computed once more in numpy: the two public problems, and histories of source particles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np

from firsttouch.harness.app import in_pieces
from firsttouch.harness.random import F64, U64, Values, mix64, unit_f64, words

GROUPS, MOST = 230, 20.0
"""Energy groups, and the largest energy in MeV."""
REST, LIGHT = 939.5656981095, 2.99792458e10
SCATTERING, FISSION, ABSORPTION = range(3)
State: TypeAlias = "dict[str, Values]"
"""Particles, by the words in neutron.h: arrays of n numbers, or of 3 x n."""
REACTIONS = 180
"""The most reactions of all isotopes."""
CUTOFF = 0.001
TRACED, TOGETHER, PIECE = 10_000, 512, 1 << 15
"""Particles that are traced at a time, about; source particles of a step that a thread traces; particles at census that
a thread checks at a time."""
FEW = 8
"""Particles that wait are tracked with others when they are more than one in so many of these."""


@dataclass(frozen=True)
class Problem:
    """A problem of Quicksilver's CORAL-2 benchmark. side: of a cell, in cm; duration: of a step, in s; least: energy in
    MeV; parts: of scattering, fission and absorption in the total cross section (per cm at 1 MeV), and the power of the
    energy with which each falls; yield_: neutrons from a fission.
    """

    side: float
    duration: float
    least: float
    mass: float
    isotopes: int
    reactions: int
    total: float
    parts: tuple[float, float, float]
    powers: tuple[float, float, float]
    yield_: float

    def edges(self) -> F64:
        """The bounds of the energy groups."""
        logs = np.log(self.least) + (np.log(MOST) - np.log(self.least)) / (GROUPS + 1) * np.arange(GROUPS)
        return np.append(np.exp(logs), MOST)

    def cross(self) -> F64:
        """The cross section of each reaction of each isotope by group, per cm."""
        edges = self.edges()
        middle = (edges[:-1] + edges[1:]) / 2
        at_one = int(np.argmax(edges[1:] >= 1.0))
        count = self.isotopes * self.reactions // 3
        rows = [
            self.total * part / sum(self.parts) / count * (middle / middle[at_one]) ** power
            for part, power in zip(self.parts, self.powers, strict=True)
        ]
        return np.tile(np.array(rows), (count, 1))


PROBLEMS = {
    "1": Problem(1.0, 2e-9, 1e-9, 12.011, 20, 9, 1.5, (1.0, 0.05, 0.04), (0.0, 0.0, 0.0), 1.6),
    "2": Problem(1 / 11, 1e-8, 1e-8, 1.5, 10, 3, 16.75, (82.0, 8.0, 10.0), (0.0, -0.2, -0.2), 2.0),
}
"""Source: the input files Coral2_P1 and Coral2_P2 of Quicksilver."""


def speed_of(energy: F64) -> F64:
    return np.asarray(LIGHT * np.sqrt(1.0 - (REST / (energy + REST)) ** 2))


def _draw(p: State, some: Any = slice(None)) -> F64:
    p["random"][some] = drawn = np.uint64(2862933555777941757) * p["random"][some] + np.uint64(3037000493)
    return np.asarray(5.4210108624275222e-20 * drawn.astype(np.float64))


def _take(p: State, some: Any) -> State:
    return {name: values[..., some] for name, values in p.items()}  # a copy, unless `some` is a slice


def _join(parts: Sequence[State]) -> State:
    return {name: np.concatenate([p[name] for p in parts], axis=-1) for name in parts[0]}


@dataclass(frozen=True)
class Histories:
    """The histories of source particles whose numbers are multiples of `every`, and of what comes of them.

    each: source particles of a cell in a step, of this weight. key: of their random numbers. first, extent: the part of
    the box of which census and flux are compared.
    """

    problem: Problem
    every: int
    cells: int
    each: int
    weight: float
    key: int
    first: tuple[int, ...]
    extent: tuple[int, ...]

    @property
    def count(self) -> int:
        """Source particles of a step."""
        return self.cells**3 * self.each

    def differ(self, factors: Sequence[float], census: U64, digest: int, flux: float) -> str:
        """What differs after a step for each factor, but for rounding errors, or ''. census: rows of 17 words, the
        particles in the block of cells, with those of other source particles, and their digest. flux: of the traced
        particles alone. A factor is that by which the number of particles changed at the beginning of a step.
        """
        if digest_of(census) != digest:
            return "the digest is not that of the particles at census"
        traced, right = _traced(self, tuple(factors))
        if wrong := _differ(_unpacked(census[census[:, 16] % np.uint64(self.every) == 0]), traced):
            return f"of particles at census, {wrong} differ from numpy's"
        if wrong := self._impossible(census, np.array(factors)):
            return f"of particles at census, {wrong}"
        if not abs(flux - right) <= 1e-7 * right:
            return f"the flux of traced particles by cell and group is {flux:.12g}, numpy's {right:.12g}"
        return ""

    def _impossible(self, census: U64, factors: F64) -> str:
        """How many particles, traced or not, have words that contradict each other or their source particle."""
        after = np.append(np.cumprod(factors[::-1])[::-1], np.nan)  # by what a weight was divided since a step

        def wrong(first: int, last: int) -> list[int]:
            rows = census[first:last]
            p, near = _unpacked(rows), 1e-9
            birth = np.minimum(p["root"] // np.uint64(self.count), np.uint64(len(factors))).astype(np.int64)
            age = self.begun(p["root"])["time"] + (len(factors) - 1 - birth) * self.problem.duration
            weight = p["weight"] * after[birth] / self.weight  # times 1 / CUTOFF for each roulette that it won
            won = np.rint(np.log(np.maximum(weight, 1e-300)) / -np.log(CUTOFF))
            inside = np.abs(p["position"] / self.problem.side - p["cell"] - 0.5).max(axis=0) <= 0.5 + near
            speed = np.sqrt((p["velocity"] ** 2).sum(axis=0)) / speed_of(p["energy"])
            right = (
                inside & self.inside(p["cell"]),
                np.abs(speed - 1) <= 1e-6,
                p["group"] == self.group(p["energy"]),
                (np.abs(weight * CUTOFF**won - 1) <= near) & (won >= 0),
                (np.abs(p["age"] / age - 1) <= near) & (p["time"] == 0) & (p["segments"] >= 1) & (p["paths"] >= 0),
            )
            return [int(np.count_nonzero(~passes)) for passes in right]

        with np.errstate(all="ignore"):
            wrongs = np.sum(in_pieces(wrong, len(census), PIECE), axis=0) if len(census) else []
        names = ("cells", "speeds", "energy groups", "weights", "ages")
        contradictions = [f"{n} {name} contradict other words" for n, name in zip(wrongs, names, strict=False) if n]
        repeated_ids = len(census) - len(np.unique(census[:, 13]))
        return ", ".join([*contradictions, *([f"{repeated_ids} ids are not unique"] if repeated_ids else [])])

    @cached_property
    def edges(self) -> F64:
        return self.problem.edges()

    def inside(self, cell: Values) -> Values:
        first, extent = (np.array(corner)[:, None] for corner in (self.first, self.extent))
        return np.asarray(((cell >= first) & (cell < first + extent)).all(axis=0))

    def group(self, energy: F64) -> Values:
        return np.clip(np.searchsorted(self.edges, energy, side="right") - 1, 0, GROUPS - 1)

    def begun(self, root: U64) -> State:
        """Source particles, by their numbers."""
        cell, n = root // np.uint64(self.each), np.uint64(self.cells)
        p: State = {"root": root, "id": words(self.key, root)}
        p["random"] = mix64(p["id"])
        p["cell"] = np.stack([cell % n, cell // n % n, cell // n // n % n]).astype(np.float64)
        p["position"] = np.stack([(p["cell"][axis] + _draw(p)) * self.problem.side for axis in range(3)])
        cosine = 1.0 - 2.0 * _draw(p)
        turn = np.pi * (2.0 * _draw(p) - 1.0)
        p["energy"] = (self.edges[-1] - self.edges[0]) * _draw(p) + self.edges[0]
        p["group"], p["speed"] = self.group(p["energy"]), speed_of(p["energy"])
        across = np.sqrt(1.0 - cosine * cosine)
        p["along"] = np.stack([across * np.cos(turn), across * np.sin(turn), cosine])
        p["weight"] = np.full(len(root), self.weight)
        p["paths"] = -np.log(_draw(p))
        p["time"] = self.problem.duration * _draw(p)
        p["age"], p["segments"] = np.zeros(len(root)), np.zeros(len(root))
        return p


@lru_cache(maxsize=1)
def _traced(histories: Histories, factors: tuple[float, ...]) -> tuple[State, float]:
    """The traced particles at census after a step for each factor, and the sum over cells and groups of their flux,
    each times its own number, as transport.c sums it. The repetitions of a point have the same.
    """

    def trace(first: int, last: int) -> tuple[State, float]:
        tracks = Tracks(histories, factors)
        census = tracks.trace(slice(first, last))
        return _take(census, histories.inside(census["cell"])), tracks.flux

    parts = in_pieces(trace, -(-histories.count // histories.every), TOGETHER)
    return _join([census for census, _ in parts]), sum(flux for _, flux in parts)


class Tracks:
    """Tracks traced particles, those of all steps at once. A state is arrays of n numbers, or 3 x n; cells are f64, and
    `step` is the step in which a particle is.
    """

    def __init__(self, histories: Histories, factors: Sequence[float]) -> None:
        self._of, self._problem, self._factors = histories, histories.problem, np.array(factors)
        cross = self._problem.cross()
        self._totals = cross.sum(axis=0)
        self._kinds = np.cumsum(cross[:3], axis=0)
        """The cross sections of one isotope up to each kind of reaction, by group: all have the same."""
        self.flux = 0.0

    def trace(self, some: slice) -> State:
        """The particles at census after the last step that descend from `some` of the traced ones of each step."""
        waiting, fresh, done = [self._sources(step, some) for step in range(len(self._factors))], list[State](), []
        p = _take(waiting[0], slice(0))
        while waiting or fresh or len(p["id"]):
            if FEW * sum(len(each["id"]) for each in (*waiting, *fresh)) >= len(p["id"]):
                p = _join([p, *fresh, *([self._control(_join(waiting))] if waiting else [])])
                waiting, fresh = [], []
            p, ended = self._track(p, fresh)
            last = ended["step"] == len(self._factors) - 1
            done.append(_take(ended, last))
            if not last.all():
                ended["step"] += 1
                waiting.append(_take(ended, ~last))
        return _join(done)

    def _sources(self, step: int, some: slice) -> State:
        histories = self._of
        first = -(-step * histories.count // histories.every) * histories.every
        p = histories.begun(np.arange(first, (step + 1) * histories.count, histories.every, dtype=np.uint64)[some])
        return {**p, "step": np.full(len(p["id"]), step)}

    def _control(self, p: State) -> State:
        """Particles at the beginning of their steps."""
        factor, chance = self._factors[p["step"]], _draw(p)
        p["weight"] = p["weight"] / factor
        p["time"] = np.where(p["time"] <= 0.0, self._problem.duration, p["time"])
        made = factor.astype(int) + (chance <= factor - np.floor(factor))
        children = []
        for k in range(1, int(made.max(initial=0))):
            more = np.flatnonzero(made > k)
            _draw(p, more)
            child = _take(p, more)
            child["random"] = mix64(child["random"])
            child["id"] = child["random"].copy()
            children.append(child)
        p = _join([_take(p, made > 0), *children])
        rare = np.flatnonzero(p["weight"] <= CUTOFF * self._of.weight)
        killed = np.zeros(len(p["id"]), bool)
        killed[rare] = _draw(p, rare) > CUTOFF
        p["weight"][rare] /= CUTOFF
        return _take(p, ~killed)

    def _track(self, p: State, fresh: list[State]) -> tuple[State, State]:
        """Track particles to a collision, a face of their cells or census. Returns those that fly on and those that
        reached census, and adds those that come out of fissions with several to `fresh`.
        """
        speed, along, total = p["speed"], p["along"], self._totals[p["group"]]
        up = along > 0.0
        plane = (p["cell"] + up) * self._problem.side
        with np.errstate(divide="ignore", invalid="ignore"):
            x, y, z = np.where(along == 0.0, 1e300, np.maximum((plane - p["position"]) / along, 0.0))
        facet, collision, census = np.minimum(np.minimum(x, y), z), p["paths"] / total, speed * p["time"]
        far = np.minimum(np.minimum(collision, census), facet)
        collides = collision <= far
        ends = ~collides & (census < facet)
        self._tally(p, far)
        took = far / speed
        p["position"] += far * along
        p["time"] = np.where(ends, 0.0, p["time"] - took)
        p["age"] += took
        p["paths"] -= far * total
        p["segments"] += 1.0
        axis = np.where(y < x, np.where(z < y, 2, 1), np.where(z < x, 2, 0))
        self._cross(p, np.flatnonzero(~(collides | ends)), axis, up, plane)
        stays = ~ends
        stays[self._collide(p, np.flatnonzero(collides), fresh)] = False
        ended = _take(p, np.flatnonzero(ends))
        return p if stays.all() else _take(p, np.flatnonzero(stays)), ended

    def _tally(self, p: State, far: F64) -> None:
        """Adds the ways of particles to the flux of their cells and groups."""
        some, n = self._of.inside(p["cell"]), self._of.extent
        x, y, z = p["cell"] - np.array(self._of.first)[:, None]
        place = ((z * n[1] + y) * n[0] + x) * GROUPS + p["group"]
        named = 1.0 + unit_f64(0, np.where(some, place, 0.0))
        self.flux += float((far * p["weight"] * named).sum(where=some))  # BLAS would start threads for each few

    def _cross(self, p: State, at: Values, axis: Values, up: Values, plane: F64) -> None:
        """Particles pass a face of their cells, or are reflected by the box."""
        axis = axis[at]
        p["position"][axis, at] = plane[axis, at]
        following = p["cell"][axis, at] + np.where(up[axis, at], 1.0, -1.0)
        stays = (following < 0) | (following >= self._of.cells)
        p["along"][axis[stays], at[stays]] *= -1.0
        p["cell"][axis[~stays], at[~stays]] = following[~stays]

    def _collide(self, p: State, at: Values, fresh: list[State]) -> Values:
        """Adds particles that come out of fissions with several to `fresh`. Returns which are tracked no further."""
        before, group = p["along"][:, at], p["group"][at]
        scatters, fissions, isotope = self._kinds[:, group]
        rest = np.fmod(self._totals[group] * _draw(p, at), isotope)
        kind = np.where(rest < scatters, SCATTERING, np.where(rest < fissions, FISSION, ABSORPTION))
        out = np.where(kind == SCATTERING, 1, 0)
        out[kind == FISSION] = (self._problem.yield_ + _draw(p, at[kind == FISSION])).astype(int)
        for k in range(int(out.max(initial=0)), 0, -1):
            some = np.flatnonzero(out >= k)
            now, chance = at[some], _draw(p, at[some])
            scattered = p["energy"][now] * (1.0 - chance / self._problem.mass)
            p["energy"][now] = energy = np.where(kind[some] == SCATTERING, scattered, 20.0 * (0.5 * chance + 0.5) ** 2)
            p["speed"][now], p["group"][now] = speed_of(energy), self._of.group(energy)
            cosine = 2.0 * _draw(p, now) - 1.0
            turn = 2.0 * np.pi * _draw(p, now)
            p["along"][:, now] = _rotated(before[:, some], cosine, turn)
            p["paths"][now] = -np.log(_draw(p, now))
            if len(several := at[(out >= k) & (out > 1)]):
                made = _take(p, several)
                if k > 1:
                    _draw(p, several)
                    made["random"] = mix64(p["random"][several])
                    made["id"] = made["random"].copy()
                fresh.append(made)
        return np.asarray(at[out != 1])


def digest_of(census: U64) -> int:
    """A sum over particles, modulo 2^64, that depends on every bit of each, but not on their order."""

    def of_some(first: int, last: int) -> int:
        sums = np.zeros(last - first, np.uint64)
        for column in census[first:last].T:
            sums = mix64(sums + column)
        return int(sums.sum(dtype=np.uint64))

    return sum(in_pieces(of_some, len(census), PIECE)) % 2**64 if len(census) else 0


def _rotated(along: F64, cosine: F64, turn: F64) -> F64:
    """Directions that differ from others by an angle, turned around them by another."""
    u, v, w = along
    sine, across = np.sqrt(1.0 - cosine * cosine), np.sqrt(np.maximum(1.0 - w * w, 0.0))
    ct, st = sine * np.cos(turn), sine * np.sin(turn)
    z = across < 1e-6
    safe = np.where(z, 1.0, across)
    x = np.where(z, ct, cosine * u + (u * w * ct - v * st) / safe)
    y = np.where(z, st, cosine * v + (v * w * ct + u * st) / safe)
    return np.stack([x, y, np.where(z, cosine * w, cosine * w - across * ct)])


def _unpacked(words_: U64) -> State:
    """Particles from rows of 17 words (neutron.h)."""
    numbers, low = words_.view(np.float64), np.uint64(0xFFFFFFFF)
    names = ("energy", "weight", "time", "age", "paths", "segments")
    return {
        "position": numbers[:, 0:3].T, "velocity": numbers[:, 3:6].T,
        **{name: numbers[:, 6 + at] for at, name in enumerate(names)},
        "random": words_[:, 12], "id": words_[:, 13], "root": words_[:, 16],
        "cell": np.stack([words_[:, 14] & low, words_[:, 14] >> np.uint64(32), words_[:, 15] & low]).astype(np.float64),
        "group": words_[:, 15] >> np.uint64(32),
    }  # fmt: skip


def _differ(actual: State, traced: State) -> str:
    if len(actual["id"]) != len(traced["id"]):
        return f"{len(actual['id'])} particles instead of {len(traced['id'])}"
    expected = {**traced, "velocity": traced["along"] * traced["speed"]}
    a, b = (_take(p, np.argsort(p["id"])) for p in (actual, expected))
    for name in ("id", "random", "root", "cell", "group"):
        if count := int((a[name] != b[name]).reshape(-1, len(a["id"])).any(axis=0).sum()):
            return f"{name} of {count} particles"
    for name in ("position", "velocity", "energy", "weight", "time", "age", "paths", "segments"):
        scale = np.abs(b[name]).max(initial=1e-300)
        if not (worst := float(np.abs(a[name] - b[name]).max(initial=0.0) / scale)) <= 1e-7:
            return f"{name} by {worst:.3g} of the largest"
    return ""
