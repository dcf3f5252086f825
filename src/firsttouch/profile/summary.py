"""The numbers of a profile: what the terminal prints, profile.json holds, and the page shows.

Times are seconds since the start of the profile, sizes bytes. None is unknown; it never stands for zero.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from firsttouch.base.outputs import Output
from firsttouch.profile.by_line import ByLine
from firsttouch.profile.faults import FaultRow
from firsttouch.profile.traced import TraceSummary

SCHEMA = "firsttouch-profile-summary/1"


class SummaryPart(msgspec.Struct, frozen=True):
    """A part of the summary."""


class Peak(SummaryPart, frozen=True, kw_only=True):
    """The largest value of a curve, and when. phase: in which range of the target, '' if in none."""

    bytes: int
    t: float
    phase: str = ""


class GpuProcess(SummaryPart, frozen=True, kw_only=True):
    """The memory of a process on a GPU, as the driver tells it."""

    key: int
    pid: int
    name: str
    peak: Peak


PeakOf: TypeAlias = Literal["processes", "allocations", "all programs", ""]


class GpuRow(SummaryPart, frozen=True, kw_only=True):
    """The memory of a GPU.

    before: used by all programs before the target was started; peak: used by all programs at most; rise: the most over
    `before`. own: the most that the driver says the target's processes used together. allocated: the most that
    the target's recorded calls had allocated at once, without managed memory. reserved: by the driver.
    peak_of: whose memory the peak is that is told first: of the target's processes, else of their allocations, else of
    all programs, as `rise`; '' if none is known.
    only_own: whether `rise` is that of the target's processes, because the driver states no memory of all programs, as
    for GPUs that share the host's memory. by_process: why `own` is unknown. shared: why its memory must not be added to
    the host's, '' if it may.
    """

    name: str
    model: str
    source: str
    total: int | None = None
    before: int | None = None
    reserved: int | None = None
    peak: Peak | None = None
    rise: Peak | None = None
    own: Peak | None = None
    allocated: Peak | None = None
    peak_of: PeakOf = ""
    at_end: int | None = None
    """The rise at the end."""
    only_own: bool = False
    processes: list[GpuProcess] = []
    by_process: str = ""
    shared: str = ""

    @property
    def told(self) -> Peak | None:
        """The peak of the target, as far as it is known: that of `peak_of`."""
        peaks = {"processes": self.own, "allocations": self.allocated, "all programs": self.rise}
        return peaks[self.peak_of] if self.peak_of else None


class HostRow(SummaryPart, frozen=True, kw_only=True):
    """The resident memory of all processes together, in which a page that two processes share counts twice.

    least, most: bounds of its largest value where each page counts once; both are that of `peak` if there was only one
    process. most: the sum, but no more than the machine had in all programs at that time.
    stated: the largest resident size of one process, as the kernel stated at the end, if that is more than was read.
    pss: the largest sum of proportional set sizes, in which it counts once, among the readings, which are few;
    pss_resident: the resident memory at that time. processes: at the peak. may_be_more: the peak is unknown, as of a
    program of a few ms: it had at least what was read, and faulted on more pages after that; `most` is then None.
    """

    peak: Peak | None = None
    pss: Peak | None = None
    pss_resident: int | None = None
    at_end: int | None = None
    processes: int | None = None
    stated: int | None = None
    least: int | None = None
    most: int | None = None
    may_be_more: bool = False


class ProcessRow(SummaryPart, frozen=True, kw_only=True):
    """A process of the target. started, ended: None if it goes on. status: minus a signal's number if one killed it.

    peak: its largest resident size, None if unknown; t: when it was read, None if the kernel stated it at the end.
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
    t: float | None = None
    minor: int | None = None
    major: int | None = None


class PhaseGpu(SummaryPart, frozen=True, kw_only=True):
    """What a GPU's memory, by all programs, did in a phase: the most over the reading before, and the growth."""

    name: str
    peak: int | None = None
    growth: int | None = None


class PhaseRow(SummaryPart, frozen=True, kw_only=True):
    """A range of the target, or all of one name, which are `count`. number: of a range, in the order of their begin.

    source: as in phases.TargetPhase. seconds: of all; start, end: from the first begin to the last end. peak, growth:
    of the resident memory of all processes. open: its end was not seen.
    """

    name: str
    source: str
    domain: str = ""
    pid: int = 0
    thread: int = 0
    depth: int = 0
    number: int | None = None
    count: int = 1
    start: float
    end: float
    seconds: float
    open: bool = False
    peak: int | None = None
    growth: int | None = None
    gpus: list[PhaseGpu] = []
    minor: int | None = None
    major: int | None = None


