from __future__ import annotations

import re

import pytest
from tests.harness.running import assert_detected, opencl, run_tiny

from firsttouch.apps.pathfinder import Pathfinder
from firsttouch.harness import measure
from firsttouch.harness.app import solve
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("before[a & 1][x + 2]", "before[a & 1][x + 1]"),
        ("best + ahead[a][k]", "best + ahead[a][k] + (column[k] == 700)"),
        ("best + ahead[a][k]", "best + ahead[a ^ 1][k]"),
        ("if (step >= rows) continue;", "if (step + 1 >= rows) continue;"),  # without the last row of a launch
        ("cost[j] = cost[cols + j] = wall[j]", "cost[j] = cost[cols + j] = wall[j] + (j > 500)"),
        ("cost[(1u - from) * cols + column[k]] = now[k]", "cost[(1u - from) * cols + column[k]] = now[k ^ 1]"),
        ("at < (long)cols", "at < (long)cols - 1"),
        ("(row + step + AHEAD)", "(row + step + AHEAD - 1)"),
        ("x >= PYRAMID &&", "x > PYRAMID &&"),
        ("cost[from * cols", "cost[(1u - from) * cols"),
        ("- 2 * PYRAMID)", "- 2 * PYRAMID + 2)"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Pathfinder, before, after)


@pytest.mark.parametrize(
    "changed",
    [
        {"pyramid": 1},
        {"pyramid": 128},
        {"rows": 1},
        {"rows": 2},
        {"cols": 1},
        {"cols": 2000, "rows": 1500, "pyramid": 3},
    ],
    ids=str,
)
def test_other_shapes(changed: dict[str, int]) -> None:
    assert run_tiny(Pathfinder, params=changed).error == ""


@pytest.mark.parametrize("rows", [1, 5, 14, 60])
def test_wall_streams_through_a_window_of_any_height(rows: int) -> None:
    info, device = opencl()
    app = Pathfinder(Pathfinder.sizes["tiny"])
    windows = {app.wall: rows * app.wall.row_bytes}
    run = measure.run(app, Workspace(STRATEGIES["explicit"], info, device), windows=windows)
    assert run.error == ""
    assert run.transferred["gpu"] == app.wall.nbytes


def test_size_in_bytes() -> None:
    params = solve(Pathfinder, 4 << 30)
    assert 0 <= (4 << 30) - Pathfinder.footprint(params) <= 4 * params["cols"]


def test_invalid_sizes_are_rejected() -> None:
    tiny = Pathfinder.sizes["tiny"]
    assert "at most 128" in Pathfinder.problem({**tiny, "pyramid": 129})
    assert re.search("rows .* 1, not 0", Pathfinder.problem({**tiny, "rows": 0}))
