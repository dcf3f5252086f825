"""The catalogue of the values that a platform file may have: their names, what they are, in which units, and which
values are possible.

A name is one of the catalogue, or fits a pattern of it, such as `copy.<direction>.<allocator>`. The program uses
nanoseconds, bytes, bytes per nanosecond (GB/s), events per nanosecond, and plain numbers; a file, or `--what-if`, has
units.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, TypeAlias

from firsttouch.base.errors import did_you_mean

Dimension: TypeAlias = Literal["time", "size", "rate", "frequency", "clock", "count", "ratio", "price", "word", "flag"]
"""price: time by size, in points or at a rate. All others but word and flag are numbers."""

_UNITS: Mapping[str, Mapping[str, float]] = {
    "time": {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9},
    "size": {"B": 1}
    | {f"{prefix}iB": 2.0 ** (10 * power) for power, prefix in enumerate("KMGT", 1)}
    | {f"{prefix}B": 10.0 ** (3 * power) for power, prefix in enumerate("kMGT", 1)},
    "rate": {"MB/s": 1e-3, "GB/s": 1, "TB/s": 1e3, "MiB/s": 2**20 / 1e9, "GiB/s": 2**30 / 1e9},
    "frequency": {"/s": 1e-9, "k/s": 1e-6, "M/s": 1e-3, "G/s": 1},
    "clock": {"MHz": 1e-3, "GHz": 1},
    "count": {"": 1},
    "ratio": {"": 1, "%": 0.01},
}
PER_BYTE = "ns/B"
"""The unit of a price in proportion to the bytes, beside those of rates."""


def units_of(dimension: Dimension) -> Mapping[str, float]:
    """The units of a dimension, each with how many of the program's units it is. A price takes rates and times."""
    if dimension == "price":
        return {**_UNITS["rate"], **_UNITS["time"], PER_BYTE: 1}
    return _UNITS.get(dimension, {})


@dataclass(frozen=True)
class Parameter:
    """A value that a file may have.

    name: a name or a pattern. dimension: what kind of value it is. says: what it is. low, high: the bounds of the
    possible, in the program's units; of a price, of its times. words: the words that are accepted. fact: the facts of
    the device, the host or the machine that it states too, as device.FACT, host.FACT or machine.TOPIC.FACT.
    """

    name: str
    dimension: Dimension
    says: str
    low: float = 0.0
    high: float = 1e15
    words: Sequence[str] = ()
    facts: Sequence[str] = ()

    @property
    def is_pattern(self) -> bool:
        return "<" in self.name

    @property
    def parts(self) -> tuple[Sequence[str], Sequence[str]]:
        """The fixed text of a pattern, and the places between its parts."""
        parts = re.split(r"<([a-z]+)>", self.name)
        return parts[::2], parts[1::2]

    def takes(self, name: str) -> bool:
        return _pattern(self.name).fullmatch(name) is not None

    @property
    def accepted(self) -> str:
        """What a value may be, in words."""
        if self.dimension == "flag":
            return "on or off"
        if self.dimension == "word":
            return ", ".join(self.words) or "text"
        units = units_of(self.dimension)
        named_units = [unit for unit in units if unit]
        word = "or" if "" in units else "in"
        number = f"a number {word} {', '.join(named_units)}" if named_units else "a number"
        return f"{number}, or points of bytes and such a number" if self.dimension == "price" else number


_PLACES = {
    "direction": "h2d|d2h",
    "agent": "cpu|gpu",
    "call": "allocate|free",
    "pages": "base|huge",
    "allocator": "[a-z][a-z-]*",
    "hint": "preferred|accessed-by|read-mostly",
    "advice": "[a-z][a-z+-]*",
    "operation": "read|write|update",
    "threads": "one|all",
    "touch": "[a-zA-Z0-9-]+",
    "turn": "store|atomic",
    "kernel": "copy|scale|add|triad|read|write",
    "engine": "[a-z][a-z-]*",
    "scenario": "cpu|gpu-major|gpu-minor",
    "library": "mpi|xccl",
    "type": "u64|f64",
    "place": "near|far|gpu",
    "level": "l1|l2|l3",
}
"""The regular expressions for the words in angle brackets of a pattern."""


@cache
def _pattern(name: str) -> re.Pattern[str]:
    parts = re.split(r"<([a-z]+)>", name)
    return re.compile("".join(f"(?:{_PLACES[p]})" if i % 2 else re.escape(p) for i, p in enumerate(parts)))


