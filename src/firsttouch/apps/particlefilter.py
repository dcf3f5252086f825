"""particlefilter: a disk in a noisy film, tracked by particles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firsttouch.apps.base import App, Cpu, Gpu, Params, View, buffer, f64, sample, u8
from firsttouch.apps.random import F64, unit_f64

BLOCK, THREADS, RADIUS = 1024, 256, 5  # particles and threads of a group of particlefilter.c; pixels
DISK, GROUND = 228, 100  # how bright the disk is, and what is behind it
OFFSETS = [(x, y) for y in range(-4, 5) for x in range(-4, 5) if x * x + y * y < RADIUS**2]
TWIN = 20_000  # particles up to which the check filters once more


class ParticleFilter(App):
    """Moves and weighs n particles, estimates and resamples, in each of `iterations` frames after the first."""

    name = "particlefilter"
    source = (
        "Rodinia (Che et al., IISWC 2009), particlefilter (float), with a parallel sum of weights and its own noise"
    )
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
    next_x = buffer(f64, "n", role="inout")  # exchanged with x and y
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
        n, x, y, w = self.n, self.x, self.y, self.weight
        blocks, film = math.ceil(n / BLOCK), (self.width, self.height)
        for frame in gpu.iterations(self.iterations):
            gpu.launch(
                *("particlefilter_weigh", x, y, w, self.partial, self.film),
                *(n, *film, frame + 1, self.next_x.key, self.next_y.key),
                groups=blocks,
                threads=THREADS,
                writes=[w, self.partial],
            )
            gpu.launch(
                *("particlefilter_total", self.partial, self.start, self.estimates, blocks, frame + 1),
                groups=1,
                threads=THREADS,
                writes=[self.start, self.estimates[frame : frame + 1]],
            )
            values = (w, self.cdf, self.start, n, blocks)
            gpu.launch("particlefilter_cdf", *values, groups=blocks, threads=THREADS, writes=[self.cdf])
            gpu.launch(
                *("particlefilter_resample", x, y, self.cdf, self.next_x, self.next_y, n, self.offset(frame + 1)),
                over=n,
                writes=[self.next_x, self.next_y],
            )
            gpu.swap(x, self.next_x)
            gpu.swap(y, self.next_y)

    def offset(self, frame: int) -> float:
        """Where the resampling of a frame begins, in [0, 1)."""
        return float(unit_f64(self.cdf.key, frame))

    def check(self, view: View) -> str:
        """Estimates near the disk, the weights' sum, means around the last resampling, the film; if few, all again."""
        estimates, weight = view(self.estimates), view(self.weight)
        moved = np.arange(self.iterations)
        truth = np.stack([self.width // 2 + moved, self.height // 2 - 2 * moved], axis=1)
        if not (far := np.hypot(*(estimates - truth).T).max()) <= 3:
            return f"an estimate is {far:.3g} pixels from the disk"
        if not abs(total := float(weight.sum()) - 1) < 1e-9:
            return f"the weights sum to 1 + {total:.3g}"
        x, y, old_x, old_y = map(view, (self.x, self.y, self.next_x, self.next_y))
        before = estimates[-2] if self.iterations > 1 else np.array([self.width // 2, self.height // 2])
        means = {"resampled": (x, y, estimates[-1]), "moved": (old_x, old_y, before + np.array([1, -2]))}
        for what, (across, down, near) in means.items():
            if not (apart := math.dist((across.mean(), down.mean()), near)) < 30 / math.sqrt(self.n):
                return f"the mean of the {what} particles is {apart:.3g} pixels from where it should be"
        film = view(self.film)
        at = sample(film.size, 10_000, self.seed)
        if not (off := float(np.max(np.abs(film.reshape(-1)[at] - self._film(at))))) <= 0.51:
            return f"a pixel of the film differs by {off:.3g} from what it was made as"
        return self._twin(film, estimates, weight, (x, y)) if self.n <= TWIN else ""

    def _film(self, at: np.ndarray[Any, np.dtype[np.int64]]) -> F64:
        frame, y, x = np.unravel_index(at, (self.iterations + 1, self.height, self.width))
        moved = np.maximum(frame - 1, 0)
        inside = (x - self.width // 2 - moved) ** 2 + (y - self.height // 2 + 2 * moved) ** 2 < RADIUS**2
        return np.asarray(np.where(inside, DISK, GROUND) + 5 * _normal(self.film.key, at))

    def _twin(self, film: np.ndarray[Any, Any], estimates: F64, weights: F64, particles: tuple[F64, F64]) -> str:
        i = np.arange(self.n)
        x, y = np.full(self.n, float(self.width // 2)), np.full(self.n, float(self.height // 2))
        for frame in range(1, self.iterations + 1):
            x = x + 1 + 5 * _normal(self.next_x.key, frame * self.n + i)
            y = y - 2 + 2 * _normal(self.next_y.key, frame * self.n + i)
            total = np.zeros(self.n)
            for dx, dy in OFFSETS:
                px, py = (np.rint(x) + dx).astype(int), (np.rint(y) + dy).astype(int)
                inside = (px >= 0) & (px < self.width) & (py >= 0) & (py < self.height)
                seen = film[np.where(inside, frame, 0), np.where(inside, py, 0), np.where(inside, px, 0)].astype(float)
                total += (seen - GROUND) ** 2 - (seen - DISK) ** 2
            weight = np.exp(total / 50 / len(OFFSETS))
            weight /= weight.sum()
            if not (off := abs(estimates[frame - 1] - [weight @ x, weight @ y]).max()) < 1e-6:
                return f"the estimate of frame {frame} differs by {off:.3g} from the CPU's"
            chosen = np.searchsorted(np.cumsum(weight), (i + self.offset(frame)) / self.n).clip(max=self.n - 1)
            x, y = x[chosen], y[chosen]
        if not (off := float(np.max(np.abs([particles[0] - x, particles[1] - y])))) < 1e-6:
            return f"a resampled particle is {off:.3g} pixels from the CPU's"
        off = abs(weights / weight - 1).max()
        return "" if off < 1e-6 else f"a weight differs by {off:.3g} of itself from the CPU's"


def _normal(key: int, i: Any) -> F64:
    """normal() of particlefilter.c."""
    i = np.uint64(2) * np.asarray(i, np.uint64)
    radius = np.sqrt(-2 * np.log(1 - unit_f64(key, i)))
    return np.asarray(radius * np.cos(2 * np.pi * unit_f64(key, i + np.uint64(1))))
