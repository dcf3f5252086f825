"""An output that was checked once is recognised, and only that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from tests.harness.running import opencl

from firsttouch.apps.black_scholes import BlackScholes
from firsttouch.apps.kmeans import Kmeans
from firsttouch.harness import measure
from firsttouch.harness.app import App, View
from firsttouch.program.execution.agents import KernelFile
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES

N = {"n": 4_003, "iterations": 1}


class Counting(BlackScholes):
    """Counts its checks."""

    checks: ClassVar[int] = 0

    @classmethod
    def kernel_path(cls) -> Path:
        return BlackScholes.kernel_path()

    def check(self, view: View) -> str:
        type(self).checks += 1
        return super().check(view)


@pytest.fixture(autouse=True)
def _from_zero() -> None:
    Counting.checks = 0


def run(app: App, strategy: str = "explicit", known: list[str] | None = None) -> measure.Run:
    info, device = opencl()
    return measure.run(app, Workspace(STRATEGIES[strategy], info, device), known=known or [])


def test_the_same_output_is_checked_once() -> None:
    first = run(Counting(N))
    assert (first.error, Counting.checks) == ("", 1)
    assert re.match(r"black_scholes \w+: call put:", first.output)
    other = run(Counting(N), "svm-fine", [first.output])
    assert (other.error, other.output, Counting.checks) == ("", first.output, 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("put[at] = both.y", "put[at] = both.y + (rest == 2 ? 1e-3f : 0.0f)"),
        ("FOR_EACH(i, n / 4)", "FOR_EACH(i, n / 4 - 1)"),
    ],
)
def test_another_output_is_checked_and_wrong(before: str, after: str) -> None:
    known = [run(Counting(N)).output]
    wrong = Counting(N)
    text = wrong.kernels.text
    assert before in text
    wrong.kernels = KernelFile(wrong.kernels.name, text.replace(before, after))
    found = run(wrong, known=known)
    assert found.error
    assert not found.output


def test_other_data_or_another_size_is_checked() -> None:
    known = [run(Counting(N)).output]
    assert run(Counting(N, seed=2), known=known).error == ""
    assert run(Counting(N | {"n": 4_004}), known=known).error == ""
    assert Counting.checks == 3


def test_values_that_an_application_keeps_are_compared() -> None:
    """kmeans keeps the number of its rounds, which its check examines."""

    class Stopping(Kmeans):
        @classmethod
        def kernel_path(cls) -> Path:
            return Kmeans.kernel_path()

        def compute(self, cpu, gpu) -> None:  # type: ignore[no-untyped-def]
            super().compute(cpu, gpu)
            self.rounds += self.seed > 0 and more

    more = False
    size = Kmeans.sizes["tiny"]
    first = run(Stopping(size))
    assert first.error == ""
    more = True
    assert run(Stopping(size), known=[first.output]).output != first.output


def test_a_value_that_cannot_be_compared_means_a_check_each_time() -> None:
    class Keeping(Counting):
        @classmethod
        def kernel_path(cls) -> Path:
            return BlackScholes.kernel_path()

        def arrange(self) -> None:
            self.found = {np.float32(1)}

    first = run(Keeping(N))
    assert (first.error, first.output) == ("", "")


def test_a_random_generator_is_compared_by_its_state() -> None:
    class Drawing(Counting):
        @classmethod
        def kernel_path(cls) -> Path:
            return BlackScholes.kernel_path()

        def arrange(self) -> None:
            self.chance = np.random.default_rng(1)
            self.chance.integers(9, size=drawn)

    drawn = 1
    first = run(Drawing(N))
    assert first.output
    assert run(Drawing(N), known=[first.output]).output == first.output
    drawn = 2
    assert run(Drawing(N), known=[first.output]).output != first.output


def test_part_of_a_buffer_is_digested_alone() -> None:
    """streamcluster's check examines those rows of the last candidate that were written."""

    class Half(Counting):
        @classmethod
        def kernel_path(cls) -> Path:
            return BlackScholes.kernel_path()

        def check(self, view: View) -> str:
            view(self.years[: self.n // 2])
            return super().check(view)

        def initialise(self, cpu, gpu) -> None:  # type: ignore[no-untyped-def]
            super().initialise(cpu, gpu)
            if changed is not None:
                cpu.updates(self.years)[changed] = np.nan  # and so both prices

    changed: int | None = None
    first = run(Half(N))
    assert re.match(rf"black_scholes \w+: call put years\[0,{N['n'] // 2 * 4}\]:", first.output)
    assert run(Half(N), known=[first.output]).output == first.output
    changed = 7
    assert run(Half(N), known=[first.output]).error
