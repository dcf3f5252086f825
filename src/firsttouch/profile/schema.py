"""The lines of DIR/profile.jsonl, schema firsttouch-profile/1. docs/profile.md says what each number counts.

The file is only appended to: a header, then what was seen, in the order of time, then an end. A profiler that is killed
leaves a file without its end, perhaps with an incomplete last line. All times are seconds since the header's `clock`,
which is a reading of CLOCK_MONOTONIC; all sizes are bytes.

A profile from elsewhere is untrusted: nothing in it is executed, and lines of another form are refused.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from firsttouch.records.schema import Integer

SCHEMA = "firsttouch-profile/1"
FILE = "profile.jsonl"
_LARGEST = 2**63 - 1
NonNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
Size: TypeAlias = NonNegative
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
CounterValue: TypeAlias = Annotated[float, msgspec.Meta(ge=-1e19, le=1e19)]
"""A counter's reading, which may be a whole number of 64 bits or its sum over processes."""
Layer: TypeAlias = Literal["sampling", "gpus", "processes", "phases", "faults", "trace", "host"]
"""sampling: /proc and the host's counters. gpus: a vendor's library or driver. processes: starts and ends of processes,
from perf events. phases: ranges of NVTX. faults: sampled page faults. trace: records of CUPTI.
host: what the CPU does with host buffers that are copied.
"""


class ProfileLine(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, tag_field="line"):
    """What all lines have in common: their kind."""


class LayerState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Whether a layer saw the target. why: the sentence that says why not, or what it does not see; mend: the line to
    type, '' if there is none.
    """

    layer: Layer
    active: bool
    why: str = ""
    mend: str = ""


class GpuMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One reading of a GPU's memory by all programs. None: the source does not state it."""

    used: Size | None = None
    free: Size | None = None
    reserved: Size | None = None
    """Kept by the driver; part of neither `used` nor `free` where the source states it separately."""


class ProfiledGpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A GPU of this machine. name: 'gpu:0', ...; before: its memory before the target was started."""

    name: str
    model: str = ""
    uuid: str = ""
    pci: str = ""
    total: Size | None = None
    before: GpuMemory = GpuMemory()
    source: str
    """What states its memory, such as 'NVML' or 'mem_info_vram_used of the amdgpu driver'."""
    by_process: str = ""
    """Why its memory is not known by process; '' if it is."""
    node: NonNegative | None = None
    """The NUMA node that is this GPU's memory, where the kernel has one."""
    shares_host_memory: bool = False
    """An APU: its memory is the host's, so that a page may be in both counts."""


