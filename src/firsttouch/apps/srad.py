"""srad: removes speckle noise from an ultrasound image."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f32, f64, i32, in_pieces
from firsttouch.harness.random import F64, uniform_f32

QUARTER = 0.5 / 4  # a quarter of lambda, which is 0.5 as in the original
THREADS, STRIP, GROUPS = 256, 16, 1024  # per group; columns per thread; groups of a reduction, enough to fill a GPU
SIDE = 512  # rows and columns of a block that the check recomputes


class Srad(App):
    """Anisotropic diffusion that preserves edges; the CPU reads the image's mean and variance in every iteration."""

    name = "srad"
    source = "Rodinia (Che et al., IISWC 2009), srad_v1, with its preparation and diffusion kernels merged"
    pattern = "iterate on the GPU with a control word each iteration, scratch on the GPU"
    sizes = {
        "tiny": {"rows": 259, "cols": 519, "iterations": 4},
        "default": {"rows": 502, "cols": 458, "iterations": 100},
        "bytes": {"rows": 8192, "iterations": 20},
    }
    grows = "cols"
    rows: int
    cols: int
    iterations: int

    image = buffer(f32, "cols", "rows", role="inout", starts_on="cpu", ends_on="cpu")  # column by column
    north = buffer(i32, "rows", role="constant", starts_on="cpu")
    south = buffer(i32, "rows", role="constant", starts_on="cpu")
    west = buffer(i32, "cols", role="constant", starts_on="cpu")
    east = buffer(i32, "cols", role="constant", starts_on="cpu")
    sums = buffer(f32, "cols", "rows", role="scratch")
    squares = buffer(f32, "cols", "rows", role="scratch")
    to_north = buffer(f32, "cols", "rows", role="scratch")
    to_south = buffer(f32, "cols", "rows", role="scratch")
    to_west = buffer(f32, "cols", "rows", role="scratch")
    to_east = buffer(f32, "cols", "rows", role="scratch")
    diffuses = buffer(f32, "cols", "rows", role="scratch")
    partial = buffer(f64, GROUPS, 2, role="control")  # of the image and of its square

    @classmethod
    def problem(cls, params: Params) -> str:
        one_pixel = params["rows"] * params["cols"] == 1
        reason = "srad: an image of one pixel has no variance; use more rows or cols"
        return reason if one_pixel else super().problem(params)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.uniform(self.image, 0, 255)
        for n, *lines in ((self.rows, self.north, self.south), (self.cols, self.west, self.east)):
            cpu.launch("srad_neighbours", *lines, n, over=n, writes=lines)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        rows, cols, n = self.rows, self.cols, self.rows * self.cols
        blocks = math.ceil(rows / THREADS)
        strip = min(STRIP, math.ceil(cols * blocks / GROUPS))
        groups, few = blocks * math.ceil(cols / strip), min(GROUPS, math.ceil(n / (4 * THREADS)))
        south, east, partial = self.south, self.east, self.partial[:few]
        flows = (self.to_north, self.to_south, self.to_west, self.to_east, self.diffuses)
        sums = (self.sums, self.squares)
        lines = (self.image, self.north, south, self.west, east, *flows)
        steps = (self.image, south, east, *flows, *sums)
        self.totals: list[F64] = []  # of the image and of its square, before each iteration
        gpu.launch("srad_extract", self.image, *sums, n, over=n, writes=sums)
        for _ in gpu.iterations(self.iterations):
            gpu.launch("srad_reduce", *sums, self.partial, n, groups=few, threads=THREADS, writes=[partial])
            self.totals.append(cpu.reads(partial).sum(axis=0))
            ends = (rows, cols, strip, _speckle(self.totals[-1], n))
            gpu.launch("srad_coefficient", *lines, *ends, groups=groups, threads=THREADS, writes=flows)
            gpu.launch("srad_diffuse", *steps, rows, cols, strip, QUARTER, groups=groups, threads=THREADS, writes=sums)
        gpu.launch("srad_compress", self.image, n, over=n)

    def check(self, view: View) -> str:
        """Recomputes every pixel in f64, block by block, and the sums before each iteration.

        The blocks use the speckle values of the run, which are right if its sums are.
        """
        after, limits = view(self.image), self._limits()
        self.speckles, side = [_speckle(t, after.size) for t in self.totals], max(SIDE, 8 * self.iterations)
        across, down = math.ceil(self.cols / side), math.ceil(self.rows / side)

        def blocks(first: int, last: int) -> tuple[F64, float]:
            found = [self._block(after, i // down * side, i % down * side, side) for i in range(first, last)]
            return np.sum([totals for totals, _ in found], axis=0), float(np.max([worst for _, worst in found]))

        totals, worst = zip(*in_pieces(blocks, across * down, 1), strict=True)
        right = np.sum(totals, axis=0)
        if not np.all(np.abs(np.array(self.totals) - right) <= limits * right):
            return f"the sums before the iterations were {self.totals}, in f64 {right}"
        # In units of 2^-24 of 255: up to 6 by EXP_F32 and LOG_F32 each, and 4 by the sums of an iteration. Diffusion
        # averages earlier errors.
        if not np.max(worst) <= 255 * 2.0**-24 * (12 + 4 * self.iterations):
            return f"a pixel differs from the same scheme in f64 by {np.max(worst):.3g} of 255"
        return ""

    def _limits(self) -> F64:
        """Relative errors of the sums of the image and of its squares before each iteration."""
        # EXP_F32 is right to 3 ulp of 2^-23, each iteration and each square to 1 unit of 2^-24. The sums are f64.
        image = 2.0**-24 * (6 + np.arange(self.iterations))
        return np.stack((image, 2 * image + 2.0**-24), axis=1)

    def _block(self, after: np.ndarray[Any, Any], col: int, row: int, side: int) -> tuple[F64, float]:
        """Sums of a block before each iteration, and its largest error in the end."""
        reach = self.iterations  # of what a pixel depends on, to the north and west; twice that to the south and east
        cols = range(max(0, col - reach), min(self.cols, col + side + 2 * reach))
        rows = range(max(0, row - reach), min(self.rows, row + side + 2 * reach))
        key, ends = self.image.key, (min(self.cols, col + side), min(self.rows, row + side))
        mine = (slice(col - cols[0], ends[0] - cols[0]), slice(row - rows[0], ends[1] - rows[0]))
        now = uniform_f32(key, np.array(cols)[:, None] * self.rows + np.array(rows), 0, 255).astype(np.float64)
        now, totals = np.exp(now / 255), []
        for speckle in self.speckles:
            totals.append([now[mine].sum(), np.square(now[mine]).sum()])
            now = _diffused(now, speckle)
        apart = np.log(now[mine]) * 255 - after[col : ends[0], row : ends[1]]
        return np.array(totals), float(np.abs(apart).max())


def _speckle(totals: F64, n: int) -> float:
    """Variance over squared mean of n pixels with these sums."""
    mean = totals[0] / n
    return float((totals[1] / n - mean * mean) / (mean * mean))


def _diffused(now: F64, q0: float) -> F64:
    """A patch of the image after one iteration, in f64."""
    wide = np.pad(now, 1, mode="edge")
    n, s = wide[1:-1, :-2] - now, wide[1:-1, 2:] - now
    w, e = wide[:-2, 1:-1] - now, wide[2:, 1:-1] - now
    gradient, laplacian = (n * n + s * s + w * w + e * e) / (now * now), (n + s + w + e) / now
    q = (gradient / 2 - laplacian * laplacian / 16) / np.square(1 + laplacian / 4)
    c = np.clip(1 / (1 + (q - q0) / (q0 * (1 + q0))), 0, 1)
    beyond = np.pad(c, ((0, 1), (0, 1)), mode="edge")
    return np.asarray(now + QUARTER * (c * n + beyond[:-1, 1:] * s + c * w + beyond[1:, :-1] * e))
