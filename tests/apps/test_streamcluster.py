from __future__ import annotations

import numpy as np
import pytest
from tests.harness.running import SIZE, run_tiny

from firsttouch.apps.streamcluster import OPEN_LIMIT, Streamcluster
from firsttouch.harness.app import Cpu, Gpu, View, solve


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("k = LOCAL_ID / stream_points; k < d;", "k = LOCAL_ID / stream_points; k < d - 1;"),
        ("sum += parts[LOCAL_ID + s * stream_points]", "sum += parts[LOCAL_ID]"),
        ("weight[i] * sum", "1.001f * weight[i] * sum"),
        ("coord[k * n + me] - coord[k * n + x]", "coord[k * n + me] - 1.001f * coord[k * n + x]"),
        ("s < slices", "s < slices - 1"),
        ("candidate[i] = c;", "if (i % 256 < 192) candidate[i] = c;"),
        ("coord[k * n + x]", "coord[k * n + (x ^ 1)]"),
        ("moves[i] = c < now;", "moves[i] = 0;"),
        (": (ulong)table[assign[i]])]", ": 0ul)]"),
        ("c < now ? c - now : now - c", "c < now ? c - now : 0.0f"),
        ("if (LOCAL_ID < count) {", "if (LOCAL_ID + 1 < count) {"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    """At sizes in bytes two passes close all centres but one; more passes leave several, so that columns matter."""
    params = {} if SIZE == "tiny" else {"iterations": 12}
    assert run_tiny(Streamcluster, mutation=(before, after), params=params).error


def test_search_accepts_gains_and_converges(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the search accepted no centres, it would hardly test the GPU's kernel."""
    gains, settled = [], []

    def gain(self: Streamcluster, *arguments: object) -> float:
        gains.append(original(self, *arguments))  # type: ignore[arg-type]
        return gains[-1]

    def keep(self: Streamcluster, view: View) -> str:
        settled.append(self.kmin <= len(self.centres) <= self.kmax)
        return check(self, view)

    original, check = Streamcluster.gain, Streamcluster.check
    monkeypatch.setattr(Streamcluster, "gain", gain)
    monkeypatch.setattr(Streamcluster, "check", keep)
    assert run_tiny(Streamcluster).error == ""
    assert sum(g > 0 for g in gains) > 3
    assert settled == [True]


def test_strategies_find_the_same_centres(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def keep(self: Streamcluster, view: View) -> str:
        found.append((sorted(self.centres), view(self.assign).tolist()))
        return check(self, view)

    check = Streamcluster.check
    monkeypatch.setattr(Streamcluster, "check", keep)
    for strategy in ("explicit", "svm-fine"):
        assert run_tiny(Streamcluster, strategy).error == ""
    assert found[0] == found[1]


def test_reference_on_the_cpu_finds_the_same_centres(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, alone = (Streamcluster(Streamcluster.sizes["tiny"]) for _ in range(2))
    assert run_tiny(Streamcluster, instance=gpu).error == ""
    monkeypatch.setattr(Streamcluster, "gain", gain_in_f64)
    assert run_tiny(Streamcluster, instance=alone).error == ""
    assert alone.centres == gpu.centres
    assert alone.total == pytest.approx(gpu.total, rel=1e-5)


def gain_in_f64(self: Streamcluster, cpu: Cpu, _: Gpu, x: int) -> float:
    """PARSEC's pgain, point by point: what a centre at x and the closing of others save, minus the price of x."""
    if x in self.centres:
        return 0.0
    coord = cpu.reads(self.coord).astype(float)
    cost, assign = cpu.updates(self.cost), cpu.updates(self.assign)
    there = ((coord - coord[:, x : x + 1]) ** 2).sum(axis=0)
    moves, apart = there < cost, there - cost
    lost = {c: apart[(assign == c) & ~moves].sum() for c in self.centres}
    kept = [c for c in self.centres if lost[c] >= self.price]
    closed = lost.keys() - kept
    gained = -apart[moves].sum() - self.price + sum(self.price - lost[c] for c in closed)
    if gained <= 0 or len(kept) >= OPEN_LIMIT * self.kmax:
        return 0.0
    moves |= np.isin(assign, [*closed])
    cost[moves], assign[moves] = there[moves], x
    self.centres = [*kept, x]
    return float(gained)


def test_a_single_pass() -> None:
    assert run_tiny(Streamcluster, params={"iterations": 1}).error == ""


def test_invalid_sizes_are_rejected() -> None:
    tiny = Streamcluster.sizes["tiny"]
    assert "kmin <= kmax" in Streamcluster.problem({**tiny, "kmin": 9})
    assert "n / 4" in Streamcluster.problem({**tiny, "n": 30})


def test_size_in_bytes() -> None:
    found = Streamcluster.footprint(solve(Streamcluster, 4 << 30))
    assert (4 << 30) - 20_000 < found <= 4 << 30
