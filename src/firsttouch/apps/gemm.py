"""gemm: a product of two dense matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, f32, sample
from firsttouch.harness.random import uniform_f32
from firsttouch.workspace.workspace import ByteRange

SIDE, THREADS = 128, 256  # side of a group's tile of C in gemm.c, and threads per group
BLOCK = 512  # columns whose f32 sum is exact enough for the check
UNIT = 2.0**-24  # roundoff of f32


class Gemm(App):
    """C = A B in f32. A is n x n; B and C are `wide` times as wide."""

    name = "gemm"
    source = "um-apps (Chien et al., MCHPC 2019), matrixMul, with random matrices"
    pattern = "iterate on the GPU, read at the end"
    sizes = {
        "tiny": {"n": 148, "wide": 1, "iterations": 2},
        "default": {"n": 320, "wide": 2, "iterations": 10},
        "bytes": {"wide": 1, "iterations": 3},
    }
    tiled = ("a", "c")
    options = {"library": ("auto", "own")}
    n: int
    wide: int
    iterations: int
    library: str

    a = buffer(f32, "n", "n", role="input", starts_on="cpu")
    b = buffer(f32, "n", "n * wide", role="input", starts_on="cpu")
    c = buffer(f32, "n", "n * wide", role="output", ends_on="cpu")

    def defines(self) -> Mapping[str, object]:
        return {"GROUP_THREADS": THREADS, "GROUPS_TOGETHER": 2}

    def prepare(self, gpu: Gpu) -> None:
        self.blas, self.used["library"] = gpu.library("blas", self.library)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.uniform(self.a, -1, 1)
        cpu.uniform(self.b, -1, 1)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        depth, cols = self.n, self.n * self.wide
        for _ in gpu.iterations(self.iterations):
            for tile in gpu.tiles(self.a, self.c):
                rows, writes = tile.count, [tile.of(self.c)]
                reads: list[ByteRange] = [tile.of(self.a), self.b]
                if self.blas and tile.offset == 0:
                    abc = (self.a, self.b, self.c)
                    gpu.call(self.blas.gemm, *abc, rows, cols, depth, reads=reads, writes=writes)
                    continue
                gpu.launch(
                    *("gemm", self.a, self.b, self.c, tile.offset, rows, cols, depth),
                    groups=math.ceil(rows / SIDE) * math.ceil(cols / SIDE),
                    threads=THREADS,
                    reads=reads,
                    writes=writes,
                )

    def check(self, view: View) -> str:
        """Checks C r = A (B r) for a random vector r of signs (Freivalds 1979), and recomputes some elements in f64."""
        n, cols = self.n, self.n * self.wide
        signs = np.where(np.random.default_rng(self.seed).random(cols) < 0.5, -1, 1).astype(np.float32)
        a, b, c = view(self.a), view(self.b), view(self.c)
        worst = float(np.abs(_times(c, signs) - _times(a, _times(b, signs))).max())
        # The rounding error of an element has a standard deviation of 0.1 n units; a row sum may have ten of them.
        if not worst <= n * max(1e-5, UNIT * math.sqrt(cols)):
            return f"C r differs from A (B r) by {worst:.3g}"
        rows, columns = sample(n, 40, self.seed), sample(cols, 40, self.seed + 1)
        steps = np.arange(n)
        some_a = uniform_f32(self.a.key, rows[:, None] * n + steps, -1, 1).astype(np.float64)
        some_b = uniform_f32(self.b.key, steps[:, None] * cols + columns, -1, 1).astype(np.float64)
        # The error of a sum of n products is at most n units of their magnitudes, and very probably at most sqrt(n)
        # (Higham and Mary, SIAM J. Sci. Comput. 2019), in any order of summation.
        errors = np.abs(c[rows[:, None], columns] - some_a @ some_b) / (np.abs(some_a) @ np.abs(some_b))
        worst = float(errors.max())
        if worst <= (math.sqrt(n) + 1) * UNIT:
            return ""
        return f"an element of C differs from f64 by {worst:.3g} of the magnitude of its terms"


def _times(matrix: np.ndarray[Any, Any], vector: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """An f32 matrix times a vector: in f32 within blocks of columns, and in f64 over blocks."""
    narrow = vector.astype(np.float32)
    total = np.zeros(len(matrix))
    for at in range(0, len(vector), BLOCK):
        total += matrix[:, at : at + BLOCK] @ narrow[at : at + BLOCK]
    return total
