"""Conditions that are tried rather than read, and those of memory that are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from unittest.mock import patch

import pytest

from firsttouch.machine import effects, host
from firsttouch.machine.tree import Tree

MakeTree = Callable[[Mapping[str, "str | bytes"]], Tree]
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n"
BALLOON = "sys/bus/virtio/drivers/virtio_balloon"


def _refuse(pid: int, processors: object) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize(
    ("bind", "why"),
    [(_refuse, "Operation not permitted"), (lambda pid, processors: None, "the request has no effect")],
)
def test_pinning_that_is_refused_or_ignored_is_a_fact(bind: Callable[..., None], why: str) -> None:
    with patch.object(os, "sched_setaffinity", bind), patch.object(os, "sched_getaffinity", lambda pid: {0, 1}):
        assert effects.pinning() == {"pinning_refused": why}


def test_trying_changes_nothing() -> None:
    before = os.sched_getaffinity(0)
    assert effects.pinning() == {}
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(
    ("done", "speedup"),
    [
        ([300, 310, 610, 300, 310, 615, 305, 310, 600], 1.98),
        ([300, 310, 465, 300, 310, 470, 310, 310, 460], 1.52),
        ([300, 310, 400, 300, 310, 605, 310, 310, 300], 1.95),
    ],
)
def test_two_processors_are_compared_with_one(monkeypatch: pytest.MonkeyPatch, done: list[int], speedup: float) -> None:
    """Separate cores, one core, and separate cores while other programs run now and then."""
    values = iter(done)
    monkeypatch.setattr(effects, "_work_done", lambda processors: next(values))
    assert effects.pair([0, 1, 2]) == {"pair_speedup": speedup}


def test_one_processor_or_refused_binding_tells_nothing_of_pairs() -> None:
    assert effects.pair([0]) == {}
    with patch.object(os, "sched_setaffinity", _refuse):
        assert effects.pair([0, 1]) == {}


def test_work_of_two_threads_is_counted() -> None:
    before = os.sched_getaffinity(0)
    assert effects._work_done(sorted(before)[:2]) > 0
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("available", [0.0, 2**20, 1e8])
def test_little_memory_is_left_alone(available: float) -> None:
    assert effects.touches(available) == {}


def test_fresh_memory_and_memory_used_before_are_touched() -> None:
    with patch.object(effects, "_PIECE", 2**20):
        facts = effects.touches(2**25)
    assert all(isinstance(value, float) and value > 0 for value in facts.values())
    assert facts.keys() == {"touch_fresh_ns", "touch_again_ns"}


def test_one_piece_that_the_host_hands_out_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([200.0, 9300.0, *[175.0] * 20])
    monkeypatch.setattr(effects, "_PIECE", 2**20)
    monkeypatch.setattr(effects, "_touch", lambda block, piece: next(times))
    assert effects.touches(2**25) == {"touch_fresh_ns": 9300.0, "touch_again_ns": 175.0}


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        ({"proc/swaps": SWAPS + "/dev/zram0 partition 8 0 100\n"}, {"swap_on": "zram"}),
        (
            {"proc/swaps": SWAPS + "/dev/sda2 partition 8 0 -2\n/dev/zram1 partition 8 0 100\n"},
            {"swap_on": "zram and disk"},
        ),
        ({"proc/swaps": SWAPS + "/swapfile file 8 0 -2\n"}, {"swap_on": "disk"}),
        ({"proc/swaps": SWAPS}, {}),
        ({f"{BALLOON}/virtio0/features": "01100101" + "0" * 56}, {"free_pages_reported": True}),
        ({f"{BALLOON}/virtio0/features": "01100001" + "0" * 56}, {}),
        ({f"{BALLOON}/virtio0/features": "011"}, {}),
    ],
)
def test_what_swap_is_on_and_whether_free_pages_go_back_to_a_host(
    make_tree: MakeTree, files: dict[str, str | bytes], facts: dict[str, object]
) -> None:
    read = host.memory(make_tree(files))
    assert {name: read[name] for name in ("swap_on", "free_pages_reported") if name in read} == facts
