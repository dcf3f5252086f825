from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import assert_detected, opencl, run_tiny

from firsttouch.apps.black_scholes import SPOT, STRIKE, YEARS, BlackScholes
from firsttouch.harness import measure
from firsttouch.harness.app import View, solve
from firsttouch.harness.random import uniform_f32
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("normal(d1 - spread)", "normal(d1)"),
        ("1.330274429f", "1.33f"),
        ("d > 0.0f ? 1.0f - tail : tail", "tail"),
        ("F32X4(a.y, b.y, c.y, d.y)", "F32X4(a.y, b.y, c.x, d.y)"),
        ("1.330274429f", "1.3316f"),
        ("0.2316419f", "0.23187f"),
        ("0.3989422804f", "0.39934f"),
        ("#define RATE 0.02f", "#define RATE 0.02002f"),
        ("#define VOLATILITY 0.30f", "#define VOLATILITY 0.3003f"),
        ("-0.5f * d * d", "-0.5005f * d * d"),
        ("drift = (RATE + 0.5f", "drift = (RATE + 0.45f"),  # to first order, prices do not depend on it
        ("price(s.z, x.z, t.z)", "price(s.z, x.z, t.w)"),
        ("FOR_EACH(i, n / 4) {", "FOR_EACH(i, n / 4) if (i < 1000 || i >= 1016) {"),
        ("F32X4(a.x, b.x, c.x, d.x)", "F32X4(a.x, i == 77 ? 1.01f * b.x : b.x, c.x, d.x)"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(BlackScholes, before, after)


def test_wrong_remaining_options_are_detected() -> None:
    run = run_tiny(BlackScholes, params={"n": 4_003}, mutation=("put[at] = both.y", "put[at] = both.x"))
    assert run.error.startswith("3 prices differ")


class Kept(BlackScholes):
    """Keeps the calls."""

    @classmethod
    def kernel_path(cls) -> Path:
        return BlackScholes.kernel_path()

    def check(self, view: View) -> str:
        self.calls = view(self.call).copy()
        return ""


def test_prices_are_those_of_the_normal_distribution() -> None:
    """The formula for it, with an error of 7.5e-8, is common to the kernel and its check."""
    app = Kept({"n": 2_000, "iterations": 1})
    assert run_tiny(Kept, instance=app).error == ""
    at = np.arange(app.n)
    drawn = ((app.spot, SPOT), (app.strike, STRIKE), (app.years, YEARS))
    spot, strike, years = (uniform_f32(array.key, at, *ends).astype(float) for array, ends in drawn)
    spread = 0.3 * np.sqrt(years)
    d1 = (np.log(spot / strike) + (0.02 + 0.3**2 / 2) * years) / spread
    n1, n2 = (np.array([math.erfc(-x / math.sqrt(2)) / 2 for x in d]) for d in (d1, d1 - spread))
    assert np.abs(app.calls - (spot * n1 - strike * np.exp(-0.02 * years) * n2)).max() < 1e-4


def test_remaining_options_are_computed() -> None:
    """Uses other data than earlier tests, so that no old result is in memory that is not written."""
    skips = ("FOR_EACH(rest, n % 4)", "FOR_EACH(rest, 0)")
    assert run_tiny(BlackScholes, params={"n": 4_003}, mutation=skips, seed=4003).error
    for n in (1, 2, 3, 5):
        assert run_tiny(BlackScholes, params={"n": n}).error == ""


def test_options_are_streamed_through_a_window() -> None:
    info, device = opencl()
    app = BlackScholes(BlackScholes.sizes["tiny"])
    windows = dict.fromkeys(app.tiled_arrays(), 16_384 * 4)
    run = measure.run(app, Workspace(STRATEGIES["explicit"], info, device), windows=windows)
    assert run.error == ""
    assert run.transferred["gpu"] == 3 * 3 * 4 * app.n, "three inputs in each of three iterations"


def test_size_in_bytes() -> None:
    found = solve(BlackScholes, 1 << 32)
    assert (1 << 32) - 20 < BlackScholes.footprint(found) <= 1 << 32
