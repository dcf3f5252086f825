"""Bytes that the driver moved in each iteration of an application."""

from __future__ import annotations

import pytest

from firsttouch.profile.events.iterations import moved_by_iteration
from firsttouch.profile.events.log import MemoryEvent, Window

EVENTS = [
    MemoryEvent("h2d", 0.5, 0.6, bytes=1000),  # before the first
    MemoryEvent("h2d", 1.0, 1.1, bytes=10),
    MemoryEvent("d2h", 1.9, 2.1, bytes=20),  # begins in the first
    MemoryEvent("gpu_fault", 2.1, 2.2, bytes=999),
    MemoryEvent("h2d", 2.5, 2.6, bytes=30),
    MemoryEvent("h2d", 3.0, 3.1, bytes=2000),  # after the last
]


def window(**more: object) -> Window:
    made = Window(0.0)
    made.events = EVENTS
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_an_event_is_in_the_iteration_in_which_it_begins() -> None:
    assert moved_by_iteration(window(), [1.0, 2.0, 3.0], [1, 1]) == {
        "um_iteration_0_h2d_bytes": 10,
        "um_iteration_1_h2d_bytes": 30,
        "um_iteration_0_d2h_bytes": 20,
        "um_iteration_1_d2h_bytes": 0,
    }


def test_of_iterations_that_were_timed_together_it_is_the_mean() -> None:
    assert moved_by_iteration(window(), [1.0, 3.0], [4])["um_iteration_0_h2d_bytes"] == 10


@pytest.mark.parametrize(
    ("more", "times"),
    [({"unlisted": 1}, [1.0, 2.0]), ({"kinds": ("gpu_fault",)}, [1.0, 2.0]), ({}, []), ({}, [1.0])],
)
def test_what_is_not_known_is_not_stated(more: dict[str, object], times: list[float]) -> None:
    assert moved_by_iteration(window(**more), times, [1] * (len(times) - 1)) == {}
