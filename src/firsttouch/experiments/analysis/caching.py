"""The criterion for whether an agent caches some memory."""

from __future__ import annotations

CACHED = 0.5
"""If lines are cached, a repeated load takes less than this fraction of the time of a first load."""


def is_cached(again: float, first: float) -> bool:
    """True if loads that repeat over a few lines are much faster than loads of untouched lines of the same memory.

    Args:
        again, first: the time of one repeated load and of one first load, in the same unit. Each load depends on the
            one before it.
    """
    return again < CACHED * first
