from __future__ import annotations

import pytest
from tests.harness.running import assert_detected, opencl, params_of, run_tiny

from firsttouch.apps.kmeans import Kmeans, KmeansConcurrent
from firsttouch.harness import measure
from firsttouch.harness.app import solve
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sum[j] < least", "sum[j] > least"),
        ("for (; f < d; ++f) {", "for (; f < d; f += 4) {"),
        ("nearest = (int)(base + j)", "nearest = (int)j"),
        ("nearest = (int)(base + j)", "nearest = (int)(base + j) / 2"),
        ("block + row < d", "block + row < d - 1"),
        ("(y - c.y) * (y - c.y)", "(y - 1.001f * c.y) * (y - c.y)"),
        ("(z - c.z) * (z - c.z)", "1.001f * (z - c.z) * (z - c.z)"),
        ("squares[i] = least", "squares[i] = i == n / 2 ? 0.999f * least : least"),
        ("(x - c.x) * (x - c.x)", "(x - c.y) * (x - c.x)"),
        ("f + 4 <= d; f += 4", "f + 4 <= d; f += 8"),
        ("membership[i] = nearest", "membership[i] = i == n - 1 ? 0 : nearest"),
        ("membership[i] = nearest", "membership[i] = i < n - n / 16 ? nearest : 0"),
        ("membership[i] = nearest", "membership[i] = i == 77 ? (nearest + 1) % (int)k : nearest"),
        ("base < k; base += BLOCK", "base + BLOCK < k; base += BLOCK"),
        ("base + j < k ? base + j", "base + j < k - 2 ? base + j"),
        ("float least = FAR", "float least = 100.0f"),
        ("tile[column][row];", "tile[column][row == 5 ? 4 : row];"),
    ],
)
@pytest.mark.parametrize("app", [Kmeans, KmeansConcurrent])
def test_wrong_kernel_is_detected(app: type[Kmeans], before: str, after: str) -> None:
    params = params_of(app)
    if params["d"] % 4 == 0 and before.startswith("for (; f < d"):
        pytest.skip("this loop is not entered")
    if params["k"] <= 8 and after == "nearest = (int)j":
        pytest.skip("all centres are in the first block")
    assert_detected(app, before, after)


@pytest.mark.parametrize(
    "params",
    [{"k": 1}, {"k": 16, "d": 3}, {"d": 64, "n": 500}, {"n": 9, "k": 9}, {"iterations": 2}],
    ids=lambda p: "-".join(f"{name}{value}" for name, value in p.items()),
)
@pytest.mark.parametrize("app", [Kmeans, KmeansConcurrent])
def test_any_shape(app: type[Kmeans], params: dict[str, int]) -> None:
    assert run_tiny(app, params=params).error == ""


def test_both_variants_find_the_same_clusters() -> None:
    info, device = opencl()
    found = []
    for kind in (Kmeans, KmeansConcurrent):
        app = kind(kind.sizes["tiny"])
        assert measure.run(app, Workspace(STRATEGIES["explicit"], info, device)).error == ""
        found.append((app.rounds, app.changed, app.explained[-1]))
    assert found[0][0] > 2
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_points_are_transposed_through_a_window() -> None:
    info, device = opencl()
    app = Kmeans(Kmeans.sizes["tiny"])
    run = measure.run(app, Workspace(STRATEGIES["explicit"], info, device), windows={app.features: 3_001 * 19 * 4})
    assert run.error == ""


def test_invalid_parameters_are_rejected() -> None:
    assert "n must be at least k = 5" in Kmeans.problem({"n": 4, "d": 2, "k": 5, "iterations": 1})
    assert "at least 1" in Kmeans.problem({"n": 0, "d": 2, "k": 5, "iterations": 1})


def test_size_in_bytes() -> None:
    found = solve(Kmeans, 1 << 32)
    assert (1 << 32) - 300 < Kmeans.footprint(found) <= 1 << 32
