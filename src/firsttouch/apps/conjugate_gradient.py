"""conjugate_gradient: a sparse linear system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from firsttouch.apps.support import um_apps
from firsttouch.apps.support.tridiagonal import Tridiagonal
from firsttouch.harness.app import (
    App,
    Cpu,
    Gpu,
    Params,
    PublishedPlacement,
    View,
    buffer,
    f32,
    f64,
    i32,
    in_pieces,
    sample,
)
from firsttouch.harness.random import F64, Values, uniform_f32
from firsttouch.program.execution.agents import KernelArgument
from firsttouch.program.execution.arrays import Array, ByteRange

THREADS, MAX_GROUPS = 256, 2048
# Eigenvalues are in [8, 13], so k steps reduce a residual to at most 2 sqrt(1.63) 0.121^k. One step is added.
MAX_STEPS, EXPECTED_STEPS, FIXED_STEPS = 100, 8, 50
TOLERANCE = 1e-6  # 2-norm of the residual relative to the initial one
ROUNDING_ERROR = 4 * 2.0**-24  # error of a row of A x, which is about 1, in f32
# The stopping test bounds the mean over the rows. The largest residual of a row grows with the number of rows, in f64
# too: 9e-6 for 12 million. The bound is 3.5e-5 after 6 steps, for diagonals of 11 and off-diagonals of 1. Since a
# diagonal exceeds the sum of its row's others by 8, no element of x, which are 0.08 to 0.1, is wrong by more than 7e-6.
ROW_TOLERANCE = 5e-5


class ConjugateGradient(App):
    """Unpreconditioned conjugate gradients in f32 on a tridiagonal matrix in CSR, solved `iterations` times. With
    until=steps a solve takes 50 steps, as the original.
    """

    name = "conjugate_gradient"
    source = "um-apps (Chien et al., MCHPC 2019), CG; 50 fixed steps replaced by a stopping test and repeated solves"
    pattern = "iterate on the GPU, two scalars to the CPU per step"
    sizes = {"tiny": {"n": 3001, "iterations": 2}, "default": {"n": 36_000_000, "iterations": 8}}
    options = {"library": ("auto", "own"), "until": ("converged", "steps")}
    same_kernels = ("until",)
    expected_rounds = 6  # steps that solves of 3,000 to 72 million rows took
    n: int
    iterations: int
    library: str
    until: str

    # A ends on the CPU, as in um-apps, where the CPU computes the residual from it.
    starts = buffer(i32, "n + 1", role="input", starts_on="cpu", ends_on="cpu")
    columns = buffer(i32, "3 * n - 2", role="input", starts_on="cpu", ends_on="cpu")
    values = buffer(f32, "3 * n - 2", role="input", starts_on="cpu", ends_on="cpu")
    rhs = buffer(f32, "n", role="input", starts_on="cpu")
    x = buffer(f32, "n", role="inout", starts_on="cpu", ends_on="cpu")
    r = buffer(f32, "n", role="inout", sides="gpu")
    p = buffer(f32, "n", role="inout", sides="gpu")
    product = buffer(f32, "n", role="inout", sides="gpu")  # A x or A p
    sums = buffer(f64, 2, role="control", starts_on="cpu")  # p . A p and r . r
    published = PublishedPlacement(um_apps.CONJUGATE_GRADIENT)

    @classmethod
    def problem(cls, params: Params) -> str:
        if 3 * params["n"] - 2 >= 2**31:
            return f"conjugate_gradient: n must be at most {(2**31 + 1) // 3}, so that indices fit 32 bits"
        return super().problem(params)

    def prepare(self, gpu: Gpu) -> None:
        sparse, self.used["library"] = gpu.library("sparse", self.library)
        matrix = [array.memory.device for array in (self.starts, self.columns, self.values)]
        self.plan = sparse and sparse.plan(*matrix, self.n, self.n, 3 * self.n - 2)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        matrix = (self.starts, self.columns, self.values)
        cpu.launch("fill_matrix", *matrix, self.n, self.values.key, over=self.n, writes=matrix)
        for array, value in ((self.rhs, 1), (self.x, 0), (self.sums, 0)):
            cpu.fill(array, value)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        for repeat in gpu.iterations(self.iterations):
            if repeat:
                gpu.fill(self.x, 0)
            self.steps = self._solve(cpu, gpu)
        self.used["steps"] = str(self.steps)

    def _solve(self, cpu: Cpu, gpu: Gpu) -> int:
        """Iterate until the residual is small enough, and return the number of steps."""
        n, r, p, sums = self.n, self.r, self.p, self.sums
        self._multiply(gpu, self.x)
        self._in_groups(gpu, "begin", self.rhs, self.product, r, p, sums, n, writes=[r, p])
        square = start = float(cpu.reads(sums)[1])
        fixed = self.until == "steps"
        for step in range(FIXED_STEPS if fixed else MAX_STEPS):
            if not fixed and square <= TOLERANCE**2 * start:
                return step
            self._multiply(gpu, p)
            length = _quotient(square, float(cpu.reads(sums)[0]))
            self._in_groups(gpu, "advance", p, self.product, self.x, r, sums, length, n)
            before = square
            square = float(cpu.reads(sums)[1])
            gpu.launch("turn", r, p, _quotient(square, before), n, over=n)
        return FIXED_STEPS if fixed else MAX_STEPS

    def _in_groups(self, gpu: Gpu, kernel: str, *arguments: KernelArgument, writes: Sequence[ByteRange] = ()) -> None:
        groups = min(MAX_GROUPS, math.ceil(self.n / THREADS))
        gpu.launch(kernel, *arguments, groups=groups, threads=THREADS, writes=writes)

    def _multiply(self, gpu: Gpu, v: Array) -> None:
        matrix, to = (self.starts, self.columns, self.values), self.product
        if self.plan:
            gpu.call(self.plan.multiply, v, to, reads=[*matrix, v], writes=[to])
            self._in_groups(gpu, "add_dot", v, to, self.sums, self.n)
        else:
            self._in_groups(gpu, "multiply", *matrix, v, to, self.sums, self.n, writes=[to])

    def check(self, view: View) -> str:
        """Checks the residual of all rows in f64; elements of x by elimination of the rows around them; and the number
        of steps, since wrong scalars only slow down convergence.
        """
        if self.steps > EXPECTED_STEPS and self.until == "converged":
            return f"{self.steps} steps were taken; the spectrum of the matrix allows {EXPECTED_STEPS}"
        x, exact = view(self.x), self.exact()
        squares, largest = np.array(in_pieces(partial(exact.residual, x), self.n, 2**16)).T
        mean, worst = math.sqrt(squares.sum() / self.n), float(largest.max())
        if not (mean <= TOLERANCE + ROUNDING_ERROR and worst <= ROW_TOLERANCE):
            return f"rows of A x differ from the right-hand side by up to {worst:.3g}, root mean square {mean:.3g}"
        rows = sample(self.n, 10_000, self.seed)
        error = float(np.abs(x[rows] - exact.solution(rows)).max())
        return "" if error <= 1e-6 else f"an element of x differs from elimination in f64 by {error:.3g}"

    def exact(self) -> Tridiagonal:
        """The system with regenerated elements of A, in f64."""
        return Tridiagonal(self.n, self._diagonal, self._coupling)

    def _diagonal(self, rows: Values) -> F64:
        return uniform_f32(self.values.key, 2 * rows, 10, 11).astype(np.float64)

    def _coupling(self, rows: Values) -> F64:
        """The elements of A that couple rows and those below them; 0 outside."""
        inside = (rows >= 0) & (rows < self.n - 1)
        return np.where(inside, uniform_f32(self.values.key, 2 * rows + 1, 0, 1).astype(np.float64), 0.0)


def _quotient(a: float, b: float) -> float:
    """a / b, and 0 where steps go on that have nothing left to correct."""
    return a / b if b else 0.0
