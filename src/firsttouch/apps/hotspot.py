"""hotspot: temperatures of a chip."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, PublishedPlacement, View, buffer, f32, in_pieces, sample
from firsttouch.harness.random import F32, F64, uniform_f32

AMBIENT = 80.0
WIDE, HIGH, THREADS = 64, 32, 256  # the tile of hotspot.c, and threads per group
BLOCK = 512  # side of the blocks in which the check recomputes cells
FULL_CHECK_STEPS = 2**29  # steps of one cell; above, the check recomputes the last launch and all steps of some cells
# Largest error of a step in kelvin: four f32 sums between 256 and 512 K, each off by at most 1.53e-5; two sums of
# neighbours off by 3.1e-5, times at most 1/8. A step is a weighted mean, so that errors of earlier steps do not grow.
ROUNDING_ERROR = 7e-5
# Spacing of f32 from 256 to 512 K. The last term, which cools the cells of a large chip by nearly the same few
# multiples of it, is rounded alike in all of them. The check rounds it too.
SPACING = 2.0**-15
# Standard deviation of a cell's error in a step: that of four independent errors, uniform up to 1.53e-5, and of the
# sums of neighbours. The mean of n x n cells shows constants that are off by less than the rounding error of a cell.
MEAN_ERROR = 1.8e-5
BIAS = SPACING / 500  # of a step: for errors of neighbouring cells that are not independent, as ties are not


class Hotspot(App):
    """Explicit heat equation on an n x n chip; tiles of cells advance `pyramid` steps per launch."""

    name = "hotspot"
    source = (
        "Rodinia (Che et al., IISWC 2009), hotspot; its 16 x 16 tiles replaced by larger ones, with a stable time step"
    )
    pattern = "iterate on the GPU, read at the end"
    sizes = {
        "tiny": {"n": 150, "iterations": 5, "pyramid": 2},
        "default": {"n": 512, "iterations": 2, "pyramid": 2},
        "bytes": {"iterations": 20},
    }
    n: int
    iterations: int
    pyramid: int

    temp = buffer(f32, "n", "n", role="inout", starts_on="cpu", ends_on="cpu")  # kelvin
    power = buffer(f32, "n", "n", role="input", starts_on="cpu")  # watt per cell
    next = buffer(f32, "n", "n", role="inout")  # swapped with temp
    published = PublishedPlacement(memory={"next": "device"})  # as in Schieffer et al., ICPP 2024

    @classmethod
    def problem(cls, params: Params) -> str:
        if params["pyramid"] > 8:
            return f"hotspot: pyramid must be at most 8, not {params['pyramid']}"
        return super().problem(params)

    def defines(self) -> Mapping[str, object]:
        return {"PYRAMID": self.pyramid}

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.uniform(self.temp, 323, 343)
        cpu.uniform(self.power, 0, 0.006)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        n, across, down = self.n, WIDE - 2 * self.pyramid, HIGH - 2 * self.pyramid
        groups = math.ceil(n / across) * math.ceil(n / down)
        again = WIDE * HIGH / (across * down)  # tiles overlap
        for i in gpu.iterations(math.ceil(self.iterations / self.pyramid)):
            steps = min(self.pyramid, self.iterations - i * self.pyramid)
            gpu.launch(
                *("hotspot_steps", self.temp, self.power, self.next, n, n, steps, *self.coefficients()),
                groups=groups,
                threads=THREADS,
                writes=[self.next],
                passes={self.temp: again, self.power: again},
            )
            gpu.swap(self.temp, self.next)

    def coefficients(self) -> tuple[float, float, float, float]:
        """Coefficients of power, of the differences in y and x, and of the difference from the ambient temperature."""
        t, k, heat, side = 0.0005, 100.0, 1.75e6, 0.016
        cell = side / self.n
        capacity = 0.5 * heat * t * cell * cell
        rx = cell / (2 * k * t * cell)
        rz = t / (k * cell * cell)
        # The original's time step is unstable from n = 1387: temperatures would overflow.
        step = min(0.001 / (3.0e6 / (0.5 * t * heat)), capacity * rx / 8)
        return step / capacity, step / capacity / rx, step / capacity / rx, step / capacity / rz

    def check(self, view: View) -> str:
        """Recomputes all cells in f64: all steps from regenerated data, or for a large chip the last launch from the
        temperatures before it, which are still in `next`, and all steps for some cells, including the borders.
        """
        n, result, across = self.n, view(self.temp), math.ceil(self.n / BLOCK)
        full = n * n * self.iterations <= FULL_CHECK_STEPS
        start, steps = (None, self.iterations) if full else (view(self.next), (self.iterations - 1) % self.pyramid + 1)

        def errors(number: int, _: int) -> tuple[float, float]:
            top, left = (BLOCK * i for i in divmod(number, across))
            rows, cols = range(top, min(n, top + BLOCK)), range(left, min(n, left + BLOCK))
            apart = result[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1] - self._after(rows, cols, steps, start)
            return float(np.abs(apart).max()), float(apart.sum())

        largest, sums = np.array(in_pieces(errors, across**2, 1)).T
        worst, mean = float(largest.max()), abs(float(sums.sum())) / n**2
        if not worst <= ROUNDING_ERROR * steps:
            return f"a cell differs from f64 by {worst:.3g} K"
        if not mean <= 10 * MEAN_ERROR * math.sqrt(steps) / n + steps * BIAS:
            return f"the mean differs from f64 by {mean:.3g} K"
        if full:
            return ""
        some = min(10_000, max(2, 2**21 // (2 * self.iterations + 1) ** 2))
        inner, border = sample(n * n, some, self.seed), sample(n, max(2, some // 40), self.seed)
        cells = np.concatenate([inner, border, (n - 1) * n + border, border * n, border * n + n - 1])
        worst = float(
            np.max([abs(float(result[r, c]) - self._cell(r, c)) for r, c in zip(*divmod(cells, n), strict=True)])
        )
        return "" if worst <= ROUNDING_ERROR * self.iterations else f"after all steps a cell differs by {worst:.3g} K"

    def _cell(self, row: int, col: int) -> float:
        return float(self._after(range(row, row + 1), range(col, col + 1), self.iterations, None)[0, 0])

    def _after(self, rows: range, cols: range, steps: int, start: F32 | None) -> F64:
        """A block after a number of steps from given temperatures, or from regenerated ones. Computed with the cells
        around it that it depends on, of which one row and column less on each side is right after each step.
        """
        n = self.n
        top, left = max(0, rows[0] - steps), max(0, cols[0] - steps)
        wide = slice(top, min(n, rows[-1] + 1 + steps)), slice(left, min(n, cols[-1] + 1 + steps))
        at = np.arange(n)[wide[0], None] * n + np.arange(n)[wide[1]]
        near = np.empty((at.shape[0] + 2, at.shape[1] + 2))  # with the border repeated outside
        temp = near[1:-1, 1:-1]
        temp[:] = uniform_f32(self.temp.key, at, 323, 343) if start is None else start[wide]
        by_power, by_y, by_x, by_z = self.coefficients()
        heat = by_power * uniform_f32(self.power.key, at, 0, 0.006).astype(np.float64)
        for _ in range(steps):
            near[0], near[-1], near[:, 0], near[:, -1] = near[1], near[-2], near[:, 1], near[:, -2]
            change = np.rint(by_z * (AMBIENT - temp) / SPACING) * SPACING
            change -= (2 * by_y + 2 * by_x) * temp
            change += heat
            change += by_y * (near[:-2, 1:-1] + near[2:, 1:-1])
            change += by_x * (near[1:-1, :-2] + near[1:-1, 2:])
            temp += change
        return temp[rows[0] - top :, cols[0] - left :][: len(rows), : len(cols)]
