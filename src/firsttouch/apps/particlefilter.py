"""particlefilter: a disk in a noisy film, tracked by particles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f64, sample, u8
from firsttouch.harness.random import F64, unit_f64

BLOCK, THREADS, RADIUS = 1024, 256, 5  # particles and threads per group in particlefilter.c; pixels
DISK, GROUND = 228, 100  # brightness of the disk and of the background
OFFSETS = [(x, y) for y in range(-4, 5) for x in range(-4, 5) if x * x + y * y < RADIUS**2]
FULL_CHECK_PARTICLES, CHUNK = 20_000, 1 << 16  # up to which all frames are recomputed; checked at a time


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
        if reason := super().problem(params):
            return reason
        width, height, moved = params["width"], params["height"], params["iterations"] - 1
        if width // 2 + moved + RADIUS > width or height // 2 - 2 * moved - RADIUS < 0:
            return f"particlefilter: the disk leaves a film of {width} x {height} within {moved + 1} iterations"
        return ""

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        values = (self.film, self.width, self.height, self.iterations + 1, self.film.key)
        cpu.launch("particlefilter_film", *values, over=self.film.nbytes, writes=[self.film])
        cpu.fill(self.x, self.width // 2)
        cpu.fill(self.y, self.height // 2)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        n, x, y, w, partial, cdf, start = self.n, self.x, self.y, self.weight, self.partial, self.cdf, self.start
        blocks, film, keys = math.ceil(n / BLOCK), (self.width, self.height), (self.next_x.key, self.next_y.key)
        for i in gpu.iterations(self.iterations):
            weigh = (x, y, w, partial, self.film, n, *film, i + 1, *keys)
            gpu.launch("particlefilter_weigh", *weigh, groups=blocks, threads=THREADS, writes=[w, partial])
            total, mean = (partial, start, self.estimates, blocks, i + 1), self.estimates[i : i + 1]
            gpu.launch("particlefilter_total", *total, groups=1, threads=THREADS, writes=[start, mean])
            gpu.launch("particlefilter_cdf", w, cdf, start, n, blocks, groups=blocks, threads=THREADS, writes=[cdf])
            chosen = [self.next_x, self.next_y]
            gpu.launch("particlefilter_resample", x, y, cdf, *chosen, n, self.offset(i + 1), over=n, writes=chosen)
            gpu.swap(x, self.next_x)
            gpu.swap(y, self.next_y)

    def offset(self, frame: int) -> float:
        """Random offset of a frame's systematic resampling, in [0, 1)."""
        return float(unit_f64(self.cdf.key, frame))

    def check(self, view: View) -> str:
        """Checks the film, the estimates and the last frame's steps. With few particles, recomputes all frames."""
        wrong = (f"{name} is {v:.3g}, more than {most:.3g}" for name, v, most in self._errors(view) if not v <= most)
        return next(wrong, "")

    def _errors(self, view: View) -> Iterator[tuple[str, float, float]]:
        """The name, the value and the limit of each property. Distances are in pixels."""
        estimates, weight, film, n = view(self.estimates), view(self.weight), view(self.film), self.n
        x, y, old_x, old_y = map(view, (self.x, self.y, self.next_x, self.next_y))
        at, begin, step = sample(film.size, 10_000, self.seed), [self.width // 2, self.height // 2], np.array([1, -2])
        yield "a pixel's difference from its generated value", np.abs(film.reshape(-1)[at] - self._film(at)).max(), 0.51
        apart = estimates - begin - np.arange(self.iterations)[:, None] * step
        yield "an estimate's distance from the disk", np.hypot(*apart.T).max(), 3
        yield "the distance of the weights' sum from 1", abs(weight.sum() - 1), 1e-9
        off = math.dist((old_x.mean(), old_y.mean()), (estimates[-2] if self.iterations > 1 else begin) + step)
        yield "the distance of the mean of the moved particles from its expected position", off, 30 / math.sqrt(n)
        mean = np.array([weight @ old_x, weight @ old_y])
        yield "the distance of the last estimate from the weighted mean", abs(estimates[-1] - mean).max(), 1e-6
        some = sample(n, 10_000, self.seed)
        odds = weight[some] / np.exp(self._likelihood(film, self.iterations, old_x[some], old_y[some]))
        yield "the relative excess of a weight over its likelihood", np.ptp(odds) / odds.max(), 1e-6
        # A different order of summation may select another particle near a boundary.
        yield "the number of particles resampled wrongly", self._misplaced(weight, (x, y), (old_x, old_y)), 1e-13 * n**2
        if n <= FULL_CHECK_PARTICLES:
            yield "an estimate's distance from the CPU's", abs(estimates - [*self._recompute(film)]).max(), 1e-6

    def _film(self, at: np.ndarray[Any, np.dtype[np.int64]]) -> F64:
        frame, y, x = np.unravel_index(at, (self.iterations + 1, self.height, self.width))
        moved = np.maximum(frame - 1, 0)
        inside = (x - self.width // 2 - moved) ** 2 + (y - self.height // 2 + 2 * moved) ** 2 < RADIUS**2
        return np.asarray(np.where(inside, DISK, GROUND) + 5 * _normal(self.film.key, at))

    def _likelihood(self, film: np.ndarray[Any, Any], frame: int, x: F64, y: F64) -> F64:
        total = np.zeros(len(x))
        for dx, dy in OFFSETS:
            px, py = (np.rint(x) + dx).astype(int), (np.rint(y) + dy).astype(int)
            inside = (px >= 0) & (px < self.width) & (py >= 0) & (py < self.height)
            seen = film[tuple(np.where(inside, at, 0) for at in (frame, py, px))].astype(float)
            total += (seen - GROUND) ** 2 - (seen - DISK) ** 2
        return total / 50 / len(OFFSETS)

    def _misplaced(self, weight: F64, new: tuple[F64, F64], old: tuple[F64, F64]) -> int:
        """The number of new particles that are not the first old one whose cumulative weight reaches their position."""
        wrong, done, reached, offset = 0, 0, 0.0, self.offset(self.iterations)
        for first in range(0, self.n, CHUNK):
            sums = reached + np.cumsum(weight[first : first + CHUNK])
            reached, last = float(sums[-1]), first + len(sums) - 1
            end = self.n if last == self.n - 1 else min(self.n, max(done, math.floor(reached * self.n - offset) + 1))
            chosen = (first + np.searchsorted(sums, (np.arange(done, end) + offset) / self.n)).clip(max=last)
            wrong += np.count_nonzero((new[0][done:end] != old[0][chosen]) | (new[1][done:end] != old[1][chosen]))
            done = end
        return wrong

    def _recompute(self, film: np.ndarray[Any, Any]) -> Iterator[F64]:
        """The estimates, by the same filter on the CPU."""
        i, x, y = np.arange(self.n), np.full(self.n, self.width // 2), np.full(self.n, self.height // 2)
        for frame in range(1, self.iterations + 1):
            x = x + 1 + 5 * _normal(self.next_x.key, frame * self.n + i)
            y = y - 2 + 2 * _normal(self.next_y.key, frame * self.n + i)
            weight = np.exp(self._likelihood(film, frame, x, y))
            weight /= weight.sum()
            yield np.array([weight @ x, weight @ y])
            chosen = np.searchsorted(np.cumsum(weight), (i + self.offset(frame)) / self.n).clip(max=self.n - 1)
            x, y = x[chosen], y[chosen]


def _normal(key: int, i: Any) -> F64:
    """normal() of particlefilter.c."""
    i = np.uint64(2) * np.asarray(i, np.uint64)
    radius = np.sqrt(-2 * np.log(1 - unit_f64(key, i)))
    return np.asarray(radius * np.cos(2 * np.pi * unit_f64(key, i + np.uint64(1))))
