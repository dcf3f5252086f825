"""streamcluster: facility location by local search; the agents alternate."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from firsttouch.apps.support.clustering import Tried, cost_error
from firsttouch.harness.app import App, Cpu, Gpu, Params, Scattered, View, buffer, f32, f64, i32, u8, u32
from firsttouch.harness.random import I64

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
        right = 2 <= params["kmin"] <= params["kmax"] < params["n"] / 4
        return super().problem(params) if right else f"{cls.name}: 2 <= kmin <= kmax < n / 4 must hold: {params}"

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.uniform(self.coord, 0, 1)
        cpu.fill(self.weight, 1)
        cpu.fill(self.table, -1)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        passes = gpu.iterations(self.iterations)
        self.chance, self.left = np.random.default_rng(self.seed), self.iterations
        self.last = (-1, 0)  # the last candidate, and the columns of its table
        low, self.price = 0.0, self.open_first(cpu)
        while len(self.centres) < self.kmin:
            high, self.price = self.price, self.price / 2
            self.speedy(cpu)
        likely = self.chance.integers(self.n, size=math.ceil(3 * self.kmin * math.log(self.kmin)))
        while self.left:
            self.improve(cpu, gpu, likely, 0.1, passes)
            if 0.9 * self.kmin <= len(self.centres) <= 1.1 * self.kmax:
                self.improve(cpu, gpu, likely, 0.001, passes)
            k, before = len(self.centres), self.price
            if self.kmin <= k <= self.kmax:
                break
            low, high = (before, high) if k > self.kmax else (low, before)
            if low >= 0.999 * high:  # the bisection has converged
                self.left = 0
            self.price = (low + high) / 2
            self.total += (self.price - before) * k
        next(passes, None)  # records the end of the last pass

    def open_first(self, cpu: Cpu) -> float:
        """Open point 0 as the only centre, and return the cost."""
        self.centres: list[int] = []
        self.open(cpu, 0)
        return float(cpu.reads(self.cost).sum(dtype=np.float64))

    def open(self, cpu: Cpu, x: int) -> None:
        is_first, data = int(not self.centres), (self.coord, self.weight)
        results = (self.candidate, self.cost, self.assign)
        written = results if is_first else results[:1]
        cpu.launch("stream_open", *data, *results, self.n, self.d, x, is_first, over=self.n, writes=written)
        self.centres.append(x)

    def speedy(self, cpu: Cpu) -> None:
        """Initial solution: each point in turn becomes a centre with a probability proportional to its cost."""
        key = int(self.chance.integers(1 << 62))
        self.open_first(cpu)
        while len(self.centres) < OPEN_LIMIT * self.kmax:
            cpu.fill(self.drawn, self.n)
            cpu.launch("stream_draw", self.cost, self.drawn, self.n, self.centres[-1], self.price, key, over=self.n)
            if (drawn := int(cpu.reads(self.drawn)[0])) == self.n:  # none was drawn
                break
            self.open(cpu, drawn)
        self.total = self.price * len(self.centres) + float(cpu.reads(self.cost).sum(dtype=np.float64))

    def improve(self, cpu: Cpu, gpu: Gpu, likely: I64, least: float, passes: Iterator[int]) -> None:
        """Passes over candidate centres until one gains less than a fraction of the cost."""
        gained, calls = self.total, math.ceil(3 * self.kmax * math.log(self.kmax))
        while gained > least * self.total and self.left and next(passes, None) is not None:
            self.chance.shuffle(likely)
            gained = sum(self.gain(cpu, gpu, int(likely[i % len(likely)])) for i in range(calls))
            self.total, self.left = self.total - gained, self.left - 1

    def gain(self, cpu: Cpu, gpu: Gpu, x: int) -> float:
        """Open a centre at x and close those that are then not worth their price, if that reduces the cost."""
        if x in self.centres:
            return 0.0
        centres, width, n = np.array(self.centres), len(self.centres) + 1, self.n
        self.last, rows, used = (x, width), self.rows[: n * width], {self.table: Scattered(1)}
        cpu.updates(self.table)[centres] = np.arange(width - 1)
        inputs, results = (self.coord, self.weight, self.cost, self.assign, self.table), (self.moves, self.candidate)
        values, groups = (*inputs, self.rows, *results, n, self.d, width, x), math.ceil(n / POINTS)
        gpu.launch("stream_gain", *values, groups=groups, threads=THREADS, writes=[rows, *results], passes=used)
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
        """Checks all costs in f64, the total (the first minus all gains), and the last rows whose old cost is known."""
        coord, weight, cost, assign = map(view, (self.coord, self.weight, self.cost, self.assign))
        if lost := np.count_nonzero(~np.isin(assign, self.centres)):
            return f"{lost} points are assigned to a centre that is not open"
        tried = self._tried(view, *self.last) if self.last[1] else None
        # A sum of d squares: d - 1 roundings by 2^-24, 4 of a difference, its square and the weight.
        worst, k = cost_error(coord, weight, cost, assign, tried), len(self.centres)
        total = self.price * k + float(cost.sum(dtype=np.float64))
        if not (worst <= (self.d + 4) * 2.0**-24 and abs(total - self.total) <= 1e-4 * total):
            return f"a cost is wrong by {worst:.2g} of it; costs add up to {total:.7g}, not {self.total:.7g}"
        return "" if self.kmin <= k <= self.kmax or not self.left else f"{k} centres are outside kmin to kmax"

    def _tried(self, view: View, x: int, width: int) -> Tried:
        rows = view(self.rows[: self.n * width]).reshape(self.n, width)
        return Tried(x, view(self.candidate), view(self.moves), rows, view(self.table))
