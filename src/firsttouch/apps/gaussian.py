"""gaussian: elimination without pivoting, on the GPU or on both agents at once."""

from __future__ import annotations

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, f32, sample

WIDE, HIGH, LINE, THREADS = 256, 16, 32, 256  # the tiles of gaussian.c, and threads per group
DECAY, PEAK = 0.01, 10.0
CELLS = 1_000_000  # sampled by the check
# Largest allowed errors. The maximum of a is 10, of m and b 1, of x 0.05. The limits of a and m decay with the
# matrix away from the diagonal, down to SMALLEST_SCALE, which f32 can represent.
LIMITS = {"a": 2e-4, "m": 1e-3, "b": 1e-4, "x": 1e-4}
SMALLEST_SCALE = 1e-30


class Gaussian(App):
    """Solves A x = 1 with A[i][j] = 10 exp(-0.01 |i - j|). Eliminates `iterations` rows, at most n - 1; if all are
    eliminated, the CPU then substitutes back.
    """

    name = "gaussian"
    source = "Rodinia (Che et al., IISWC 2009), gaussian; checked by the closed form of the Kac-Murdock-Szegö matrix"
    pattern = "in place on the GPU, each launch over the remaining submatrix"
    sizes = {
        "tiny": {"n": 150, "iterations": 149},
        "default": {"n": 16, "iterations": 15},
        "bytes": {"iterations": 1024},
    }
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
        """Compares every array with its closed form (large ones at a sample of cells), and x if it was computed."""
        n, rho = self.n, float(np.exp(-DECAY))
        i, j = np.divmod(sample(n * n, CELLS, self.seed), n)
        done = np.minimum(i, self.steps)  # rows subtracted from row i
        left = np.where(done > 0, rho ** np.maximum(i + j - 2.0 * done + 2, 0), 0.0)
        near = rho ** np.abs(i - j)
        expected = {"a": np.where(j < done, 0.0, PEAK * (near - left)), "m": np.where(j < done, near, 0.0)}
        scale = dict.fromkeys(expected, np.maximum(near, SMALLEST_SCALE))
        found = {"a": view(self.a)[i, j], "m": view(self.m)[i, j], "b": view(self.b)}
        row = np.arange(n)
        done = np.minimum(row, self.steps)
        expected["b"] = np.where(done > 0, 1 - rho ** (row - done + 1.0), 1.0)
        if self.steps == n - 1:
            found["x"] = view(self.x)
            ends = (row == 0) | (row == n - 1)
            expected["x"] = np.where(ends, 1.0, 1 - rho) / PEAK / (1 + rho) if n > 1 else np.array([1 / PEAK])
        worst = {name: float(np.max(np.abs(found[name] - expected[name]) / scale.get(name, 1.0))) for name in found}
        wrong = [f"{name} by {by:.2g}" for name, by in worst.items() if not by < LIMITS[name]]
        return f"too far from the closed form: {', '.join(wrong)}" if wrong else ""


class GaussianConcurrent(Gaussian):
    """gaussian with the upper half of the rows on the CPU and the lower half on the GPU. Both eliminate at the same
    time; each row that the CPU has finished is transferred to the GPU.
    """

    name = "gaussian_concurrent"
    source = "Rodinia's gaussian, divided between both agents"
    pattern = "CPU and GPU work on halves at the same time, one row is transferred in every step"
    sizes = {**Gaussian.sizes, "bytes": {"iterations": 128}}
    by_halves = True

    def prepare(self, gpu: Gpu) -> None:
        """Records nothing, because the launches of each step declare the row that is shared with the other agent."""

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        a, m, b, n, half = self.a, self.m, self.b, self.n, self.n // 2
        for t in gpu.iterations(self.steps):
            first, row = max(half, t + 1), a[t : t + 1]
            across, groups = self.tiles(t, first)
            on_gpu, on_cpu = slice(first, n), slice(t + 1, half)
            reads = [row, a[on_gpu]]
            gpu.launch("gaussian_fan1", a, m, n, t, first, n, over=n - first, reads=reads, updates=[m[on_gpu]])
            gpu.launch(
                *("gaussian_fan2", m, a, b, n, t, first, n, across),
                groups=groups,
                threads=THREADS,
                reads=[row, m[on_gpu], b[t : t + 1]],
                updates=[a[on_gpu], b[on_gpu]],
            )
            if t + 1 < half:
                cpu.launch(
                    *("gaussian_rows", m, a, b, n, t, t + 1, half),
                    over=(half - t - 1) * n,
                    reads=[row, b[t : t + 1]],
                    updates=[m[on_cpu], a[on_cpu], b[on_cpu]],
                )
        self.substitute(cpu)
