"""Findings of a program with long loops do not depend on whether most iterations are left out of its calls."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.port.journals import profile
from tests.port.traces import Calls

from firsttouch.advice.port.reading import findings_of, port_findings, read_single, traced_run
from firsttouch.program.trace import TracedRun

PAGE = 4096


class RandomProgram:
    """Loops of random calls, between which the CPU was seen to use the host's memory."""

    def __init__(self, seed: int) -> None:
        self._chosen, self.calls, self._sample = random.Random(seed), Calls(pid=7), 0
        self._blocks = [self.calls.block(2 * PAGE, line=n) for n in range(1, 5)]
        self._arrays = [self.calls.host(2 * PAGE) for _ in range(4)]

    def made(self) -> Calls:
        self.calls.copy(self._blocks[0], self._arrays[0], PAGE, line=5)
        for _ in range(self._chosen.randrange(1, 3)):
            self._use_host()
            body = [self._step() for _ in range(self._chosen.randrange(1, 9))]
            for iteration in range(1300 // len(body) + 200):
                for step in body:
                    step(iteration)
            self._use_host()
        for block in self._blocks if self._chosen.randrange(2) else ():
            self.calls.free(block, line=90)
        return self.calls

    def _use_host(self) -> None:
        for array in self._chosen.sample(self._arrays, 2) if self._chosen.randrange(2) else ():
            writes = [(array, array + PAGE)] if self._chosen.randrange(2) else []
            self.calls.host_use(array, 2 * PAGE, writes)
            self.calls.copy(self._chosen.choice(self._blocks), array, 2 * PAGE, sample=self._new(), line=80)

    def _new(self) -> int:
        self._sample += 1
        return 1000 + self._sample

    def _step(self) -> Callable[[int], object]:
        """What an iteration does, by its number."""
        chosen, calls = self._chosen, self.calls
        block, array, line = chosen.choice(self._blocks), chosen.choice(self._arrays), chosen.randrange(10, 80)
        start, nbytes = chosen.choice(((0, 2 * PAGE), (0, PAGE), (PAGE, PAGE), (64, 128)))
        sides = [block + start, array + start * chosen.randrange(2)]
        contents = chosen.choice((lambda n: self._new(), lambda n: 5, lambda n: n % 2, lambda n: n % 3, lambda n: None))
        more = {"line": line, "blocking": chosen.random() < 0.6, "host": chosen.choice(("other", "other", "stack"))}
        others = chosen.sample(self._blocks, chosen.randrange(1, 4))
        before = chosen.choice((None, 5))

        def temporary(n: int) -> None:
            made = calls.block(nbytes + 64 * line, line=line)
            calls.copy(made, sides[1], nbytes, sample=contents(n), line=line)
            calls.launch(made, *others, line=line)
            calls.free(made, line=line)

        return chosen.choice((
            temporary,
            lambda n: calls.copy(sides[0], sides[1], nbytes, sample=contents(n), **more),
            lambda n: calls.copy(sides[0], sides[1], nbytes, sample=contents(n), **more),
            lambda n: calls.copy(sides[1], sides[0], nbytes, sample=contents(n), before=before, **more),
            lambda n: calls.copy(sides[1], sides[0], nbytes, sample=contents(n), before=before, **more),
            lambda n: calls.copy(sides[0], others[0], nbytes, blocking=False, line=line),
            lambda n: calls.fill(sides[0], nbytes, blocking=False, line=line),
            lambda n: calls.launch(*others, line=line),
            lambda n: calls.launch(*others, line=line, seconds=0.0004),
            lambda n: calls.wait(line=line),
            lambda n: calls.copy(array, array + 64, 64, line=line),
        ))  # fmt: skip


def folded_and_whole(directory: Path, calls: Calls) -> tuple[TracedRun, bytes, bytes]:
    """The run with folded loops, and the findings of `port` and those of the whole run."""
    read = read_single(profile(directory, calls.traced))
    folded, whole = (
        msgspec.json.format(msgspec.json.encode(found))
        for found in (port_findings(read), findings_of(read, traced_run(read)))
    )
    return traced_run(replace(read, calls=None, folds_loops=True)), folded, whole


def loop(*blocks_of: Callable[[Calls, int, int, int], object], iterations: int = 2000) -> Calls:
    """What is done with a block and an array in each iteration, by its number."""
    calls = Calls(pid=7)
    block, array = calls.block(PAGE, line=1), calls.host(PAGE)
    for n in range(iterations):
        for do in blocks_of:
            do(calls, block, array, n)
    return calls


def copy_in(calls: Calls, block: int, array: int, n: int) -> None:
    calls.copy(block, array, PAGE, sample=2 * n + 10, line=2, blocking=False)


def launch(calls: Calls, block: int, array: int, n: int) -> None:
    calls.launch(block, line=3)


def copy_back(calls: Calls, block: int, array: int, n: int) -> None:
    calls.copy(array, block, PAGE, sample=2 * n + 11, line=4)


def copy_back_without_wait(calls: Calls, block: int, array: int, n: int) -> None:
    calls.copy(array, block, PAGE, line=4, blocking=False)


def captured_launch(calls: Calls, block: int, array: int, n: int) -> None:
    calls.launch(block, line=5, captured=True)


def query(calls: Calls, block: int, array: int, n: int) -> None:
    calls.query(n, 10_000, line=6)


@pytest.mark.parametrize("seed", range(12))
def test_random_loops(seed: int, tmp_path: Path) -> None:
    _, folded, whole = folded_and_whole(tmp_path, RandomProgram(seed).made())
    assert folded == whole


def test_a_long_loop_is_folded(tmp_path: Path) -> None:
    run, folded, whole = folded_and_whole(tmp_path, loop(copy_in, launch, copy_back))
    assert run.is_folded
    assert len(run.steps) < 1000
    assert folded == whole
    assert msgspec.json.decode(folded)["copies"] == 4000


@pytest.mark.parametrize(
    "calls",
    [
        loop(copy_in, launch, copy_back, iterations=40),
        loop(copy_in, launch, copy_back, captured_launch),
        loop(query, launch, copy_back),
        loop(copy_in, launch, copy_back_without_wait),
    ],
    ids=["few iterations", "captured", "other calls", "waits told by times"],
)
def test_what_may_differ_from_iteration_to_iteration_is_not_folded(calls: Calls, tmp_path: Path) -> None:
    run, folded, whole = folded_and_whole(tmp_path, calls)
    assert not run.is_folded
    assert folded == whole


def test_a_copy_back_after_a_long_loop_is_as_far_away_as_it_was(tmp_path: Path) -> None:
    calls = Calls(pid=7)
    block, other = (calls.block(2 * PAGE, line=line) for line in (1, 2))
    first, second = calls.host(2 * PAGE), calls.host(2 * PAGE)
    for array in (first, second):
        calls.copy(block, array, 2 * PAGE, line=3)
        calls.launch(block, line=4)
        calls.wait(line=5)
    calls.launch(block, line=6)
    calls.host_use(first, 2 * PAGE, [(first, first + 2 * PAGE)])
    for _ in range(12_000):
        calls.launch(other, line=7)
    calls.copy(first, block, 2 * PAGE, line=8)
    run, folded, whole = folded_and_whole(tmp_path, calls)
    assert run.is_folded
    assert folded == whole
