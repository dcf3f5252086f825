from __future__ import annotations

import numpy as np
import pytest
from tests.harness.running import assert_caught, run_tiny

from firsttouch.apps.bfs import Bfs, BfsConcurrent
from firsttouch.harness.app import Cpu, Gpu, View, solve


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


def graph(n: int, monkeypatch: pytest.MonkeyPatch, threads: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Degrees, edges and levels, as so many threads make them."""
    found: list[np.ndarray] = []
    initialise, check = Bfs.initialise, Bfs.check

    def by_threads(self: Bfs, cpu: Cpu, gpu: Gpu) -> None:
        cpu.threads = threads
        initialise(self, cpu, gpu)

    def keep(self: Bfs, view: View) -> str:
        found.extend(view(a).copy() for a in (self.nodes, self.edges, self.cost))
        return check(self, view)

    with monkeypatch.context() as patch:
        patch.setattr(Bfs, "initialise", by_threads)
        patch.setattr(Bfs, "check", keep)
        assert run_tiny(Bfs, params={"n": n}).error == ""
    nodes, edges, cost = found
    degrees = (nodes >> 32).astype(int)
    assert np.array_equal(nodes & 0xFFFFFFFF, np.cumsum(degrees) - degrees)
    return degrees, edges, cost


@pytest.mark.parametrize("n", [9, 1024, 1025, 20_000])
def test_the_graph_is_stored_at_both_ends(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    degrees, edges, cost = graph(n, monkeypatch)
    ends = np.repeat(np.arange(n), degrees)
    there, back = np.lexsort((ends, edges)), np.lexsort((edges, ends))
    assert np.array_equal(edges[there], ends[back])
    assert np.array_equal(ends[there], edges[back])
    assert degrees.sum() == len(edges) == 2 * sum(2 + i % 9 for i in range(n))
    assert levels(edges, np.cumsum(degrees), degrees) == cost.tolist()


@pytest.mark.parametrize("n", [20_000, 33_000])
def test_the_ends_are_random(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    degrees, edges, _ = graph(n, monkeypatch)
    ends = np.repeat(np.arange(n), degrees)
    cells = np.histogram2d(ends, edges, bins=16, range=[[0, n], [0, n]])[0]
    assert np.abs(cells - len(edges) / 256).max() < 6 * (2 * len(edges) / 256) ** 0.5, "every part leads to every part"
    incoming = degrees - (2 + np.arange(n) % 9)
    assert set(incoming) == set(range(2, 11))
    first = edges[np.cumsum(degrees) - degrees].astype(int)  # where the first permutation takes each node
    assert np.array_equal(np.sort(first), np.arange(n))
    assert np.bincount((first[1:] - first[:-1]) % n).max() < 20, "neighbours do not lead to neighbours"


def test_any_number_of_threads_makes_the_same_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    one, *others = (graph(20_000, monkeypatch, threads) for threads in (1, 2, 5))
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


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
