from __future__ import annotations

import numpy as np
import pytest
from tests.harness.running import assert_caught, run_tiny

from firsttouch.apps import backprop
from firsttouch.apps.backprop import Backprop
from firsttouch.harness.app import solve


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
    assert run_tiny(Backprop, params={"inputs": inputs, "iterations": iterations}).error == ""


def test_inputs_come_in_groups() -> None:
    assert "multiple of 16" in Backprop.problem({"inputs": 17, "iterations": 1})


def test_a_size_in_bytes_is_met() -> None:
    assert 0.999 * 2**32 < Backprop.footprint(solve(Backprop, 2**32)) <= 2**32


def test_the_errors_and_the_step_are_down_the_slope_of_the_squared_error() -> None:
    rng = np.random.default_rng(1)
    net, outward = rng.normal(size=16), rng.normal(size=17)

    def loss(net: np.ndarray, outward: np.ndarray) -> float:
        hidden = np.concatenate(([1.0], 1 / (1 + np.exp(-net))))
        return float((backprop.TARGET - 1 / (1 + np.exp(-hidden @ outward))) ** 2 / 2)

    def slope(at: int, of: int) -> float:
        small = 1e-5 * (np.arange(17 - of) == at)
        changed = [(net + way * small, outward) if of else (net, outward + way * small) for way in (1, -1)]
        return (loss(*changed[0]) - loss(*changed[1])) / 2e-5

    _, _, errors, step = backprop.backward(net, outward)
    assert np.allclose(errors, [0, *(-slope(j, 1) for j in range(16))], rtol=0, atol=1e-9)
    assert np.allclose(step, [-backprop.RATE * slope(j, 0) for j in range(17)], rtol=0, atol=1e-9)


def test_changes_that_shrink_to_nothing_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that are saturated after the first step learn no more: momentum alone leads below f32's normal numbers."""
    monkeypatch.setattr(backprop, "RATE", 1e4)
    app = Backprop({"inputs": 1024, "iterations": 105})
    assert run_tiny(Backprop, one=app).error == ""
    assert not app.steps[-1][2].any()
