from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.harness.running import assert_caught, run_tiny

from firsttouch.apps import graph500_bfs
from firsttouch.apps.graph500_bfs import Graph500Bfs
from firsttouch.harness.app import Cpu, Gpu, View, solve

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
    assert run_tiny(Graph500Bfs, params={"n": 16384, "factor": 9}, mutation=mutation).error == ""


def test_shares_of_hubs_are_all_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph500_bfs, "FEW", DOWN)
    before, after = "row[v] + part * GROUP_SIZE", "row[v] + (part | 1) * GROUP_SIZE"
    text = graph500_bfs.Graph500Bfs.kernel_path().read_text()
    assert before in text
    monkeypatch.setattr(graph500_bfs, "PARTS", 1)
    params = {"n": 4096, "factor": 30}
    assert run_tiny(Graph500Bfs, params=params).error == ""
    assert run_tiny(Graph500Bfs, params=params, mutation=(before, after)).error != ""


def graph(params: dict[str, int], monkeypatch: pytest.MonkeyPatch, threads: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Its rows, and where their edges lead, as so many threads make them."""
    found: list[np.ndarray] = []
    initialise, check = Graph500Bfs.initialise, Graph500Bfs.check

    def by_threads(self: Graph500Bfs, cpu: Cpu, gpu: Gpu) -> None:
        cpu.threads = threads
        initialise(self, cpu, gpu)

    def keep(self: Graph500Bfs, view: View) -> str:
        found.extend(view(a).copy() for a in (self.row, self.col))
        return check(self, view)

    with monkeypatch.context() as patch:
        patch.setattr(Graph500Bfs, "initialise", by_threads)
        patch.setattr(Graph500Bfs, "check", keep)
        assert run_tiny(Graph500Bfs, params=params).error == ""
    row, col = found
    return row, col[: row[-1]]


@pytest.mark.parametrize("n", [32, 2048])
def test_the_graph_is_stored_at_both_ends(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    row, col = graph({"n": n}, monkeypatch)
    degrees = np.diff(row).astype(int)
    ends = np.repeat(np.arange(n), degrees).tolist()
    there = Counter(zip(ends, col.tolist(), strict=True))
    assert there == Counter(zip(col.tolist(), ends, strict=True))
    assert not [v for v, t in there if v == t]
    assert degrees.max() > 4 * degrees.mean(), "some vertices are hubs"
    assert 0.6 < len(ends) / (12 * n) <= 1


def test_any_number_of_threads_makes_the_same_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    params = {"n": 16384, "factor": 9}  # several runs of buckets
    row, col = graph(params, monkeypatch, threads=1)
    for threads in (2, 5):
        other_row, other_col = graph(params, monkeypatch, threads)
        assert np.array_equal(row, other_row)
        assert np.array_equal(col, other_col)


def test_the_quadrants_have_their_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    def near(found: float, expected: float) -> bool:
        return bool(abs(found / expected - 1) < 0.05)

    _, col = graph({"n": 32, "factor": 2000}, monkeypatch)
    assert near(1 - len(col) / (64 * 2000), (158 / 256) ** 5), "self loops: both ends have the same bits, A + D"
    row, col = graph({"n": 1 << 14, "factor": 28}, monkeypatch)
    degrees = np.sort(np.diff(row).astype(int))[::-1]
    assert near(degrees[0] / len(col), (194 / 256) ** 14), "the label without ones"
    assert near(degrees[1:15].mean() / degrees[0], 62 / 194), "labels with one"
    assert near(np.average(np.argsort(np.diff(row).astype(int))[-400:]), 1 << 13), "labels are permuted"


def test_a_bucket_that_overflows_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "searchsorted", lambda ends, room, side: 0)
    with pytest.raises(ValueError, match=r"bucket 0 has [0-9]+ edges, more than 24960"):
        run_tiny(Graph500Bfs)


def test_impossible_sizes_say_why() -> None:
    assert "power of two" in Graph500Bfs.problem({"n": 96, "factor": 2, "iterations": 1})
    assert "from 32" in Graph500Bfs.problem({"n": 16, "factor": 2, "iterations": 1})


def test_a_size_in_bytes_is_met_within_a_power_of_two() -> None:
    found = Graph500Bfs.footprint(solve(Graph500Bfs, 4 << 30))
    assert 2 << 30 < found <= 4 << 30
