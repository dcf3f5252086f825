from __future__ import annotations

import numpy as np
import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps import fdtd3d
from firsttouch.apps.fdtd3d import Fdtd3d
from firsttouch.harness.app import solve

MUTATIONS = [
    ("plane[turn][row - 3][lane]", "plane[turn][row - 2][lane]"),
    ("F32X4(l.w, m.x, m.y, m.z)", "F32X4(l.z, m.x, m.y, m.z)"),
    ("back4 = back3, ", ""),
    ("x < n + RADIUS &&", "x < n &&"),
    ("at_most(first + depth, n)", "at_most(first + depth, n - 1)"),
    ("sum = ring(sum, w4,", "sum = ring(sum, 1.001f * w4,"),
    ("F32X4(w0 * m.x, w0 * m.y", "F32X4(1.001f * w0 * m.x, w0 * m.y"),
    ("F32X4(m.y, m.z, m.w, r.x), plane", "F32X4(m.y, m.z, m.w, r.y), plane"),
    ("plane[turn][row + 4][lane], back4, next4", "plane[turn][row + 4][lane], back4, next3"),
    ("if (inside) *to = sum;", "if (inside && !(z == 20 && left == 64 && top == 16)) *to = sum;"),
    ("if (inside) *to = sum;", "if (inside && !(z == 5 && x == 16 && y == 12)) *to = sum;"),
    ("w3 = weights[3]", "w3 = weights[2]"),
    ("side % 2 * (LANES + 1)", "side % 2 * LANES"),
]


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Fdtd3d, before, after)


@pytest.fixture(params=[["FULL_CHECK_UPDATES"], ["FULL_CHECK_UPDATES", "REPEATED_UPDATES"]])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny size is checked as a large one, and as a very large one."""
    for limit in request.param:
        monkeypatch.setattr(fdtd3d, limit, 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("before", "after"), MUTATIONS)
@pytest.mark.usefixtures("large")
def test_wrong_kernel_is_detected_in_a_large_space(before: str, after: str) -> None:
    assert_detected(Fdtd3d, before, after)


@pytest.mark.usefixtures("large")
def test_a_large_space_is_right() -> None:
    assert run_tiny(Fdtd3d).error == ""


@pytest.mark.exhaustive
@pytest.mark.parametrize("repeated", [False, True])
def test_an_error_before_the_last_step_is_found_where_all_are_repeated(
    repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fdtd3d, "FULL_CHECK_UPDATES", 0)
    if not repeated:
        monkeypatch.setattr(fdtd3d, "REPEATED_UPDATES", 0)
    app = Fdtd3d(Fdtd3d.sizes["tiny"])
    assert run_tiny(Fdtd3d, instance=app).error == ""
    cells = [app._initial(map(range, app.cells.shape))]
    cells[0][41, 42, 43] *= 1.01
    for _ in range(app.iterations):
        cells.append(app._step(cells[-1]))
    held = {app.cells: cells[-1].astype(np.float32), app.next: cells[-2].astype(np.float32)}
    assert ("3 steps repeated" in app.check(held.__getitem__)) == repeated


@pytest.mark.parametrize("params", [{"n": 4}, {"n": 64}, {"n": 68, "depth": 1}, {"n": 20, "depth": 100}])
def test_any_size_and_depth(params: dict[str, int]) -> None:
    assert run_tiny(Fdtd3d, params=params).error == ""


def test_invalid_parameters_are_rejected() -> None:
    tiny = Fdtd3d.sizes["tiny"]
    assert "multiple of 4" in Fdtd3d.problem({**tiny, "n": 75})
    assert "at most 20" in Fdtd3d.problem({**tiny, "iterations": 21})
    assert Fdtd3d.problem(tiny) == ""


def test_size_in_bytes() -> None:
    found = solve(Fdtd3d, 1 << 32)
    assert 0.98 * (1 << 32) < Fdtd3d.footprint(found) <= 1 << 32
