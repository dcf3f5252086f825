from __future__ import annotations

import pytest
from tests.harness.running import assert_caught, run_tiny

from firsttouch.apps.lud import Lud
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
    ],
)
def test_a_wrong_kernel_is_caught(before: str, after: str) -> None:
    assert_caught(Lud, before, after)


@pytest.mark.parametrize("n", [64, 128, 192, 576])
def test_one_block_a_few_and_a_sampled_matrix_are_right(n: int) -> None:
    assert run_tiny(Lud, params={"n": n}).error == ""


def test_a_sampled_matrix_that_is_wrong_is_caught() -> None:
    assert "differs from A" in run_tiny(Lud, params={"n": 576}, mutation=("l.w, u[3][j]", "l.w, u[2][j]")).error


def test_one_wrong_part_of_a_large_matrix_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tile that no sampled element depends on the last update is missing."""
    check = Lud.check

    def spoiled(self: Lud, view: View) -> str:
        a = view(self.a)
        a[640:768, 960:976] += a[640:768, 576:640] @ a[576:640, 960:976]
        return check(self, view)

    monkeypatch.setattr(Lud, "check", spoiled)
    assert "L (U r) differs" in run_tiny(Lud, params={"n": 1024}).error


def test_sizes() -> None:
    assert "multiple of 64" in Lud.problem({"n": 100})
    params = solve(Lud, 4 << 30)
    assert params["n"] % 64 == 0
    assert 0.99 < Lud.footprint(params) / (4 << 30) <= 1
