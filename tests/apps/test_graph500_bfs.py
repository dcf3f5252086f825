from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.apps.running import assert_caught, run_tiny

from firsttouch.apps import graph500_bfs
from firsttouch.apps.base import View, solve
from firsttouch.apps.graph500_bfs import Graph500Bfs

DOWN, UP = 0, 1 << 40


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("parent[v] = (int)col[e];", "parent[v] = (int)v;"),
        ("parent[t] = (int)v;", "parent[t] = (int)t;"),
        ("if (!GRAPH_HAS(frontier, col[e])) continue;", "if (!GRAPH_HAS(frontier, col[e] ^ 1u)) continue;"),
        ("ATOMIC_OR_U32_DEVICE(next + t / 32, bit);", ""),
        ("bit < 32; ++bit) word |=", "bit < 31; ++bit) word |="),
        ("LOCAL_ID % graph_team, graph_team);", "LOCAL_ID % graph_team + 1, graph_team);"),
    ],
)
def test_a_wrong_kernel_is_caught(before: str, after: str) -> None:
    assert_caught(Graph500Bfs, before, after)


@pytest.mark.parametrize("few", [DOWN, UP])
@pytest.mark.parametrize("hub", [1, 40, 1024])
def test_either_direction_alone_is_right(few: int, hub: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph500_bfs, "FEW", few)
    mutation = ("graph_hub = 1024", f"graph_hub = {hub}")
    assert run_tiny(Graph500Bfs, params={"n": 16384, "factor": 9}, mutation=mutation).wrong == ""


def test_shares_of_hubs_are_all_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph500_bfs, "FEW", DOWN)
    before, after = "row[v] + part * GROUP_SIZE", "row[v] + (part | 1) * GROUP_SIZE"
    text = graph500_bfs.Graph500Bfs.kernel_path().read_text()
    assert before in text
    monkeypatch.setattr(graph500_bfs, "PARTS", 1)
    params = {"n": 4096, "factor": 30}
    assert run_tiny(Graph500Bfs, params=params).wrong == ""
    assert run_tiny(Graph500Bfs, params=params, mutation=(before, after)).wrong != ""


@pytest.mark.parametrize("n", [32, 2048])
def test_the_graph_is_stored_at_both_ends(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph: list[np.ndarray] = []

    def keep(self: Graph500Bfs, view: View) -> str:
        graph.extend(view(a).copy() for a in (self.row, self.col))
        return check(self, view)

    check = Graph500Bfs.check
    monkeypatch.setattr(Graph500Bfs, "check", keep)
    assert run_tiny(Graph500Bfs, params={"n": n}).wrong == ""
    row, col = graph
    degrees = np.diff(row[: n + 1]).astype(int)
    ends = np.repeat(np.arange(n), degrees).tolist()
    leads = col[: len(ends)].tolist()
    there = Counter(zip(ends, leads, strict=True))
    assert there == Counter(zip(leads, ends, strict=True))
    assert not [v for v, t in there if v == t]
    assert degrees.max() > 4 * degrees.mean(), "some vertices are hubs"
    assert 0.6 < len(ends) / len(col) <= 1


def test_impossible_sizes_say_why() -> None:
    assert "power of two" in Graph500Bfs.problem({"n": 96, "factor": 2, "iterations": 1})
    assert "from 32" in Graph500Bfs.problem({"n": 16, "factor": 2, "iterations": 1})


def test_a_size_in_bytes_is_met_within_a_power_of_two() -> None:
    found = Graph500Bfs.footprint(solve(Graph500Bfs, 4 << 30))
    assert 2 << 30 < found <= 4 << 30
