"""What other programs use of the processors, read from copies of /proc."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from firsttouch.machine import processor_time
from firsttouch.machine.processor_time import ProcessorUse, others_share, processor_use, shortest_period
from firsttouch.machine.tree import Tree

MakeTree = Callable[[Mapping[str, "str | bytes"]], Tree]


def use(processors: str = "0-1", seconds: float = 10.0, **amounts: float) -> ProcessorUse:
    """What was used within ten seconds; nothing that is not given."""
    none = dict.fromkeys(("user", "system", "stolen", "own_user", "own_system"), 0.0)
    return ProcessorUse(processors=processors, seconds=seconds, **none | amounts)


def test_the_use_of_a_few_processors_is_read_without_waiting_for_interrupts(make_tree: MakeTree) -> None:
    stat = "cpu  9 9 9 9\ncpu0 100 20 30 500 7 40 50 60 8 9\ncpu1 1 1 1 1 1 1 1 1\ncpu10 200 0 10 5\nintr 5\n"
    read = processor_use(make_tree({"proc/stat": stat}), [0, 10])
    assert read is not None
    assert (read.processors, read.user, read.system, read.stolen) == ("0,10", 3.2, 0.4, 0.6)
    assert read.own_user > 0
    later = use("0,10", read.seconds + 4, user=5.2, system=0.4, stolen=0.6, own_user=read.own_user, own_system=1e9)
    assert later.since(read).user == pytest.approx(2)


ZEROS = "cpu  0 0 0 0\ncpu0 0 0 0 0 0\ncpu1 0 0 0 0\n"
"""As gVisor states them."""


@pytest.mark.parametrize("stat", ["", ZEROS, "cpu0 1 2 3 4\n", "cpu0 x y\ncpu1\n", b"\xff\xfe"])
def test_what_the_kernel_does_not_state_is_not_known(make_tree: MakeTree, stat: str | bytes) -> None:
    assert processor_use(make_tree({"proc/stat": stat}), [0, 1]) is None


@pytest.mark.parametrize(
    ("amounts", "options", "share"),
    [
        ({"user": 10.0, "own_user": 10.0}, {}, 0.0),
        ({"user": 10.0, "own_user": 5.0}, {}, 0.25),
        ({"user": 5.0, "system": 5.0, "own_user": 4.0, "own_system": 2.0}, {}, 0.2),
        ({"user": 5.0, "system": 5.0, "own_user": 4.0, "own_system": 2.0}, {"drivers": True}, 0.05),
        ({"user": 10.0, "own_user": 5.0}, {"own": 4.0}, 0.05),
        ({"stolen": 6.0}, {}, 0.3),
        ({"user": 30.0}, {}, 1.0),
        ({"user": 0.02, "seconds": 0.1}, {}, None),  # two ticks of ten: too coarse
        ({"user": 0.15, "seconds": 0.1}, {}, 0.75),
        ({"own_user": 0.02}, {}, 0.0),
    ],
)
def test_others_are_all_but_this_program(
    amounts: dict[str, float], options: dict[str, Any], share: float | None
) -> None:
    assert others_share([use(**amounts)], **options) == pytest.approx(share)


def test_ranks_are_no_others_to_each_other() -> None:
    assert others_share([use(user=10, own_user=5), use(user=10, own_user=5)]) == 0
    assert others_share([use("0", user=5, own_user=5), use("1", user=5, own_user=1)]) == pytest.approx(0.4)
    assert others_share([use("0-1", user=10, own_user=5), use("1-2", user=10, own_user=5)]) is None
    assert others_share([None, use(user=10, own_user=5)]) == pytest.approx(0.25)
    assert others_share([None]) is None


def test_ticks_tell_within_the_shortest_period_on_any_number_of_processors() -> None:
    for processors in ("0", "0-1", "0-127"):
        period = shortest_period(processors)
        assert others_share([use(processors, period)]) == 0
        assert others_share([use(processors, 0.9 * period)]) is None


def test_the_load_is_not_known_where_processors_changed_or_are_not_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_time, "PERIOD", 0.0)
    for now, facts in (
        (use(seconds=10, user=5), {"others_percent": 25.0}),
        (use("0-3", user=5), {}),
        (None, {}),
    ):
        monkeypatch.setattr(processor_time, "use_now", lambda now=now: now)
        assert processor_time.load_since(use(seconds=0)) == facts
    assert processor_time.load_since(None) == {}


def test_the_programs_that_use_most_are_named(make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    def stat(ticks: int) -> str:
        return f"7 (a) b) R {' 0' * 10} {ticks} 0 0 0"

    tree = make_tree(
        {f"proc/{pid}/stat": stat(5) for pid in (7, 8, 9)} | {"proc/7/comm": "stress-ng\n", "proc/8/comm": "idle"}
    )
    monkeypatch.setattr(
        processor_time.time,
        "sleep",
        lambda seconds: make_tree({"proc/7/stat": stat(90), "proc/9/stat": stat(25), "proc/11/stat": "cut"}),
    )
    assert processor_time.busiest(tree, 1.0) == ["stress-ng", "?"]
