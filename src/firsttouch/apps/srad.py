"""srad: removes speckle noise from an ultrasound image."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, around, buffer, f32, f64, i32, in_pieces, sample
from firsttouch.harness.random import F32, F64, uniform_f32

QUARTER = 0.5 / 4  # a quarter of lambda, which is 0.5 as in the original
THREADS, STRIP, GROUPS = 256, 16, 1024  # per group; columns per thread; groups of a reduction, enough to fill a GPU
BLOCK = 520  # rows and columns of the block that the check recomputes
TOLERANCE = 0.01  # pixels range from 0 to 255
AREA = 20_000_000  # pixels times iterations that the check recomputes of an image larger than that
CONES = (8, 1000)  # minimum and maximum number of light cones that the check recomputes


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
        """Recomputes the image or samples of it in f64; checks the totals, and that sum and range are conserved."""
        n, key = self.rows * self.cols, self.image.key
        after = view(self.image)
        flat = after.reshape(-1)
        begun = np.sum(in_pieces(lambda a, b: _moments(uniform_f32(key, np.arange(a, b), 0, 255)), n, 2**20), axis=0)
        ended = np.sum(in_pieces(lambda a, b: _moments(flat[a:b]), n, 2**20), axis=0)
        totals = np.array([*self.totals, ended[:2]])
        if ended[2]:
            return f"{ended[2]:.0f} pixels lie outside the initial range of the image"
        if not np.allclose(totals[0], begun[:2], rtol=2e-6):
            return f"the first sums are {totals[0]}, in f64 {begun[:2]}"
        if not np.allclose(totals[:, 0], begun[0], rtol=1e-5) or np.any(np.diff(totals[:, 1]) > 1e-5 * begun[1]):
            return f"diffusion must keep the sum {begun[0]:.8g} and not increase the sum of squares; totals: {totals}"
        used = [_speckle(t, n) for t in self.totals]
        first = self._first(range(self.cols)[:BLOCK], range(self.rows)[:BLOCK])
        block, speckles = _diffused(first, [None] * self.iterations)
        whole = block.size == n
        # A block is noise like the rest of the image, with fewer independent pixels in each iteration.
        noise = 1e-4 if whole else (5 + 1.5 * np.arange(self.iterations)) / math.sqrt(block.size)
        if not np.all(np.abs(np.subtract(used, speckles)) <= 1e-8 + noise * np.abs(speckles)):
            return f"the speckle of the iterations was {used}, in f64 it is {speckles}"
        worst = np.abs(block - after).max() if whole else max(self._cones(after, used))
        return "" if worst < TOLERANCE else f"a pixel differs from the same scheme in f64 by {worst:.3g} of 255"

    def _cones(self, after: np.ndarray[Any, Any], speckles: Sequence[float]) -> Iterator[float]:
        radius = 2 * self.iterations
        least, most = CONES
        count = min(most, max(least, AREA // ((2 * radius + 1) ** 2 * self.iterations)))
        for at in sample(after.size, count, self.seed):
            col, row = divmod(int(at), self.rows)
            cols, rows = around((col, row), radius, after.shape)
            cone, _ = _diffused(self._first(cols, rows), speckles)
            yield abs(float(cone[col - cols[0], row - rows[0]] - after[col, row]))

    def _first(self, cols: Sequence[int], rows: Sequence[int]) -> F32:
        return uniform_f32(self.image.key, np.array(cols)[:, None] * self.rows + np.array(rows), 0, 255)


def _speckle(totals: F64, n: int) -> float:
    """Variance over squared mean of n pixels with these sums."""
    mean = totals[0] / n
    return float((totals[1] / n - mean * mean) / (mean * mean))


def _moments(logarithms: np.ndarray[Any, Any]) -> F64:
    """The sums of the image and of its squares, and the number of pixels outside 0 to 255."""
    image = np.exp(logarithms.astype(np.float64) / 255)
    inside = (logarithms > -0.01) & (logarithms < 255.01)
    return np.array([image.sum(), np.square(image).sum(), np.count_nonzero(~inside)])


def _diffused(image: F32, given: Sequence[float | None]) -> tuple[F64, list[float]]:
    """A patch after one iteration per given speckle value, in f64, and the values. None: computed from the patch."""
    now, used = np.exp(image.astype(np.float64) / 255), []
    for speckle in given:
        q0 = _speckle(np.array([now.sum(), np.square(now).sum()]), now.size) if speckle is None else speckle
        wide = np.pad(now, 1, mode="edge")
        n, s = wide[1:-1, :-2] - now, wide[1:-1, 2:] - now
        w, e = wide[:-2, 1:-1] - now, wide[2:, 1:-1] - now
        gradient, laplacian = (n * n + s * s + w * w + e * e) / (now * now), (n + s + w + e) / now
        q = (gradient / 2 - laplacian * laplacian / 16) / np.square(1 + laplacian / 4)
        c = np.clip(1 / (1 + (q - q0) / (q0 * (1 + q0))), 0, 1)
        beyond = np.pad(c, ((0, 1), (0, 1)), mode="edge")
        now = now + QUARTER * (c * n + beyond[:-1, 1:] * s + c * w + beyond[1:, :-1] * e)
        used.append(q0)
    return np.log(now) * 255, used
