"""The ledger alone, without a device: its steps are carried out on arrays, and queued work as late as they allow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from tests.program.random_programs import (
    BUFFERS,
    WORDS,
    RandomLaunch,
    carry_out,
    declarations,
    expected,
    initial,
    needed,
    random_program,
)

from firsttouch.program.declarations import Declaration
from firsttouch.program.ledger import Ledger
from firsttouch.program.steps import (
    Allocate,
    Copy,
    EndPrefetches,
    Flush,
    Free,
    Join,
    Map,
    Prefetch,
    Step,
    Unmap,
    Use,
    Wait,
)
from firsttouch.program.strategies import STRATEGIES, Strategy
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo

NBYTES = 4 * WORDS
BOTH = {"available": True, "cpu": "direct", "gpu": "direct"}
ALLOCATORS = [
    AllocatorInfo("malloc", available=True, cpu="direct", host_memory=True),
    AllocatorInfo("device", available=True, gpu="direct", device_memory=True),
    AllocatorInfo("svm-coarse", available=True, cpu="mapped", gpu="direct"),
    AllocatorInfo("svm-fine", **BOTH, concurrent=False),
    AllocatorInfo("svm-atomic", **BOTH, concurrent=True, disjoint=True),
    AllocatorInfo("managed", **BOTH, managed=True, concurrent=False, disjoint=False),
]
DEVICE = DeviceInfo(
    "gpu:0", "gpu", "a made-up GPU", capabilities=DeviceCapabilities(runs_kernels=True), allocators=ALLOCATORS
)


def variant(name: str, **changed: object) -> Strategy:
    return dataclasses.replace(STRATEGIES[name], **changed)


KINDS: dict[str, Strategy] = {
    "copies": STRATEGIES["explicit"],
    "mapped": STRATEGIES["svm-coarse"],
    "one agent at a time": STRATEGIES["svm-fine"],
    "parts at once": STRATEGIES["svm-atomic"],
    "idle device": STRATEGIES["managed"],
    "wait": variant("svm-atomic", coherence="wait"),
    "flush": variant("svm-atomic", coherence="flush"),
    "prefetch": variant("svm-atomic", prefetch=True),
    "overlap": variant("svm-atomic", prefetch=True, overlap=True),
    "advise": variant("svm-atomic", advise=True, prefetch=True),
}


class Machine:
    """Two memories of each buffer, or one that both agents use. Device work is queued, and done when somebody waits."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy, self.ledger = strategy, Ledger(strategy, DEVICE)
        self.host = [np.full(WORDS, 0xDEAD, np.uint32) for _ in range(BUFFERS)]
        self.device = [np.full(WORDS, 0xBEEF, np.uint32) for _ in range(BUFFERS)] if strategy.duplicated else self.host
        self.mapped = [False] * BUFFERS
        self.queue: list[Callable[[], None]] = []
        self.flushed = True
        self.copied = self.joined = 0

    def play(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, Wait):
                self.finish()
            elif isinstance(step, Copy):
                self.queue.append(self.copy(step))
                self.copied += step.end - step.start
            elif isinstance(step, Map):
                assert not self.mapped[step.buffer]
                self.mapped[step.buffer] = True
            elif isinstance(step, Unmap):
                assert self.mapped[step.buffer]
                self.mapped[step.buffer] = False
            elif isinstance(step, Flush):
                self.flushed = True
            elif isinstance(step, Join):
                self.joined += 1
            elif isinstance(step, Use):
                self.allow(step)

    def copy(self, step: Copy) -> Callable[[], None]:
        pair = (self.host[step.buffer], self.device[step.buffer])
        source, target = pair if step.to == "gpu" else pair[::-1]
        words = slice(step.start // 4, step.end // 4)

        def carry() -> None:
            target[words] = source[words]

        return carry

    def allow(self, use: Use) -> None:
        entry = DEVICE.allocator(self.strategy.allocator)
        assert entry is not None
        if "mapped" in (entry.cpu, entry.gpu):
            assert self.mapped[use.buffer] == (use.agent == "cpu")
        if use.agent == "cpu":
            assert not (self.queue and entry.managed), "the CPU used managed memory while kernels were queued"
            self.flushed &= not (use.writes and self.strategy.coherence == "flush")
        else:
            assert self.flushed

    def finish(self) -> None:
        for work in self.queue:
            work()
        self.queue.clear()

    def swap(self, a: int, b: int) -> None:
        self.ledger.swap(a, b)
        lists: list[list] = [self.host, self.mapped]  # type: ignore[type-arg]
        if self.strategy.duplicated:
            lists.append(self.device)
        for one in lists:
            one[a], one[b] = one[b], one[a]

    def launch(self, one: RandomLaunch, number: int) -> None:
        target = (4 * one.where, 4 * (one.where + one.count))
        touch, agent = self.ledger.touch, one.agent
        first, last = 4 * one.first, 4 * (one.first + one.count)
        self.play(touch(agent, one.source, first, last, reads=True, writes=False))  # type: ignore[arg-type]
        self.play(touch(agent, one.target, *target, reads=one.updates, writes=True))  # type: ignore[arg-type]
        memory = self.host if agent == "cpu" else self.device
        source, destination = memory[one.source], memory[one.target]
        if agent == "cpu":
            carry_out(one, number, source, destination)
        else:
            self.queue.append(lambda: carry_out(one, number, source, destination))

    def run(self, program: list[RandomLaunch]) -> None:
        for buffer, declared in enumerate(declarations()):
            self.play(self.ledger.allocate(declared))
            self.play(self.ledger.touch("cpu", buffer, 0, NBYTES, reads=False, writes=True))
            self.host[buffer][:] = initial(buffer)
        self.play(self.ledger.after_initialise())
        self.play(self.ledger.before_compute())
        for number, one in enumerate(program):
            self.launch(one, number)
            if one.swap:
                self.swap(0, 1)
        self.play(self.ledger.join_prefetches())
        self.play(self.ledger.read_back(range(BUFFERS)))


@pytest.mark.parametrize("kind", KINDS)
def test_no_strategy_reads_a_stale_byte(kind: str) -> None:
    for seed in range(300):
        program = random_program(seed)
        machine = Machine(KINDS[kind])
        machine.run(program)
        for found, right in zip(machine.host, expected(program), strict=True):
            np.testing.assert_array_equal(found, right, f"the program of seed {seed}")
        machine.play(machine.ledger.free())
        assert not any(machine.mapped)


def test_explicit_copies_only_bytes_that_are_needed() -> None:
    for seed in range(1000):
        program = random_program(seed)
        machine = Machine(STRATEGIES["explicit"])
        machine.run(program)
        assert machine.ledger.transferred == needed(program), f"the program of seed {seed}"
        assert machine.copied == sum(needed(program).values())


def test_a_late_wait_is_noticed_by_this_test() -> None:
    """The model of queued work tells a missing wait from a right one."""
    machine = Machine(STRATEGIES["explicit"])
    play = machine.play
    machine.play = lambda steps: play(s for s in steps if not isinstance(s, Wait))  # type: ignore[method-assign]
    program = [RandomLaunch("gpu", 0, 1, 0, 0, 4, updates=False, swap=False)]
    machine.run(program)
    assert (machine.host[1] != expected(program)[1]).any()


@pytest.mark.parametrize("overlap", [False, True])
def test_launches_wait_for_prefetches_unless_they_overlap(overlap: bool) -> None:
    ledger = Ledger(variant("svm-atomic", prefetch=True, overlap=overlap), DEVICE)
    for declared in declarations():
        ledger.allocate(declared)
    before = ledger.before_compute()
    prefetches = [Prefetch(buffer, NBYTES, "gpu") for buffer in range(BUFFERS)]
    assert before == [*prefetches, EndPrefetches(), *([] if overlap else [Join()])]
    assert ledger.join_prefetches() == ([Join()] if overlap else [])


def test_a_ledger_that_is_not_strict_transfers_a_range_if_somebody_wrote_a_part_of_it() -> None:
    ledger = Ledger(STRATEGIES["explicit"], DEVICE, strict=False)
    for declared in declarations():
        ledger.allocate(declared)
    ledger.touch("cpu", 0, 64, 128, reads=False, writes=True)
    read = {"reads": True, "writes": False}
    assert ledger.touch("gpu", 0, 0, NBYTES, **read) == [Copy(0, 0, NBYTES, "gpu"), Use(0, "gpu", 0, NBYTES, **read)]
    assert ledger.touch("gpu", 1, 0, NBYTES, **read) == [Use(1, "gpu", 0, NBYTES, **read)]


def test_swapping_a_device_array_and_a_host_array_copies_and_waits_before_the_launch() -> None:
    ledger, (declared, *_) = Ledger(STRATEGIES["explicit"], DEVICE), declarations()
    for copies in ("device", "host"):
        (block,) = ledger.allocate(dataclasses.replace(declared, copies=copies))
        assert isinstance(block, Allocate)
        assert block.side == copies
    used = {"reads": True, "writes": False}
    for _ in range(2):
        ledger.touch("cpu", 1, 0, NBYTES, reads=False, writes=True)
        assert ledger.swap(0, 1) == [Copy(0, 0, NBYTES, "gpu", source=1), Wait()]
        assert ledger.touch("gpu", 0, 0, NBYTES, **used) == [Use(0, "gpu", 0, NBYTES, **used)]
        assert ledger.touch("cpu", 1, 0, 8, reads=False, writes=True) == [Use(1, "cpu", 0, 8, reads=False, writes=True)]
    assert ledger.transferred["gpu"] == 2 * NBYTES
    with pytest.raises(ValueError, match=r"not declared .* by the cpu"):
        ledger.touch("cpu", 0, 0, 8, **used)


@pytest.mark.parametrize(("messages", "side"), [("malloc", "host"), ("svm-coarse", "shared"), ("managed", "shared")])
def test_messages_that_the_cpu_packs_are_never_copied_or_moved_and_are_unmapped_when_they_leave(
    messages: str, side: str
) -> None:
    ledger = Ledger(STRATEGIES["explicit"], DEVICE, messages=messages)
    declared = Declaration("outgoing", np.dtype("u4"), (WORDS,), "exchange", "both")
    (allocated,) = ledger.allocate(declared)
    assert (allocated.side, allocated.allocator) == (side, messages)  # type: ignore[attr-defined]
    steps = ledger.touch("cpu", 0, 0, NBYTES, reads=False, writes=True)
    assert any(isinstance(step, Map) for step in steps) == (messages == "svm-coarse")
    steps = ledger.lend(0, 0, NBYTES, arrives=False)
    assert any(isinstance(step, Unmap) for step in steps) == (messages == "svm-coarse")
    ledger.lend(0, 0, NBYTES, arrives=True)
    ledger.touch("cpu", 0, 0, NBYTES, reads=True, writes=False)
    assert ledger.transferred == {"cpu": 0, "gpu": 0}


def test_buffers_that_were_added_last_are_released() -> None:
    ledger = Ledger(STRATEGIES["explicit"], DEVICE)
    for number, role in enumerate(("inout", "exchange", "exchange")):
        sides = "gpu" if role == "exchange" else "both"
        ledger.allocate(Declaration(f"buffer {number}", np.dtype("u4"), (WORDS,), role, sides))  # type: ignore[arg-type]
    freed = [step.buffer for step in ledger.release(1) if isinstance(step, Free)]
    assert (freed, len(ledger.contents)) == ([1, 2], 1)
    assert {step.buffer for step in ledger.free() if isinstance(step, Free)} == {0}
