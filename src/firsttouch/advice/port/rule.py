"""The contract of a rule: it looks in a traced program for one kind of finding, and has the words for it.

A rule adds rows; what they say is put into words once (wording.py). How to add one: docs/extending/hazard.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

from firsttouch.advice.port.blocks import ProgramUse
from firsttouch.advice.port.places import Places
from firsttouch.advice.port.port_findings import MOST_RECORDS, FindingCertainty
from firsttouch.advice.port.repeated import RepeatedBytes
from firsttouch.advice.port.touched import TouchedRange
from firsttouch.profile.traced import CallLocation
from firsttouch.program.partners import LifePartners, Partners
from firsttouch.program.trace import TracedAllocation, TracedLaunch, TracedRun, TracedStep, is_wait
from firsttouch.program.unrecorded_waits import unrecorded_waits

_MOST_PARTS = 64
"""The most copies, with launches in between, for which the program may wait one by one in a way that is not recorded.
"""


@dataclass(frozen=True)
class FindingWords:
    """What findings of a variant say. text: what happens. unless: the innocent reading that remains of those that are
    only likely. Names in braces stand for a finding's grounds. is_note: nothing has to be fixed before memory is
    unified. memory: what it is about, if that is memory of the host which an AMD GPU reaches only with XNACK.
    """

    text: str
    unless: str = ""
    is_note: bool = False
    memory: str = ""


@dataclass
class FindingRow:
    """A finding as data: occurrences that are alike. variant: which of its rule's words it has. grounds: what these
    name. times: how many steps one stands for. bytes, count: of all occurrences. places: their calls, each with its
    bytes. steps: the first ones.
    """

    rule: type[Rule]
    certainty: FindingCertainty
    variant: str
    grounds: Mapping[str, str]
    times: Mapping[int, int] = field(default_factory=dict)
    bytes: int = 0
    count: int = 0
    blocks: dict[int, None] = field(default_factory=dict)
    places: list[tuple[CallLocation, int]] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    @property
    def to_fix(self) -> bool:
        """Whether it has to be fixed before memory is unified."""
        return self.certainty != "possible" and not self.rule.words[self.variant].is_note

    def add(self, number: int, nbytes: int, place: CallLocation, *blocks: int) -> None:
        times = self.times.get(number, 1)
        self.bytes += times * nbytes
        self.count += times
        self.blocks |= dict.fromkeys(blocks)
        self.places.append((place, times * nbytes))
        if len(self.steps) < MOST_RECORDS:
            self.steps.append(number)


@dataclass(frozen=True)
class Coverage:
    """How far a hazard was looked for. limit: which of its `limits` says what was left out, '' if nothing was; grounds:
    what that names.
    """

    searched: bool = True
    limit: str = ""
    grounds: Mapping[str, str] = field(default_factory=dict)


class ProgramState:
    """What a rule knows of a program: the whole run, and what holds before the step that it sees.

    use, touched, repeated: what the run does with its blocks, who touched the copied bytes of the host first (None:
    page faults were not sampled), and which copies repeat others. watched: whether the host's memory was to be
    watched. pending: the first launch that names a block and that the program has not waited for, as a copy that blocks
    does too, by the number of the block. alive: the number of the life that each living block is in.
    """

    def __init__(
        self,
        run: TracedRun,
        partners: Partners,
        places: Places,
        use: ProgramUse,
        touched: Sequence[TouchedRange] | None,
        repeated: RepeatedBytes,
        *,
        watched: bool = False,
    ) -> None:
        self.run, self.places, self.use, self.touched, self.repeated = run, places, use, touched, repeated
        self.all_partners, self.watched = partners, watched
        self.pending: ChainMap[int, TracedLaunch] = ChainMap()
        self._waits = run.once(unrecorded_waits)
        self._awaited = {*self._waits.values()}
        self._parts = [inf]
        """The last step of each of the maps of `pending`, of which the first has the oldest launches."""
        self.alive: dict[int, int] = {}
        self._begun = Counter[int]()
        self._uses: object = None

    def partners(self, block: int) -> LifePartners:
        """The partners of a living block."""
        return self.all_partners[block][self.alive[block]]

    def arrive(self, number: int) -> None:
        """The rules see a step next."""
        if (last := self._waits.get(number)) is not None:
            over = bisect_right(self._parts, last)
            del self._parts[:over], self.pending.maps[:over]

    def advance(self, number: int, step: TracedStep) -> None:
        """The rules have seen a step."""
        if type(step) is TracedLaunch:
            if step.uses is not self._uses and not step.call.captured:
                self._uses = step.uses
                newest = self.pending.maps[-1]
                for use in step.uses:
                    newest.setdefault(use.block, step)
        elif is_wait(step):
            self._uses = None
            self.pending, self._parts = ChainMap(), [inf]
        elif number in self._awaited and self.pending.maps[-1] and len(self._parts) < _MOST_PARTS:
            self._uses = None
            self._parts[-1:] = [number, inf]
            self.pending.maps.append({})
        elif type(step) is TracedAllocation and step.begins:
            self.alive[step.block] = self._begun[step.block]
            self._begun[step.block] += 1
        elif type(step) is TracedAllocation:
            del self.alive[step.block]
            for launches in self.pending.maps:
                launches.pop(step.block, None)
            self._uses = None


FindingRows = dict[tuple[object, ...], FindingRow]
"""The findings of all rules, in the order of their first occurrences, by what tells them apart."""


class Rule:
    """One kind of finding. It sees steps of some kinds in their order, each with the state before it, and adds rows.

    name: the kind, in the JSON. title: on the terminal and the page. words: by variant. strategy: what to do about it.
    chapter: the heading of docs/porting.md that says more. steps: the kinds of steps that `take` gets; rules that look
    at waits get a step last. names_variables: a line names the variables whose blocks it is about.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    words: ClassVar[Mapping[str, FindingWords]]
    strategy: ClassVar[str]
    chapter: ClassVar[str]
    steps: ClassVar[tuple[type, ...]] = ()
    names_variables: ClassVar[bool] = False

    def __init__(self, state: ProgramState, rows: FindingRows) -> None:
        self.state, self._rows = state, rows

    def take(self, number: int, step: TracedStep) -> None:
        """A step of the run, and its number."""

    def finish(self) -> None:
        """The run has ended."""

    def row(self, variant: str, certainty: FindingCertainty, apart: object, **grounds: str) -> FindingRow:
        """The finding of a variant and of what tells it from others, such as a block or a call. Add an occurrence."""
        key = self.name, variant, certainty, apart, *grounds.items()
        if key not in self._rows:
            self._rows[key] = FindingRow(type(self), certainty, variant, grounds, self.state.run.times)
        return self._rows[key]


class Hazard(Rule):
    """A rule whose findings make a program wrong or slow once its memory is unified. Its absence is reported too.

    order: in lists. limits: what the search may leave out, by the names that `coverage` gives. api: of whose programs
    alone it is a hazard, '' of all.
    """

    order: ClassVar[int] = 100
    api: ClassVar[str] = ""
    limits: ClassVar[Mapping[str, str]] = {}

    def coverage(self) -> Coverage:
        """How far the hazard was looked for, after the run."""
        return Coverage()
