"""Replays a program through the ledger of a strategy: the steps that its memory takes, without a device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

from firsttouch.base.errors import NotModelled
from firsttouch.program.ledger import Ledger
from firsttouch.program.program import (
    Access,
    AwaitAll,
    Combine,
    ExchangeMark,
    Exchanging,
    Launch,
    LoopMark,
    Messages,
    Move,
    Program,
    Renew,
    Repeat,
    Swap,
)
from firsttouch.program.program import Item as ProgramItem
from firsttouch.program.steps import Step, Use

MOST_ROUNDS = 100_000
"""The most rounds of a loop that are replayed one by one, since each ends in a state of its own."""
Prepared: TypeAlias = "tuple[Access, list[Step]]"
"""An access of a launch, and its steps, of which the use is the last."""


class Replay:
    """Goes through a program. A subclass says what each step means to it.

    ledger: of the program's strategy and device, without buffers. in_turns: a kernel of the CPU begins only when all
    queued work of the GPU has ended. done: how much of the program was replayed, rounds that are like one before
    included; watch: called when that has changed.
    """

    def __init__(self, program: Program, ledger: Ledger, *, in_turns: bool = False) -> None:
        self.program, self.ledger, self._in_turns = program, ledger, in_turns
        self.phase = "allocate"
        self.done = 0
        self.watch: Callable[[Replay], None] | None = None

    def run(self) -> None:
        """Replay the whole program, from the first allocation to the last free.

        Raises Unsupported if it needs what the strategy's memory cannot do.
        """
        ledger = self.ledger
        for block in self.program.blocks:
            self._played(ledger.allocate(block.declaration))
        self._iteration(ledger.after_initialise)
        self._play_rounds(self.program.iterations - 1, self._iteration)
        self.phase = "free"
        self._played(ledger.free())

    def _iteration(self, advise: Callable[[], Iterable[Step]] = tuple) -> None:
        """All that a program does with its buffers. advise: the steps of advice about initialised buffers, which is
        given once.
        """
        ledger = self.ledger
        self.phase = "initialise"
        self._items(self.program.initialise)
        self._played([*ledger.wait(), *advise()])
        self.phase = "compute"
        self._played(ledger.before_compute())
        self._items(self.program.compute)
        self._played([*ledger.join_prefetches(), *ledger.wait()])
        self.phase = "readback"
        read = [number for number, block in enumerate(self.program.blocks) if block.ends_on == "cpu"]
        self._played(ledger.read_back(read))

    def _played(self, steps: Iterable[Step]) -> None:
        self.play(steps)
        self._count_done(1)

    def _count_done(self, more: int) -> None:
        """Counts what is done of the program: steps that belong together, and launches."""
        self.done += more
        if self.watch is not None:
            self.watch(self)

    def _items(self, items: Sequence[ProgramItem]) -> None:
        for item in items:
            if isinstance(item, Repeat):
                self._play_rounds(item.count, partial(self._items, item.body))
            elif isinstance(item, Launch):
                self._launch(item)
            elif isinstance(item, Swap):
                if steps := self.ledger.swap(item.first, item.second):
                    self._played(steps)
                else:
                    self.swap(item.first, item.second)
            elif isinstance(item, AwaitAll):
                self._played(self.ledger.wait())
            elif isinstance(item, LoopMark):
                self.mark(item)
            elif isinstance(item, ExchangeMark | Messages | Combine):
                self.exchange(item)
            elif isinstance(item, Renew):
                freed, obtained = self.ledger.renew(item.block)
                self._played(freed)
                self.forget(item.block)
                self._played(obtained)
            elif isinstance(item, Move):
                self.move(item)

    def _play_rounds(self, count: int, play_round: Callable[[], None]) -> None:
        """Replay rounds until one ends in the state in which it, or the round before it, began. All later ones are like
        it, or like these two in turn. Raises NotModelled if none does for too long.
        """
        states: list[Hashable] = [None, None]
        began = self.done
        for number in range(count):
            if number == MOST_ROUNDS:
                raise NotModelled(f"a loop of {count:,} rounds, of which {MOST_ROUNDS:,} differ")
            state = (self.ledger.state(), self.state())
            if state == states[-1]:
                self._count_rounds(self.done - began, count - number)
                return
            if state == states[-2]:
                self._replay_pairs(play_round, count - number)
                return
            states.append(state)
            began = self.done
            self.begin_round()
            play_round()
            self.end_round()

    def _count_rounds(self, done_in_round: int, times: int) -> None:
        """Counts `times` more rounds like the last one, in which `done_in_round` was done."""
        self.add_again(times)
        self._count_done(done_in_round * times)

    def _replay_pairs(self, play_round: Callable[[], None], rounds: int) -> None:
        """Replays so many rounds, of which two in turn recur."""
        if rounds >= 2:
            began = self.done
            self.begin_round()
            play_round()
            play_round()
            self.end_round()
            self._count_rounds(self.done - began, rounds // 2 - 1)
        if rounds % 2:
            play_round()

    def _launch(self, launch: Launch) -> None:
        if self._in_turns and launch.agent == "cpu" and launch.by == "kernel":
            self._played(self.ledger.wait())
        prepared = [(access, self._steps(launch, access)) for access in launch.accesses]
        self.launch(launch, prepared)
        self._count_done(1)

    def _steps(self, launch: Launch, a: Access) -> list[Step]:
        if launch.at_once:
            return self.ledger.touch_at_once(a.block)
        if launch.by == "file" and self.ledger.declared[a.block].file:
            loading = self.ledger.load(a.block)
            return loading or [Use(a.block, "cpu", a.start, a.end, reads=False, writes=True)]
        return self.ledger.touch(launch.agent, a.block, a.start, a.end, reads=a.reads, writes=a.writes)

    # ------------------------------------------------------------------------------------------------ to be overridden

    def play(self, steps: Iterable[Step]) -> None:
        """Steps that belong to no launch."""

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        """A launch and the steps of each of its accesses."""

    def mark(self, mark: LoopMark) -> None:
        """An iteration that is timed ends, or the loop begins."""

    def exchange(self, item: Exchanging) -> None:
        """What the process does together with others."""

    def swap(self, first: int, second: int) -> None:
        """Two buffers exchanged their memory."""

    def forget(self, buffer: int) -> None:
        """The memory of a buffer was given back; it is obtained again next."""

    def move(self, move: Move) -> None:
        """A traced program copies as it does itself, which no strategy does."""

    def state(self) -> Hashable:
        """What the meaning of later steps depends on."""
        return None

    def begin_round(self) -> None:
        """A round of a Repeat begins."""

    def end_round(self) -> None:
        """It has ended."""

    def add_again(self, times: int) -> None:
        """So many more rounds are like the last one."""
