from __future__ import annotations

import numpy as np
import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps.nw import BLOSUM62, Nw
from firsttouch.harness.app import View, solve


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("larger(north - penalty, ", "larger(north, "),
        ("above[0] = west;", ""),
        ("west - penalty, larger", "west - penalty - 1, larger"),
        ("corner + cell[y + i][left + j]", "corner + cell[y + i][left + j] + (row == 64 && y + i == 7)"),
        ("inside && row + y < n) to[y * pitch]", "inside && row + y < n && row + y != 133) to[y * pitch]"),
        ("step < 2 * BANDS - 1", "step < 2 * BANDS - 2"),
        ("row + y < n) to", "row + y < n - 1) to"),
        ("score[(row + 1 + x) * pitch + column]", "score[(row + x) * pitch + column]"),
        ("cell[0][0] = score[row * pitch + column]", "cell[0][0] = 0"),
        ("band = LOCAL_ID", "band = diagonal == 4 ? BANDS : LOCAL_ID"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Nw, before, after)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 128])
def test_any_size(n: int) -> None:
    assert run_tiny(Nw, params={"n": n, "penalty": 3}).error == ""


def test_blosum62_is_symmetric_with_maxima_on_the_diagonal() -> None:
    assert np.array_equal(BLOSUM62, BLOSUM62.T)
    assert np.all(np.argmax(BLOSUM62, axis=0) == np.arange(len(BLOSUM62)))


def test_sizes() -> None:
    size = 4 << 30
    assert 0.999 < Nw.footprint(solve(Nw, size)) / size <= 1
    assert "32 bits" in Nw.problem({"n": 1 << 27, "penalty": 10})


def test_one_wrong_cell_of_a_large_table_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Nw.check

    def spoiled(self: Nw, view: View) -> str:
        view(self.score)[1500, 1777] += 1
        return check(self, view)

    monkeypatch.setattr(Nw, "check", spoiled)
    assert "(1500, 1777) is" in run_tiny(Nw, params={"n": 2100}).error
