"""particlefilter: a disk in a noisy film, tracked by particles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from firsttouch.apps.particles import CHUNK, count, largest, resampled
from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f64, in_pieces, u8
from firsttouch.harness.random import F64, normal_f64, unit_f64

BLOCK, THREADS, RADIUS = 1024, 256, 5  # particles and threads per group in particlefilter.c; pixels
DISK, GROUND = 228, 100  # brightness of the disk and of the background
OFFSETS = [(x, y) for y in range(-4, 5) for x in range(-4, 5) if x * x + y * y < RADIUS**2]
FULL_CHECK_PARTICLES = 10_000_000  # up to which the check recomputes all frames


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
            gpu.launch("particlefilter_weigh", *weigh, groups=blocks, threads=THREADS, writes=[weight, partial])
            total, mean = (partial, start, self.estimates, blocks, frame), self.estimates[i : i + 1]
            gpu.launch("particlefilter_total", *total, groups=1, threads=THREADS, writes=[start, mean])
            sums = (weight, cdf, start)
            gpu.launch("particlefilter_cdf", *sums, n, blocks, groups=blocks, threads=THREADS, writes=[cdf])
            gpu.launch("particlefilter_resample", *at, cdf, *resampled, n, self.offset(frame), over=n, writes=resampled)
            for array, other in zip(at, resampled, strict=True):
                gpu.swap(array, other)

    def offset(self, frame: int) -> float:
        """Random offset of a frame's systematic resampling, in [0, 1)."""
        return float(unit_f64(self.cdf.key, frame))

    def check(self, view: View) -> str:
        wrong = (f"{name} is {v:.3g}, more than {most:.3g}" for name, v, most in self._errors(view) if not v <= most)
        return next(wrong, "")

    def _errors(self, view: View) -> Iterator[tuple[str, float, float]]:
        """Name, value and limit of properties, by the same filter on the CPU; with many particles, of one frame."""
        estimates, film, n = view(self.estimates), view(self.film), self.n
        x, y, old_x, old_y = map(view, (self.x, self.y, self.next_x, self.next_y))
        begin, step = np.array([[self.width // 2], [self.height // 2]]), np.array([[1], [-2]])
        moved, rows, columns = np.ogrid[-1 : self.iterations, : self.height, : self.width]
        inside = (columns - begin[0] - moved.clip(0)) ** 2 + (rows - begin[1] + 2 * moved.clip(0)) ** 2 < RADIUS**2
        right = np.where(inside, DISK, GROUND) + 5 * normal_f64(self.film.key, np.arange(film.size)).reshape(film.shape)
        yield "a pixel's difference from its generated value", np.abs(film - right.clip(0, 255)).max(), 0.51
        apart = estimates.T - begin - np.arange(self.iterations) * step
        yield "an estimate's distance from the disk", np.hypot(*apart).max(), 3
        at, first = begin * np.ones(n), 1
        if n > FULL_CHECK_PARTICLES:  # rounding decides about some particles, after which two runs drift apart
            at, first = np.stack((old_x, old_y)), self.iterations
            self._move(at, first, -1)
            # Only those in the disk's pixel survive, so few, and a particle has the same origin as its neighbour.
            was = begin + max(0, first - 2) * step
            error = largest(lambda a, b: at[:, a:b] - was, n)
            yield "a particle's distance from the disk before it moved", error, 0.5 + 1e-9
            others = count(lambda a, b: np.abs(np.diff(at[:, a : b + 1])).max(axis=0) > 1e-9, n)
            yield "the share of particles with another origin than their neighbour", others / n, 0.1
        for frame in range(first, self.iterations + 1):
            self._move(at, frame, 1)
            weight, last = self._weights(film, frame, at), at
            yield "an estimate's distance from the CPU's", np.abs(estimates[frame - 1] - at @ weight).max(), 1e-9
            at = resampled(at, weight, self.offset(frame))
        # A frame adds some roundings of 2^-53 of a position below 2^10 or of noise below 50: less than 1e-12. EXP_F64
        # is right to 3 ulp, and the rounding of its argument, which is below 400, is a relative error of 400 * 2^-53.
        error = largest(lambda a, b: np.stack((old_x[a:b], old_y[a:b])) - last[:, a:b], n)
        yield "the error of a moved particle", error, 1e-9
        found = view(self.weight)
        yield "the relative error of a weight", largest(lambda a, b: found[a:b] / weight[a:b] - 1, n), 1e-12
        # Sums of weights are right to some 2^-53 of 1, and are compared with n numbers 1 / n apart.
        same = count(lambda a, b: (np.abs(np.stack((x[a:b], y[a:b])) - at[:, a:b]) <= 1e-9).all(axis=0), n)
        yield "the number of particles resampled wrongly", n - same, 3e-16 * n**2

    def _move(self, at: F64, frame: int, sign: int) -> None:
        """Move the particles to a frame in place, or with sign -1 back from it."""

        def move(first: int, last: int) -> None:
            i = np.arange(frame * self.n + first, frame * self.n + last)
            at[0, first:last] += sign * (1 + 5 * normal_f64(self.next_x.key, i))
            at[1, first:last] += sign * (-2 + 2 * normal_f64(self.next_y.key, i))

        in_pieces(move, self.n, CHUNK)

    def _weights(self, film: np.ndarray[Any, Any], frame: int, at: F64) -> F64:
        """From a table by pixel. Places at least RADIUS outside of the film are alike."""
        shown = np.pad(film[frame].astype(float), 2 * RADIUS, constant_values=film[0, 0, 0])
        score = (shown - GROUND) ** 2 - (shown - DISK) ** 2
        rows, columns = self.height + 2 * RADIUS, self.width + 2 * RADIUS
        table = np.exp(sum(score[RADIUS + y :, RADIUS + x :][:rows, :columns] for x, y in OFFSETS) / 50 / len(OFFSETS))

        def look_up(first: int, last: int) -> F64:
            column, row = np.rint(at[:, first:last]).astype(int) + RADIUS
            return np.asarray(table[row.clip(0, rows - 1), column.clip(0, columns - 1)])

        weight = np.concatenate(in_pieces(look_up, self.n, CHUNK))
        return np.asarray(weight / weight.sum())
