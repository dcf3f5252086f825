from __future__ import annotations

import pytest
from tests.apps.running import assert_caught, run_tiny

from firsttouch.apps.backprop import Backprop
from firsttouch.apps.base import solve


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("UNITS * UNITS + 1;", "UNITS * UNITS;"),  # the bias among the inputs
        ("i < UNITS; ++i) sum +=", "i < UNITS - 1; ++i) sum +="),
        ("* x[first + i]", "* x[first]"),
        (" + momentum * changes[at]", ""),
        ("changes[at] = change;", ""),
        ("weights[at] += change;", "weights[at] = change;"),
        ("at - row * WIDTH", "(at + 1) % WIDTH"),
        ("FOR_EACH(at, count) {", "FOR_EACH(at, count - 1) {"),
    ],
)
def test_a_wrong_kernel_is_caught(before: str, after: str) -> None:
    assert_caught(Backprop, before, after)


def test_a_forward_pass_that_writes_its_sums_over_the_weights_is_caught() -> None:
    """As the original does, which only a copy before the next kernel hides."""
    assert_caught(
        Backprop,
        "GLOBAL const float* weights, GLOBAL const float* x, GLOBAL float* partial, ulong inputs) {",
        "GLOBAL float* weights, GLOBAL const float* x, GLOBAL float* partial, ulong inputs) {\n"
        "    FOR_EACH(i, inputs) weights[(i + 1) * WIDTH + 1] *= x[i + 1];",
    )


@pytest.mark.parametrize(("inputs", "iterations"), [(16, 1), (16 * 1025, 5)])
def test_other_layers_and_steps(inputs: int, iterations: int) -> None:
    assert run_tiny(Backprop, params={"inputs": inputs, "iterations": iterations}).wrong == ""


def test_inputs_come_in_groups() -> None:
    assert "multiple of 16" in Backprop.problem({"inputs": 17, "iterations": 1})


def test_a_size_in_bytes_is_met() -> None:
    assert 0.999 * 2**32 < Backprop.footprint(solve(Backprop, 2**32)) <= 2**32
