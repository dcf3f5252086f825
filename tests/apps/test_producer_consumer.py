from __future__ import annotations

import pytest
from tests.harness.running import SIZE, opencl, run_tiny, skip_reason

from firsttouch.apps.producer_consumer import ProducerConsumer
from firsttouch.harness.app import solve
from firsttouch.program.strategies import STRATEGIES, strategies_of


@pytest.fixture
def strategy() -> str:
    for name in reversed(strategies_of(opencl()[0])):
        if not skip_reason(ProducerConsumer, name):
            return name
    pytest.skip("no memory of this device may be used by both agents at once")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ring_answer(ring[at], k / words)", "ring_answer(ring[at], first)"),
        ("k = next * words + LOCAL_ID;", "k = next * words + LOCAL_ID + 1;"),
        ("k < until * words", "k + 1 < until * words"),
        ("ring_answer(ring[at], k / words)", "(k % 2100 == 1234 ? ring[at] : ring_answer(ring[at], k / words))"),
        ("ring_answer(ring[at], k / words)", "ring_answer(ring[at], k / words) + (k == 5000)"),
        ("ring_answer(ring[at], k / words)", "ring_answer(ring[at] + (at == 99), k / words)"),
        ("mix64(word ^ item)", "mix64(word + item)"),
        ("ring[at] = ring_answer(ring[at]", "ring[at] = ring_answer(ring[at ^ 1]"),
        ("ring[at] = ring_answer(ring[at]", "ring[at ^ 1] = ring_answer(ring[at]"),
        ("k / words);", "k / words + (LOCAL_ID == 3));"),
        ("k % (slots * words)", "k % ((slots - 1) * words)"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str, strategy: str) -> None:
    params = {"slots": 3, "words": 700, "iterations": 2} if SIZE == "tiny" else {}
    assert "wrong answer" in run_tiny(ProducerConsumer, strategy, params=params, mutation=(before, after)).error


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("STORE_RELEASE_SYSTEM(board + ring_answered, until)", "ring[0] = until"),
        ("if (produced > next) return produced;", ""),
        ("next = until > 0 ? until : last;", "next = until > 0 ? until + slots : last;"),
    ],
)
def test_both_agents_give_up_after_a_lost_message(
    before: str, after: str, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProducerConsumer, "polls", 3_000_000)
    monkeypatch.setattr(ProducerConsumer, "seconds", 0.02)
    assert "one agent gave up" in run_tiny(ProducerConsumer, strategy, mutation=(before, after)).error


def test_skipped_item_is_detected(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is the last item, the CPU waits for it and gives up. Any other has a wrong answer."""
    monkeypatch.setattr(ProducerConsumer, "polls", 3_000_000)
    monkeypatch.setattr(ProducerConsumer, "seconds", 0.02)
    wrong = ("next = until > 0 ? until : last;", "next = until > 0 ? until + 1 : last;")
    assert run_tiny(ProducerConsumer, strategy, params={"iterations": 4}, mutation=wrong).error


def test_ring_of_one_slot(strategy: str) -> None:
    assert run_tiny(ProducerConsumer, strategy, params={"slots": 1, "words": 1}).error == ""


def test_memory_of_one_agent_at_a_time_is_refused() -> None:
    info, _ = opencl()
    assert "copies" in (ProducerConsumer.refuses(STRATEGIES["explicit"], info) or "")
    assert "each other's stores" in (ProducerConsumer.refuses(STRATEGIES["buffer"], info) or "")


def test_size_in_bytes() -> None:
    found = ProducerConsumer.footprint(solve(ProducerConsumer, 4 << 30))
    assert (4 << 30) - 5000 < found <= 4 << 30
