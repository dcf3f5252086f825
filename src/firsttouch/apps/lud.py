"""lud: in-place LU factorisation."""

from __future__ import annotations

import math

import numpy as np

from firsttouch.apps.support.triangular import largest_error
from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, f32, in_pieces

SIDE, TILE, THREADS = 64, 128, 256  # side of a block and of a group's tile in lud.c, and threads per group
DECAY, PEAK = 0.001, 10.0
VANISHES = 5300  # columns after which 0.02 exp(-0.002 d), the update of a diagonal element, is below 2^-21
SMALLEST_SCALE = 1e-30  # of an error; f32 represents far smaller numbers


class Lud(App):
    """Blocked LU without pivoting of A[i][j] = 10 exp(-0.001 |i - j|)."""

    name = "lud"
    source = "Rodinia (Che et al., IISWC 2009), lud; its blocks of 16 replaced by 64"
    pattern = "in place on the GPU, overwrites its input"
    sizes = {"tiny": {"n": 320}, "default": {"n": 256}}
    multiple = SIDE
    strided = ("a",)  # each step has a column of tiles
    n: int

    a = buffer(f32, "n", "n", role="inout", starts_on="cpu", ends_on="cpu")
    band = buffer(f32, "2 * n - 1", role="scratch", starts_on="cpu")  # A[i][j] by n - 1 + j - i

    def prepare(self, gpu: Gpu) -> None:
        n, self.launches = self.n, gpu.sequence()
        for at in range(0, n, SIDE):
            self.launches.add("lud_diagonal", self.a, n, at, groups=1, threads=THREADS)
            if blocks := (n - at) // SIDE - 1:
                across = -(-blocks * SIDE // TILE)
                self.launches.add("lud_perimeter", self.a, n, at, blocks, groups=2 * blocks, threads=SIDE)
                self.launches.add("lud_interior", self.a, n, at, across, groups=across**2, threads=THREADS)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.writes(self.band)[:] = PEAK * np.exp(-DECAY * np.abs(np.arange(1 - self.n, self.n)))
        cpu.launch("lud_fill", self.band, self.a, self.n, over=self.n**2, writes=[self.a])

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        # Each step of SIDE rows updates what is right of and below it, of which groups read twice as much in panels.
        gpu.replay_all(self.launches, updates=[self.a], passes={self.a: 2 * self.n / (3 * SIDE)})

    def check(self, view: View) -> str:
        """Compares every element with its closed form: L[i][j] = rho^(i - j), U[i][j] = 10 (1 - rho^2) rho^(j - i), and
        U[0][j] = 10 rho^j, for rho = exp(-0.001).
        """
        n, a, column = self.n, view(self.a), np.arange(self.n)
        decay, pivot = np.exp(-DECAY * column), PEAK * -math.expm1(-2 * DECAY)
        # Updates by columns more than VANISHES further left are smaller than the rounding and change nothing.
        allowed = largest_error(n, min(n, VANISHES), pivot)

        def largest(first: int, last: int) -> float:
            row = np.arange(first, last)[:, None]
            near = decay[np.abs(row - column)]
            exact = np.where(column < row, near, np.where(row > 0, pivot, PEAK) * near)
            return float((np.abs(a[first:last] - exact) / np.maximum(exact, SMALLEST_SCALE)).max())

        worst = float(np.max(in_pieces(largest, n, max(1, 2**20 // n))))
        return (
            "" if worst <= allowed else f"an element is off by {worst:.3g} of its closed form, more than {allowed:.3g}"
        )
