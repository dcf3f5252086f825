"""fdtd3d: finite differences in three dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, around, buffer, f32, sample
from firsttouch.harness.random import F64, uniform_f32

RADIUS = 4
WIDE, HIGH, THREADS = 64, 16, 256  # the tile of fdtd3d.c, and threads per group
WEIGHTS = (0.1, 0.16, 0.12, 0.08, 0.04)  # by distance; over all six directions they add up to 2.5
MAX_STEPS = 20  # values grow 2.5 times a step
TOLERANCE = 1e-5  # relative
FULL_CHECK_CELLS = 1 << 20  # larger spaces are checked at a sample of cells


class Fdtd3d(App):
    """A stencil of radius 4 on n x n x n cells with a halo of 4; each group computes `depth` planes."""

    name = "fdtd3d"
    source = "um-apps (Chien et al., MCHPC 2019), whose weights are all 0.1, which hides swapped neighbours"
    pattern = "iterate on the GPU, read at the end"
    sizes = {
        "tiny": {"n": 76, "iterations": 3, "depth": 30},
        "default": {"n": 376, "iterations": 5, "depth": 128},
    }
    multiple = 4
    n: int
    iterations: int
    depth: int

    cells = buffer(f32, "n + 8", "n + 8", "n + 8", role="inout", starts_on="cpu", ends_on="cpu")
    next = buffer(f32, "n + 8", "n + 8", "n + 8", role="inout", starts_on="cpu")  # swapped with cells
    weights = buffer(f32, RADIUS + 1, role="constant", starts_on="cpu")

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
        """Recomputes cells in f64 from regenerated initial data: all cells of a small space, otherwise a sample."""
        side, radius = self.n + 2 * RADIUS, RADIUS * self.iterations
        if side**3 <= FULL_CHECK_CELLS:
            worst = _largest_error(view(self.cells), self._after([range(side)] * 3))
        else:
            cells = self._some_cells(max(4, 4_000_000 // (2 * radius + 1) ** 3))
            worst = float(np.max([self._error_at(view, at) for at in cells]))
        return "" if worst < TOLERANCE else f"a cell differs from its recomputation in f64 by {worst:.3g} of its value"

    def _some_cells(self, count: int) -> list[tuple[int, ...]]:
        """The corners of the space without its halo, and random cells."""
        corners = itertools.product((RADIUS, self.n + RADIUS - 1), repeat=3)
        places = [np.unravel_index(int(i), (self.n,) * 3) for i in sample(self.n**3, count, self.seed)]
        return [*corners, *(tuple(int(i) + RADIUS for i in place) for place in places)]

    def _error_at(self, view: View, at: tuple[int, ...]) -> float:
        box = around(at, RADIUS * self.iterations, self.cells.shape)
        cell = tuple(slice(i - r[0], i - r[0] + 1) for i, r in zip(at, box, strict=True))
        return _largest_error(view(self.cells)[tuple(slice(i, i + 1) for i in at)], self._after(box)[cell])

    def _after(self, box: Sequence[range]) -> F64:
        """A box after all steps. At faces inside the space, the valid region shrinks by 4 cells per step."""
        side = self.n + 2 * RADIUS
        z, y, x = np.meshgrid(*map(np.array, box), indexing="ij", sparse=True)
        cells = uniform_f32(self.cells.key, (z * side + y) * side + x, 0, 1).astype(np.float64)
        inside = [slice(RADIUS, len(extent) - RADIUS) for extent in box]
        for _ in range(self.iterations):
            total = WEIGHTS[0] * cells[tuple(inside)]
            for axis, r in itertools.product(range(3), range(-RADIUS, RADIUS + 1)):
                if r:
                    there = [slice(s.start + r, s.stop + r) if d == axis else s for d, s in enumerate(inside)]
                    total += WEIGHTS[abs(r)] * cells[tuple(there)]
            cells[tuple(inside)] = total
        return cells


def _largest_error(found: np.ndarray, expected: F64) -> float:
    """The largest relative error."""
    return float(np.max(np.abs(found - expected) / np.maximum(np.abs(expected), 0.1)))
