"""srad: removes speckle noise from an ultrasound image."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firsttouch.harness.app import (
    App,
    Cpu,
    Gpu,
    Params,
    PublishedPlacement,
    View,
    buffer,
    f32,
    f64,
    i32,
    on_host,
    shared_kernels,
    u64,
)
from firsttouch.harness.random import F64

QUARTER = 0.5 / 4  # a quarter of lambda, which is 0.5 as in the original
THREADS, STRIP, GROUPS = 256, 16, 1024  # per group; columns per thread; groups of a reduction, enough to fill a GPU
PIXELS = 1 << 24  # that the check recomputes at a time


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
    # In Schieffer et al., ICPP 2024, what the CPU never uses stays in the GPU's memory; srad_v1 copies sums back.
    published = PublishedPlacement(memory=dict.fromkeys(("sums", "squares"), "strategy"))

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
        for iteration in gpu.iterations(self.iterations):
            if iteration == 0:  # which first touches the sums, as the original's first iteration does
                gpu.launch("srad_extract", self.image, *sums, n, over=n, writes=sums)
            gpu.launch("srad_reduce", *sums, self.partial, n, groups=few, threads=THREADS, writes=[partial])
            self.totals.append(cpu.reads(partial).sum(axis=0))
            ends = (rows, cols, strip, _speckle(self.totals[-1], n))
            gpu.launch("srad_coefficient", *lines, *ends, groups=groups, threads=THREADS, writes=flows)
            gpu.launch("srad_diffuse", *steps, rows, cols, strip, QUARTER, groups=groups, threads=THREADS, writes=sums)
        gpu.launch("srad_compress", self.image, n, over=n)

    def check(self, view: View) -> str:
        """Recomputes every pixel in f64, some columns at a time, and the sums before each iteration.

        The columns use the speckle values of the run, which are right if its sums are.
        """
        after, width = view(self.image), max(8 * self.iterations, PIXELS // self.rows)
        parts = [self._columns(after, first, min(self.cols, first + width)) for first in range(0, self.cols, width)]
        right, wrong = np.sum([sums for sums, _ in parts], axis=0), sum(wrong for _, wrong in parts)
        if not np.all(np.abs(np.array(self.totals) - right) <= self._limits() * right):
            return f"the sums before the iterations were {self.totals}, in f64 {right}"
        return f"{wrong} pixels differ from the same scheme in f64" if wrong else ""

    def _limits(self) -> F64:
        """Relative errors of the sums of the image and of its squares before each iteration."""
        # EXP_F32 is right to 3 ulp of 2^-23, each iteration and each square to 1 unit of 2^-24. The sums are f64.
        image = 2.0**-24 * (6 + np.arange(self.iterations))
        return np.stack((image, 2 * image + 2.0**-24), axis=1)

    def _columns(self, after: np.ndarray[Any, Any], first: int, last: int) -> tuple[F64, int]:
        """The sums of some columns before each iteration, and how many of their pixels are wrong in the end."""
        reach, rows = self.iterations, self.rows  # what a pixel depends on, to the west; twice that to the east
        start, end = max(0, first - reach), min(self.cols, last + 2 * reach)
        file, cols, mine = shared_kernels("diffusion"), end - start, slice(first - start, last - start)
        now, then, diffuses = np.empty((3, cols, rows + 2))
        sums, totals, wrong = np.empty((cols, 2)), [], np.zeros(1, u64)
        on_host(file, "diffusion_start", now, rows, cols, start, self.image.key)
        for before in self.totals:
            speckle = _speckle(before, self.rows * self.cols)
            on_host(file, "diffusion_coefficients", now, diffuses, sums, rows, cols, speckle)
            on_host(file, "diffusion_step", now, diffuses, then, rows, cols, QUARTER)
            totals.append(sums[mine].sum(axis=0))
            now, then = then, now
        # In units of 2^-24 of 255: up to 6 by EXP_F32 and LOG_F32 each, and 4 by the sums of an iteration. Diffusion
        # averages earlier errors.
        limit = 255 * 2.0**-24 * (12 + 4 * self.iterations)
        on_host(file, "diffusion_wrong", after[first:last], now[mine], wrong, rows, last - first, limit)
        return np.array(totals), int(wrong[0])


def _speckle(totals: F64, n: int) -> float:
    """Variance over squared mean of n pixels with these sums."""
    mean = totals[0] / n
    return float((totals[1] / n - mean * mean) / (mean * mean))
