from __future__ import annotations

import numpy as np
import pytest
from tests.apps.running import assert_caught, run_tiny

from firsttouch.apps.base import View, solve
from firsttouch.apps.bfs import Bfs, BfsConcurrent


@pytest.mark.parametrize("app", [Bfs, BfsConcurrent])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cost[first + k] = (int)level", "cost[first + k] = (int)level + 1"),
        ("more = e + bfs_team < degree", "more = e + bfs_team + 1 < degree"),
        ("if (more) news |=", "if (0) news |="),
        ("flags[w] = four;", "flags[w] = w % 64 ? four : 0;"),
    ],
)
def test_a_wrong_kernel_is_caught(app: type[Bfs], before: str, after: str) -> None:
    assert_caught(app, before, after)


def test_a_mask_that_is_not_cleared_is_caught() -> None:
    assert_caught(Bfs, "mask[first / 4 + w] = 0;", "")


def test_a_wrong_exchange_is_caught() -> None:
    assert_caught(BfsConcurrent, "others[w] & ~visited[w]", "others[w]")
    assert_caught(BfsConcurrent, "now = found[w] |", "now =")


@pytest.mark.parametrize("n", [9, 1024, 1025, 20_000])
def test_the_graph_is_stored_at_both_ends(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph: list[np.ndarray] = []

    def keep(self: Bfs, view: View) -> str:
        graph.extend(view(a).copy() for a in (self.nodes, self.edges, self.cost))
        return check(self, view)

    check = Bfs.check
    monkeypatch.setattr(Bfs, "check", keep)
    assert run_tiny(Bfs, params={"n": n}).wrong == ""
    nodes, edges, cost = graph
    degrees = (nodes >> 32).astype(int)
    ends = np.repeat(np.arange(n), degrees)
    there, back = np.lexsort((ends, edges)), np.lexsort((edges, ends))
    assert np.array_equal(edges[there], ends[back])
    assert np.array_equal(ends[there], edges[back])
    assert degrees.sum() == len(edges) == 2 * sum(2 + i % 9 for i in range(n))
    assert levels(edges, np.cumsum(degrees), degrees) == cost.tolist()


def levels(edges: np.ndarray, ends: np.ndarray, degrees: np.ndarray) -> list[int]:
    """By a queue."""
    found, queue = [0] + [-1] * (len(ends) - 1), [0]
    for node in queue:
        for t in edges[ends[node] - degrees[node] : ends[node]].tolist():
            if found[t] < 0:
                found[t] = found[node] + 1
                queue.append(t)
    return found


def test_impossible_sizes_say_why() -> None:
    assert "must be above 1024" in BfsConcurrent.problem({"n": 1024})
    assert "below 268435456" in Bfs.problem({"n": 1 << 28})


def test_a_size_in_bytes_is_met() -> None:
    for app in (Bfs, BfsConcurrent):
        found = app.footprint(solve(app, 4 << 30))
        assert (4 << 30) - 10_000 < found <= 4 << 30
