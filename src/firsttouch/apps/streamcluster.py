"""streamcluster: facility location by local search; the agents alternate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f32, f64, i32, in_pieces, u8, u32

Ints = np.ndarray[Any, np.dtype[np.int64]]
POINTS, THREADS, BLOCK = 64, 256, 1024  # points and threads per group, points that a CPU thread processes at a time
OPEN_LIMIT = 2  # of centres, as a multiple of kmax


class Streamcluster(App):
    """Facility location on a chunk of points: bisects the price of a centre until kmin to kmax are open."""

    name = "streamcluster"
    source = "PARSEC (Bienia et al., PACT 2008) and Rodinia, streamcluster; one chunk, with points stored by dimension"
    pattern = "CPU and GPU alternate on large data"
    sizes = {
        "tiny": {"n": 2001, "d": 7, "kmin": 4, "kmax": 8, "iterations": 50},
        "default": {"n": 65536, "d": 256, "kmin": 10, "kmax": 20, "iterations": 50},
        "bytes": {"kmin": 4, "kmax": 6, "iterations": 2},
    }
    n: int
    d: int
    kmin: int
    kmax: int
    iterations: int

    coord = buffer(f32, "d", "n", role="input", starts_on="cpu")
    weight = buffer(f32, "n", role="input", starts_on="cpu")
    cost = buffer(f32, "n", role="inout", starts_on="cpu", ends_on="cpu")
    assign = buffer(i32, "n", role="inout", starts_on="cpu", ends_on="cpu")
    table = buffer(i32, "n", role="inout", starts_on="cpu")
    moves = buffer(u8, "n", role="output")
    candidate = buffer(f32, "n", role="output")
    rows = buffer(f32, f"n * ({OPEN_LIMIT} * kmax + 1)", role="output")
    sums = buffer(f64, f"(n + {BLOCK - 1}) // {BLOCK} * ({OPEN_LIMIT} * kmax + 1)", role="scratch", starts_on="cpu")
    drawn = buffer(u32, 1, role="scratch", starts_on="cpu")

    @classmethod
    def problem(cls, params: Params) -> str:
        n, low, high = params["n"], params["kmin"], params["kmax"]
        reason = f"{cls.name}: 2 <= kmin <= kmax < n / 4 must hold, not kmin {low}, kmax {high}, n {n}"
        return super().problem(params) if 2 <= low <= high < n / 4 else reason

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.uniform(self.coord, 0, 1)
        cpu.fill(self.weight, 1)
        cpu.fill(self.table, -1)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        self.chance, passes = np.random.default_rng(self.seed), gpu.iterations(self.iterations)
        self.left, low, high = self.iterations, 0.0, self.open_first(cpu)
        self.price = high / 2
        self.speedy(cpu)
        while len(self.centres) < self.kmin:
            high, self.price = self.price, self.price / 2
            self.speedy(cpu)
        likely = self.chance.integers(self.n, size=math.ceil(3 * self.kmin * math.log(self.kmin)))
        while self.left:
            self.improve(cpu, gpu, likely, 0.1, passes)
            if 0.9 * self.kmin <= len(self.centres) <= 1.1 * self.kmax:
                self.improve(cpu, gpu, likely, 0.001, passes)
            if self.kmin <= (k := len(self.centres)) <= self.kmax:
                break
            low, high = (self.price, high) if k > self.kmax else (low, self.price)
            self.left *= low < 0.999 * high  # the bisection has converged
            self.total += ((low + high) / 2 - self.price) * k
            self.price = (low + high) / 2
        next(passes, None)  # records the end of the last pass

    def open_first(self, cpu: Cpu) -> float:
        """Open point 0 as the only centre, and return the cost."""
        self.centres: list[int] = []
        self.open(cpu, 0)
        return float(cpu.reads(self.cost).sum(dtype=np.float64))

    def open(self, cpu: Cpu, x: int) -> None:
        first, arrays = not self.centres, (self.coord, self.weight, self.candidate, self.cost, self.assign)
        shape = (self.n, self.d, x, int(first))
        cpu.launch("stream_open", *arrays, *shape, over=self.n, writes=arrays[2:] if first else arrays[2:3])
        self.centres.append(x)

    def speedy(self, cpu: Cpu) -> None:
        """Initial solution: each point in turn becomes a centre with a probability proportional to its cost."""
        key = int(self.chance.integers(1 << 62))
        self.open_first(cpu)
        while len(self.centres) < OPEN_LIMIT * self.kmax:
            cpu.fill(self.drawn, self.n)
            shape = (self.n, self.centres[-1], self.price, key)
            cpu.launch("stream_draw", self.cost, self.drawn, *shape, over=self.n)
            if (drawn := int(cpu.reads(self.drawn)[0])) == self.n:
                break
            self.open(cpu, drawn)
        self.total = self.price * len(self.centres) + float(cpu.reads(self.cost).sum(dtype=np.float64))

    def improve(self, cpu: Cpu, gpu: Gpu, likely: Ints, least: float, passes: Iterator[int]) -> None:
        """Passes over candidate centres until one gains less than a fraction of the cost."""
        gained, calls = self.total, math.ceil(3 * self.kmax * math.log(self.kmax))
        while gained > least * self.total and self.left and next(passes, None) is not None:
            self.chance.shuffle(likely)
            gained = sum(self.gain(cpu, gpu, int(likely[i % len(likely)])) for i in range(calls))
            self.total -= gained
            self.left -= 1

    def gain(self, cpu: Cpu, gpu: Gpu, x: int) -> float:
        """Open a centre at x and close those that are then not worth their price, if that reduces the cost."""
        centres, width, n = np.array(self.centres), len(self.centres) + 1, self.n
        if x in self.centres:
            return 0.0
        cpu.updates(self.table)[centres] = np.arange(width - 1)
        rows, shape = self.rows[: n * width], (n, self.d, width, x)
        arrays = (self.coord, self.weight, self.cost, self.assign, self.table, self.rows, self.moves, self.candidate)
        groups = math.ceil(n / POINTS)
        gpu.launch("stream_gain", *arrays, *shape, groups=groups, threads=THREADS, writes=[rows, *arrays[6:]])
        cpu.launch("stream_sum", self.rows, self.sums, n, width, over=n, reads=[rows], writes=[self.sums])
        columns = cpu.reads(self.sums)[: math.ceil(n / BLOCK) * width].reshape(-1, width).sum(axis=0)
        saved = self.price + columns[:-1]
        gained = float(saved[saved > 0].sum() - self.price - columns[-1])
        kept = centres[saved <= 0].tolist()
        if gained <= 0 or len(kept) >= OPEN_LIMIT * self.kmax:
            return 0.0
        cpu.updates(self.table)[centres[saved > 0]] = -1
        cpu.launch("stream_move", self.candidate, self.moves, self.table, self.cost, self.assign, n, x, over=n)
        self.centres = [*kept, x]
        return gained

    def check(self, view: View) -> str:
        """Checks that all centres are open, all costs match f64, and the total is the initial cost minus all gains."""
        cost, assign, coord, weight = map(view, (self.cost, self.assign, self.coord, self.weight))
        if lost := int(np.count_nonzero(~np.isin(assign, self.centres))):
            return f"{lost} points are assigned to a centre that is not open"

        def error(a: int, b: int) -> float:
            true = sum((line[a:b].astype(np.float64) - line[assign[a:b]]) ** 2 for line in coord) * weight[a:b]
            return float(np.max(np.abs(cost[a:b] - true) / np.maximum(true, 1e-30)))

        # A sum of d squares: d - 1 roundings by 2^-24, 4 of a difference, its square and the weight.
        worst, k = np.max(in_pieces(error, self.n, 1 << 14)), len(self.centres)
        total = self.price * k + float(cost.sum(dtype=np.float64))
        if not (worst <= (self.d + 4) * 2.0**-24 and abs(total - self.total) <= 1e-4 * total):
            return f"a cost is wrong by {worst:.2g} of it; costs add up to {total:.7g}, not {self.total:.7g}"
        return "" if self.kmin <= k <= self.kmax or not self.left else f"{k} centres are outside kmin to kmax"
