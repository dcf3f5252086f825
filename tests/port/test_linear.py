"""What `port` does with a trace grows with its calls, however they repeat and lie."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.port.traces import Calls

from firsttouch.advice.port.found import found
from firsttouch.program.trace import trace
from firsttouch.program.traced import program_of_trace

FEW, TIMES = 150, 4
PAGE = 4096


def steps_of(function: Callable[[], object]) -> int:
    """How often a function calls others, and these others."""
    number = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return number


def scattered_copies(number: int) -> Calls:
    """From anywhere in the host to anywhere in a block."""
    chosen, calls = random.Random(1), Calls()
    block, host = calls.block(1 << 30, line=1), calls.host(1 << 32)
    for _ in range(number):
        calls.copy(block + chosen.randrange(1 << 15) * 3 * PAGE, host + chosen.randrange(1 << 17) * 4 * PAGE, 4 * PAGE)
        calls.launch(block)
    return calls


def copies_of_any_size(number: int) -> Calls:
    """Each overlaps many others."""
    chosen, calls = random.Random(2), Calls()
    block, host = calls.block(1 << 20, line=1), calls.host(1 << 32)
    for _ in range(number):
        start, nbytes = chosen.randrange(1 << 19), chosen.randrange(1, 1 << 19)
        calls.copy(block + start, host + chosen.randrange(1 << 31), nbytes)
    return calls


def looks_without_launches(number: int) -> Calls:
    """The CPU writes what a launch uses, for which nothing waits."""
    calls = Calls()
    blocks, arrays = [calls.block(PAGE, line=1) for _ in range(2)], [calls.host(PAGE) for _ in range(2)]
    for block, array in zip(blocks, arrays, strict=True):
        calls.copy(block, array, PAGE)
    calls.launch(*blocks)
    for _ in range(number):
        calls.copy(arrays[1], blocks[1], PAGE, blocking=False)
        calls.host_use(arrays[0], PAGE, [(arrays[0], arrays[0] + PAGE)])
        calls.copy(blocks[1], arrays[1], PAGE, blocking=False, sample=number)
    return calls


def parts_in_turn(number: int) -> Calls:
    """Parts of an array take turns in a block, without a wait."""
    calls = Calls()
    block, array = calls.block(PAGE, line=1), calls.host(number * PAGE)
    for part in range(array, array + number * PAGE, PAGE):
        calls.copy(block, part, PAGE, blocking=False)
        calls.launch(block)
        calls.host_use(part, PAGE, [(part, part + PAGE)])
    return calls


def living_blocks(number: int) -> Calls:
    """A launch after each allocation."""
    calls = Calls()
    array, blocks = calls.host(PAGE), []
    for n in range(number):
        blocks.append(calls.block(PAGE * (1 + n % 7), line=n % 5))
        calls.copy(blocks[-1], array, PAGE)
        calls.launch(blocks[-1])
    for block in blocks[::-1]:
        calls.free(block)
    return calls


def pointers_in_one_block(number: int) -> Calls:
    """A copy of pointers to another place of a block each time."""
    calls = Calls()
    table, block = calls.block(number * PAGE, line=1), calls.block(PAGE, line=2)
    for n in range(number):
        calls.copy(table + n * PAGE, 5000, 8)
        calls.pointers(table + n * PAGE, block)
        calls.copy(table + n * PAGE + 64, 6000, 8)
    return calls


def stack_variables_of_threads(number: int) -> Calls:
    """One thread waits, another does not."""
    calls = Calls()
    block = calls.block(PAGE, line=1)
    for n in range(number):
        calls.copy(block, 5000 + 8 * (n % 9), 8, host="stack", blocking=False, thread=1)
        calls.wait(thread=2, stack=4000)
    return calls


def solver(number: int) -> Calls:
    """A flag is copied in each round."""
    calls = Calls()
    block, flag = calls.block(PAGE, line=1), calls.block(8, line=2)
    for n in range(number):
        calls.launch(block, flag)
        calls.copy(5000, flag, 8, sample=n % 3)
        calls.copy(flag, 5000, 8, sample=n % 3)
    return calls


def results_that_are_awaited_late(number: int) -> Calls:
    """Results come back in all rounds before the first are used again, in a way that tells of a wait."""
    calls = Calls()
    block, arrays = calls.block(PAGE, line=1), [calls.host(PAGE) for _ in range(number)]
    for array in arrays:
        calls.launch(block, seconds=1e-5)
        calls.copy(array, block, PAGE, seconds=1e-5, blocking=False, host="pinned", stream=1)
    for n, array in enumerate(arrays):
        calls.copy(block, array, PAGE, blocking=False, host="pinned", stream=2, sample=n)
    return calls


def copies_back_before_one_wait(number: int) -> Calls:
    calls = Calls()
    block, array = calls.block(number * PAGE, line=1), calls.host(number * PAGE)
    calls.launch(block)
    for n in range(number):
        calls.copy(array + n * PAGE, block + n * PAGE, PAGE)
    calls.wait()
    return calls


@pytest.mark.parametrize(
    "program",
    [
        scattered_copies,
        copies_of_any_size,
        looks_without_launches,
        parts_in_turn,
        living_blocks,
        pointers_in_one_block,
        stack_variables_of_threads,
        solver,
        results_that_are_awaited_late,
        copies_back_before_one_wait,
    ],
)
@pytest.mark.slow
def test_times_as_many_calls_take_times_as_many_steps(program: Callable[[int], Calls]) -> None:
    def steps(number: int) -> int:
        calls = program(number).traced

        def port() -> None:
            run = trace(calls)
            found(run, {})
            program_of_trace(run)

        return steps_of(port)

    steps(8)  # what is cached from now on
    few, many = steps(FEW), steps(TIMES * FEW)
    assert many < 1.3 * TIMES * few
