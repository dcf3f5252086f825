"""Checks the levels of a breadth-first search against the edges of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[Any]]


def neighbours(starts: Ints, degrees: Ints, edges: Ints) -> tuple[Ints, Ints]:
    """All edges of some nodes: the index of the node that each belongs to, and the node that it leads to.

    starts: the index of each node's first edge.
    """
    node_of_edge = np.repeat(np.arange(len(starts)), degrees)
    before = np.cumsum(degrees) - degrees
    return node_of_edge, edges[np.arange(len(node_of_edge)) + (starts - before)[node_of_edge]]


def wrong_levels(at: Ints, starts: Ints, degrees: Ints, edges: Ints, level: Ints, root: int) -> str:
    """Returns why the levels of the nodes `at` (-1: unreached) are not their distances from root, or '' if they are.

    The edges must be stored at both ends. The levels are right if only the root has level 0, no edge spans two levels
    or connects a reached to an unreached node, and every other reached node has a neighbour one level up.
    """
    node_of_edge, ends = neighbours(starts, degrees, edges)
    level_from, level_to = level[at], level[ends]
    if level[root] != 0 or np.any((level_from == 0) != (at == root)):
        return f"the root has level {level[root]}, and {np.count_nonzero(level_from == 0)} of {len(at)} nodes level 0"
    wide = int(
        np.count_nonzero(
            (np.abs(level_to - level_from[node_of_edge]) > 1) | ((level_to < 0) != (level_from[node_of_edge] < 0))
        )
    )
    has_one_up = np.zeros(len(at), bool)
    has_one_up[node_of_edge[level_to == level_from[node_of_edge] - 1]] = True
    lost = int(np.count_nonzero((level_from > 0) & ~has_one_up))
    return f"{wide} edges span more than a level, {lost} nodes have no neighbour one level up" if wide + lost else ""


def levels_of_tree(parent: Ints, root: int) -> Ints:
    """The level of each vertex in a tree of parents; -1 if no path leads to the root. The root's parent is the root."""
    level = np.full(len(parent), -1, np.int8)
    if parent[root] == root:
        level[root] = 0
    remaining = np.flatnonzero(parent >= 0)
    for depth in range(1, 127):
        is_child = level[parent[remaining]] == depth - 1
        children = remaining[is_child]
        level[children[level[children] < 0]] = depth
        remaining = remaining[~is_child]
        if not len(children):
            break
    return level
