"""fdtd3d: finite differences in three dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from firsttouch.apps.support import um_apps
from firsttouch.harness.app import (
    App,
    Cpu,
    Gpu,
    Params,
    PublishedPlacement,
    View,
    around,
    buffer,
    f32,
    in_pieces,
    on_host,
    sample,
)
from firsttouch.harness.random import F64, Values, uniform_f32

RADIUS = 4
WIDE, HIGH, THREADS = 64, 16, 256  # the tile of fdtd3d.c, and threads per group
WEIGHTS = (0.1, 0.16, 0.12, 0.08, 0.04)  # by distance; over all six directions they add up to 2.5
MAX_STEPS = 20  # values grow 2.5 times a step
ROUNDING = 11 * 2.0**-24  # relative error of a step: a positive term and its weight are rounded at most 11 times
FULL_CHECK_UPDATES = 1 << 26  # of cells; up to this, all are recomputed in f64
REPEATED_UPDATES = 1 << 33  # up to this, the CPU repeats all steps (each takes a processor 5 ns, and its start 30 ns)


class Fdtd3d(App):
    """A stencil of radius 4 on n x n x n cells with a halo of 4; each group computes `depth` planes."""

    name = "fdtd3d"
    source = "um-apps (Chien et al., MCHPC 2019), whose weights are all 0.1, which hides swapped neighbours"
    pattern = "iterate on the GPU, read at the end"
    sizes = {"tiny": {"n": 76, "iterations": 3, "depth": 30}, "default": {"n": 376, "iterations": 5, "depth": 128}}
    multiple = 4
    n: int
    iterations: int
    depth: int

    cells = buffer(f32, "n + 8", "n + 8", "n + 8", role="inout", starts_on="cpu", ends_on="cpu")
    next = buffer(f32, "n + 8", "n + 8", "n + 8", role="inout", starts_on="cpu")  # swapped with cells
    weights = buffer(f32, RADIUS + 1, role="constant", starts_on="cpu")
    published = PublishedPlacement(um_apps.FDTD3D, um_apps.FDTD3D_TEXT)

    @classmethod
    def problem(cls, params: Params) -> str:
        if params["iterations"] > MAX_STEPS:
            return f"fdtd3d: iterations must be at most {MAX_STEPS}, not {params['iterations']}: values grow each time"
        return super().problem(params)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        count = (self.n + 2 * RADIUS) ** 3
        for array in (self.cells, self.next):  # both, because the halo is not written later
            cpu.launch("uniform_f32", array, 0, count, self.cells.key, 0.0, 1.0, over=count, writes=[array])
        cpu.writes(self.weights)[:] = WEIGHTS

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        groups = math.ceil(self.n / WIDE) * math.ceil(self.n / HIGH) * math.ceil(self.n / self.depth)
        for _ in gpu.iterations(self.iterations):
            gpu.launch(
                *("fdtd3d_step", self.cells, self.next, self.weights, self.n, self.depth),
                groups=groups,
                threads=THREADS,
                updates=[self.next],  # its halo is kept
            )
            gpu.swap(self.cells, self.next)

    def check(self, view: View) -> str:
        """Recomputes all cells in f64 from regenerated initial data. In a large space: a sample of them, and all in f32
        by a simple kernel on the CPU; in a very large one, by it, only the last step.
        """
        actual, most = view(self.cells), ROUNDING * self.iterations
        updates = actual.size * self.iterations
        if updates <= FULL_CHECK_UPDATES:
            cells = self._initial(map(range, actual.shape))
            for _ in range(self.iterations):
                cells = self._step(cells)
            worst = _largest_error(actual, cells)
        else:
            count = max(4, 4_000_000 // (2 * RADIUS * self.iterations + 1) ** 3)
            worst = float(np.max([self._error_at(actual, at) for at in self._some_cells(count)]))
            steps = self.iterations if updates <= REPEATED_UPDATES else 1
            apart = _largest_error(actual, self._repeat(view, steps))
            if not apart <= 2 * ROUNDING * steps:
                return f"a cell differs by {apart:.3g} of its value from {steps} steps repeated on the CPU"
        return "" if worst <= most else f"a cell differs from its recomputation in f64 by {worst:.3g} of its value"

    def _repeat(self, view: View, steps: int) -> Values:
        """The cells after the last steps, repeated on the CPU in f32."""
        now = self._initial(map(range, self.cells.shape), f32) if steps == self.iterations else view(self.next).copy()
        then, weights = now.copy(), np.array(WEIGHTS, f32)
        for _ in range(steps):
            on_host(self.kernels, "fdtd3d_repeat", now, then, weights, self.n)
            now, then = then, now
        return now

    def _some_cells(self, count: int) -> list[tuple[int, ...]]:
        """The corners of the space without its halo, and random cells."""
        corners = itertools.product((RADIUS, self.n + RADIUS - 1), repeat=3)
        places = [np.unravel_index(int(i), (self.n,) * 3) for i in sample(self.n**3, count, self.seed)]
        return [*corners, *(tuple(int(i) + RADIUS for i in place) for place in places)]

    def _error_at(self, actual: Values, at: tuple[int, ...]) -> float:
        """The error of one cell after all steps. At faces inside the space, the valid part of the box shrinks."""
        box = around(at, RADIUS * self.iterations, self.cells.shape)
        cells = self._initial(box)
        for _ in range(self.iterations):
            cells = self._step(cells)
        cell = tuple(slice(i - r[0], i - r[0] + 1) for i, r in zip(at, box, strict=True))
        return _largest_error(actual[tuple(slice(i, i + 1) for i in at)], cells[cell])

    def _initial(self, box: Iterable[range], dtype: Any = np.float64) -> Values:
        z, y, x = np.meshgrid(*map(np.array, box), indexing="ij", sparse=True)
        side, cells = self.n + 2 * RADIUS, np.empty((z.size, y.size, x.size), dtype)

        def piece(first: int, last: int) -> None:
            cells[first:last] = uniform_f32(self.cells.key, (z[first:last] * side + y) * side + x, 0, 1)

        in_pieces(piece, len(cells), _planes(cells))
        return cells

    def _step(self, cells: Values) -> F64:
        """One step of a box in f64, in which the outer cells do not change."""
        after, inside = cells.astype(np.float64), slice(RADIUS, -RADIUS)

        def piece(first: int, last: int) -> None:
            planes = cells[first : last + 2 * RADIUS].astype(np.float64)
            total = WEIGHTS[0] * planes[(inside,) * 3]
            for axis, r in itertools.product(range(3), range(1, RADIUS + 1)):
                for way in (-r, r):
                    moved = slice(RADIUS + way, planes.shape[axis] - RADIUS + way)
                    total += WEIGHTS[r] * planes[tuple(moved if d == axis else inside for d in range(3))]
            after[first + RADIUS : last + RADIUS, inside, inside] = total

        in_pieces(piece, len(cells) - 2 * RADIUS, _planes(cells))
        return after


def _planes(cells: Values) -> int:
    """How many planes of a box a thread recomputes at a time."""
    return max(8, 2**19 // int(cells[0].size))


def _largest_error(actual: Values, expected: Values) -> float:
    """The largest relative error."""

    def piece(first: int, last: int) -> float:
        right = expected[first:last]
        return float(np.max(np.abs(actual[first:last] - right) / np.maximum(right, 2.0**-24)))

    return float(np.max(in_pieces(piece, len(actual), _planes(actual))))
