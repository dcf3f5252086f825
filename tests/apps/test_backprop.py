from __future__ import annotations

import numpy as np
import pytest
from tests.harness.running import assert_detected, run_tiny

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
        ("FOR_EACH(at, count) {", "FOR_EACH(at, count) if (at / WIDTH / UNITS != 700) {"),  # 16 inputs never adjusted
        ("sum += column", "sum += 1.001f * column"),
        ("momentum * changes[at]", "1.001f * momentum * changes[at]"),
        ("rate * errors", "1.001f * rate * errors"),
        ("* x[row]", "* x[row > 1 ? row - 1 : row]"),
        ("partial[at] = sum", "partial[at] = at % UNITS == 15 && at / UNITS == 3 ? 0.0f : sum"),
        ("weights[at] += change;", "weights[at] += at == 5003 ? 0.0f : change;"),
        ("column[i * WIDTH]", "column[i * WIDTH + (at % UNITS ? 0 : 1)]"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Backprop, before, after)


@pytest.mark.parametrize("reduction", Backprop.options["reduction"])
def test_both_reductions_are_right(reduction: str) -> None:
    assert run_tiny(Backprop, options={"reduction": reduction}).error == ""


def test_forward_pass_that_overwrites_the_weights_is_detected() -> None:
    """The original does this. Only a copy before the next kernel hides it."""
    assert_detected(
        Backprop,
        "GLOBAL const float* weights, GLOBAL const float* x, GLOBAL float* partial, ulong inputs) {",
        "GLOBAL float* weights, GLOBAL const float* x, GLOBAL float* partial, ulong inputs) {\n"
        "    FOR_EACH(i, inputs) weights[(i + 1) * WIDTH + 1] *= x[i + 1];",
    )


@pytest.mark.parametrize(("inputs", "iterations"), [(16, 1), (16 * 1025, 5)])
def test_other_numbers_of_inputs_and_steps(inputs: int, iterations: int) -> None:
    assert run_tiny(Backprop, params={"inputs": inputs, "iterations": iterations}).error == ""


def test_number_of_inputs_must_be_a_multiple_of_16() -> None:
    assert "multiple of 16" in Backprop.problem({"inputs": 17, "iterations": 1})


def test_size_in_bytes() -> None:
    assert 0.999 * 2**32 < Backprop.footprint(solve(Backprop, 2**32)) <= 2**32


def test_backward_is_the_gradient_of_the_squared_error() -> None:
    rng = np.random.default_rng(1)
    net, outward = rng.normal(size=16), rng.normal(size=17)

    def loss(net: np.ndarray, outward: np.ndarray) -> float:
        hidden = np.concatenate(([1.0], 1 / (1 + np.exp(-net))))
        return float((backprop.TARGET - 1 / (1 + np.exp(-hidden @ outward))) ** 2 / 2)

    def gradient(at: int, of: int) -> float:
        small = 1e-5 * (np.arange(17 - of) == at)
        changed = [(net + sign * small, outward) if of else (net, outward + sign * small) for sign in (1, -1)]
        return (loss(*changed[0]) - loss(*changed[1])) / 2e-5

    _, _, errors, step = backprop.backward(net, outward)
    assert np.allclose(errors, [0, *(-gradient(j, 1) for j in range(16))], rtol=0, atol=1e-9)
    assert np.allclose(step, [-backprop.RATE * gradient(j, 0) for j in range(17)], rtol=0, atol=1e-9)


def test_subnormal_changes_are_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Saturated units stop learning after the first step; momentum alone then leads to changes that are subnormal."""
    monkeypatch.setattr(backprop, "RATE", 1e4)
    app = Backprop({"inputs": 1024, "iterations": 105})
    assert run_tiny(Backprop, instance=app).error == ""
    assert not app.steps[-1][2].any()