class PageSizes(SummaryPart, frozen=True, kw_only=True):
    """Sums over the processes, of each the reading nearest to the host's peak. t: that of the largest process.

    resident: of the same processes at these times.
    """

    t: float
    resident: int | None = None
    huge: int | None = None
    anonymous: int | None = None
    swap: int | None = None
    pss: int | None = None


class NodeRow(SummaryPart, frozen=True, kw_only=True):
    """A NUMA node. used: by the target, nearest to its peak; free: the least and the last of the whole node.

    gpu: the GPU whose memory it is, '' if it is none's or that is unknown.
    """

    node: int
    total: int
    processors: bool
    gpu: str = ""
    used: int | None = None
    t: float | None = None
    least_free: int | None = None
    last_free: int | None = None


class CounterRow(SummaryPart, frozen=True, kw_only=True):
    """A counter of the machine, by all programs."""

    name: str
    first: float
    last: float
    least: float
    most: float


class MappingRow(SummaryPart, frozen=True, kw_only=True):
    """Mappings of one name: how many, address space, resident bytes, and those in huge pages."""

    name: str
    count: int
    size: int
    resident: int
    huge: int


class MappedProcess(SummaryPart, frozen=True, kw_only=True):
    """What a process had mapped. of: of what it was near to the peak: 'host' or a GPU. t: when it was read."""

    of: list[str]
    key: int
    pid: int
    name: str
    t: float
    rows: list[MappingRow]
    others: MappingRow | None = None


class BriefRow(SummaryPart, frozen=True, kw_only=True):
    """Processes that started and ended between two ticks."""

    count: int
    names: dict[str, int]


class Touches(SummaryPart, frozen=True, kw_only=True):
    """Where pages were touched first, from sampled page faults. every: one of how many was sampled; lost: samples.

    counted: page faults in user mode, which could be sampled; share: their part of all page faults, None if unknown.
    of_python: percent of the samples that are told by a line of Python; sure: percent of those whose thread was in
    the same line before and after.
    """

    every: int
    lost: int
    counted: int
    share: float | None
    rows: list[FaultRow]
    rows_left_out: int
    of_python: float = 0.0
    sure: float = 0.0


class Unseen(SummaryPart, frozen=True, kw_only=True):
    """What could not be seen: a sentence, and the line to type that mends it, '' if there is none.

    layer: the layer that is absent or incomplete, '' for a notice.
    """

    layer: str
    why: str
    mend: str = ""


class CostRow(SummaryPart, frozen=True, kw_only=True):
    """What profiling cost: seconds of the processor, of a helper's, and under the target's memory lock.

    busy, locked: these as parts of the wall time. late: ticks that came more than an interval late.
    """

    cpu: float
    helper_cpu: float
    lock: float
    ticks: int
    late: int
    busy: float | None = None
    locked: float | None = None


class ProfileSummary(Output, frozen=True, kw_only=True, tag=SCHEMA):
    """A profile in numbers. status: the target's, as a shell states it; ended: how the profile ended, '' if the
    profiler was killed. phases_found: the phases were found in the curve, since the target named none.

    phases: in the order of their begin, the longest ones if there are many. phases_by_name: those of one name as one
    row, the longest first.
    """

    summary: str = ""
    directory: str
    command: list[str]
    pid: int
    attached: bool
    host_name: str
    rank: str
    started: str
    seconds: float
    interval: float
    status: int | None
    ended: str
    still_running: int
    host: HostRow
    gpus: list[GpuRow]
    minor: int | None
    major: int | None
    processes: list[ProcessRow]
    processes_left_out: int
    brief: BriefRow
    phases: list[PhaseRow]
    phases_left_out: int
    phases_by_name: list[PhaseRow]
    names_left_out: int
    phases_found: bool
    pages: PageSizes | None
    nodes: list[NodeRow]
    counters: list[CounterRow]
    mappings: list[MappedProcess]
    touches: Touches | None
    trace: TraceSummary | None
    by_line: ByLine | None = None
    unseen: list[Unseen]
    cost: CostRow | None
