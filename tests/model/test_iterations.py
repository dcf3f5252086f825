"""Loops of many iterations: what recurs is neither recorded nor replayed again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttouch.apps import all_apps
from firsttouch.base.errors import NotModelled
from firsttouch.experiments.contract.base import Measurement
from firsttouch.harness.experiment import Application
from firsttouch.model.iterations import IterationTimes
from firsttouch.model.platform import load_platform
from firsttouch.program import dry_run, replay
from firsttouch.program.dry_run import program_of
from firsttouch.program.ledger import Ledger
from firsttouch.program.program import Item, LoopMark, Repeat
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.schema import Factors, Point


def marks(items: tuple[Item, ...]) -> int:
    """The iterations of items."""
    return sum(
        item.count * marks(item.body) if isinstance(item, Repeat) else isinstance(item, LoopMark) and not item.begins
        for item in items
    )


def predicted(app: str, iterations: int, strategy: str = "managed") -> Measurement:
    platform, factors = load_platform("gh200"), Factors({"app": app, "strategy": strategy, "size": 1 << 26})
    point = Point("app", platform.device.name, factors | {"iterations": iterations})
    return Application(all_apps()[app]).predict(point, platform)


@pytest.mark.parametrize(
    ("app", "strategy"),
    [
        *((app, "managed") for app in ("srad", "hotspot", "conjugate_gradient", "pointer_tree", "gemm")),
        ("srad", "system"),  # whose reads come from both memories
    ],
)
@pytest.mark.parametrize("iterations", [399, 400])
def test_a_loop_that_is_cut_short_is_predicted_as_the_whole(
    app: str, strategy: str, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry_run._program_of.cache_clear()
    short = predicted(app, iterations, strategy)
    monkeypatch.setattr(dry_run, "ALIKE_ROUNDS", 1 << 30)
    dry_run._program_of.cache_clear()
    whole = predicted(app, iterations, strategy)
    dry_run._program_of.cache_clear()
    assert short.samples == pytest.approx(whole.samples)
    assert short.counters == pytest.approx(whole.counters)


@pytest.mark.parametrize("strategy", ["explicit", "managed", "system"])
def test_a_thousand_million_iterations_take_a_thousand_times_a_million(strategy: str) -> None:
    few, many = (predicted("srad", 10**n, strategy).counters["iterations_ms"] for n in (6, 9))
    assert isinstance(few, float)
    assert many == pytest.approx(1000 * few, rel=0.01)
    app = all_apps()["srad"]
    params = {**app.sizes["tiny"], "iterations": 10**9}
    assert marks(program_of(app, params).compute) == 10**9


def test_a_loop_whose_rounds_all_differ_is_refused_with_its_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    class Differing(replay.Replay):
        def state(self) -> int:
            return self.done

    app = all_apps()["srad"]
    monkeypatch.setattr(replay, "MOST_ROUNDS", 10)
    ledger = Ledger(STRATEGIES["managed"], load_platform("gh200").device)
    with pytest.raises(NotModelled, match="50 rounds"):
        Differing(program_of(app, {**app.sizes["tiny"], "iterations": 50}), ledger).run()


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 300)), min_size=1, max_size=5))
def test_groups_of_iterations_have_their_means(rounds: list[tuple[float, int]]) -> None:
    """rounds: the ns of an iteration, and how often it happens."""
    loop, elapsed, each = IterationTimes(), 0.0, list[float]()
    loop.begin()
    loop.launched(0)
    for ns, times in rounds:
        loop.begin_round()
        elapsed += ns
        loop.end(elapsed)
        loop.end_round()
        elapsed += (times - 1) * ns
        loop.add_again(times - 1, elapsed)
        each += times * [ns]
    assert (loop.count, loop.total) == (len(each), pytest.approx(sum(each), abs=1e-3))
    size = max(1, -(-len(each) // 200))
    groups = [each[i : i + size] for i in range(0, len(each), size)]
    assert loop.shown() == pytest.approx([sum(group) / len(group) for group in groups], abs=1e-3)
