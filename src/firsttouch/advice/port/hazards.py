"""The six hazards of porting a program to unified memory, found in its trace by one rule each.

Source: "Dissecting CPU-GPU Unified Physical Memory on AMD MI300A APUs", section III-C, which names the six and what
to do about them. A rule says what is seen, what is likely and which innocent reading remains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias

from firsttouch.advice.port.places import Places, largest, summed
from firsttouch.advice.port.port_findings import MOST_RECORDS, FindingCertainty, FindingKind, PortFinding, StepRecord
from firsttouch.profile.calls import CudaWait
from firsttouch.profile.traced import CallLocation
from firsttouch.program.partners import LifePartners, Partners
from firsttouch.program.trace import TracedAllocation, TracedCopy, TracedFill, TracedLaunch, TracedRun, TracedStep

PAGE = "docs/porting.md"
STRATEGIES: dict[FindingKind, str] = {
    "concurrent": "give the CPU a buffer of its own, exchange the two, and let it wait for an event",
    "free-memory": "size by the host's available memory (MemAvailable, the node's MemFree) too",
    "partial": "allocate the part by itself, so that only its pages move",
    "stack": "use memory that lives until the wait",
    "static": "declare the variable managed, or pass a pointer to managed memory",
    "hidden": "give the container an allocator of unified memory, and reserve",
    "restoring": "one buffer keeps the kernel's values; keep a copy of its own where the old ones are needed",
}
ANCHORS: dict[FindingKind, str] = {
    "concurrent": "concurrent-access",
    "free-memory": "free-memory",
    "partial": "partial-transfers",
    "stack": "stack-variables",
    "static": "static-variables",
    "hidden": "hidden-allocators",
    "restoring": "restoring-copies",
}


RecordOf: TypeAlias = Callable[[int], StepRecord]


@dataclass
class Occurrences:
    """What is alike of a finding: where, how often, how many bytes."""

    kind: FindingKind
    certainty: FindingCertainty
    text: str
    reading: str = ""
    bytes: int = 0
    count: int = 0
    blocks: dict[int, None] = field(default_factory=dict)
    places: list[tuple[CallLocation, int]] = field(default_factory=list)
    records: list[int] = field(default_factory=list)

    def add(self, number: int, nbytes: int, place: CallLocation, *blocks: int) -> None:
        self.bytes += nbytes
        self.count += 1
        self.blocks |= dict.fromkeys(blocks)
        self.places.append((place, nbytes))
        if len(self.records) < MOST_RECORDS:
            self.records.append(number)

    def finding(self, record: RecordOf) -> PortFinding:
        advised = self.certainty != "possible"
        return PortFinding(
            kind=self.kind,
            certainty=self.certainty,
            text=self.text,
            reading=self.reading,
            strategy=STRATEGIES[self.kind] if advised else "",
            link=f"{PAGE}#{ANCHORS[self.kind]}" if advised else "",
            bytes=self.bytes,
            count=self.count,
            blocks=list(self.blocks),
            places=largest(summed(self.places)),
            records=[*map(record, self.records)],
        )


class Findings:
    """Occurrences by what is alike of them: kind, certainty, text, and what tells blocks or calls apart. record: of a
    step, by its number.
    """

    def __init__(self, record: RecordOf) -> None:
        self._record = record
        self._rows: dict[tuple[object, ...], Occurrences] = {}

    def of(
        self, kind: FindingKind, certainty: FindingCertainty, text: str, reading: str = "", apart: object = None
    ) -> Occurrences:
        key = (kind, certainty, text, apart)
        if key not in self._rows:
            self._rows[key] = Occurrences(kind, certainty, text, reading)
        return self._rows[key]

    def all(self) -> list[PortFinding]:
        """The findings that have occurrences, in the order of the first ones."""
        return [row.finding(self._record) for row in self._rows.values() if row.count]


def is_wait(step: TracedStep) -> bool:
    """Whether the program waits for the device, as a copy that blocks does too."""
    return isinstance(step, CudaWait) or (isinstance(step, TracedCopy | TracedFill) and step.call.blocking)


class ProgramState:
    """What holds before a step. pending: the first launch since the last wait, which a copy that blocks is too, that
    names a block, by its number.

    alive: the number of the life that each living block is in. pooled: blocks that an allocator of the program divides.
    """

    def __init__(self, run: TracedRun, partners: Partners, places: Places, pooled: Collection[int] = ()) -> None:
        self.run, self.places, self.pooled, self._partners = run, places, pooled, partners
        self.pending: dict[int, TracedLaunch] = {}
        self.alive: dict[int, int] = {}
        self._begun = Counter[int]()
        self._uses: object = None

    def partners(self, block: int) -> LifePartners:
        """The partners of a living block."""
        return self._partners[block][self.alive[block]]

    def advance(self, step: TracedStep) -> None:
        if isinstance(step, TracedLaunch):
            if step.uses is not self._uses and not step.call.captured:
                self._uses = step.uses
                for use in step.uses:
                    self.pending.setdefault(use.block, step)
        elif is_wait(step):
            self._uses = None
            self.pending.clear()
        elif isinstance(step, TracedAllocation) and step.begins:
            self.alive[step.block] = self._begun[step.block]
            self._begun[step.block] += 1
        elif isinstance(step, TracedAllocation):
            del self.alive[step.block]
            self.pending.pop(step.block, None)


class Rule:
    """One rule. It sees steps of some kinds in their order, each with the state before it, and adds what it finds."""

    kinds: tuple[type, ...] = ()

    def __init__(self, state: ProgramState, findings: Findings) -> None:
        self.state, self.findings = state, findings

    def take(self, number: int, step: TracedStep) -> None:
        raise NotImplementedError
