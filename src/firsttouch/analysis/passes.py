"""What the times of repeated passes over the same memory tell: whether its pages moved, and when."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

MUCH = 1.5
"""Memory stays on the other side where its passes settle at so many times the reference."""
SLOW = 3.0
"""Pages moved where a pass takes so many times what passes settle at: more than cold caches cost."""
REST = 0.1
"""Passes have settled when what is left of the time above that is less than this part."""


def behaviour(times: Sequence[float], reference: float | None) -> tuple[str, int]:
    """What passes tell, and how many of them come before they settle (at the median of the last quarter).

    'moves at once': the first is slow; 'moves by and by': several are, as when access counters decide; 'stays': none
    is, and they settle well above `reference`, what a pass over device memory settles at; 'is there': none is.
    """
    settled = settled_at(times)
    if max(times) > SLOW * settled:
        above = [max(0.0, time - settled) for time in times]
        early = next(n for n in range(1, len(times) + 1) if sum(above[n:]) <= REST * sum(above))
        return ("moves at once" if early == 1 else "moves by and by"), early
    return ("stays" if reference is not None and settled > MUCH * reference else "is there"), 0


def settled_at(times: Sequence[float]) -> float:
    return median(times[-max(1, len(times) // 4) :])
