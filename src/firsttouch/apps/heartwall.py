"""heartwall: tracks points of a heart's wall through an ultrasound film."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from firsttouch.apps.support.film import MARGIN, Film
from firsttouch.harness.app import App, Cpu, Gpu, Params, Scattered, View, buffer, f32, i32, in_pieces
from firsttouch.harness.random import F64, below

THREADS = 512
GUIDED = ("preferred-gpu", "accessed-by-cpu")
SIDE, BORDER = 51, 48  # side of a template in pixels; minimum distance of points from the border
REACH = 60  # side of the region in which a template is searched for
SECTOR = 32  # bytes that a GPU takes from memory at once, of which the ends of a column use a part
# A pixel is below 275 and has five roundings of 1.5e-5 at most; a blend has three more, and weights that add up to one.
TEMPLATE_ERROR = 5e-4
# A sum of 561 squares reaches 1.2e7, where a rounding has a standard deviation of 0.3: 15 for five parts. So has that
# of products. Sums of pixels, times their mean of 130, have as much. Together 40 of at least 2601 * 1500; times six.
PEAK_ERROR = 6e-5


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

    # Column-major. The CPU rewrites it each time, so read-mostly copies would be invalidated. With copies there is one
    # frame on each side, as in the original.
    frame = buffer(f32, "cols", "rows", role="input", starts_on="cpu", advice=GUIDED, copies="device")
    next = buffer(f32, "cols", "rows", role="input", starts_on="cpu", advice=GUIDED, copies="host")
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
    def film(self) -> Film:
        return Film(self.rows, self.iterations, self.still.key, self.grain.key)

    def generate_frame(self, cpu: Cpu, number: int) -> None:
        rows, cols = self.rows, self.cols
        origins, planes = self.film.origins(number), (self.still, self.grain, self.next)
        cpu.launch("heartwall_film", *planes, rows, cols, *origins, over=rows * cols, writes=[self.next])

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        rows, points, templates = self.rows, self.points, self.templates
        outputs = (self.positions, self.peaks)
        begun, searched = (points * n * (4 * n + SECTOR) / self.frame.nbytes for n in (SIDE, REACH))
        for i in gpu.iterations(self.iterations):
            gpu.swap(self.frame, self.next)
            cpu.writes(self.next)  # before the launch, because later it would wait for that launch
            wrote = [self.positions[i : i + 1], self.peaks[i : i + 1]]
            if i == 0:
                gpu.launch(
                    *("heartwall_begin", self.frame, self.start, templates, *outputs, rows, points),
                    over=points * SIDE * SIDE,
                    writes=[templates, *wrote],
                    passes={self.frame: Scattered(begun)},
                )
            else:
                tenth = (i - 1) // 10 * 10  # the last frame that changed the templates
                gpu.launch(
                    *("heartwall_track", self.frame, templates, *outputs, rows, self.cols, points, i),
                    groups=points,
                    threads=THREADS,
                    reads=[self.positions[tenth : tenth + 1], self.positions[i - 1 : i]],
                    writes=wrote,
                    passes={self.frame: Scattered(searched)},
                )
            if i + 1 < self.iterations:
                self.generate_frame(cpu, i + 1)

    def check(self, view: View) -> str:
        """Checks that every point follows the film exactly, and recomputes all templates and peaks in f64."""
        true = self._start()[None] + self.film.path[:, None]
        positions, peaks, templates = map(view, (self.positions, self.peaks, self.templates))
        lost = np.argwhere((positions != true).any(axis=2))
        if lost.size:
            return f"{len(lost)} positions do not follow the film, the first in frame {lost[0][0]} point {lost[0][1]}"

        def errors(first: int, last: int) -> tuple[float, float]:
            """Largest error of the peaks of some points, and of their templates."""
            at, exact = true[:, first:last], np.ones((self.iterations, last - first))
            template = self.film.patches(0, at[0], SIDE)
            for number in range(1, self.iterations):
                patch = self.film.patches(number, at[number], SIDE)
                exact[number] = correlation(template, patch)
                if number % 10 == 0:
                    template = 0.87 * template + 0.13 * patch
            peak_errors = np.abs(peaks[:, first:last] - exact)
            return float(peak_errors.max()), float(np.abs(templates[first:last] - template).max())

        peak, template = np.max(in_pieces(errors, self.points, 32), axis=0).tolist()
        if not template <= TEMPLATE_ERROR:
            return f"a template differs from its value in f64 by {template:.3g}"
        return "" if peak <= PEAK_ERROR else f"a correlation differs from its value in f64 by {peak:.3g}"


def correlation(a: F64, b: F64) -> F64:
    """The absolute normalised cross-correlation of each pair of squares of pixels."""
    a, b = (squares - squares.mean(axis=(1, 2), keepdims=True) for squares in (a, b))
    products, own_a, own_b = (np.einsum("pxy,pxy->p", *pair) for pair in ((a, b), (a, a), (b, b)))
    return np.asarray(np.abs(products) / np.sqrt(own_a * own_b * (SIDE**2 - 1) / SIDE**2))
