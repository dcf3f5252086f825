"""The neutrons of transport computed once more in numpy: the two public problems, and histories of source particles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from firsttouch.harness.app import in_pieces
from firsttouch.harness.random import F64, U64, mix64, unit_f64, words

GROUPS, MOST = 230, 20.0
"""Energy groups, and the largest energy in MeV."""
REST, LIGHT = 939.5656981095, 2.99792458e10
SCATTERING, FISSION, ABSORPTION = range(3)
State: TypeAlias = "dict[str, np.ndarray[Any, Any]]"
"""Particles: arrays of one or three (position, velocity, cell) columns, named after the words in neutron.h."""
REACTIONS = 180
"""The most reactions of all isotopes."""
CUTOFF = 0.001
TRACED, PIECE = 2000, 1 << 15
"""Source particles of a step that are traced, about; particles at census that a thread checks at a time."""


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
    return {name: values[some] for name, values in p.items()}  # a copy, unless `some` is a slice


def _join(parts: Sequence[State]) -> State:
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def every_of(cells: int, each: int) -> int:
    """Of how many source particles one is traced. each: source particles of a cell in a step."""
    return max(1, cells**3 * each // TRACED)


class Histories:
    """The histories of about TRACED source particles of each step: those whose numbers are multiples of `every`."""

    def __init__(
        self,
        problem: Problem,
        cells: int,
        each: int,
        weight: float,
        key: int,
        block: tuple[Sequence[int], Sequence[int]],
    ) -> None:
        """each: source particles of a cell in a step, of this weight. key: of their random numbers. block: the first
        cell and the extent of the part of the box of which census and flux are compared.
        """
        self.first, self.extent = map(np.array, block)
        self.flux = 0.0
        """The sum over cells and groups of the flux, each times its own number, as transport.c sums it."""
        self.problem, self.cells, self.each, self.weight, self.key = problem, cells, each, weight, key
        self.every = every_of(cells, each)
        self.edges, self.cross = problem.edges(), problem.cross()
        self.totals = self.cross.sum(axis=0)
        self.below = np.cumsum(self.cross, axis=0)
        self.census: State = {}

    def step(self, step: int, factor: float) -> None:
        """A step: `factor` is that by which the number of particles changed at its beginning."""
        source = self._source(step)
        p = self._control(_join([self.census, source]) if self.census else source, factor)
        done = [_take(p, slice(0))]
        while len(p["id"]):
            ended, fresh = self._track(p)
            done.append(ended)
            p = fresh
        self.census = _join(done)

    def differ(self, factors: Sequence[float], census: U64, digest: int, flux: float) -> str:
        """What differs after a step for each factor, but for rounding errors, or ''. census: rows of 17 words, the
        particles in the block of cells, with those of other source particles, and their digest. flux: of the traced
        particles alone.
        """
        if digest_of(census) != digest:
            return "the digest is not that of the particles at census"
        for step, factor in enumerate(factors):
            self.step(step, factor)
        if wrong := self._wrong(census):
            return f"of particles at census, {wrong} differ from numpy's"
        if wrong := self._impossible(census, np.array(factors)):
            return f"of particles at census, {wrong}"
        if not abs(flux - self.flux) <= 1e-7 * self.flux:
            return f"the flux of traced particles by cell and group is {flux:.12g}, numpy's {self.flux:.12g}"
        return ""

    def _wrong(self, actual: U64) -> str:
        inside = self._inside(self.census["cell"])
        traced = actual[:, 16] % np.uint64(self.every) == 0
        return _differ(_unpacked(actual[traced]), _take(self.census, inside))

    def _impossible(self, census: U64, factors: F64) -> str:
        """How many particles, traced or not, have words that contradict each other or their source particle."""
        count = self.cells**3 * self.each  # source particles of a step
        after = np.append(np.cumprod(factors[::-1])[::-1], np.nan)  # by what a weight was divided since a step

        def wrong(first: int, last: int) -> list[int]:
            rows = census[first:last]
            p, near = _unpacked(rows), 1e-9
            birth = np.minimum(p["root"] // np.uint64(count), np.uint64(len(factors))).astype(np.int64)
            age = self._begun(p["root"])["time"] + (len(factors) - 1 - birth) * self.problem.duration
            weight = p["weight"] * after[birth] / self.weight  # times 1 / CUTOFF for each roulette that it won
            won = np.rint(np.log(np.maximum(weight, 1e-300)) / -np.log(CUTOFF))
            inside = np.abs(p["position"] / self.problem.side - p["cell"] - 0.5).max(axis=1) <= 0.5 + near
            speed = np.sqrt((p["velocity"] ** 2).sum(axis=1)) / speed_of(p["energy"])
            right = (
                inside & self._inside(p["cell"]),
                np.abs(speed - 1) <= 1e-6,
                rows[:, 15] >> np.uint64(32) == self._group(p["energy"]),
                (np.abs(weight * CUTOFF**won - 1) <= near) & (won >= 0),
                (np.abs(p["age"] / age - 1) <= near) & (p["time"] == 0) & (p["segments"] >= 1) & (p["paths"] >= 0),
            )
            return [int(np.count_nonzero(~each)) for each in right]

        with np.errstate(all="ignore"):
            wrongs = np.sum(in_pieces(wrong, len(census), PIECE), axis=0) if len(census) else []
        names = ("cells", "speeds", "energy groups", "weights", "ages")
        said = [f"{n} {name} contradict other words" for n, name in zip(wrongs, names, strict=False) if n]
        same = len(census) - len(np.unique(census[:, 13]))
        return ", ".join([*said, *([f"{same} ids are not unique"] if same else [])])

    def _inside(self, cell: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(((cell >= self.first) & (cell < self.first + self.extent)).all(axis=1))

    def _tally(self, p: State, group: Any, far: F64) -> None:
        """Adds the ways of particles to the flux of their cells and groups."""
        inside = self._inside(p["cell"])
        x, y, z = (p["cell"][inside] - self.first).T
        place = ((z * self.extent[1] + y) * self.extent[0] + x) * GROUPS + group[inside]
        self.flux += float((far * p["weight"])[inside] @ (1.0 + unit_f64(0, place)))

    def _source(self, step: int) -> State:
        count = self.cells**3 * self.each
        root = np.arange(step * count, (step + 1) * count, dtype=np.uint64)
        return self._begun(root[root % np.uint64(self.every) == 0])

    def _begun(self, root: U64) -> State:
        """Source particles, by their numbers."""
        cell, n = root // np.uint64(self.each), np.uint64(self.cells)
        p: State = {"root": root, "id": words(self.key, root)}
        p["random"] = mix64(p["id"])
        p["cell"] = np.stack([cell % n, cell // n % n, cell // n // n % n], axis=1).astype(np.int64)
        p["position"] = np.stack([(p["cell"][:, a] + _draw(p)) * self.problem.side for a in range(3)], axis=1)
        cosine = 1.0 - 2.0 * _draw(p)
        turn = np.pi * (2.0 * _draw(p) - 1.0)
        p["energy"] = (self.edges[-1] - self.edges[0]) * _draw(p) + self.edges[0]
        speed = speed_of(p["energy"])
        across = speed * np.sqrt(1.0 - cosine * cosine)
        p["velocity"] = np.stack([across * np.cos(turn), across * np.sin(turn), speed * cosine], axis=1)
        p["weight"] = np.full(len(root), self.weight)
        p["paths"] = -np.log(_draw(p))
        p["time"] = self.problem.duration * _draw(p)
        p["age"], p["segments"] = np.zeros(len(root)), np.zeros(len(root))
        return p

    def _control(self, p: State, factor: float) -> State:
        chance = _draw(p)
        p["weight"] = p["weight"] / factor
        p["time"] = np.where(p["time"] <= 0.0, self.problem.duration, p["time"])
        made = int(factor) + (chance <= factor - int(factor))
        children = []
        for k in range(1, int(made.max(initial=0))):
            more = made > k
            _draw(p, more)
            child = _take(p, more)
            child["random"] = mix64(child["random"])
            child["id"] = child["random"].copy()
            children.append(child)
        p = _join([_take(p, made > 0), *children])
        rare = p["weight"] <= CUTOFF * self.weight
        killed = np.zeros(len(rare), bool)
        killed[rare] = _draw(p, rare) > CUTOFF
        p["weight"][rare] /= CUTOFF
        return _take(p, ~killed)

    def _group(self, energy: F64) -> Any:
        return np.clip(np.searchsorted(self.edges, energy, side="right") - 1, 0, GROUPS - 1)

    def _track(self, p: State) -> tuple[State, State]:
        """The particles that reach census, and those that fissions leave for the next round."""
        ended, fresh = [_take(p, slice(0))], [_take(p, slice(0))]
        while len(p["id"]):
            speed, group = speed_of(p["energy"]), self._group(p["energy"])
            along = p["velocity"] / speed[:, None]
            plane = (p["cell"] + (along > 0.0)) * self.problem.side
            with np.errstate(divide="ignore", invalid="ignore"):
                distance = np.where(along == 0.0, 1e300, np.maximum((plane - p["position"]) / along, 0.0))
            axis = np.argmin(distance, axis=1)
            rows = np.arange(len(axis))
            facet, total = distance[rows, axis], self.totals[group]
            collision, census = p["paths"] / total, speed * p["time"]
            collides = (collision <= facet) & (collision <= census)
            ends = ~collides & (census < facet)
            far = np.where(collides, collision, np.where(ends, census, facet))
            self._tally(p, group, far)
            p["position"] += far[:, None] * along
            p["time"] = np.where(ends, 0.0, p["time"] - far / speed)
            p["age"] += far / speed
            p["paths"] -= far * total
            p["segments"] += 1.0
            crosses = ~(collides | ends)
            up = along[rows, axis] > 0.0
            p["position"][rows[crosses], axis[crosses]] = plane[rows, axis][crosses]
            following = p["cell"][rows, axis] + np.where(up, 1, -1)
            reflects = crosses & ((following < 0) | (following >= self.cells))
            p["velocity"][rows[reflects], axis[reflects]] *= -1.0
            moves = crosses & ~reflects
            p["cell"][rows[moves], axis[moves]] = following[moves]
            lost, several = self._collide(p, along, group, collides)
            ended.append(_take(p, ends))
            fresh += several
            p = _take(p, ~(ends | lost))
        return _join(ended), _join(fresh)

    def _collide(self, p: State, along: F64, group: Any, collides: Any) -> tuple[Any, list[State]]:
        """Which particles are tracked no further, and those that come out of fissions with several."""
        lost = np.zeros(len(collides), bool)
        at = np.flatnonzero(collides)
        chosen = self.totals[group[at]] * _draw(p, at)
        reaction = np.minimum((chosen[:, None] >= self.below[:, group[at]].T).sum(axis=1), len(self.cross) - 1)
        kind, fissions = reaction % 3, at[reaction % 3 == FISSION]
        out = np.where(kind == SCATTERING, 1, 0)
        out[kind == FISSION] = (self.problem.yield_ + _draw(p, fissions)).astype(int)
        lost[at[out != 1]] = True
        fresh, energy = [], p["energy"].copy()
        for k in range(int(out.max(initial=0)), 0, -1):
            some = out >= k
            now = at[some]
            chance = _draw(p, now)
            p["energy"][now] = np.where(
                kind[some] == SCATTERING,
                energy[now] * (1.0 - chance / self.problem.mass),
                20.0 * (0.5 * chance + 0.5) ** 2,
            )
            cosine = 2.0 * _draw(p, now) - 1.0
            turn = 2.0 * np.pi * _draw(p, now)
            p["velocity"][now] = speed_of(p["energy"][now])[:, None] * _rotated(along[now], cosine, turn)
            p["paths"][now] = -np.log(_draw(p, now))
            several = at[some & (out > 1)]
            made = _take(p, several)
            if k > 1:
                _draw(p, several)
                made["random"] = mix64(p["random"][several])
                made["id"] = made["random"].copy()
            fresh.append(made)
        return lost, fresh


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
    u, v, w = along.T
    sine, across = np.sqrt(1.0 - cosine * cosine), np.sqrt(np.maximum(1.0 - w * w, 0.0))
    ct, st = np.cos(turn), np.sin(turn)
    z = across < 1e-6
    safe = np.where(z, 1.0, across)
    x = np.where(z, sine * ct, cosine * u + sine * (u * w * ct - v * st) / safe)
    y = np.where(z, sine * st, cosine * v + sine * (v * w * ct + u * st) / safe)
    return np.stack([x, y, np.where(z, cosine * w, cosine * w - sine * across * ct)], axis=1)


def _unpacked(words_: U64) -> State:
    """Particles from rows of 17 words (neutron.h)."""
    numbers = words_.view(np.float64)
    low = np.uint64(0xFFFFFFFF)
    return {
        "position": numbers[:, 0:3], "velocity": numbers[:, 3:6], "energy": numbers[:, 6], "weight": numbers[:, 7],
        "time": numbers[:, 8], "age": numbers[:, 9], "paths": numbers[:, 10], "segments": numbers[:, 11],
        "random": words_[:, 12], "id": words_[:, 13], "root": words_[:, 16],
        "cell": np.stack([words_[:, 14] & low, words_[:, 14] >> np.uint64(32), words_[:, 15] & low], axis=1),
    }  # fmt: skip


def _differ(actual: State, expected: State) -> str:
    if len(actual["id"]) != len(expected["id"]):
        return f"{len(actual['id'])} particles instead of {len(expected['id'])}"
    a, b = (_take(p, np.argsort(p["id"])) for p in (actual, expected))
    for name in ("id", "random", "root", "cell"):
        if count := int((a[name] != b[name]).any(axis=-1).sum() if a[name].ndim > 1 else (a[name] != b[name]).sum()):
            return f"{name} of {count} particles"
    for name in ("position", "velocity", "energy", "weight", "time", "age", "paths", "segments"):
        scale = np.abs(b[name]).max(initial=1e-300)
        if not (worst := float(np.abs(a[name] - b[name]).max(initial=0.0) / scale)) <= 1e-7:
            return f"{name} by {worst:.3g} of the largest"
    return ""
