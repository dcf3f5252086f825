from __future__ import annotations

import math

import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps.lud import Lud
from firsttouch.apps.support.triangular import largest_error
from firsttouch.harness.app import View, solve


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y > x ? own[i][j] * pivot[x]", "y > x + 1 ? own[i][j] * pivot[x]"),
        ("if (!right) x[k] /= factor[panel + k][k];", ""),
        ("i = k + 1; i < PANEL", "i = k + 1; i < PANEL - 1"),
        ("l.w, u[3][j]", "l.w, u[2][j]"),
        ("step <= SIDE / DEPTH", "step < SIDE / DEPTH"),
        ("if (y < n && x < pitch)", "if (y < n && x < pitch - 1)"),
        ("1.0f / row[turn][k]", "1.001f / row[turn][k]"),
        ("y < SIDE; ++y) block[y * n + own]", "y < SIDE - 1; ++y) block[y * n + own]"),
        ("k < panel; ++k", "k + 1 < panel; ++k"),
        ("right ? diagonal[(panel + i) * n + own]", "right ? diagonal[own * n + panel + i]"),
        ("-= tx + 16 * j > k", "-= tx + 16 * j > k + 1"),
        ("if (y < n && x < pitch)", "if (y < n && x < pitch && !(y == 200 && x == 60))"),
        ("if (y < n && x < pitch)", "if (y < n && x < pitch && GROUP_ID + 1 < across * across)"),
        ("c.w - factor * v.w", "c.w - 0.999f * factor * v.w"),
        ("q < DEPTH / 4; ++q", "q < DEPTH / 8; ++q"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Lud, before, after)


@pytest.mark.parametrize("n", [64, 128, 192, 576])
def test_any_number_of_blocks(n: int) -> None:
    assert run_tiny(Lud, params={"n": n}).error == ""


def test_one_wrong_tile_of_a_large_matrix_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last update of a tile is missing."""
    check = Lud.check

    def spoiled(self: Lud, view: View) -> str:
        a = view(self.a)
        a[640:768, 960:976] += a[640:768, 576:640] @ a[576:640, 960:976]
        return check(self, view)

    monkeypatch.setattr(Lud, "check", spoiled)
    assert "closed form" in run_tiny(Lud, params={"n": 1024}).error


def test_sizes() -> None:
    assert "multiple of 64" in Lud.problem({"n": 100})
    params = solve(Lud, 4 << 30)
    assert params["n"] % 64 == 0
    assert 0.99 < Lud.footprint(params) / (4 << 30) <= 1


def test_more_elements_and_updates_are_allowed_larger_errors() -> None:
    """At 4 GiB an element of 2^30 was off by 5.7 deviations, which one of so many is."""
    pivot = 10 * -math.expm1(-0.002)
    deviation = math.sqrt(2 * 5300) * 2.0**-21 / pivot
    assert 5.7 < largest_error(32768, 5300, pivot) / deviation < 8
    assert 5 < largest_error(320, 5300, pivot) / deviation < 6
