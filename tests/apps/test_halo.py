from __future__ import annotations

import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps.halo import Halo
from firsttouch.apps.support.domains import block_of, blocks_along, rank_of, share_of

MUTATIONS = [
    ("? place(nx, ny, field, at, across)", "? place(nx, ny, field, at < 0 ? 0 : at, across)"),  # a corner is missing
    ("arrives ? -1 - layer", "arrives ? -2 + layer"),
    ("arrives ? size + layer + more", "arrives ? size + layer"),
    (": layer + more, above", ": layer, above"),
    ("size - 1 - layer;", "size - 1;"),
    ("messages[i] = fields[item(i,", "messages[i] = fields[item(i < 9 ? 9 : i,"),
    ("double p = 0.4", "double p = 0.4000001"),
    ("SQRT_F64(1.4 * p / mass)", "SQRT_F64(1.4 * p)"),
    ("x - by * right", "x + by * right"),
    (": fields[i];", ": 0.0;"),
    ("MORE_X 0x1730u", "MORE_X 0x1710u"),
]


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Halo, before, after)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_any_number_of_steps_is_right(steps: int) -> None:
    assert run_tiny(Halo, params={"n": 9, "steps": steps}).error == ""


def test_a_grid_too_small_for_its_blocks_is_refused() -> None:
    assert "4 cells" in Halo.problem({"n": 3, "steps": 1})
    assert Halo.why_not_divided({"n": 8, "steps": 1}, 4) == ""
    assert "4 cells" in Halo.why_not_divided({"n": 8, "steps": 1}, 9)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8, 12])
def test_blocks_cover_the_space_once(ranks: int, axes: int) -> None:
    blocks = blocks_along(ranks, axes)
    places = {block_of(rank, blocks) for rank in range(ranks)}
    assert len(places) == ranks
    assert all(rank_of(block_of(rank, blocks), blocks) == rank for rank in range(ranks))
    assert rank_of([-1] * axes, blocks) == ranks - 1
    parts = [share_of(17, ranks, index) for index in range(ranks)]
    assert [first for first, _ in parts[1:]] == [first + count for first, count in parts[:-1]]
    assert sum(count for _, count in parts) == 17


def test_blocks_are_as_equal_as_possible() -> None:
    assert [blocks_along(ranks, 2) for ranks in (1, 2, 4, 6, 8)] == [(1, 1), (1, 2), (2, 2), (2, 3), (2, 4)]
    assert blocks_along(8, 3) == (2, 2, 2)
