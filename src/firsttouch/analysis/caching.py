"""Whether an agent keeps lines of some memory in a cache: one judgement for all that ask."""

from __future__ import annotations

CACHED = 0.5
"""Where lines are cached, reading one again takes less than this part of reading one for the first time."""


def is_cached(again: float, first: float) -> bool:
    """Judge loads that repeat over a few lines against loads of lines never touched before, of the same memory.

    Args:
        again, first: the time of one load of each, in the same unit, both dependent on the load before.
    """
    return again < CACHED * first
