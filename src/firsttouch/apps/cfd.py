"""cfd: compressible Euler equations on an unstructured mesh."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from firsttouch.apps.support import euler
from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, difference, f32, i32, on_host
from firsttouch.harness.random import uniform_f32
from firsttouch.program.execution.arrays import SCATTERED, Array, ArraySlice

STAGES = 3
FLUX_PASSES = 1 + 4 * SCATTERED / 4  # over the state: its own values, and those of four neighbours at random
NOISE = 0.02
FULL_CHECK_UPDATES = 60_000  # of cells; up to this, the check recomputes the whole run in f64
REPEATED_UPDATES = 100_000_000  # up to this, the CPU repeats the whole run; each takes a processor 0.5 to 1.5 us
CHANGING = 200  # iterations; later the flow hardly changes
VARIABLES = ("density", "momentum in x", "momentum in y", "momentum in z", "energy")
# Root mean square of the rounding errors of one iteration in f32. It rounds a variable once, because all stages add to
# its value before them: by up to 2^-24 between 1 and 2 (density, momentum in x) or 2^-23 between 2 and 4 (energy),
# and hardly at all near zero. The constants and the fluxes, a tenth of which is added, have errors of the same size.
# While the flow changes, errors of different iterations are independent and grow with the root of their number. Later
# the same error may repeat: at worst it is added each time. (No error grows by itself: the scheme smooths the flow.)
ROUNDING = tuple(2.0**-power for power in (23, 23, 25, 25, 22))


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
        passes = {self.areas: 1, self.neighbours: STAGES, self.normals: STAGES, self.u: 1 + STAGES * (FLUX_PASSES + 1)}
        for _ in gpu.iterations(self.iterations):
            gpu.replay(self.iteration, reads=mesh, updates=[self.u], writes=scratch, passes=passes)

    def check(self, view: View) -> str:
        """Repeats the last iteration, and all if they are few, with the same kernels on the CPU. Recomputes a short run
        in f64 from regenerated initial data, which also checks the kernels on the CPU.
        """
        n = len(self.areas)
        for count in [1, self.iterations] if n * self.iterations <= REPEATED_UPDATES else [1]:
            if error := self._difference(view, self._repeat(view, count), count):
                return f"{error}, repeated on the CPU"
        if n * self.iterations > FULL_CHECK_UPDATES:
            return ""
        state = uniform_f32(self.u.key, np.arange(5 * n).reshape(5, n), -NOISE, NOISE) + euler.FAR_AWAY
        for _ in range(self.iterations):
            state = euler.step(state, view(self.areas), view(self.neighbours), view(self.normals))
        error = self._difference(view, state, self.iterations)
        return error and f"{error} in f64"

    def _difference(self, view: View, expected: np.ndarray[Any, Any], count: int) -> str:
        """Says how far a variable is from its values after `count` iterations if that is beyond rounding."""
        for name, actual, right, rounding in zip(VARIABLES, view(self.u), expected, ROUNDING, strict=True):
            mean, worst = difference(actual, right)
            most = rounding * (min(count, CHANGING) ** 0.5 + max(0, count - CHANGING))
            if not (mean <= most and worst <= 10 * most):
                return f"{name} differs by up to {worst:.3g}, root mean square {mean:.3g}, from {count} iterations"
        return ""

    def _repeat(self, view: View, count: int) -> np.ndarray[Any, Any]:
        """The state after the last `count` iterations, repeated on the CPU."""
        arrays = {a: np.ascontiguousarray(view(a)) for a in (self.areas, self.neighbours, self.normals)}
        arrays |= {a: np.empty(a.shape, a.dtype) for a in (self.u, self.old, self.flux, self.factors)}
        on_host(self.kernels, "cfd_start", arrays[self.u], len(self.areas), self.u.key)
        if count < self.iterations:
            arrays[self.u][:] = view(self.old)
        for _ in range(count):
            for kernel, reads, writes, values in self.launches(0, len(self.areas)):
                on_host(self.kernels, kernel, *(arrays[a] for a in (*reads, *writes)), *values)
        return arrays[self.u]


class CfdConcurrent(Cfd):
    """cfd with the first part of the cells on the GPU, while the CPU works on the others."""

    name = "cfd_concurrent"
    pattern = "CPU and GPU work on parts at the same time, and read from the other's part in every stage"
    divided = True
    sizes = {**Cfd.sizes, "bytes": {"iterations": 2}}
    old = buffer(f32, 5, "6 * m**3", role="inout")
    flux = buffer(f32, 5, "6 * m**3", role="inout")
    factors = buffer(f32, "6 * m**3", role="inout")

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        n = len(self.areas)
        cut = self.gpu_part(n)
        agents, parts = zip(*((a, p) for a, p in ((gpu, (0, cut)), (cpu, (cut, n))) if p[0] < p[1]), strict=True)
        for _ in gpu.iterations(self.iterations):
            for launches in zip(*(self.launches(*part) for part in parts), strict=True):
                if self.u in launches[0][1] and cpu in agents:
                    cpu.reads(self.u)  # before the GPU's launch, because later it would wait for that launch
                flux = {"passes": {self.u: FLUX_PASSES}} if launches[0][0] == "cfd_flux" else {}
                for agent, (kernel, reads, writes, values) in zip(agents, launches, strict=True):
                    read = [p for a in reads for p in ([a] if a is self.u else _cells(a, *values))]
                    written = [p for a in writes for p in _cells(a, *values)]
                    named: dict[str, Any] = {"reads": read, "writes": written, **(flux if agent is gpu else {})}
                    agent.launch(kernel, *reads, *writes, *values, over=values[1], **named)


def _cells(array: Array, first: int, count: int, n: int, *_: float) -> list[ArraySlice]:
    """A range of cells of an array with one or more values for each of n cells."""
    return [ArraySlice(array, start, start + 4 * count) for start in range(4 * first, array.nbytes, 4 * n)]
