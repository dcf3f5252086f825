"""kmeans: Lloyd's clustering; the GPU assigns points, the CPU averages them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from firsttouch.apps.support.clustering import assigned
from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f32, f64, i32, i64
from firsttouch.harness.random import F64, below, uniform_f32

PIECES, SIDE, THREADS = 1024, 32, 256  # each summed by a thread; points and threads per group of kmeans_transpose
BLOBS, SPREAD = (0.0, 10.0), 5.0  # range of the generated centres, and spread of the points around them


class Kmeans(App):
    """Clusters n points of d features, generated around k centres, until no assignment changes."""

    name = "kmeans"
    source = "Rodinia (Che et al., IISWC 2009), kmeans; at most 200 rounds instead of 500, to time each of them"
    pattern = "CPU and GPU alternate on large data"
    sizes = {
        "tiny": {"n": 10_007, "d": 19, "k": 9, "iterations": 20},
        "default": {"n": 494_020, "d": 34, "k": 5, "iterations": 200},
        "bytes": {"d": 32},
    }
    tiled, expected_rounds = ("features",), 5
    n: int
    d: int
    k: int
    iterations: int

    features = buffer(f32, "n", "d", role="input", starts_on="cpu")
    transposed = buffer(f32, "d", "n", role="scratch")
    membership = buffer(i32, "n", role="output", ends_on="cpu")
    squares = buffer(f32, "n", role="output")  # of each point's distance from its centre
    centres = buffer(f32, "k", "(d + 3) // 4 * 4", role="control", starts_on="cpu", ends_on="cpu")
    previous = buffer(i32, "n", role="scratch", starts_on="cpu")
    sums = buffer(f64, PIECES, "k", "d", role="scratch", starts_on="cpu")
    counts = buffer(i64, PIECES, "k + 1", role="scratch", starts_on="cpu")

    @classmethod
    def problem(cls, params: Params) -> str:
        reason = f"{cls.name}: n must be at least k = {params['k']}, not {params['n']}"
        return super().problem(params) or (reason if params["n"] < params["k"] else "")

    def defines(self) -> Mapping[str, object]:
        return {"BLOCK": min(self.k, 8)}

    def shares(self) -> list[tuple[int, int, int, int]]:
        """Ranges of points [first, last) and of partial sums [piece, end). The GPU assigns the last range."""
        return [(0, self.n, 0, PIECES)]

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        n, d, k = self.n, self.d, self.k
        centres = cpu.writes(self.centres)
        centres[:] = 0
        centres[:, :d] = uniform_f32(self.centres.key, np.arange(k * d), *BLOBS).reshape(k, d)
        values = (self.membership.key, self.features.key, n, d, centres.shape[1], k, SPREAD)
        cpu.launch("kmeans_points", self.features, self.centres, *values, over=n * d, writes=[self.features])
        centres[:, :d] = cpu.reads(self.features[:k])
        cpu.fill(self.previous, -1)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        last = self.shares()[-1][1]
        for tile in gpu.tiles(self.features):
            if (count := min(tile.count, last - tile.first)) > 0:
                gpu.launch(
                    *("kmeans_transpose", self.features, self.transposed, tile.offset, tile.first, count, last, self.d),
                    groups=math.ceil(count / SIDE),
                    threads=THREADS,
                    reads=[self.features[tile.first : tile.first + count]],
                    writes=[self.transposed],
                )
        self.changed, self.rounds, self.explained = self.n, 0, [0.0]
        for _ in gpu.iterations(self.iterations):
            if self.changed == 0:
                break
            self._assign(cpu, gpu)
            self._average(cpu)

    def _assign(self, cpu: Cpu, gpu: Gpu) -> None:
        """Assign all points to centres, and sum the points of each centre."""
        features, outputs = self.features, (self.membership, self.squares)
        shape, mine = (self.d, self.centres.shape[1], self.k), self.shares()[-1][1]  # the GPU's points are below mine
        if mine > 0:
            inputs, written = (self.transposed, self.centres), [array[:mine] for array in outputs]
            gpu.launch("kmeans_assign", *inputs, *outputs, mine, *shape, over=mine, writes=written)
        for first, last, piece, end in (share for share in self.shares() if share[0] < share[1]):
            count, points, written = last - first, features[first:last], [array[first:last] for array in outputs]
            if last != mine:
                values = (self.centres, *outputs, first, count, *shape)
                cpu.launch("kmeans_assign_rows", features, *values, over=count, reads=[points], writes=written)
            cpu.launch(
                *("kmeans_sums", features, self.membership, self.previous, self.sums, self.counts),
                *(first, count, piece, end - piece, self.d, self.k),
                over=count * self.d,
                reads=[points, written[0]],
                updates=[self.previous[first:last]],
                writes=[self.sums[piece:end], self.counts[piece:end]],
            )

    def _average(self, cpu: Cpu) -> None:
        """Move centres to the means of their points; a centre without points stays."""
        counts = cpu.reads(self.counts).sum(axis=0)[:, None]
        members, self.changed = counts[: self.k], int(counts[self.k, 0])
        centres = cpu.updates(self.centres)[:, : self.d]
        self.before = centres.astype(float)
        centres[:] = np.where(members, cpu.reads(self.sums).sum(axis=0) / np.maximum(members, 1), self.before)
        self.rounds += 1
        self.explained.append(float((members * centres.astype(float) ** 2).sum()))

    def check(self, view: View) -> str:
        """Checks that points have the nearest centre, at the right distance, centres are means, inertia never rose."""
        if (np.diff(self.explained) < -1e-6 * self.explained[-1]).any():  # inertia is the sum of squares minus this
            return f"the inertia rose: the means explain {self.explained[1:]}"
        d, k = self.d, self.k
        centres, labels, squares = map(view, (self.centres, self.membership, self.squares))
        if self.rounds < self.iterations and not np.abs(centres[:, :d] - self.before).max() <= 1e-6:
            return f"it stopped after {self.rounds} rounds, but the centres still moved"
        blobs = uniform_f32(self.centres.key, np.arange(k * d), *BLOBS).reshape(k, d)

        def points(first: int, last: int) -> F64:
            at = np.arange(first, last)
            blob = np.where(at < k, at, below(self.membership.key, at, k))
            noise = uniform_f32(self.features.key, np.arange(first * d, last * d), -SPREAD, SPREAD)
            return (blobs[blob] + noise.reshape(-1, d)).astype(f64)

        means, error = assigned(points, self.before, labels, squares)
        apart = np.abs(centres[:, :d] - means).max()
        if not apart <= 2.0**-23 * np.abs(means).max():  # f64, rounded to f32
            return f"a centre differs from the mean of its points by {apart:.3g}"
        # A squared distance has d + 2 roundings of positive numbers, and so has the one that it was compared with.
        return "" if error <= (d + 2) * 2.0**-23 else f"a squared distance is off by {error:.3g}"


class KmeansConcurrent(Kmeans):
    """kmeans with the first part of the points assigned by the GPU, while the CPU assigns the others."""

    name = "kmeans_concurrent"
    pattern = "CPU and GPU assign points at the same time"
    divided = True

    def shares(self) -> list[tuple[int, int, int, int]]:
        cut = self.gpu_part(self.n)
        piece = min(max(PIECES * cut // self.n, int(cut > 0)), PIECES - int(cut < self.n))
        return [(cut, self.n, piece, PIECES), (0, cut, 0, piece)]
