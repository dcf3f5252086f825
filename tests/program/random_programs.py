"""Random launches on both agents. Each adds the values that it reads to those that it writes, so that any stale byte
changes the result.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from firsttouch.program.declarations import Declaration, Role

WORDS, BUFFERS = 64, 3


@dataclass(frozen=True)
class RandomLaunch:
    """The agent, the buffers and words, and whether it also reads what it writes."""

    agent: str
    source: int
    target: int
    first: int
    where: int
    count: int
    updates: bool
    swap: bool


launches = st.builds(
    RandomLaunch,
    agent=st.sampled_from(["cpu", "gpu"]),
    source=st.integers(0, BUFFERS - 1),
    target=st.integers(0, BUFFERS - 1),
    first=st.integers(0, WORDS - 16),
    where=st.integers(0, WORDS - 16),
    count=st.integers(1, 16),
    updates=st.booleans(),
    swap=st.booleans(),
).filter(lambda one: one.source != one.target)
programs = st.lists(launches, min_size=1, max_size=30)


def random_program(seed: int) -> list[RandomLaunch]:
    """Up to 30 launches, as `programs` has them, but made in a tenth of the time."""
    chosen = random.Random(seed)
    found = []
    for _ in range(chosen.randint(1, 30)):
        source, target = chosen.sample(range(BUFFERS), 2)
        first, where = chosen.randint(0, WORDS - 16), chosen.randint(0, WORDS - 16)
        updates, swap = chosen.random() < 0.5, chosen.random() < 0.5
        agent, count = chosen.choice(["cpu", "gpu"]), chosen.randint(1, 16)
        found.append(RandomLaunch(agent, source, target, first, where, count, updates, swap))
    return found


def declarations(role: Role = "inout") -> list[Declaration]:
    shape = (WORDS,)
    return [Declaration(f"b{i}", np.dtype(np.uint32), shape, role, "both", "cpu", "cpu") for i in range(BUFFERS)]


def initial(buffer: int) -> np.ndarray:
    return np.arange(WORDS, dtype=np.uint32) + np.uint32(1000 * buffer)


def carry_out(one: RandomLaunch, step: int, source: np.ndarray, target: np.ndarray) -> None:
    """The work of one launch on two arrays."""
    seen = source[one.first : one.first + one.count]
    place = target[one.where : one.where + one.count]
    place[:] = (place * np.uint32(3) if one.updates else 0) + seen + np.uint32(step)


def expected(program: list[RandomLaunch]) -> list[np.ndarray]:
    memory = [initial(i) for i in range(BUFFERS)]
    for step, one in enumerate(program):
        carry_out(one, step, memory[one.source], memory[one.target])
        if one.swap:
            memory[0], memory[1] = memory[1], memory[0]
    return memory


def needed(program: list[RandomLaunch]) -> dict[str, int]:
    """Bytes that must be transferred to each agent, from a bytewise model of two memories."""
    holders = [[{"cpu"} for _ in range(WORDS)] for _ in range(BUFFERS)]
    transferred = {"cpu": 0, "gpu": 0}

    def read(buffer: int, words: range, agent: str) -> None:
        for word in words:
            if agent not in holders[buffer][word]:
                transferred[agent] += 4
                holders[buffer][word].add(agent)

    for one in program:
        there = range(one.where, one.where + one.count)
        read(one.source, range(one.first, one.first + one.count), one.agent)
        if one.updates:
            read(one.target, there, one.agent)
        for word in there:
            holders[one.target][word] = {one.agent}
        if one.swap:
            holders[0], holders[1] = holders[1], holders[0]
    for buffer in range(BUFFERS):
        read(buffer, range(WORDS), "cpu")
    return transferred
