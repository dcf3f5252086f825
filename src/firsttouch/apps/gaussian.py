"""gaussian: elimination without pivoting, on the GPU or on both agents at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from firsttouch.apps.support.triangular import largest_error, residual
from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, f32, in_pieces
from firsttouch.program.execution.arrays import SCATTERED

WIDE, HIGH, LINE, THREADS = 256, 16, 32, 256  # the tiles of gaussian.c, and threads per group
DECAY, PEAK = 0.01, 10.0
VANISHES = 650  # steps after which 0.2 exp(-0.02 d), the update of a diagonal element, is below 2^-21
SMALLEST_SCALE = 1e-30  # of an error; f32 represents far smaller numbers


class Gaussian(App):
    """Solves A x = 1 with A[i][j] = 10 exp(-0.01 |i - j|). Eliminates `iterations` rows, at most n - 1; if all are
    eliminated, the CPU then substitutes back.
    """

    name = "gaussian"
    source = "Rodinia (Che et al., IISWC 2009), gaussian; checked by the closed form of the Kac-Murdock-Szegö matrix"
    pattern = "in place on the GPU, each launch over the remaining submatrix"
    sizes = {
        "tiny": {"n": 150, "iterations": 149},
        "default": {"n": 2048, "iterations": 2047},
        "bytes": {"iterations": 1024},
    }
    strided = ("a", "m")  # each step begins with a column
    n: int
    iterations: int

    a = buffer(f32, "n", "n", role="inout", starts_on="cpu", ends_on="cpu")
    m = buffer(f32, "n", "n", role="inout", starts_on="cpu", ends_on="cpu")  # multipliers
    b = buffer(f32, "n", role="inout", starts_on="cpu", ends_on="cpu")
    band = buffer(f32, "2 * n - 1", role="scratch", starts_on="cpu")  # A[i][j] by n - 1 + j - i
    x = buffer(f32, "n", role="scratch", starts_on="cpu")

    @property
    def steps(self) -> int:
        return min(self.iterations, self.n - 1)

    def tiles(self, t: int, first: int) -> tuple[int, int]:
        """Tiles per row and tiles in total of step t, starting at row `first`."""
        across = -(-(self.n - t // LINE * LINE) // WIDE)
        return across, across * -(-(self.n - first) // HIGH)

    def prepare(self, gpu: Gpu) -> None:
        n, self.launches = self.n, gpu.sequence()
        for t in range(self.steps):
            across, groups = self.tiles(t, t + 1)
            self.launches.add("gaussian_fan1", self.a, self.m, n, t, t + 1, n, over=n - t - 1)
            values = (self.m, self.a, self.b, n, t, t + 1, n, across)
            self.launches.add("gaussian_fan2", *values, groups=groups, threads=THREADS)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.writes(self.band)[:] = PEAK * np.exp(-DECAY * np.abs(np.arange(1 - self.n, self.n)))
        cpu.launch("gaussian_fill", self.band, self.a, self.m, self.n, over=self.n**2, writes=[self.a, self.m])
        cpu.fill(self.b, 1)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        gpu.replay_all(self.launches, each=2, updates=[self.a, self.m, self.b])
        self.substitute(cpu)

    def substitute(self, cpu: Cpu) -> None:
        if self.steps == self.n - 1:
            cpu.launch("gaussian_back", self.a, self.b, self.x, self.n, over=1, writes=[self.x])

    def check(self, view: View) -> str:
        """Compares every element of every array with its closed form, and x, if it was computed, with row after row."""
        n, steps, rho, a, m = self.n, self.steps, float(np.exp(-DECAY)), view(self.a), view(self.m)
        column, pivot = np.arange(n), PEAK * (1 - rho * rho)
        decay = np.exp(-DECAY * column)
        # Updates that are smaller than the rounding change nothing. Errors of a and m decay with the matrix away from
        # the diagonal. b is eliminated as a column of a is. A row's products with x are added up in 16 sums, which are
        # then subtracted.
        allowed = largest_error(n, min(max(steps, 1), VANISHES), pivot)
        rounded = n / 16 + 18
        limits = {"a": allowed * pivot, "m": allowed, "b": allowed, "x": min(rounded, 6 * rounded**0.5) * 2.0**-24}

        def largest(first: int, last: int) -> list[float]:
            row = np.arange(first, last)[:, None]
            done = np.minimum(row, steps)  # rows subtracted from this row
            below, near = column < done, decay[np.abs(row - column)]
            left = np.where(done > 0, rho * rho * decay[row - done] * decay[np.maximum(column - done, 0)], 0.0)
            exact = np.where(below, 0.0, PEAK * (near - left)), np.where(below, near, 0.0)
            scale = np.maximum(near, SMALLEST_SCALE)
            pairs = zip((a, m), exact, strict=True)
            return [float((np.abs(actual[first:last] - right) / scale).max()) for actual, right in pairs]

        worst = dict(zip("am", np.max(in_pieces(largest, n, max(1, 2**20 // n)), axis=0), strict=True))
        done = np.minimum(column, steps)
        b = np.where(done > 0, 1 - rho ** (column - done + 1.0), 1.0)
        worst["b"] = np.max(np.abs(view(self.b) / b - 1))
        if steps == n - 1:
            worst["x"] = residual(a, view(self.b), view(self.x))
        wrong = [f"{name} by {by:.2g}" for name, by in worst.items() if not by < limits[name]]
        return f"too far from the closed form: {', '.join(wrong)}" if wrong else ""


class GaussianConcurrent(Gaussian):
    """gaussian with the upper rows on the CPU and the lower rows on the GPU. Both eliminate at the same time; each row
    that the CPU has finished is transferred to the GPU.
    """

    name = "gaussian_concurrent"
    source = "Rodinia's gaussian, divided between both agents"
    pattern = "CPU and GPU work on parts at the same time, one row is transferred in every step"
    sizes = {**Gaussian.sizes, "bytes": {"iterations": 128}}
    divided = True

    def prepare(self, gpu: Gpu) -> None:
        """Records nothing, because the launches of each step declare the row that is shared with the other agent."""

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        a, m, b, n, cut = self.a, self.m, self.b, self.n, self.n - self.gpu_part(self.n)
        for t in gpu.iterations(self.steps):
            first, row = max(cut, t + 1), a[t : t + 1]
            across, groups = self.tiles(t, first)
            on_gpu, on_cpu = slice(first, n), slice(t + 1, cut)
            reads = [row, a[on_gpu]]
            if first < n:
                column = SCATTERED / (4 * n)  # a number of each row
                beside: dict[str, Any] = {"reads": reads, "updates": [m[on_gpu]], "passes": {a: column, m: column}}
                gpu.launch("gaussian_fan1", a, m, n, t, first, n, over=n - first, **beside)
                gpu.launch(
                    *("gaussian_fan2", m, a, b, n, t, first, n, across),
                    groups=groups,
                    threads=THREADS,
                    reads=[row, m[on_gpu], b[t : t + 1]],
                    updates=[a[on_gpu], b[on_gpu]],
                    passes={a: (n - t) / n, m: column},
                )
            if t + 1 < cut:
                cpu.launch(
                    *("gaussian_rows", m, a, b, n, t, t + 1, cut),
                    over=(cut - t - 1) * n,
                    reads=[row, b[t : t + 1]],
                    updates=[m[on_cpu], a[on_cpu], b[on_cpu]],
                )
        self.substitute(cpu)
