"""A copy from or to a variable of a function, which ends with it."""

from __future__ import annotations

from itertools import chain
from operator import itemgetter

from firsttouch.advice.port.rule import FindingRows, FindingWords, Hazard, ProgramState
from firsttouch.profile.calls import WaitCall
from firsttouch.program.trace import TracedCopy, TracedStep


class StackVariable(Hazard):
    """Where the copy does not block: whether the function ended before the thread's next wait, whose stack pointer
    tells.
    """

    name = "stack"
    title = "stack variable"
    order = 4
    words = {
        "blocking": FindingWords("harmless as long as its copies are synchronous", is_note=True, memory="the stack"),
        "ended": FindingWords(
            "copied asynchronously, and its function returned before the next synchronization", memory="the stack"
        ),
        "waited": FindingWords("copied asynchronously, and used until the next synchronization", memory="the stack"),
    }
    strategy = "use memory that lives until the synchronization"
    chapter = "stack-variables"
    steps = (TracedCopy, WaitCall)

    def __init__(self, state: ProgramState, rows: FindingRows) -> None:
        super().__init__(state, rows)
        self._waiting: dict[int, list[tuple[int, TracedCopy]]] = {}
        """By thread."""

    def take(self, number: int, step: TracedStep) -> None:
        if isinstance(step, TracedCopy) and step.call.host == "stack" and step.way in ("h2d", "d2h"):
            if step.call.blocking:
                self._add("blocking", number, step)
            else:
                self._waiting.setdefault(step.call.thread, []).append((number, step))
        elif isinstance(step, WaitCall) and self._waiting:
            self._waited(step.thread, step.stack)
        elif isinstance(step, TracedCopy) and step.call.blocking and self._waiting:
            self._waited(step.call.thread, 0)

    def finish(self) -> None:
        for number, copy in sorted(chain.from_iterable(self._waiting.values()), key=itemgetter(0)):
            self._judge_copy(number, copy, 0)

    def _waited(self, thread: int, stack: int) -> None:
        """stack: the thread's stack pointer; 0: unknown."""
        for earlier, copy in self._waiting.pop(thread, ()):
            self._judge_copy(earlier, copy, stack)

    def _judge_copy(self, number: int, copy: TracedCopy, stack: int) -> None:
        address = copy.call.target if copy.way == "d2h" else copy.call.source
        self._add("ended" if address < stack else "waited", number, copy)

    def _add(self, variant: str, number: int, copy: TracedCopy) -> None:
        place = self.state.places.of(copy.call.site)
        self.row(variant, "seen", place).add(number, copy.device.total, place, copy.device.block)
