from __future__ import annotations

import pytest
from tests.harness.running import assert_detected, opencl, run_tiny

from firsttouch.apps.black_scholes import BlackScholes
from firsttouch.harness import measure
from firsttouch.harness.app import solve
from firsttouch.workspace.strategies import STRATEGIES
from firsttouch.workspace.workspace import Workspace


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("normal(d1 - spread)", "normal(d1)"),
        ("1.330274429f", "1.33f"),
        ("d > 0.0f ? 1.0f - tail : tail", "tail"),
        ("put[at] = both.y", "put[at] = both.x"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(BlackScholes, before, after)


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
