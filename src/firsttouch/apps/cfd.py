"""cfd: compressible Euler equations on an unstructured mesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f32, i32, sample
from firsttouch.harness.random import F64, uniform_f32
from firsttouch.workspace.workspace import Array, ArraySlice

STAGES = 3
GAMMA, NOISE = 1.4, 0.02
FAR_AWAY = np.array([1.4, 1.68, 0, 0, 3.508])[:, None]  # density, momentum, energy at Mach 1.2
WALL = -1
FULL_CHECK_UPDATES, FULL_CHECK_ITERATIONS = 60_000, 200  # up to both, the check repeats the whole run
CHUNK = 1 << 20


class Cfd(App):
    """Disturbed supersonic flow over a wall on 6 m^3 randomly numbered tetrahedra, with three stages per iteration."""

    name = "cfd"
    source = "Rodinia (Che et al., IISWC 2009), euler3d, on a generated mesh: a cube of irregular tetrahedra"
    pattern = "irregular gather, iterated on the GPU, read at the end"
    sizes = {"tiny": {"m": 7, "iterations": 4}, "default": {"m": 32, "iterations": 2000}, "bytes": {"iterations": 20}}
    grows = "m"
    m: int
    iterations: int

    areas = buffer(f32, "6 * m**3", role="input", starts_on="cpu")
    neighbours = buffer(i32, 4, "6 * m**3", role="input", starts_on="cpu")
    normals = buffer(f32, 12, "6 * m**3", role="input", starts_on="cpu")
    u = buffer(f32, 5, "6 * m**3", role="inout", starts_on="gpu", ends_on="cpu")
    old = buffer(f32, 5, "6 * m**3", role="scratch")
    flux = buffer(f32, 5, "6 * m**3", role="scratch")
    factors = buffer(f32, "6 * m**3", role="scratch")

    @classmethod
    def problem(cls, params: Params) -> str:
        if 6 * params["m"] ** 3 >= 2**31:
            return f"{cls.name}: m must be at most 710, so that cell numbers fit 32 bits, not {params['m']}"
        return super().problem(params)

    def launches(self, first: int, last: int) -> Iterator[tuple[Any, ...]]:
        """The kernels of one iteration on a range of cells, with the arrays that each reads and writes, and scalars."""
        cells = (first, last - first, len(self.areas))
        yield "cfd_factors", (self.areas, self.u), (self.old, self.factors), cells
        for stage in range(STAGES):
            yield "cfd_flux", (self.neighbours, self.normals, self.u), (self.flux,), cells
            yield "cfd_step", (self.old, self.flux, self.factors), (self.u,), (*cells, 1 / (STAGES + 1 - stage))

    def prepare(self, gpu: Gpu) -> None:
        self.iteration = gpu.sequence()
        for kernel, reads, writes, values in self.launches(0, len(self.areas)):
            self.iteration.add(kernel, *reads, *writes, *values, over=len(self.areas))

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        n, mesh = len(self.areas), (self.areas, self.neighbours, self.normals)
        cpu.launch("cfd_mesh", *mesh, self.m, (n - 1).bit_length(), self.normals.key, over=n, writes=mesh)
        gpu.launch("cfd_start", self.u, n, self.u.key, over=n, writes=[self.u])

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        mesh, scratch = (self.areas, self.neighbours, self.normals), (self.old, self.flux, self.factors)
        for _ in gpu.iterations(self.iterations):
            gpu.replay(self.iteration, reads=mesh, updates=[self.u], writes=scratch)

    def check(self, view: View) -> str:
        """Recomputes a few iterations of a small mesh, or the last one at some cells, in f64. Checks all for range."""
        n, result = len(self.areas), view(self.u)
        for chunk in (result[:, at : at + CHUNK] for at in range(0, n, CHUNK)):
            if not (chunk[0].min() > 0 and _gas(chunk)[0].min() > 0):
                return "a density or a pressure is not positive"
        if n * self.iterations <= FULL_CHECK_UPDATES and self.iterations <= FULL_CHECK_ITERATIONS:
            cells = [np.arange(n)] * (STAGES + 1)
            state = uniform_f32(self.u.key, np.arange(5 * n).reshape(5, n), -NOISE, NOISE) + FAR_AWAY
            for _ in range(self.iterations):
                state = self._advance(view, state, cells)
        else:
            cells = [np.unique([*sample(n, 1000, self.seed), n // 2 - 1, n // 2])]
            for _ in range(STAGES):
                around = view(self.neighbours)[:, cells[-1]]
                cells.append(np.unique(np.concatenate([cells[-1], around[around >= 0]])))
            state = self._advance(view, view(self.old)[:, cells[-1]].astype(float), cells)
        worst = float(np.max(np.abs(result[:, cells[0]] - state)))
        return "" if worst < 5e-6 else f"a variable differs from the same steps in f64 by {worst:.3g}"

    def _advance(self, view: View, old: F64, cells: Sequence[np.ndarray]) -> F64:
        """One iteration for cells[0]. cells[k] are the cells within k faces of them; `old` is the state of the last."""
        now, factors = old, 0.5 / (np.sqrt(view(self.areas)[cells[-1]].astype(float)) * _gas(old)[1])
        for stage, (outer, inner) in enumerate(pairwise(cells[::-1])):
            near, own = view(self.neighbours)[:, inner], now[:, np.searchsorted(outer, inner)]
            (p, fast), flux = _gas(own), np.zeros_like(own)
            for face in range(4):
                normal = view(self.normals)[3 * face : 3 * face + 3, inner].astype(float)
                inside = near[face] >= 0
                other = now[:, np.searchsorted(outer, np.where(inside, near[face], inner))]
                other = np.where(inside, other, FAR_AWAY)
                q, there = _gas(other)
                smooth = 0.1 * np.sqrt((normal**2).sum(axis=0)) * (fast + there) * inside
                passing = (_flow(own, p, normal) + _flow(other, q, normal)) / 2 + smooth * (other - own)
                flux += np.where(near[face] == WALL, p * np.pad(normal, ((1, 1), (0, 0))), passing)
            start = np.searchsorted(cells[-1], inner)
            now = old[:, start] + factors[start] / (STAGES + 1 - stage) * flux
        return now


def _gas(s: F64) -> tuple[F64, F64]:
    """Pressure, and the sum of the speeds of the flow and of sound."""
    pressure = (GAMMA - 1) * (s[4] - (s[1:4] ** 2).sum(axis=0) / (2 * s[0]))
    return pressure, np.sqrt((s[1:4] ** 2).sum(axis=0)) / s[0] + np.sqrt(GAMMA * pressure / s[0])


def _flow(s: F64, p: F64, normal: F64) -> F64:
    """Flux through a face."""
    v = (s[1:4] * normal).sum(axis=0) / s[0]
    return np.stack([s[0] * v, *(s[1:4] * v + p * normal), v * (s[4] + p)])


class CfdConcurrent(Cfd):
    """cfd with the second half of the cells on the CPU, while the GPU works on the first half."""

    name = "cfd_concurrent"
    pattern = "CPU and GPU work on halves at the same time, and read from the other's half in every stage"
    by_halves = True
    sizes = {**Cfd.sizes, "bytes": {"iterations": 2}}
    old = buffer(f32, 5, "6 * m**3", role="inout")
    flux = buffer(f32, 5, "6 * m**3", role="inout")
    factors = buffer(f32, "6 * m**3", role="inout")

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        n = len(self.areas)
        for _ in gpu.iterations(self.iterations):
            for launches in zip(self.launches(0, n // 2), self.launches(n // 2, n), strict=True):
                if self.u in launches[0][1]:
                    cpu.reads(self.u)  # before the GPU's launch, because later it would wait for that launch
                for agent, (kernel, reads, writes, values) in zip((gpu, cpu), launches, strict=True):
                    read = [p for a in reads for p in ([a] if a is self.u else _cells(a, *values))]
                    written = [p for a in writes for p in _cells(a, *values)]
                    agent.launch(kernel, *reads, *writes, *values, over=values[1], reads=read, writes=written)


def _cells(array: Array, first: int, count: int, n: int, *_: float) -> list[ArraySlice]:
    """A range of cells of an array with one or more values for each of n cells."""
    return [ArraySlice(array, start, start + 4 * count) for start in range(4 * first, array.nbytes, 4 * n)]
