"""Derives from the times of repeated passes over the same memory whether its pages moved, and when."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

REMOTE_FACTOR = 1.5
"""Memory stays on the other side if its passes settle at more than this many times the reference."""
SLOW_FACTOR = 3.0
"""Pages moved if a pass takes more than this many times the settled time, which is more than cold caches cost."""
SETTLED_FRACTION = 0.1
"""Passes have settled when this fraction of the total time above the settled time is left."""


def behaviour(times: Sequence[float], reference: float | None) -> tuple[str, int]:
    """Returns a description, and the number of passes before the times settle at the median of the last quarter.

    'moves at once': only the first pass is slow. 'moves gradually': several passes are slow, as when access counters
    trigger the migration. 'stays': no pass is slow, and they settle well above `reference`, the settled time of passes
    over device memory. 'is there': no pass is slow.
    """
    settled = settled_at(times)
    if max(times) > SLOW_FACTOR * settled:
        excess = [max(0.0, time - settled) for time in times]
        slow = next(n for n in range(1, len(times) + 1) if sum(excess[n:]) <= SETTLED_FRACTION * sum(excess))
        return ("moves at once" if slow == 1 else "moves gradually"), slow
    return ("stays" if reference is not None and settled > REMOTE_FACTOR * reference else "is there"), 0


def settled_at(times: Sequence[float]) -> float:
    return median(times[-max(1, len(times) // 4) :])