KERNELS = "kernels"
_HOLDING = ("all", "l1", "l2", "none")
_P = Parameter
PARAMETERS: Sequence[Parameter] = (
    _P(
        "host.processors",
        "count",
        "processors of the host",
        1,
        1e6,
        facts=["host.processors", "host.host_processors", "device.host_processors"],
    ),
    _P(
        "host.memory",
        "size",
        "memory of the host that a process may use",
        2**20,
        2**50,
        facts=["machine.memory.total_bytes", "host.host_memory_bytes", "device.host_memory_bytes"],
    ),
    _P(
        "host.page",
        "size",
        "base page of the host's kernel",
        2**12,
        2**16,
        facts=["machine.memory.page_bytes", "host.host_page_bytes", "device.host_page_bytes"],
    ),
    _P(
        "host.huge_page",
        "size",
        "transparent huge page of the host's kernel",
        2**16,
        2**34,
        facts=["host.host_huge_page_bytes", "device.host_huge_page_bytes"],
    ),
    _P(
        "host.architecture",
        "word",
        "instruction set of the host's processors, as uname -m names it",
        facts=["machine.kernel.architecture"],
    ),
    _P(
        "host.thp",
        "word",
        "when plain memory gets huge pages",
        words=["always", "madvise", "never"],
        facts=["machine.huge_pages.thp_enabled"],
    ),
    _P("host.l1", "size", "first-level data cache of a core of the host", 2**10, 2**24, facts=["host.l1_bytes"]),
    _P("host.l2", "size", "second-level cache of a core of the host", 2**10, 2**30, facts=["host.l2_bytes"]),
    _P("host.l3", "size", "last-level caches of the host, together", 2**10, 2**36, facts=["host.l3_bytes"]),
    _P(
        "host.infinity_cache",
        "size",
        "memory-side cache of the host",
        2**20,
        2**36,
        facts=["host.infinity_cache_bytes"],
    ),
    _P("host.cores_per_l3", "count", "cores of the host that share a last-level cache", 1, 1e4),
    _P("host.cores_per_l2", "count", "cores of the host that share a second-level cache", 1, 1e4),
    _P("host.line", "size", "line of the host's caches", 16, 2**10, facts=["host.line_bytes"]),
    _P("host.bandwidth", "rate", "rate at which all threads of the CPU read the host's memory", 1e-3, 1e5),
    _P(
        "device.memory",
        "size",
        "memory of the device",
        2**20,
        2**50,
        facts=["device.memory_bytes", "device.memory_free_bytes"],
    ),
    _P(
        "device.multiprocessors",
        "count",
        "multiprocessors or compute units of the device",
        1,
        1e5,
        facts=["device.multiprocessors"],
    ),
    _P("device.clock", "clock", "clock of the device's processors at most", 1e-3, 1e2),
    _P(
        "device.threads",
        "count",
        "threads that a multiprocessor has at once",
        1,
        1e5,
        facts=["device.threads_per_multiprocessor"],
    ),
    _P("device.l1", "size", "first-level cache of a multiprocessor", 2**10, 2**24, facts=["device.l1_bytes"]),
    _P("device.l2", "size", "second-level cache of the device", 2**10, 2**32, facts=["device.l2_bytes"]),
    _P(
        "device.infinity_cache",
        "size",
        "memory-side cache of the device",
        2**20,
        2**36,
        facts=["device.infinity_cache_bytes"],
    ),
    _P("device.l2_caches", "count", "second-level caches of the device", 1, 1e3),
    _P("device.l2_channels", "count", "channels of each of them", 1, 1e4),
    _P(
        "device.infinity_cache_bandwidth",
        "rate",
        "rate between the device's second-level and memory-side caches",
        1e-3,
        1e6,
    ),
    _P(
        "device.updates_per_clock",
        "ratio",
        "atomic updates of a channel, or sent by a multiprocessor, per clock",
        1e-3,
        1e3,
    ),
    _P("device.updates_in_flight", "count", "atomic updates that a thread of a kernel has under way at once", 1, 1e4),
    _P("device.line", "size", "line of the device's caches", 16, 2**10, facts=["device.line_bytes"]),
    _P("device.bandwidth", "rate", "rate at which a kernel reads the device's memory", 1e-3, 1e5),
    _P("link.h2d", "rate", "rate of the link from the host to the device", 1e-3, 1e5),
    _P("link.d2h", "rate", "rate of the link from the device to the host", 1e-3, 1e5),
    _P("host.thread_bandwidth", "rate", "rate at which one thread of the CPU streams through host memory", 1e-3, 1e5),
    _P("cached_in.<agent>", "word", "which levels of its caches hold what an agent uses", words=_HOLDING),
    _P("cached_in.<agent>.<allocator>", "word", "the same of the memory of one allocator", words=_HOLDING),
    _P("cache.<agent>.<level>.load", "time", "dependent load that a level of an agent's caches serves", 0, 1e6),
    _P(
        "cache.<agent>.<level>.rate",
        "rate",
        "rate at which all of a GPU, or one core of the CPU, streams what a level of its caches holds",
        1e-3,
        1e6,
    ),
    _P("load.<agent>.<allocator>", "price", "time of a dependent load, by the size of the buffer"),
    _P("stream.<agent>.<allocator>", "price", "rate of STREAM's kernels, by the size of one array"),
    _P("stream.<agent>.<allocator>.<kernel>", "price", "rate of one of STREAM's kernels, by the size of one array"),
    _P("atomic.own.<type>", "time", "atomic update by a thread of the CPU of a word in its core's own cache", 0, 1e6),
    _P(
        "atomic.line.<place>",
        "time",
        "what an update takes beyond that if its line is in the cache of another core with the same last-level cache "
        "(near), in one elsewhere on the chip (far), or, for the GPU, in any but its own second-level cache (gpu)",
        0,
        1e6,
    ),
    _P("faults.<allocator>", "count", "CPU page faults for each MiB of memory that its allocation populates", 0, 1e3),
    _P("lone_fault.<scenario>", "time", "mean time of a first touch of one page alone"),
    _P("lone_fault.<scenario>.p95", "time", "95th percentile of the time of a first touch of one page alone"),
    _P("peer.load.<agent>.<allocator>", "price", "time of a dependent load from memory of another device, by size"),
    _P("peer.stream.<allocator>", "price", "rate each way of a kernel that uses memory of another device, by size"),
    _P("peer.copy.<engine>.<allocator>", "price", "rate of copies to memory of another device, by size"),
    _P("peer.copy.<engine>.<allocator>.gpu_touched", "price", "the same, of memory that the GPU touched first"),
    _P("peer.lone_copy.<engine>.<allocator>", "price", "time of one copy alone to memory of another device, by size"),
    _P("launch.call", "time", "what a call of an application takes the CPU, for a kernel or for messages", 0, 1e9),
    _P("launch.wait", "time", "from the end of a kernel until the CPU that waits for it goes on", 0, 1e9),
    _P("message.start.<library>", "time", "one short message alone between two ranks of a host", 0, 1e9),
    _P("message.queued", "ratio", "part of that start which one of several queued messages takes", 0, 1),
    _P("message.direct_from", "size", "messages of device memory up to which an MPI goes through the host", 0, 2**40),
    _P(KERNELS, "word", "directory of runs that say what applications' kernels take, not this program's records"),
    _P("driver.family", "word", "driver whose rules move pages", words=["uvm", "kfd", "none"]),
    _P("driver.release", "word", "release of the driver"),
    _P("driver.ats", "flag", "whether the device translates by the host's page tables"),
    _P("driver.counters", "flag", "whether access counters move pages"),
    _P("host_touch.<pages>.<threads>", "price", "first touch of plain host memory by one thread of the CPU or by all"),
    _P("host_copy", "price", "copy by all threads of the CPU within host memory"),
    _P("driver.translation", "word", "whose address translation service the device uses", words=["arm", "ibm"]),
    _P("host.fault", "time", "CPU page fault, without clearing the page, by one thread", 1, 1e9),
    _P("host.zero", "rate", "rate at which the host's kernel clears pages, by one thread", 1e-3, 1e5),
    _P("host.faults_at_once", "ratio", "CPU page faults of one process that go on at once", 1, 1e4),
    _P("host.free_page", "time", "freeing one page that was touched", 0, 1e9),
    _P("host.lock_page", "time", "locking one page of the host for the device, or unlocking it", 0, 1e9),
    _P("ats.page", "time", "page made and mapped for a GPU's fault, without clearing it", 0, 1e9),
    _P("ats.zero", "rate", "rate at which pages made for a GPU's fault are cleared", 1e-3, 1e5),
    _P("ats.service", "time", "one service of a GPU's faults on memory of the host's page tables", 0, 1e9),
    _P("ats.counter_moves", "rate", "rate at which access counters move pages while kernels run", 1e-6, 1e5),
    _P("kfd.major", "frequency", "pages that faults of the GPU make", 1e-9, 1),
    _P("kfd.minor", "frequency", "pages that faults of the GPU map and the CPU made", 1e-9, 1),
    _P("kfd.window", "time", "fault that moves 2 MiB between the memories, without its bytes", 0, 1e9),
    _P("kfd.call", "time", "call that allocates memory at once, without its pages", 0, 1e9),
    _P("fragment.<allocator>", "size", "bytes of one translation of the GPU, on average", 4096, 2**43),
    _P("device.walk", "time", "what one translation that misses adds to a kernel that streams", 0, 1e6),
    _P("device.coherence", "word", "how caches of CPU and GPU agree on one memory", words=["none", "bus", "full"]),
    _P("uncached.<agent>", "price", "pass over memory that caches do not hold, beyond one over memory that they do"),
    _P("cache_flush", "price", "what writing back caches around a kernel takes, by the bytes that it uses"),
    _P("copy.<direction>.<allocator>", "price", "copy by the device between its memory and host memory that is there"),
    _P("copy_within.<allocator>", "price", "copy by the device within its memory"),
    _P("lone_copy.<direction>.<allocator>", "price", "one such copy alone, from the call to its completion"),
    _P("copy_into_new.<allocator>", "price", "copy by the device into plain host memory that nobody has touched"),
    _P("remote.<direction>.<allocator>", "price", "use of page-locked host memory by a kernel; reads are h2d"),
    _P("allocation.<call>.<allocator>", "price", "call that allocates or frees memory"),
    _P("touched_free.<agent>.<allocator>", "price", "call that frees memory whose pages an agent has touched"),
    _P("moving_touch.<allocator>", "price", "the CPU's first touch of memory whose pages move, beyond later writes"),
    _P(
        "gpu_fault.<operation>.<touch>.<advice>.<allocator>",
        "price",
        "a kernel's first pass over pages that are on the CPU, beyond a later pass, by bytes of the pages",
    ),
    _P("gpu_touch.<allocator>", "price", "a kernel's first touch of new pages, beyond a later pass"),
    _P("cpu_fault.<allocator>", "price", "the CPU's read of pages that are on the GPU, beyond a later read"),
    _P("cpu_return.<allocator>", "price", "the CPU's read of pages that are on the GPU"),
    _P("isolated_fault.<allocator>", "price", "one fault of a kernel, which moves at most 2 MiB"),
    _P("in_order_touch.<allocator>", "price", "a touch by one thread of a kernel of its own memory"),
    _P("own_pass.<allocator>", "price", "a kernel's pass over its own memory, in which it reads and writes every byte"),
    _P("prefetch.<allocator>", "price", "prefetch of pages from the CPU to the GPU"),
    _P("prefetch_back.<allocator>", "price", "prefetch of pages from the GPU to the CPU"),
    _P("eviction.<allocator>", "price", "pages that leave the GPU's memory because others need it"),
    _P("advise.<advice>.<allocator>", "price", "call that gives advice about memory whose pages are on the CPU"),
    _P("placements.<advice>.<allocator>", "price", "all passes of migration over data that start on the CPU"),
    _P("launched", "price", "launch of a kernel for which the CPU waits, from the call until the CPU goes on"),
    _P("exchange.<turn>.<allocator>", "price", "turns of a kernel and the CPU over a small block, by their number"),
    _P("exchange_gap.<turn>.<allocator>", "price", "one of many turns, by the ns from one to the next"),
    _P("exchange_updates.<allocator>", "count", "updates by atomics in each turn of these turns"),
    _P("uvm.batch", "time", "a batch of faults, beside its services", 0, 1e9),
    _P("uvm.service", "time", "one service of a GPU's faults in a block, without copies", 0, 1e9),
    _P("uvm.touch", "time", "one service that makes new pages for a GPU; as uvm.service if there is none", 0, 1e9),
    _P("uvm.map", "time", "one service of a GPU's faults that maps pages where they are", 0, 1e9),
    _P("uvm.copy", "time", "one copy by the driver for a fault, without its bytes", 0, 1e9),
    _P("uvm.cpu_fault", "time", "one CPU fault on managed memory among those of all threads, without bytes", 0, 1e9),
    _P("uvm.new_pages", "rate", "rate at which first touches by all threads of the CPU make managed pages", 1e-3, 1e5),
    _P("uvm.prefetch", "time", "a prefetch of a block to the GPU, without its bytes", 0, 1e9),
    _P("uvm.prefetch_back", "time", "a prefetch of a block to the CPU, without its bytes", 0, 1e9),
    _P("uvm.advice.<hint>", "time", "one kind of advice about a block", 0, 1e9),
    _P("uvm.remote_turn", "time", "turn of a kernel and the CPU over a pinned block, beyond the launch", 0, 1e9),
    _P("uvm.free", "time", "freeing a managed block that was touched", 0, 1e9),
)


@lru_cache(4096)
def parameter(name: str) -> Parameter | None:
    """The entry of the catalogue that a name has, or None."""
    return next((p for p in PARAMETERS if p.takes(name)), None)


def names_like(name: str) -> str:
    """' (did you mean ...?)' for a name that is none of the catalogue's."""
    return did_you_mean(name, [p.name for p in PARAMETERS])
