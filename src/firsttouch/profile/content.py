"""What a profile has, as it is read from its directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from firsttouch.profile import schema
from firsttouch.profile.calls import TracedCalls
from firsttouch.profile.curves import Curve
from firsttouch.profile.phases import TargetPhase
from firsttouch.profile.recorded import ProcessJournal


@dataclass
class ProfiledProcess:
    """A process of the target. command: that of the last program that it executed. peak: its largest resident size in
    bytes, by readings or as the kernel stated it at its end.
    """

    key: int
    pid: int
    parent: int | None
    name: str
    command: list[str]
    started: float
    ended: float | None = None
    status: int | None = None
    peak: int | None = None
    minor: int | None = None
    major: int | None = None


@dataclass
class Profile:
    """What was recorded of a target. Times are seconds since the start, sizes bytes.

    curves: by what they are of and by column, as `schema.Samples` names them. phases: ranges of the target in the order
    of their begin; empty if it named none. end: None if the profiler was killed. seconds: until the last thing seen.
    """

    directory: Path
    header: schema.Header
    end: schema.End | None = None
    seconds: float = 0.0
    largest: int | None = None
    """The largest resident size of the first process or of one that it waited for, as the kernel stated at the end."""
    processes: dict[int, ProfiledProcess] = field(default_factory=dict)
    curves: dict[tuple[str, str], Curve] = field(default_factory=dict)
    marks: list[schema.Mark] = field(default_factory=list)
    phases: list[TargetPhase] = field(default_factory=list)
    library_ranges: dict[str, int] = field(default_factory=dict)
    """NVTX ranges that libraries made, by their domain. They are no phases."""
    mappings: list[schema.Mappings] = field(default_factory=list)
    sites: dict[int, schema.Site] = field(default_factory=dict)
    symbols: dict[int, schema.Symbol] = field(default_factory=dict)
    callers: dict[tuple[str, int], schema.Caller] = field(default_factory=dict)
    """By file and offset."""
    faults: list[schema.Faults] = field(default_factory=list)
    touches: list[schema.TouchSamples] = field(default_factory=list)
    brief: list[schema.BriefProcesses] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    cost: schema.ProfilingCost | None = None
    journals: list[ProcessJournal] = field(default_factory=list)
    """What the injected library wrote. Its times are those of CLOCK_MONOTONIC."""
    calls: list[TracedCalls] | None = None
    """The calls in the same journals, once they were asked for (call_journal.py)."""
    folds_loops: bool = False
    """Whether `calls` has loops folded."""

    def curve(self, track: str, column: str) -> Curve | None:
        return self.curves.get((track, column))

    def columns(self, track: str) -> dict[str, Curve]:
        """The curves of one thing, by column."""
        return {column: curve for (name, column), curve in self.curves.items() if name == track}

    @property
    def first(self) -> ProfiledProcess | None:
        """The process that was started or attached to."""
        return next((p for p in self.processes.values() if p.parent is None), None)
