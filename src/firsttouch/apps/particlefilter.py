"""particlefilter: a disk in a noisy film, tracked by particles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from firsttouch.apps.support.particles import Frame, Particles, rounded
from firsttouch.harness.app import App, Cpu, Gpu, Params, Scattered, View, buffer, f64, u8
from firsttouch.harness.random import normal_f64, unit_f64

BLOCK, THREADS, RADIUS = 1024, 256, 5  # particles and threads per group in particlefilter.c; pixels
DISK, GROUND = 228, 100  # brightness of the disk and of the background
OFFSETS = [(x, y) for y in range(-4, 5) for x in range(-4, 5) if x * x + y * y < RADIUS**2]


class ParticleFilter(App):
    """Moves and weights n particles, estimates the position and resamples, in `iterations` frames."""

    name = "particlefilter"
    source = "Rodinia (Che et al., IISWC 2009), particlefilter (float); a parallel sum of weights, generated noise"
    pattern = "iterate on the GPU, irregular gather when resampling"
    sizes = {
        "tiny": {"n": 2500, "iterations": 5, "width": 61, "height": 50},
        "default": {"n": 1000, "iterations": 9, "width": 128, "height": 128},
    }
    n: int
    iterations: int
    width: int
    height: int

    film = buffer(u8, "iterations + 1", "height", "width", role="input", starts_on="cpu")
    x = buffer(f64, "n", role="inout", starts_on="cpu", ends_on="cpu")
    y = buffer(f64, "n", role="inout", starts_on="cpu", ends_on="cpu")
    next_x = buffer(f64, "n", role="inout")  # swapped with x and y
    next_y = buffer(f64, "n", role="inout")
    weight = buffer(f64, "n", role="output", ends_on="cpu")
    cdf = buffer(f64, "n", role="scratch")
    partial = buffer(f64, f"(n + {BLOCK - 1}) // {BLOCK}", 3, role="scratch")
    start = buffer(f64, f"(n + {BLOCK - 1}) // {BLOCK} + 1", role="scratch")
    estimates = buffer(f64, "iterations", 2, role="output", ends_on="cpu")  # x, y in each frame but the first

    @classmethod
    def problem(cls, params: Params) -> str:
        width, height, moved = params["width"], params["height"], params["iterations"] - 1
        outside = width // 2 + moved + RADIUS > width or height // 2 - 2 * moved - RADIUS < 0
        reason = f"particlefilter: the disk leaves a film of {width} x {height} within {moved + 1} iterations"
        return super().problem(params) or (reason if outside else "")

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        values = (self.film, self.width, self.height, self.iterations + 1, self.film.key)
        cpu.launch("particlefilter_film", *values, over=self.film.nbytes, writes=[self.film])
        cpu.fill(self.x, self.width // 2)
        cpu.fill(self.y, self.height // 2)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        n, weight, cdf, partial, start = self.n, self.weight, self.cdf, self.partial, self.start
        at, resampled = (self.x, self.y), (self.next_x, self.next_y)
        film = (self.film, n, self.width, self.height)
        blocks = math.ceil(n / BLOCK)
        for i in gpu.iterations(self.iterations):
            frame = i + 1
            weigh = (*at, weight, partial, *film, frame, self.next_x.key, self.next_y.key)
            written, shown = [weight, partial], {self.film: Scattered(1)}
            gpu.launch("particlefilter_weigh", *weigh, groups=blocks, threads=THREADS, writes=written, passes=shown)
            total, mean = (partial, start, self.estimates, blocks, frame), self.estimates[i : i + 1]
            gpu.launch("particlefilter_total", *total, groups=1, threads=THREADS, writes=[start, mean])
            sums = (weight, cdf, start)
            gpu.launch("particlefilter_cdf", *sums, n, blocks, groups=blocks, threads=THREADS, writes=[cdf])
            gpu.launch("particlefilter_resample", *at, cdf, *resampled, n, self.offset(frame), over=n, writes=resampled)
            for array, next_array in zip(at, resampled, strict=True):
                gpu.swap(array, next_array)

    def offset(self, frame: int) -> float:
        """Random offset of a frame's systematic resampling, in [0, 1)."""
        return float(unit_f64(self.cdf.key, frame))

    def check(self, view: View) -> str:
        wrong = (f"{name} is {v:.3g}, more than {most:.3g}" for name, v, most in self._errors(view) if not v <= most)
        return next(wrong, "")

    def _errors(self, view: View) -> Iterator[tuple[str, float, float]]:
        """Name, value and limit of properties, by the same filter on the CPU."""
        estimates, film, n = view(self.estimates), view(self.film), self.n
        x, y, old_x, old_y = map(view, (self.x, self.y, self.next_x, self.next_y))
        begin, step = np.array([[self.width // 2], [self.height // 2]]), np.array([[1], [-2]])
        moved, rows, columns = np.ogrid[-1 : self.iterations, : self.height, : self.width]
        inside = (columns - begin[0] - moved.clip(0)) ** 2 + (rows - begin[1] + 2 * moved.clip(0)) ** 2 < RADIUS**2
        right = np.where(inside, DISK, GROUND) + 5 * normal_f64(self.film.key, np.arange(film.size)).reshape(film.shape)
        yield "a pixel's difference from its generated value", np.abs(film - right.clip(0, 255)).max(), 0.51
        apart = estimates.T - begin - np.arange(self.iterations) * step
        yield "an estimate's distance from the disk", np.hypot(*apart).max(), 3
        # Particles in one pixel have the same weight, and those in the disk's pixel far outweigh all others. So sums of
        # weights are exact (see `rounded`), quotients of equal numbers are equal, and all right runs resample alike.
        # Only the pixel of a particle depends on rounding. A frame adds less than 3e-13 to the error of a place: two
        # roundings of 2^-53 of a place below 2^10, and some of noise below 50. At the four edges of the disk's pixel,
        # which alone matter, there are 0.06 n particles per pixel. One is on the other side of an edge with a chance
        # below n * 1e-12 in nine frames; errors seen on a CPU are 6e-15 on average, which makes n * 1e-14.
        particles = Particles.of(begin.astype(f64), np.ones(1))
        for number in range(1, self.iterations + 1):
            frame, offset, before = self._frame(film, number), self.offset(number - 1), particles
            particles = before.after(frame, offset)
            mean = particles.at @ particles.weight / particles.weight.sum()
            yield "an estimate's distance from the CPU's", np.abs(estimates[number - 1] - mean).max(), 1e-9
        apart, *quotients = before.errors(frame, offset, (old_x, old_y), view(self.weight))
        yield "the error of a moved particle", apart, 1e-9
        # The last bits of EXP_F64 may differ. Then a weight and the sum are each rounded to a neighbour, 2^-23 apart.
        error = np.abs(np.array(quotients) * particles.weight.sum() - 1).max()
        yield "the relative error of a weight", error, 2.5e-7
        wrong = particles.misplaced(n, self.offset(self.iterations), (x, y))
        yield "the number of particles resampled wrongly", wrong, 0

    def _frame(self, film: np.ndarray[Any, Any], number: int) -> Frame:
        """With weights from RADIUS outside of the film, where all are alike."""
        shown = np.pad(film[number].astype(float), 2 * RADIUS, constant_values=film[0, 0, 0])
        score = (shown - GROUND) ** 2 - (shown - DISK) ** 2
        rows, columns = self.height + 2 * RADIUS, self.width + 2 * RADIUS
        sums = sum(score[RADIUS + y :, RADIUS + x :][:rows, :columns] for x, y in OFFSETS)
        weights = rounded(np.exp(sums / 50 / len(OFFSETS)))
        return Frame(number, self.n, (self.next_x.key, self.next_y.key), weights, RADIUS)
