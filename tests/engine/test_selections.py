"""What several calls asked for in one directory is one request that holds these points and no others."""

from __future__ import annotations

from itertools import product

import pytest

from firsttouch.engine.selections import selecting, selections, together
from firsttouch.records.schema import SCHEMA, Request


def asked(experiments: str, devices: str = "cpu", events: bool = False, **sets: str) -> Request:
    values = {name: [*text.split()] for name, text in sets.items()}
    return Request(
        schema=SCHEMA, experiments=experiments.split(), devices=devices.split(), preset="quick", seed=1, events=events,
        set=values,  # type: ignore[arg-type]
    )  # fmt: skip


def after(*calls: Request) -> Request:
    """What is stored after calls of one directory."""
    stored = calls[0]
    for call in calls[1:]:
        call.earlier = selections(stored)
        stored = together(call)
    return stored


def points(request: Request) -> set[object]:
    found = set()
    for one in selections(request):
        values = [[(name, value) for value in values] for name, values in sorted(one.set.items())]
        found |= {(one.events, *point) for point in product(one.experiments, one.devices, *values)}
    return found


CALLS = {
    "experiments": ([asked("a b"), asked("c")], 1),
    "devices": ([asked("a"), asked("a", "opencl:0")], 1),
    "values": ([asked("a", size="1 2"), asked("a", size="2 3")], 1),
    "a part": ([asked("a b", size="1 2"), asked("b", size="2")], 1),
    "more of all": ([asked("b", size="2"), asked("a b", size="1 2")], 1),
    "two parts": ([asked("a", size="1"), asked("b", size="2")], 2),
    "other factors": ([asked("a"), asked("a", size="2")], 2),
    "events": ([asked("a"), asked("a", events=True)], 2),
    "three": ([asked("a", size="1"), asked("b", size="2"), asked("b", size="1")], 1),
    "again": ([asked("a", size="1"), asked("b", size="2"), asked("a", size="1")], 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_directory_says_what_all_calls_asked_for_and_no_more(name: str) -> None:
    calls, held = CALLS[name]
    wanted = set().union(*(points(selecting(call, selections(call)[-1])) for call in calls))
    stored = after(*calls)
    assert points(stored) == wanted
    assert len(selections(stored)) <= max(held, 2)
    assert name in ("three", "again") or len(selections(stored)) == held
