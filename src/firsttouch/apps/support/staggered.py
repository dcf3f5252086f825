"""CloverLeaf's scheme in numpy and f64, for the check of halo: written from its equations, not from halo's kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from firsttouch.harness.random import F64, Values, unit_f64

FIELDS = (
    "density0", "energy0", "pressure", "viscosity", "xvel0", "yvel0", "density1", "energy1", "xvel1", "yvel1",
    "mass_flux_x", "mass_flux_y", "vol_flux_x", "vol_flux_y", "soundspeed",
)  # fmt: skip
SIDE = 10.0  # of the space, in both directions
STATE = "density0", "energy0", "xvel0", "yvel0"
REACH = 16  # cells on which the state of a cell after a step depends, and some more
HALO = 2


def extra(name: str) -> tuple[bool, bool]:
    """Whether a field has a column more than there are cells, and a row more: on nodes, or on faces."""
    return name[1:4] == "vel" or name.endswith("_x"), name[1:4] == "vel" or name.endswith("_y")


def bits(*names: str) -> int:
    """A bit for each of some fields, as kernels take those that are exchanged."""
    return sum(1 << FIELDS.index(name) for name in names)


def initial(columns: range, rows: range, whole: tuple[int, int], key: int) -> tuple[F64, F64]:
    """Density and energy of some cells of the whole space at the beginning."""
    x, y = np.arange(columns.start, columns.stop), np.arange(rows.start, rows.stop)[:, None]
    dense = (2 * x < whole[0]) & (5 * y < whole[1])
    unlike = [1 + 1e-5 * (unit_f64(key, (n * whole[1] + y) * whole[0] + x) - 0.5) for n in (0, 1)]
    return np.where(dense, 1.0, 0.2) * unlike[0], np.where(dense, 2.5, 1.0) * unlike[1]


class Staggered:
    """A rectangle of cells within walls, with two more around it. values: by field, row and column."""

    def __init__(self, columns: int, rows: int, dx: float, dy: float) -> None:
        self.columns, self.rows, self.dx, self.dy = columns, rows, dx, dy
        self.values = np.zeros((len(FIELDS), rows + 5, columns + 5))

    def __getitem__(self, name: str) -> F64:
        return np.asarray(self.values[FIELDS.index(name)])

    def at(self, name: str, right: int = 0, up: int = 0, nodes: int = 0) -> F64:
        """A field's numbers at all cells (nodes=1: at all nodes), or so many to the right and above."""
        rows, columns = slice(2 + up, 2 + up + self.rows + nodes), slice(2 + right, 2 + right + self.columns + nodes)
        return self[name][rows, columns]

    def reflect(self, names: Sequence[str] = FIELDS) -> None:
        """Fill the cells outside the walls: first those at the left and right, then those below and above."""
        for axis, size in enumerate((self.columns, self.rows)):
            for name in names:
                layers, more = (self[name].T, self[name])[axis], extra(name)[axis]
                sign = -1 if name.startswith(("xvel", "yvel")[axis]) or name.endswith(("_x", "_y")[axis]) else 1
                for layer in range(HALO):
                    layers[HALO - 1 - layer] = sign * layers[HALO + layer + more]
                    layers[HALO + size + more + layer] = sign * layers[HALO + size - 1 - layer]

    def start(self, state: Sequence[F64]) -> None:
        """Put a state in: density, energy and velocities, of cells and nodes within the walls."""
        for name, values, nodes in zip(STATE, state, (0, 0, 1, 1), strict=False):
            self.at(name, nodes=nodes)[:] = values[: self.rows + nodes, : self.columns + nodes]

    def gas(self, number: str) -> None:
        energy = self.at("energy" + number)
        self.at("pressure")[:] = 0.4 * self.at("density" + number) * energy
        self.at("soundspeed")[:] = np.sqrt(1.4 * 0.4 * energy)
        self.reflect(["pressure"])

    def around(self, name: str) -> tuple[F64, F64, F64, F64]:
        """Of a velocity: the sums at two nodes at the left of each cell, at its right, below and above."""
        a, b, c, d = (self.at(name, *to) for to in ((0, 0), (1, 0), (0, 1), (1, 1)))
        return a + c, b + d, a + b, c + d

    def find_viscosity(self) -> None:
        left, right, below, above = self.around("xvel0")
        ux, uy = (right - left) / self.dx, (above - below) / self.dy
        left, right, below, above = self.around("yvel0")
        vx, vy = (right - left) / self.dx, (above - below) / self.dy
        px = (self.at("pressure", 1) - self.at("pressure", -1)) / (2 * self.dx)
        py = (self.at("pressure", 0, 1) - self.at("pressure", 0, -1)) / (2 * self.dy)
        change = (ux * px**2 + vy * py**2 + (uy + vx) * px * py) / (2 * np.maximum(px**2 + py**2, 1e-16))
        px, py = (np.maximum(np.abs(slope), 1e-16) for slope in (px, py))
        length = np.hypot(px, py) * np.minimum(self.dx / px, self.dy / py)
        shrinks = (change <= 0) & (ux + vy < 0)
        self.at("viscosity")[:] = np.where(shrinks, 2 * self.at("density0") * (length * change) ** 2, 0)
        self.reflect(["viscosity"])

    def longest_step(self, rows: slice, columns: slice) -> float:
        """The longest step that cells admit, for their sound, the flows through their faces and their growth."""
        (left, right, _, _), (_, _, below, above) = self.around("xvel0"), self.around("yvel0")
        speed = np.sqrt(self.at("soundspeed") ** 2 + 2 * self.at("viscosity") / self.at("density0"))
        rates = [
            speed / (0.7 * min(self.dx, self.dy)),
            np.maximum(np.abs(left), np.abs(right)) / self.dx,
            np.maximum(np.abs(below), np.abs(above)) / self.dy,
            -((right - left) / self.dx + (above - below) / self.dy) / (2 * 0.7),
        ]
        return 1 / max(float(rate[rows, columns].max()) for rate in rates)

    def work(self, dt: float, number: str) -> None:
        """Density and energy after a time by the work on cells, with velocities 0 and those with this number."""
        left, right, _, _ = (a + b for a, b in zip(self.around("xvel0"), self.around("xvel" + number), strict=True))
        _, _, below, above = (a + b for a, b in zip(self.around("yvel0"), self.around("yvel" + number), strict=True))
        grown = dt / 4 * ((right - left) / self.dx + (above - below) / self.dy)
        density = self.at("density0")
        forces = (self.at("pressure") + self.at("viscosity")) / density
        self.at("energy1")[:] = self.at("energy0") - forces * grown
        self.at("density1")[:] = density / (1 + grown)

    def accelerate(self, dt: float) -> None:
        def corners(name: str) -> tuple[F64, ...]:
            return tuple(self.at(name, right, up, nodes=1) for up in (-1, 0) for right in (-1, 0))

        mass = sum(corners("density0")) * (self.dx * self.dy / 4)
        a, b, c, d = (p + q for p, q in zip(corners("pressure"), corners("viscosity"), strict=True))
        self.at("xvel1", nodes=1)[:] = self.at("xvel0", nodes=1) - dt / 2 * self.dy / mass * (b + d - a - c)
        self.at("yvel1", nodes=1)[:] = self.at("yvel0", nodes=1) - dt / 2 * self.dx / mass * (c + d - a - b)

    def find_volumes(self, dt: float) -> None:
        for name, length, axis in (("x", self.dy, 1), ("y", self.dx, 0)):
            u = self[name + "vel0"] + self[name + "vel1"]
            pairs = u[:-1] + u[1:] if axis else u[:, :-1] + u[:, 1:]
            rows, columns = slice(2, 3 + self.rows - axis), slice(2, 2 + self.columns + axis)
            self["vol_flux_" + name][rows, columns] = dt / 4 * length * pairs[rows, columns]

    def sweep_cells(self, axis: int, second: bool) -> None:
        """Move mass and energy along an axis. Arrays are turned so that the sweep is along their rows."""
        along, across, mass, density, energy = self._turned(axis, "density1", "energy1")
        n, lines = (self.columns, self.rows)[axis], slice(2, 2 + (self.rows, self.columns)[axis])
        before = self.dx * self.dy + np.diff(along[lines])
        if not second:
            before = before + np.diff(across, axis=0)[lines, :-1]
        flow, face = along[lines, 2 : n + 3], np.arange(2, n + 3)
        forward = flow > 0
        donor, up = np.where(forward, face - 1, face), np.where(forward, face - 2, face + 1)
        down = np.where(forward, face, face - 1)

        def of(values: F64, cells: Values) -> F64:
            return np.take_along_axis(values, cells, axis=1)

        rho, e = density[lines], energy[lines]
        part = np.abs(flow) / of(before, donor)
        moved = flow * _leaving(of(rho, up), of(rho, donor), of(rho, down), part, part)
        travelled = np.abs(moved) / (of(rho, donor) * of(before, donor))
        heat = moved * _leaving(of(e, up), of(e, donor), of(e, down), part, travelled)
        inner, mass[lines, 2 : n + 3] = slice(2, n + 2), moved
        had = rho[:, inner] * before[:, inner]
        has = had - np.diff(moved)
        energy[lines, inner] = (e[:, inner] * had - np.diff(heat)) / has
        density[lines, inner] = has / (before[:, inner] - np.diff(flow))

    def sweep_nodes(self, axis: int, second: bool) -> None:
        """Move momentum along an axis, between nodes from 2 before the first to 2 behind the last."""
        _, across, mass, density, u, v = self._turned(axis, "density1", "xvel1", "yvel1")
        n, m = (self.columns, self.rows)[axis], (self.rows, self.columns)[axis]
        volume = self.dx * self.dy + (0 if second else np.diff(across, axis=0)[:, : n + 4])
        cells = (density[: m + 4, : n + 4] * volume)[1 : m + 3]
        pairs = mass[1 : m + 3]
        flow = (pairs[:-1] + pairs[1:])[:, :-1] / 4 + (pairs[:-1] + pairs[1:])[:, 1:] / 4  # from node j to node j + 1
        after = np.zeros_like(flow)
        after[:, 1:] = ((cells[:-1] + cells[1:])[:, :-1] + (cells[:-1] + cells[1:])[:, 1:]) / 4
        after = after[:, : n + 4]
        before = after[:, 1:] + np.diff(flow[:, : n + 4])  # of nodes from 1 on
        node = np.arange(1, n + 3)
        back = flow[:, node] < 0
        donor, up = np.where(back, node + 1, node), np.where(back, node + 2, node - 1)
        down = np.where(back, node, node + 1)
        part = np.abs(flow[:, node]) / np.take_along_axis(before, donor - 1, axis=1)
        for velocity in (u, v):
            lines = velocity[2 : m + 3]
            before_it, at_it, behind_it = (np.take_along_axis(lines, at, axis=1) for at in (up, donor, down))
            momentum = flow[:, node] * _leaving(before_it, at_it, behind_it, part, part)
            inner = slice(2, n + 3)
            lines[:, inner] = (lines[:, inner] * before[:, 1 : n + 2] - np.diff(momentum)) / after[:, inner]

    def _turned(self, axis: int, *names: str) -> list[F64]:
        """Volumes along an axis and across it, mass along it, and other fields, with the axis along their rows."""
        flows = [f"vol_flux_{'xy'[axis]}", f"vol_flux_{'yx'[axis]}", f"mass_flux_{'xy'[axis]}"]
        return [self[name] if axis == 0 else self[name].T for name in (*flows, *names)]

    def step(self, number: int, dt: float) -> None:
        """The rest of a step, after its length is known."""
        self.work(dt / 2, "0")
        self.gas("1")
        self.accelerate(dt)
        self.work(dt, "1")
        self.find_volumes(dt)
        self.reflect(["density1", "energy1", "vol_flux_x", "vol_flux_y"])
        for second in (False, True):
            axis = (number + second) % 2
            self.sweep_cells(axis, second)
            self.reflect(["density1", "energy1", "xvel1", "yvel1", "mass_flux_x", "mass_flux_y"])
            self.sweep_nodes(axis, second)

    def begin_step(self, rows: slice = slice(None), columns: slice = slice(None)) -> float:
        """Pressure, sound and viscosity before a step, and the longest step that some cells admit."""
        self.reflect(STATE)
        self.gas("0")
        self.find_viscosity()
        return self.longest_step(rows, columns)

    def end(self) -> None:
        """What is left after the last step: pressure and sound of the last state, and all cells outside the walls."""
        self.gas("1")
        self.reflect()


def _leaving(upwind: F64, donor: F64, downwind: F64, part: F64, travelled: F64) -> F64:
    a, b = donor - upwind, downwind - donor
    third = ((1 + part) * np.abs(a) + (2 - part) * np.abs(b)) / 6
    slope = np.minimum(np.minimum(np.abs(a), np.abs(b)), third)
    return np.asarray(donor + np.where(a * b > 0, (1 - travelled) * np.sign(b) * slope, 0))
