"""gemm: a product of two dense matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from firsttouch.apps.support import um_apps
from firsttouch.harness.app import App, Cpu, Gpu, PublishedPlacement, View, buffer, f32, f64, in_pieces, sample
from firsttouch.harness.random import F32, F64, uniform_f32
from firsttouch.program.execution.arrays import ByteRange

SIDE, THREADS = 128, 256  # side of a group's tile of C in gemm.c, and threads per group
BLOCK = 128  # rows of C that the check recomputes at a time
FULL_CHECK_PRODUCTS = 2**36  # above, the check compares sums of GROUP elements with random signs
GROUP = 32  # so that any 64 wrong elements of a row are half of a sum or more
UNIT = 2.0**-24  # roundoff of f32


class Gemm(App):
    """C = A B in f32. A is n x n; B and C are `wide` times as wide. With start=original the CPU writes C too before."""

    name = "gemm"
    source = "um-apps (Chien et al., MCHPC 2019), matrixMul, with random matrices"
    pattern = "iterate on the GPU, read at the end"
    sizes = {
        "tiny": {"n": 148, "wide": 1, "iterations": 2},
        "default": {"n": 320, "wide": 2, "iterations": 10},
        "bytes": {"wide": 1, "iterations": 3},
    }
    tiled = ("a", "c")
    options = {"library": ("auto", "own"), "start": um_apps.START}
    same_kernels = ("start",)
    n: int
    wide: int
    iterations: int
    library: str
    start: str

    a = buffer(f32, "n", "n", role="input", starts_on="cpu")
    b = buffer(f32, "n", "n * wide", role="input", starts_on="cpu")
    c = buffer(f32, "n", "n * wide", role="output", ends_on="cpu")
    published = PublishedPlacement(um_apps.GEMM)

    def defines(self) -> Mapping[str, object]:
        return {"GROUP_THREADS": THREADS, "GROUPS_TOGETHER": 2}

    def prepare(self, gpu: Gpu) -> None:
        self.blas, self.used["library"] = gpu.library("blas", self.library)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.uniform(self.a, -1, 1)
        cpu.uniform(self.b, -1, 1)
        if self.start == um_apps.ORIGINAL:
            cpu.fill(self.c, 0)

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
                high, across = math.ceil(rows / SIDE), math.ceil(cols / SIDE)
                gpu.launch(
                    *("gemm", self.a, self.b, self.c, tile.offset, rows, cols, depth),
                    groups=high * across,
                    threads=THREADS,
                    reads=reads,
                    writes=writes,
                    passes={self.a: across, self.b: high},
                )

    def check(self, view: View) -> str:
        """Compares the inputs with regenerated ones and C with A B in f64: every element, or for large matrices some
        elements and the sums of GROUP elements of each row with random signs (Freivalds 1979).
        """
        n, cols = self.n, self.n * self.wide
        inputs = [(array, view(array), array.shape[1]) for array in (self.a, self.b)]
        a, b, c = inputs[0][1], inputs[1][1], view(self.c)
        each = max(1, 2**20 // cols)

        def same(first: int, last: int) -> bool:
            at = [np.arange(first * wide, last * wide) for _, _, wide in inputs]
            generated = [uniform_f32(array.key, i, -1, 1) for (array, _, _), i in zip(inputs, at, strict=True)]
            return all((m[first:last].ravel() == g).all() for (_, m, _), g in zip(inputs, generated, strict=True))

        if not all(in_pieces(same, n, each)):
            return "A or B is not as generated"
        # Partial sums of k products of numbers from -1 to 1 have a standard deviation of sqrt(k) / 3. Each of n sums
        # rounds one of them, by UNIT / sqrt(3) on average: together by n UNIT / sqrt(54). An element is allowed six
        # times that, for partial sums up to six times as large, and a unit for few products. In a sum both average out.
        error, group = n / math.sqrt(54) * UNIT, 1
        allowed = 36 * error + UNIT
        if n * n * cols > FULL_CHECK_PRODUCTS:
            rng = np.random.default_rng(self.seed)
            group, rows, columns = GROUP, sample(n, 64, self.seed), sample(cols, 64, self.seed + 1)
            worst_element = float(
                np.abs(c[rows[:, None], columns] - a[rows].astype(f64) @ b[:, columns].astype(f64)).max()
            )
            if not worst_element <= allowed:
                return f"an element of C differs from f64 by {worst_element:.3g}, more than {allowed:.3g}"
            signs, starts = rng.choice((-1.0, 1.0), cols), np.arange(0, cols, GROUP)
            allowed = 10 * math.sqrt(GROUP) * error
        else:
            signs, starts = np.ones(cols), np.arange(cols)

        def summed(matrix: F32, first: int, last: int) -> F64:
            return (
                np.add.reduceat(matrix[first:last] * signs, starts, axis=1)
                if group > 1
                else matrix[first:last].astype(f64)
            )

        right = np.concatenate(in_pieces(lambda p, q: summed(b, p, q), n, each))
        worst = float(
            np.max(in_pieces(lambda p, q: np.abs(summed(c, p, q) - a[p:q].astype(f64) @ right).max(), n, BLOCK))
        )
        return "" if worst <= allowed else f"C differs from f64 by {worst:.3g}, more than {allowed:.3g}"
