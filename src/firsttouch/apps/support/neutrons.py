"""The words of transport's particles and of its buffer `control`, as in neutron.h, and what they must add up to."""

from __future__ import annotations

from collections.abc import Sequence

WORDS, CONTROL = 17, 17
"""Of a particle, and of `control`."""
MOST_IN_MESSAGE = (2**31 - 1) // (8 * WORDS)
"""Particles in a message of MPI."""
NEXT, CENSUS, OVERFLOW, QUEUED, SENT, RECEIVED, DIGEST = 0, 1, 2, slice(3, 9), 9, 10, 11
ABSORBED, FISSIONED, PRODUCED, KILLED, SPLIT = range(12, 17)


def wrong_balance(became: Sequence[int], came: int, census: int, lost: int) -> str:
    """What is wrong with the numbers of particles in a step, or ''.

    became: the sums of `control`; came: particles at its beginning, and those that came from other processes; lost: by
    how much the hashed ids that all processes sent and received differ.
    """
    gains = came + became[SPLIT] + became[PRODUCED]
    losses = census + became[ABSORBED] + became[FISSIONED] + became[KILLED] + sum(became[QUEUED])
    if became[OVERFLOW] or gains != losses:
        return f"in a step {gains} particles came and {losses} went; {became[OVERFLOW]} had no room"
    return "the ids of particles that arrived are not those of the particles that were sent" if lost else ""
