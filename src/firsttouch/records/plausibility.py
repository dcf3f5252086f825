"""The check of plausibility: rules that no right measurement breaks. docs/records.md says when it is applied.

A record that breaks a rule is suspect: its field `suspect` is the rule's name, its status stays, and no finding uses
it. A limit that a machine does not state is not assumed. Files from others are treated as untrusted: any factor,
counter or fact may be absent or of another type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from msgspec.structs import astuple

from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Machine, Record, Scalar, Summary, as_number


@dataclass(frozen=True)
class Rule:
    """holds: what is true of every right record, as a sentence. applies: whether the rule is about a record, by its
    experiment, unit and direction; records that were not measured are never judged. is_broken: judges a record among
    all those of its run.
    """

    name: str
    holds: str
    applies: Callable[[Record], bool]
    is_broken: Callable[[Record, Run], bool]


class Run:
    """What records are judged by: the other records of the run, and the machine."""

    def __init__(self, records: Sequence[Record], machine: Machine) -> None:
        self.machine = machine
        self.devices = {device.name: device for device in machine.devices}
        self._records = records
        self._load_ns: dict[tuple[str, str], float | None] = {}

    @cached_property
    def _loads(self) -> list[Record]:
        return [r for r in self._records if r.experiment == "latency" and r.summary and r.summary.median > 0]

    def load_ns(self, agent: str, device: str) -> float | None:
        """The least time of a load from the largest buffer, by its interval; None if no load was measured. All devices
        have the same CPU.
        """
        if (agent, device) not in self._load_ns:
            self._load_ns[agent, device] = self._find_load_ns(agent, device)
        return self._load_ns[agent, device]

    def _find_load_ns(self, agent: str, device: str) -> float | None:
        fastest: dict[float, float] = {}
        for r in self._loads:
            size = as_number(r.factors.get("size"))
            if size is not None and r.factors.get("agent") == agent and (agent == "cpu" or r.device == device):
                fastest[size] = min(_summary(r).ci_low, fastest.get(size, math.inf))
        return fastest[max(fastest)] if fastest else None


def mark(records: Sequence[Record], machine: Machine) -> None:
    """Sets `suspect` of each measured record to the name of the first rule that it breaks. Existing marks stay."""
    run = Run(records, machine)
    rules: dict[tuple[str, str, str], list[Rule]] = {}
    for record in records:
        if not record.suspect and record.status == "ok" and record.summary is not None:
            metric = (record.experiment, record.unit, record.better)
            if metric not in rules:
                rules[metric] = [rule for rule in RULES if rule.applies(record)]
            record.suspect = next((rule.name for rule in rules[metric] if rule.is_broken(record, run)), "")


def explain(name: str) -> str:
    """The name of a rule with what it demands; the name alone if this version does not know the rule."""
    return next((f"{name}: {rule.holds}" for rule in RULES if rule.name == name), name)


def _summary(record: Record) -> Summary:
    assert record.summary is not None
    return record.summary


def _is(*experiments: str) -> Callable[[Record], bool]:
    return lambda record: record.experiment in experiments


# ---------------------------------------------------------------------------------------- one record by itself


def _has_infinite(record: Record, _run: Run) -> bool:
    """The sum of finite numbers is finite, because the schema bounds them (LARGEST)."""
    summary = astuple(_summary(record))
    counters = [v for v in record.counters.values() if isinstance(v, float)]
    return not math.isfinite(sum(record.samples) + sum(summary) + sum(counters))


_TIMES = ("ns", "us", "ms", "s")


def _is_time_or_rate(record: Record) -> bool:
    """True unless neither direction is better, as of a difference."""
    head = record.unit.partition(" ")[0]
    return record.better != "neither" and (head in _TIMES or head.endswith("/s"))


def _is_count(record: Record) -> bool:
    return record.unit in ("faults/MiB", "instructions")


def _is_not_positive(record: Record, _run: Run) -> bool:
    """Single samples may be negative where a sample is a difference of two times."""
    summary = _summary(record)
    return summary.min < 0 if _is_count(record) else min(summary.median, summary.ci_low) <= 0


class Part(NamedTuple):
    """Counters that are parts of a counter, a factor, 'median' or 'max' of the samples, or a number.

    counters: a regular expression. whole: a name, which may refer to groups of the expression, or a number. rounding:
    by how much a part may exceed its whole, relative to it.
    """

    experiment: str
    counters: str
    whole: str | float
    rounding: float = 1e-6


TWO_CLOCKS = 1e-3
"""By how much times by the device's clock and by the host's may differ. Oscillators are within 1e-4 of each other."""
PARTS = (
    Part("app", r"phase_(?!context_).+_ms", "median"),
    Part("app", r"iteration_\d+_ms", "max"),  # they are those of one run
    Part("app", r"kernel_ms", "kernel_compute_ms", TWO_CLOCKS),
    Part("app", r"memory_.+_bytes|peak_device_bytes", "peak_bytes"),
    Part("migration", r"iteration_\d+_ms|(copy_in|prefetch|advise)_ms", "median"),
    Part("atomics", r"(cpu|gpu)_rate", "median"),
    Part("atomics", r"gpu_threads_seen", "gpu_threads"),
    Part("tlb", r"over_dense_ns", "median"),
    Part("locking", r"cpu_share", 1),
    Part("caching", r"kept", 1),
    *(
        Part(name, r"(.+_(?:h2d|d2h))_(?:prefetch|fault|speculative|eviction|access_counter)_bytes", r"\1_bytes")
        for name in ("migration", "app")
    ),
)


def _whole(record: Record, name: str) -> float | None:
    if name in ("median", "max"):
        return float(getattr(record.summary, name))
    return as_number(record.counters.get(name, record.factors.get(name)))


@lru_cache(maxsize=4096)
def _name_of_whole(part: Part, counter: str) -> str | float | None:
    """The whole of which a counter is a part; None if it is none."""
    found = re.fullmatch(part.counters, counter)
    if found is None or not isinstance(part.whole, str):
        return None if found is None else part.whole
    return found.expand(part.whole)


def _exceeds_whole(record: Record, _run: Run) -> bool:
    for rule in PARTS:
        if rule.experiment != record.experiment:
            continue
        for counter, value in record.counters.items():
            name = _name_of_whole(rule, counter)
            if name is None or (part := as_number(value)) is None:
                continue
            whole = _whole(record, name) if isinstance(name, str) else name
            if whole is not None and part > whole + rule.rounding * abs(whole):
                return True
    return False


# ---------------------------------------------------------------------------------------- a fault against a load


def _is_below_load(record: Record, run: Run) -> bool:
    agent = "cpu" if str(record.factors.get("scenario")).startswith("cpu") else "gpu"
    load = run.load_ns(agent, record.device)
    return load is not None and _summary(record).ci_high * _at_once(record, run, agent) < load


def _at_once(record: Record, run: Run, agent: str) -> float:
    """The most pages whose faults can pass at the same time: one for each processor; all pages where a GPU touches
    them, or where one fault makes several pages present, as of managed memory.
    """
    device, pages = run.devices.get(record.device), as_number(record.factors.get("pages")) or 1
    entry = device.allocator(str(record.factors.get("allocator"))) if device else None
    if device is None or entry is None or entry.managed or (agent == "gpu" and device.role == "gpu"):
        return pages
    if record.factors.get("scenario") == "cpu-1":
        return 1
    given = (record.counters.get("cpu_threads"), record.factors.get("threads"))
    usable = run.machine.facts.get("cpu", {}).get("cores_usable")
    return min(pages, next((n for v in (*given, usable) if (n := as_number(v))), pages))


# ---------------------------------------------------------------------------------------- bandwidth against a peak


class Limit(NamedTuple):
    """What a copy or a stream passes through: the device's memory or the link to it.

    peak: its bytes per second, as the machine states them; None if it states none. passing: how many bytes pass for
    each byte that the record counts. cached: how many of these need not pass, since a cache of the device can hold
    them.
    """

    what: Literal["memory", "link"]
    peak: float | None
    passing: float
    cached: float = 0.0

    @property
    def rate(self) -> float | None:
        """The bytes per second that a record can count at most if no cache serves any of them."""
        return self.peak and self.peak / self.passing


def _is_above_peak(record: Record, run: Run) -> bool:
    """The unit of the records is 1e9 bytes per second."""
    found = limit(record, run)
    if found is None or found.peak is None:
        return False
    return _summary(record).median * 1e9 * (found.passing - found.cached) > found.peak


_ARRAYS = {"copy": (1, 1), "scale": (1, 1), "add": (2, 1), "triad": (2, 1), "read": (1, 0), "write": (0, 1)}
"""The arrays that a kernel of `bandwidth` reads and writes."""


def limit(record: Record, run: Run) -> Limit | None:
    """The limit of a copy or a stream; None if the record does not say what moves where, or if caches may serve all of
    it.
    """
    device, size = run.devices.get(record.device), as_number(record.factors.get("size"))
    entry = device.allocator(str(record.factors.get("allocator"))) if device else None
    if device is None or entry is None or not size or record.parties or device.role != "gpu":
        return None
    factor, cached = record.factors.get, as_number(device.facts.get("l2_bytes")) or 0.0
    if record.experiment == "transfer":
        if factor("direction") == "d2d":  # each byte is read and written
            return Limit("memory", _memory_peak(device), 2, cached / size)
        if factor("direction") not in ("h2d", "d2h"):
            return None
        if factor("engine") != "kernel":
            return Limit("link", _link_peak(device, run.machine), 1)
        return Limit("link", _link_peak(device, run.machine), 1, cached / size) if _stays_on_host(entry) else None
    if factor("arrays") != "memory" or factor("agent") != "gpu":
        return None
    reads, writes = _ARRAYS.get(str(factor("kernel")), (1, 1))
    arrays = reads + writes
    if _stays_on_host(entry):  # a link carries both directions at once
        return Limit("link", _link_peak(device, run.machine), max(reads, writes) / arrays, cached / size / arrays)
    return Limit("memory", _memory_peak(device), 1, cached / size / arrays) if entry.device_memory else None


def _is_above_link_peak(record: Record, run: Run) -> bool:
    """A copy crosses the link each time; what kernels read again may be in a cache of their device."""
    of_peak, size = as_number(record.counters.get("of_peak")), as_number(record.factors.get("size"))
    device = run.devices.get(record.device)
    if of_peak is None or not size or device is None:
        return False
    cached = (as_number(device.facts.get("l2_bytes")) or 0.0) if record.experiment == "p2p-direct" else 0.0
    return of_peak * (1 - cached / size) > 1


def _stays_on_host(entry: AllocatorInfo) -> bool:
    """True of host memory whose pages cannot move to the device."""
    return entry.host_memory and not (entry.device_memory or entry.managed) and entry.on_demand is False


def _memory_peak(device: DeviceInfo) -> float | None:
    """Bytes per second of the device's memory, as the driver states it: two transfers per cycle of CUDA's memory clock.
    Other drivers state a clock without saying how many transfers it makes.
    """
    khz, bits = (as_number(device.facts.get(name)) for name in ("memory_clock_khz", "memory_bus_bits"))
    if "compute_capability" not in device.facts or not khz or not bits:
        return None
    return 2 * khz * 1e3 * bits / 8


_PCIE_GIGATRANSFERS = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}
"""10^9 transfers per second of one lane, by generation. A transfer is one bit, coding included."""


def _link_peak(device: DeviceInfo, machine: Machine) -> float | None:
    """Bytes per second each way of the widest PCIe link of a GPU of the machine; None if the device's memory is the
    host's, or if another link may connect it.
    """
    links = machine.facts.get("links", {})
    if device.capabilities.shares_host_memory or _may_bypass_pcie(links.items()):
        return None
    peaks = []
    for name, value in links.items():
        if (found := re.fullmatch(r"(gpu\d+)_pcie_generation_max", name)) is None:
            continue
        lanes = as_number(links.get(f"{found[1]}_pcie_width_max"))
        speed = _PCIE_GIGATRANSFERS.get(int(as_number(value) or 0))
        if lanes is None or speed is None:
            return None
        peaks.append(speed * 1e9 * lanes / 8)
    return max(peaks, default=None)


def _may_bypass_pcie(links: Iterable[tuple[str, Scalar]]) -> bool:
    """True if a GPU has C2C or NVLinks to the CPU."""
    return any(
        (name.endswith("_c2c") and value is not False) or (name.endswith("_nvlink_peers") and "CPU" in str(value))
        for name, value in links
    )


RULES: Sequence[Rule] = (
    Rule("not-finite", "all samples and counters are finite numbers", lambda record: True, _has_infinite),
    Rule(
        "not-positive",
        "a time or a rate is above zero, with its whole interval; a number of faults or instructions is not below zero",
        lambda record: _is_time_or_rate(record) or _is_count(record),
        _is_not_positive,
    ),
    Rule(
        "above-peak",
        "a copy or a stream beyond the caches is not faster than the peak that the machine states for the memory or "
        "the link it passes through",
        _is("transfer", "bandwidth"),
        _is_above_peak,
    ),
    Rule(
        "above-link-peak",
        "what two devices copy, or access beyond the caches, does not cross their link faster than its stated peak",
        _is("p2p-copy", "p2p-direct"),
        _is_above_link_peak,
    ),
    Rule(
        "below-load",
        "the fault of a page takes at least as long as a load by the same agent from the largest buffer of the run",
        _is("pagefault"),
        _is_below_load,
    ),
    Rule(
        "part-above-whole",
        "a part, such as a phase, a pass or one cause of moved bytes, is not more than its whole",
        _is(*dict.fromkeys(part.experiment for part in PARTS)),
        _exceeds_whole,
    ),
)
