"""lud: in-place LU factorisation."""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, f32, f64, in_pieces, sample
from firsttouch.harness.random import F64

SIDE, TILE, THREADS = 64, 128, 256  # side of a block and of a group's tile in lud.c, and threads per group
DECAY, PEAK = 0.001, 10.0
# Relative to PEAK. In f32 the errors of the last row have a norm of 2e-4 for n = 4096, and 4e-3 for 8192 and 16,384.
# Updates by more distant columns vanish.
PRODUCT_TOLERANCE = 5e-3
FULL_CHECK_ROWS = 512  # larger matrices are checked at a sample of rows and columns


class Lud(App):
    """Blocked LU without pivoting of A[i][j] = 10 exp(-0.001 |i - j|)."""

    name = "lud"
    source = "Rodinia (Che et al., IISWC 2009), lud; its blocks of 16 replaced by 64"
    pattern = "in place on the GPU, overwrites its input"
    sizes = {"tiny": {"n": 320}, "default": {"n": 256}}
    multiple = SIDE
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
        gpu.replay_all(self.launches, updates=[self.a])

    def check(self, view: View) -> str:
        """Compares with the formula of A in f64: L U in 64 rows and 64 columns (all of a small matrix), and L (U r) for
        a random vector r of signs, which depends on every element (Freivalds 1979).
        """
        n, a = self.n, view(self.a)
        signs = np.random.default_rng(self.seed).choice((-1.0, 1.0), n)
        above = np.concatenate(in_pieces(lambda p, q: np.triu(a[p:q, p:].astype(f64)) @ signs[p:], n, SIDE))
        below = np.concatenate(in_pieces(lambda p, q: np.tril(a[p:q, :q].astype(f64), p - 1) @ above[:q], n, SIDE))
        apart = float(np.abs(below + above - _times_band(signs)).max())
        rows = sample(n, 64 if n > FULL_CHECK_ROWS else n, self.seed)
        starts = sample(n // 16, 4 if n > FULL_CHECK_ROWS else n, self.seed + 1)
        columns = (16 * starts[:, None] + np.arange(16)).reshape(-1)
        k = np.arange(n)
        lower = np.where(k < rows[:, None], a[rows], k == rows[:, None]).astype(np.float64)
        upper = np.where(k[:, None] <= columns, a[:, columns], 0.0).astype(np.float64)
        exact = PEAK * np.exp(-DECAY * np.abs(rows[:, None] - columns))
        with np.errstate(all="ignore"):
            worst = float(np.max(np.abs(lower @ upper - exact)))
        if not apart < PRODUCT_TOLERANCE * PEAK:
            return f"L (U r) differs from A r by {apart:.3g}, more than {PRODUCT_TOLERANCE * PEAK:.3g}"
        return "" if worst < 1e-4 * PEAK else f"L U differs from A by {worst:.3g}, more than {1e-4 * PEAK:.3g}"


def _times_band(r: F64) -> F64:
    """A r, by recurrences from the left and from the right, since A decays exponentially."""
    ratio = math.exp(-DECAY)
    sides = [np.array([*accumulate(side, lambda sum, x: ratio * sum + x)]) for side in (r, r[::-1])]
    return np.asarray(PEAK * (sides[0] + sides[1][::-1] - r))
