from __future__ import annotations

import numpy as np
import pytest

from firsttouch.experiments.analysis.graphs import levels_of_tree, neighbours, wrong_levels

# 0 - 1 - 2 - 3, and 4 - 5 apart.
STARTS, DEGREES = np.array([0, 1, 3, 5, 6, 7]), np.array([1, 2, 2, 1, 1, 1])
EDGES = np.array([1, 0, 2, 1, 3, 2, 5, 4])


def judge(*levels: int) -> str:
    return wrong_levels(np.arange(6), STARTS, DEGREES, EDGES, np.array(levels), 0)


def test_edges_of_some_nodes() -> None:
    of, ends = neighbours(STARTS[[2, 4]], DEGREES[[2, 4]], EDGES)
    assert (of.tolist(), ends.tolist()) == ([0, 0, 1], [1, 3, 5])


def test_distances_are_right() -> None:
    assert judge(0, 1, 2, 3, -1, -1) == ""


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ((0, 1, 2, 4, -1, -1), "2 edges span"),
        ((0, 1, 1, 2, -1, -1), "1 nodes have no neighbour one level up"),
        ((0, 1, 2, -1, -1, -1), "2 edges span"),
        ((0, 1, 2, 3, -1, 5), "2 edges span"),
        ((1, 0, 1, 2, -1, -1), "the root has level 1"),
        ((0, 1, 2, 3, 0, 0), "3 of 6 nodes level 0"),
    ],
)
def test_wrong_levels_are_reported(levels: tuple[int, ...], words: str) -> None:
    assert words in judge(*levels)


def test_levels_of_a_tree_in_a_graph_that_also_has_a_cycle() -> None:
    parent = np.array([2, 0, 2, -1, 5, 4])
    assert levels_of_tree(parent, 2).tolist() == [1, 2, 0, -1, -1, -1]
    assert levels_of_tree(parent, 0).tolist() == [-1] * 6, "the root is not its own parent"
