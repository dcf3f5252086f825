"""The check of plausibility: rules that no right measurement breaks. docs/records.md says when it is applied.

A record that breaks a rule is suspect: its field `suspect` is the rule's name, its status stays, and no finding uses
it. What records mean is in the codebooks of their experiments (codebook.py): no rule knows one by its name. A limit
that a machine does not state is not assumed. Files from others are treated as untrusted: any factor, counter or fact
may be absent or of another type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from msgspec.structs import astuple

from firsttouch.records.codebook import FirstTouch, Traffic, codebook_of, limit_of
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Machine, Record, Scalar, Summary, as_number


@dataclass(frozen=True)
class PlausibilityRule:
    """holds: what is true of every right record, as a sentence. applies: whether the rule is about a record, by its
    experiment's codebook, its unit and direction; records that were not measured are never judged. is_broken: judges a
    record among all those of its run.
    """

    name: str
    holds: str
    applies: Callable[[Record], bool]
    is_broken: Callable[[Record, JudgedRun], bool]


class JudgedRun:
    """What records are judged by: the other records of the run, and the machine."""

    def __init__(self, records: Sequence[Record], machine: Machine) -> None:
        self.machine = machine
        self.devices = {device.name: device for device in machine.devices}
        self._records = records
        self._load_ns: dict[tuple[str, str], float | None] = {}

    @cached_property
    def _loads(self) -> list[Record]:
        return [r for r in self._records if codebook_of(r.experiment).load and r.summary and r.summary.median > 0]

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
            load = codebook_of(r.experiment).load
            size = None if load is None else as_number(r.factors.get(load.size))
            by = "" if load is None else r.factors.get(load.agent)
            if size is not None and by == agent and (agent == "cpu" or r.device == device):
                fastest[size] = min(_summary(r).ci_low, fastest.get(size, math.inf))
        return fastest[max(fastest)] if fastest else None


def mark(records: Sequence[Record], machine: Machine) -> None:
    """Sets `suspect` of each measured record to the name of the first rule that it breaks. Existing marks stay."""
    run = JudgedRun(records, machine)
    rules: dict[tuple[str, str, str], list[PlausibilityRule]] = {}
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


# ---------------------------------------------------------------------------------------- one record by itself


def _has_infinite(record: Record, _run: JudgedRun) -> bool:
    """The sum of finite numbers is finite, because the schema bounds them (LARGEST)."""
    summary = astuple(_summary(record))
    counters = [v for v in record.counters.values() if isinstance(v, float)]
    return not math.isfinite(sum(record.samples) + sum(summary) + sum(counters))


_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def _is_of_time_or_rate(unit: str) -> bool:
    head = unit.partition(" ")[0]
    return head in _SECONDS or head.endswith("/s")


def _is_time_or_rate(record: Record) -> bool:
    """True unless neither direction is better, as of a difference."""
    return record.better != "neither" and _is_of_time_or_rate(record.unit)


def _is_count(record: Record) -> bool:
    return record.unit in ("faults/MiB", "instructions")


def _is_not_positive(record: Record, _run: JudgedRun) -> bool:
    """Single samples may be negative where a sample is a difference of two times."""
    summary = _summary(record)
    if _is_count(record) and summary.min < 0:
        return True
    if _is_time_or_rate(record) and min(summary.median, summary.ci_low) <= 0:
        return True
    codebook = codebook_of(record.experiment)
    return any(
        number < 0 and (entry := codebook.counter(name)) and _is_of_time_or_rate(entry.unit) and not entry.signed
        for name, value in record.counters.items()
        if (number := as_number(value)) is not None
    )


def _whole(record: Record, name: str) -> float | None:
    if name in ("median", "max"):
        return float(getattr(record.summary, name))
    return as_number(record.counters.get(name, record.factors.get(name)))


def _exceeds_whole(record: Record, _run: JudgedRun) -> bool:
    for counter, value in record.counters.items():
        limit, part = limit_of(record.experiment, counter), as_number(value)
        if limit is None or part is None:
            continue
        whole = _whole(record, limit[0]) if isinstance(limit[0], str) else limit[0]
        if whole is not None and part > whole + limit[1] * abs(whole):
            return True
    return False


# ---------------------------------------------------------------------------------------- a fault against a load


def _is_below_load(record: Record, run: JudgedRun) -> bool:
    touch = codebook_of(record.experiment).touch
    agent = None if touch is None else touch.agents.get(str(record.factors.get(touch.by)))
    if touch is None or agent is None:
        return False
    load = run.load_ns(agent, record.device)
    return load is not None and _summary(record).ci_high * _at_once(record, run, touch, agent) < load


def _at_once(record: Record, run: JudgedRun, touch: FirstTouch, agent: str) -> float:
    """The most pages whose faults can pass at the same time: one for each processor; all pages where a GPU touches
    them, or where one fault makes several pages present, as of managed memory.
    """
    device, pages = run.devices.get(record.device), as_number(record.factors.get(touch.pages)) or 1
    entry = device.allocator(str(record.factors.get("allocator"))) if device else None
    if device is None or entry is None or entry.managed or (agent == "gpu" and device.role == "gpu"):
        return pages
    if record.factors.get(touch.by) in touch.single:
        return 1
    stated_threads = (record.counters.get(name, record.factors.get(name)) for name in touch.threads)
    usable = run.machine.facts.get("cpu", {}).get("cores_usable")
    return min(pages, next((n for v in (*stated_threads, usable) if (n := as_number(v))), pages))


# ---------------------------------------------------------------------------------------- bandwidth against a peak


TINY = 1e-12
"""The least seconds that a rate is computed with."""


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


def _is_above_peak(record: Record, run: JudgedRun) -> bool:
    """A rate is in 1e9 bytes per second. Times are those of counters that say which bytes pass within them."""
    limits = limit(record, run)
    if limits is None or limits.peak is None:
        return False
    rates = [_summary(record).median * 1e9] if record.unit.endswith("/s") else []
    for name, value in record.counters.items():
        entry = codebook_of(record.experiment).counter(name)
        if entry is not None and entry.moves and (time := as_number(value)) is not None:
            passed = as_number(record.factors.get(entry.moves)) or 0.0
            rates.append(passed / max(time * _SECONDS[entry.unit], TINY))
    return any(rate * (limits.passing - limits.cached) > limits.peak for rate in rates)


def limit(record: Record, run: JudgedRun) -> Limit | None:
    """The limit of a copy or a stream; None if the record does not say what moves where, or if caches may serve all of
    it.
    """
    device, size = run.devices.get(record.device), as_number(record.factors.get("size"))
    entry = device.allocator(str(record.factors.get("allocator"))) if device else None
    if device is None or entry is None or not size or record.parties or device.role != "gpu":
        return None
    passes = (t for t in codebook_of(record.experiment).traffic if _is_traffic_of(record, t, entry))
    if (traffic := next(passes, None)) is None:
        return None
    peak = _memory_peak(device) if traffic.through == "memory" else _link_peak(device, run.machine)
    cached = (as_number(device.facts.get("l2_bytes")) or 0.0) / size
    return Limit(traffic.through, peak, traffic.passing, traffic.cacheable * cached)


def _is_traffic_of(record: Record, traffic: Traffic, entry: AllocatorInfo) -> bool:
    right = {"any": True, "device": entry.device_memory, "host": _stays_on_host(entry)}[traffic.memory]
    return right and all(
        record.factors.get(name) in (wanted if isinstance(wanted, list) else [wanted])
        for name, wanted in traffic.where.items()
    )


def _is_above_link_peak(record: Record, run: JudgedRun) -> bool:
    """A copy crosses the link each time; what kernels read again may be in a cache of their device."""
    size, device = as_number(record.factors.get("size")), run.devices.get(record.device)
    if not size or device is None:
        return False
    cache = (as_number(device.facts.get("l2_bytes")) or 0.0) / size
    shares = ((s, as_number(record.counters.get(s.counter))) for s in codebook_of(record.experiment).link_shares)
    return any(share is not None and share * (1 - s.cacheable * cache) > 1 for s, share in shares)


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
        if (match := re.fullmatch(r"(gpu\d+)_pcie_generation_max", name)) is None:
            continue
        lanes = as_number(links.get(f"{match[1]}_pcie_width_max"))
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


RULES: Sequence[PlausibilityRule] = (
    PlausibilityRule("not-finite", "all samples and counters are finite numbers", lambda record: True, _has_infinite),
    PlausibilityRule(
        "not-positive",
        "a time or a rate is above zero, with its whole interval; no other time or rate of the point, and no number of "
        "faults or instructions, is below zero",
        lambda record: True,
        _is_not_positive,
    ),
    PlausibilityRule(
        "above-peak",
        "a copy, a prefetch or a stream beyond the caches is not faster than the peak that the machine states for the "
        "memory or the link it passes through",
        lambda record: bool(codebook_of(record.experiment).traffic),
        _is_above_peak,
    ),
    PlausibilityRule(
        "above-link-peak",
        "what two devices copy, or access beyond the caches, does not cross their link faster than its stated peak",
        lambda record: bool(codebook_of(record.experiment).link_shares),
        _is_above_link_peak,
    ),
    PlausibilityRule(
        "below-load",
        "the fault of a page takes at least as long as a load by the same agent from the largest buffer of the run",
        lambda record: codebook_of(record.experiment).touch is not None,
        _is_below_load,
    ),
    PlausibilityRule(
        "part-above-whole",
        "a part, such as a phase, a pass or one cause of moved bytes, is not more than its whole",
        lambda record: any(counter.at_most is not None for counter in codebook_of(record.experiment).counters),
        _exceeds_whole,
    ),
)
