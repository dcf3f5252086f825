"""heartwall: tracks points of a heart's wall through an ultrasound film."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f32, f64, i32, in_pieces
from firsttouch.harness.random import F64, below, uniform_f32

THREADS = 512
SIDE, BORDER = 51, 48  # side of a template in pixels; minimum distance of points from the border
MAX_DISPLACEMENT, MAX_STEP = 7, 4  # of the heart in pixels, from its first position and per frame
# A pixel is below 275 and has five roundings of 1.5e-5 at most; a blend has three more, and weights that add up to one.
TEMPLATE_ERROR = 5e-4
# A sum of 561 squares reaches 1.2e7, where a rounding has a standard deviation of 0.3: 15 for five parts. So has that
# of products. Sums of pixels, times their mean of 130, have as much. Together 40 of at least 2601 * 1500; times six.
PEAK_ERROR = 6e-5
MARGIN = 64  # rows and columns that the still image has more than a frame


class Heartwall(App):
    """Template matching in every frame of a film, which the CPU generates from a moving speckle image with grain."""

    name = "heartwall"
    source = "Rodinia (Che et al., IISWC 2009), heartwall; a generated film, correlated only in the search region"
    pattern = "a new frame from the CPU in each iteration"
    sizes = {
        "tiny": {"rows": 131, "cols": 117, "points": 13, "iterations": 23},
        "default": {"rows": 609, "cols": 590, "points": 51, "iterations": 20},
        "bytes": {"rows": 4096, "points": 1024, "iterations": 12},
    }
    grows = "cols"
    bounded = True
    rows: int
    cols: int
    points: int
    iterations: int  # frames, including the first

    # Column-major. The CPU rewrites it each time, so read-mostly copies would be invalidated.
    frame = buffer(f32, "cols", "rows", role="input", starts_on="cpu", advice=("preferred-gpu", "accessed-by-cpu"))
    next = buffer(f32, "cols", "rows", role="input", starts_on="cpu", advice=("preferred-gpu", "accessed-by-cpu"))
    start = buffer(i32, "points", 2, role="constant", starts_on="cpu")  # row and column
    positions = buffer(i32, "iterations", "points", 2, role="output", ends_on="cpu")
    peaks = buffer(f32, "iterations", "points", role="output", ends_on="cpu")  # correlation of each match
    templates = buffer(f32, "points", SIDE, SIDE, role="scratch")  # column by column
    still = buffer(f32, f"cols + {MARGIN}", f"rows + {MARGIN}", role="scratch", starts_on="cpu")
    grain = buffer(f32, f"cols + {MARGIN}", f"rows + {MARGIN}", role="scratch", starts_on="cpu")

    @classmethod
    def problem(cls, params: Params) -> str:
        for side in ("rows", "cols"):
            if 1 <= params[side] <= 2 * BORDER:
                return f"heartwall: {side} must be above {2 * BORDER}, to hold a search window, not {params[side]}"
        return super().problem(params)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        rows, cols = self.rows + MARGIN, self.cols + MARGIN
        cpu.launch("heartwall_still", self.still, rows, cols, self.still.key, over=rows * cols, writes=[self.still])
        cpu.uniform(self.grain, -20, 20)
        cpu.writes(self.start)[:] = self._start()
        self.generate_frame(cpu, 0)

    def _start(self) -> np.ndarray[Any, Any]:
        at = np.arange(self.points)
        sides = ((2 * at, self.rows), (2 * at + 1, self.cols))
        return np.stack([BORDER + below(self.start.key, i, side - 2 * BORDER) for i, side in sides], axis=1)

    @cached_property
    def path(self) -> np.ndarray[Any, Any]:
        """Displacement of the still image in each frame, in rows and columns."""
        steps = below(self.still.key, np.arange(2 * self.iterations), 2 * MAX_STEP + 1) - MAX_STEP
        path = np.zeros((self.iterations, 2), np.int64)
        for i in range(1, self.iterations):
            path[i] = np.clip(path[i - 1] + steps[2 * i : 2 * i + 2], -MAX_DISPLACEMENT, MAX_DISPLACEMENT)
        return path

    def _origins(self, number: int) -> list[int]:
        """Row and column of the still image and of the grain at which a frame begins."""
        at_grain = below(self.grain.key, np.array([2 * number, 2 * number + 1]), MARGIN)
        return [*(MARGIN // 2 - self.path[number]).tolist(), *at_grain.tolist()]

    def generate_frame(self, cpu: Cpu, number: int) -> None:
        size, planes = (self.rows, self.cols), (self.still, self.grain, self.next)
        over = self.rows * self.cols
        cpu.launch("heartwall_film", *planes, *size, *self._origins(number), over=over, writes=[self.next])

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        rows, cols, points, templates = self.rows, self.cols, self.points, self.templates
        found = (self.positions, self.peaks)
        for i in gpu.iterations(self.iterations):
            gpu.swap(self.frame, self.next)
            cpu.writes(self.next)  # before the launch, because later it would wait for that launch
            wrote = [self.positions[i : i + 1], self.peaks[i : i + 1]]
            if i == 0:
                first = (self.frame, self.start, templates, *found)
                over = points * SIDE * SIDE
                gpu.launch("heartwall_begin", *first, rows, points, over=over, writes=[templates, *wrote])
            else:
                tenth = (i - 1) // 10 * 10
                seen = [self.positions[tenth : tenth + 1], self.positions[i - 1 : i]]
                planes, size = (self.frame, templates, *found), (rows, cols, points, i)
                gpu.launch("heartwall_track", *planes, *size, groups=points, threads=THREADS, reads=seen, writes=wrote)
            if i + 1 < self.iterations:
                self.generate_frame(cpu, i + 1)

    def check(self, view: View) -> str:
        """Checks that every point follows the film exactly, and recomputes all templates and peaks in f64."""
        true = self._start()[None] + self.path[:, None]
        lost = np.argwhere((view(self.positions) != true).any(axis=2))
        if lost.size:
            return f"{len(lost)} positions do not follow the film, the first in frame {lost[0][0]} point {lost[0][1]}"

        def errors(first: int, last: int) -> tuple[float, float]:
            """Largest error of the peaks of some points, and of their templates."""
            at, exact = true[:, first:last], np.ones((self.iterations, last - first))
            template = self._patches(0, at[0])
            for number in range(1, self.iterations):
                found = self._patches(number, at[number])
                a, b = (patch - patch.mean(axis=(1, 2), keepdims=True) for patch in (template, found))
                together, own, other = (np.einsum("pxy,pxy->p", *pair) for pair in ((a, b), (a, a), (b, b)))
                exact[number] = np.abs(together) / np.sqrt(own * other * (SIDE**2 - 1) / SIDE**2)
                if number % 10 == 0:
                    template = 0.87 * template + 0.13 * found
            apart = view(self.peaks)[:, first:last] - exact, view(self.templates)[first:last] - template
            return float(np.abs(apart[0]).max()), float(np.abs(apart[1]).max())

        peak, template = np.max(in_pieces(errors, self.points, 32), axis=0).tolist()
        if not template <= TEMPLATE_ERROR:
            return f"a template differs from its value in f64 by {template:.3g}"
        return "" if peak <= PEAK_ERROR else f"a correlation differs from its value in f64 by {peak:.3g}"

    def _patches(self, number: int, at: np.ndarray[Any, Any]) -> F64:
        """The parts of a frame that templates at some positions cover, regenerated: point by column by row."""
        y, x, grain_y, grain_x = self._origins(number)
        row, col = (at[:, k, None] - SIDE // 2 + np.arange(SIDE) for k in (0, 1))
        place = (col[:, :, None] + grain_x) * (self.rows + MARGIN) + row[:, None] + grain_y
        grain = uniform_f32(self.grain.key, place, -20, 20)
        # The still image interpolates between random values at every fourth row and column.
        i, j = (col + x) // 4, (row + y) // 4
        part_x, part_y = ((col + x) % 4 / 4)[:, :, None], ((row + y) % 4 / 4)[:, None]
        near = np.arange(SIDE // 4 + 3)
        values = ((i[:, :1] + near)[:, :, None] << 32) + (j[:, :1] + near)[:, None]
        grid = uniform_f32(self.still.key, values, 0, 255)
        p, i, j = np.arange(len(at))[:, None, None], (i - i[:, :1])[:, :, None], (j - j[:, :1])[:, None]
        left, right = ((1 - part_y) * grid[p, i + k, j] + part_y * grid[p, i + k, j + 1] for k in (0, 1))
        return np.asarray((1 - part_x) * left + part_x * right + grain, f64)
