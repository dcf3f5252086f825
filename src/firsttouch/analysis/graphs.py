"""Whether levels of a breadth-first search are right, from the graph's edges alone."""

from __future__ import annotations

from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[Any]]


def neighbours(starts: Ints, degrees: Ints, edges: Ints) -> tuple[Ints, Ints]:
    """All edges of some nodes: which of the nodes each belongs to, and where it leads. starts: of each node's edges."""
    of = np.repeat(np.arange(len(starts)), degrees)
    ahead = np.cumsum(degrees) - degrees
    return of, edges[np.arange(len(of)) + (starts - ahead)[of]]


def wrong_levels(at: Ints, starts: Ints, degrees: Ints, edges: Ints, level: Ints, root: int) -> str:
    """Why the levels of nodes `at` (-1: unreached) are no distances from root, or ''. Levels of a graph whose edges are
    stored at both ends are right where the root alone has level 0, no edge spans two levels or leads to where none was
    reached, and every other reached node has a neighbour one level up.
    """
    of, ends = neighbours(starts, degrees, edges)
    here, there = level[at], level[ends]
    if level[root] != 0 or np.any((here == 0) != (at == root)):
        return f"the root has level {level[root]}, and {np.count_nonzero(here == 0)} of {len(at)} nodes level 0"
    wide = int(np.count_nonzero((np.abs(there - here[of]) > 1) | ((there < 0) != (here[of] < 0))))
    has_one_up = np.zeros(len(at), bool)
    has_one_up[of[there == here[of] - 1]] = True
    lost = int(np.count_nonzero((here > 0) & ~has_one_up))
    return f"{wide} edges span more than a level, {lost} nodes have no neighbour one level up" if wide + lost else ""


def levels_of_tree(parent: Ints, root: int) -> Ints:
    """The level of each vertex in a tree of parents, -1 where no path leads to the root, which is its own parent."""
    level = np.full(len(parent), -1, np.int8)
    if parent[root] == root:
        level[root] = 0
    left = np.flatnonzero(parent >= 0)
    for depth in range(1, 127):
        above = level[parent[left]] == depth - 1
        fresh = left[above]
        level[fresh[level[fresh] < 0]] = depth
        left = left[~above]
        if not len(fresh):
            break
    return level
