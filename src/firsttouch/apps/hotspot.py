"""hotspot: temperatures of a chip."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, around, buffer, f32, sample
from firsttouch.harness.random import F64, uniform_f32

AMBIENT = 80.0
WIDE, HIGH, THREADS = 64, 32, 256  # the tile of hotspot.c, and threads per group
FULL_CHECK_CELLS = 2**20  # larger chips are sampled; at least as many cells are recomputed
ROUNDING_ERROR = 7e-5  # error per step in kelvin at 340 K: four f32 sums of 1.53e-5 each, and differences


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
        for i in gpu.iterations(math.ceil(self.iterations / self.pyramid)):
            steps = min(self.pyramid, self.iterations - i * self.pyramid)
            gpu.launch(
                *("hotspot_steps", self.temp, self.power, self.next, n, n, steps, *self.coefficients()),
                groups=groups,
                threads=THREADS,
                writes=[self.next],
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
        """Recomputes a small chip in f64 from regenerated data, or for a large one a sample of cells that includes the
        corners and some cells of each border.
        """
        n, result = self.n, view(self.temp)
        if n * n <= FULL_CHECK_CELLS:
            worst = float(np.abs(result - self._after(range(n), range(n))).max())
        else:
            inner = sample(
                n * n, min(10_000, max(2, 2 * FULL_CHECK_CELLS // (2 * self.iterations + 1) ** 2)), self.seed
            )
            border = sample(n, max(2, len(inner) // 40), self.seed)
            places = np.concatenate([inner, border, (n - 1) * n + border, border * n, border * n + n - 1])
            worst = float(
                np.max([abs(float(result[at]) - self._cone(*at)) for at in zip(*divmod(places, n), strict=True)])
            )
        return "" if worst < ROUNDING_ERROR * self.iterations else f"a cell differs from f64 by {worst:.3g} K"

    def _cone(self, row: int, col: int) -> float:
        """A cell after all steps, from the cells that it depends on."""
        rows, cols = around((row, col), self.iterations, self.temp.shape)
        return float(self._after(rows, cols)[row - rows[0], col - cols[0]])

    def _after(self, rows: range, cols: range) -> F64:
        """A patch after all steps. At edges inside the chip, the valid region shrinks by one cell per step."""
        at = np.array(rows)[:, None] * self.n + np.array(cols)
        temp = uniform_f32(self.temp.key, at, 323, 343).astype(np.float64)
        power = uniform_f32(self.power.key, at, 0, 0.006).astype(np.float64)
        by_power, by_y, by_x, by_z = self.coefficients()
        for _ in range(self.iterations):
            wide = np.pad(temp, 1, mode="edge")
            at_y = wide[:-2, 1:-1] + wide[2:, 1:-1] - 2 * temp
            at_x = wide[1:-1, :-2] + wide[1:-1, 2:] - 2 * temp
            temp = temp + by_power * power + by_y * at_y + by_x * at_x + by_z * (AMBIENT - temp)
        return temp