class Node(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A NUMA node. processors: whether it has any; gpu: the name of the GPU whose memory it is, '' if it is none's or
    that is unknown.
    """

    node: NonNegative
    total: Size
    processors: bool
    gpu: str = ""


class Header(ProfileLine, kw_only=True, tag="header"):
    """The first line. command: what was started, empty if a process was attached to (of a point that was sampled, its
    experiment and its factors); pid: of the first process.

    environment: the variables of a fixed list only, such as OMP_NUM_THREADS. settings: of the kernel, such as that of
    transparent huge pages. rank: the number of this process among those of an MPI launcher, '' if there is none.
    """

    schema: str
    version: str
    command: list[str]
    pid: NonNegative
    attached: bool = False
    started: str
    clock: Seconds
    interval: Seconds
    host: str
    rank: str = ""
    page_bytes: Size
    environment: dict[str, str] = {}
    settings: dict[str, str] = {}
    layers: list[LayerState] = []
    gpus: list[ProfiledGpu] = []
    nodes: list[Node] = []


class Started(ProfileLine, kw_only=True, tag="started"):
    """A process of the target was seen for the first time, or executed another program. key: its number in this file,
    since the kernel uses pids again. parent: the key of the process that started it, None for the first one.
    """

    t: Seconds
    key: NonNegative
    pid: NonNegative
    parent: NonNegative | None = None
    name: str = ""
    command: list[str] = []


class Ended(ProfileLine, kw_only=True, tag="ended"):
    """A process ended. status: of its exit, minus the number of the signal that killed it; None if nobody told.

    peak: its largest resident size, as the kernel states it at the end. minor, major: page faults of it and of the
    children that it waited for, if `with_children`.
    """

    t: Seconds
    key: NonNegative
    status: Integer | None = None
    peak: Size | None = None
    minor: NonNegative | None = None
    major: NonNegative | None = None
    with_children: bool = False


class BriefProcesses(ProfileLine, kw_only=True, tag="brief"):
    """Processes that started and ended between two ticks, so that no memory of theirs was read. names: how many of each
    program.
    """

    t: Seconds
    count: NonNegative
    names: dict[str, NonNegative] = {}


class Samples(ProfileLine, kw_only=True, tag="samples"):
    """Readings of some counters of one thing. rows: the time, then a value for each column; None: not read.

    of: 'total' (all processes of the target together), 'process:KEY', 'gpu:N', 'gpu:N/process:KEY' or 'machine'. A row
    is written when a value has changed. In long runs, rows are thinned (records.py): of each span of time, those
    with the least and the most of the first column remain.

    Columns of total and process:KEY, each tick: resident, minor, major; total also has processes, shared (resident
    memory of files, and of what several processes may map) and least (resident, if each page counts once). Now and
    then: of process:KEY pss, anonymous, huge, swap; nodeN, by NUMA node. Of total pss, when all processes were read
    since the last one was started. Of gpu:N used, free, reserved; of gpu:N/process:KEY used. Of machine nodeN_free,
    cgroup, numa_pages_migrated, ...
    """

    of: str
    columns: list[str]
    rows: list[list[CounterValue | Integer | None]]


class Mapping(msgspec.Struct, forbid_unknown_fields=True, array_like=True):
    """Mappings of one name: how many, their address space, resident bytes, and those in huge pages."""

    name: str
    count: NonNegative
    size: Size
    resident: Size
    huge: Size


class Mappings(ProfileLine, kw_only=True, tag="mappings"):
    """What a process had mapped, the largest resident sizes first. others: the sum of those that are not listed."""

    t: Seconds
    key: NonNegative
    rows: list[Mapping]
    others: Mapping | None = None


class Mark(ProfileLine, kw_only=True, tag="mark"):
    """The begin or the end of a range of the target, or an instant. range: tells the ranges of a process apart that are
    not nested by thread; -1 for those that are.
    """

    t: Seconds
    kind: Literal["begin", "end", "instant"]
    name: str = ""
    domain: str = ""
    pid: NonNegative
    thread: NonNegative = 0
    range: Integer = -1
    source: Literal["python", "mark", "nvtx", "app"]


class Site(ProfileLine, kw_only=True, tag="site"):
    """A place in a program at which pages were touched first. file: the program or library; offset: in that file.

    caller: the site that called it, if it is in the C or C++ library and that is known; such a site need not have
    touched any page itself. Of code that Python called, it is the user's line of Python: `file` is the source, and
    `offset` the line.
    """

    site: NonNegative
    file: str
    offset: NonNegative
    caller: NonNegative | None = None


class Symbol(ProfileLine, kw_only=True, tag="symbol"):
    """What a site is: its function, and the line of the source if the file has debug information.

    headers: the other headers of the system, such as of the C++ library, that the code is inlined from, or into.
    """

    site: NonNegative
    function: str = ""
    source: str = ""
    number: NonNegative = 0
    headers: list[str] = []


class Caller(ProfileLine, kw_only=True, tag="caller"):
    """What a place is from which memory was allocated: the fields of `Site` and of `Symbol`. near: the line is that of
    the code before it, since it has none itself.
    """

    file: str
    offset: NonNegative
    function: str = ""
    source: str = ""
    number: NonNegative = 0
    near: bool = False


class Faults(ProfileLine, kw_only=True, tag="faults"):
    """Sampled page faults since the last such line. rows: site, process key, name of the mapping, sampled faults.

    every: one of how many was sampled. lost: how many samples there was no room for. counted: all page faults in user
    mode since the start, as the kernel counts them; in the last of these lines. lines: how many of the samples have a
    line of Python, which is read right after the fault; sure: of those, how many whose thread was in the
    same line before and after.
    """

    t: Seconds
    every: NonNegative
    rows: list[tuple[NonNegative, Integer, str, NonNegative]]
    lost: NonNegative = 0
    counted: NonNegative | None = None
    lines: NonNegative = 0
    sure: NonNegative = 0


TOUCH_GRANULE = 1 << 16
"""Bytes of the parts of memory whose first touches are counted apart."""


class TouchSamples(ProfileLine, kw_only=True, tag="touch"):
    """Sampled page faults since the last such line by their address, of a program whose copies are recorded too.

    rows: site, process key, thread, first part of memory, how many parts, sampled faults. A thread is a number within
    its process, from 0 on; a part is an address divided by 64 KiB. every: one of how many faults was sampled.
    left_out: how many samples are in no row, because there are too many.
    """

    t: Seconds
    every: NonNegative
    rows: list[tuple[NonNegative, Integer, NonNegative, NonNegative, NonNegative, NonNegative]]
    left_out: NonNegative = 0


class ProfilingCost(ProfileLine, kw_only=True, tag="cost"):
    """What profiling cost since the start. cpu: seconds of this process; helper_cpu: of the one that asks the GPUs;
    lock: seconds for which reads may have held the target's memory lock. late: ticks that came more than one interval
    late.
    """

    t: Seconds
    cpu: Seconds
    helper_cpu: Seconds = 0.0
    lock: Seconds
    ticks: NonNegative
    late: NonNegative = 0


class Notice(ProfileLine, kw_only=True, tag="notice"):
    """Something that could not be seen from now on, in one sentence."""

    t: Seconds
    text: str


TARGET_ENDED = "the target ended"
"""Why a profile ended, if its first process did."""


class End(ProfileLine, kw_only=True, tag="end"):
    """The last line. status: the target's exit status, as a shell states it; None if it goes on. why: how the profile
    ended. still_running: processes of the target that go on.
    """

    t: Seconds
    status: Integer | None = None
    why: str
    still_running: NonNegative = 0


AnyLine: TypeAlias = (
    Header
    | Started
    | Ended
    | BriefProcesses
    | Samples
    | Mappings
    | Mark
    | Site
    | Symbol
    | Caller
    | Faults
    | TouchSamples
    | ProfilingCost
    | Notice
    | End
)
