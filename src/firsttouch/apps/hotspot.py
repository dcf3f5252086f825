"""hotspot: temperatures of a chip."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from firsttouch.apps.base import App, Cpu, Gpu, Params, View, around, buffer, f32, sample
from firsttouch.apps.random import F64, uniform_f32

AMBIENT = 80.0
WIDE, HIGH, THREADS = 64, 32, 256  # the tile of hotspot.c and its threads
EVERYTHING = 2**20  # cells of a chip that is checked as a whole; of a larger one, light cones of as many and more
ROUNDED = 7e-5  # kelvin that a step may lose, at 340 K: four sums in f32 by 1.53e-5 each, and differences


class Hotspot(App):
    """Explicit heat equation on an n x n chip, with a tile of cells advanced `pyramid` steps at a time."""

    name = "hotspot"
    source = (
        "Rodinia (Che et al., IISWC 2009), hotspot; its 16 x 16 tiles replaced by larger ones, its step made stable"
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
    next = buffer(f32, "n", "n", role="inout")  # exchanged with temp

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
        """Factors of power, of the differences in y and x, and of the distance to the ambient temperature."""
        t, k, heat, side = 0.0005, 100.0, 1.75e6, 0.016
        cell = side / self.n
        capacity = 0.5 * heat * t * cell * cell
        rx = cell / (2 * k * t * cell)
        rz = t / (k * cell * cell)
        # The original's step is beyond the scheme's stability from n = 1387 on: temperatures would overflow.
        step = min(0.001 / (3.0e6 / (0.5 * t * heat)), capacity * rx / 8)
        return step / capacity, step / capacity / rx, step / capacity / rx, step / capacity / rz

    def check(self, view: View) -> str:
        """In f64, with the initial data made again: a small chip as a whole, of a large one cells by their light cone,
        with all corners and some cells of each border.
        """
        n, result = self.n, view(self.temp)
        if n * n <= EVERYTHING:
            worst = float(np.abs(result - self._after(range(n), range(n))).max())
        else:
            inner = sample(n * n, min(10_000, max(2, 2 * EVERYTHING // (2 * self.iterations + 1) ** 2)), self.seed)
            border = sample(n, max(2, len(inner) // 40), self.seed)
            places = np.concatenate([inner, border, (n - 1) * n + border, border * n, border * n + n - 1])
            worst = float(
                np.max([abs(float(result[at]) - self._cone(*at)) for at in zip(*divmod(places, n), strict=True)])
            )
        return "" if worst < ROUNDED * self.iterations else f"a cell is {worst:.3g} K from its light cone in f64"

    def _cone(self, row: int, col: int) -> float:
        rows, cols = around((row, col), self.iterations, self.temp.shape)
        return float(self._after(rows, cols)[row - rows[0], col - cols[0]])

    def _after(self, rows: range, cols: range) -> F64:
        """A patch after all steps. Where it ends inside the chip, what is wrong comes one cell nearer each step."""
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
