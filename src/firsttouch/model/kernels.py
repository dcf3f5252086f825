"""What the kernels of applications take, measured elsewhere: their time in the device's own memory, the bytes that they
take across the link from memory of the host, and what the CPU computes between them.

Kernels are never predicted. A profile holds what they took at one or several sizes, as time for each byte that the
application declares its kernels to use (`Access.passes`). At another size there is a fixed time, and one for each byte,
that two known sizes have. On another device times are scaled by the rates of the memories, or by the cycles of all
processors if the memory was not what limited them (Williams et al., CACM 2009, roofline), and the interval has both.
How many bytes cross the link is a property of the program, and is not scaled.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from statistics import median
from typing import Literal, TypeVar

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.base.errors import Unsupported
from firsttouch.model.costs import Assumption, Ground, Price, Time
from firsttouch.model.platform import Platform
from firsttouch.program.declarations import Params
from firsttouch.program.dry_run import Declares, program_of
from firsttouch.program.phase_threads import CPU_CODE, INITIALISE, SINGLE, USUAL_THREADS
from firsttouch.program.program import SMALL_LAUNCH, Block, Item, Launch, Repeat

FILE = files("firsttouch.model") / "data" / "kernels.json"
BANDWIDTH, PROCESSORS, CLOCK, UNITS = "device.bandwidth", "host.processors", "device.clock", "device.multiprocessors"
BUSY = 0.5
"""Kernels that take declared bytes at less than this part of the memory's rate are limited by something else."""
HARDLY_LONGER = 1.25
NO_SETTINGS: Mapping[str, str] = {}
T = TypeVar("T")


class ProfiledDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device on which kernels were measured. memory, link: GB/s at which its kernels read its memory, and page-locked
    memory of the host. cycles: cycles of all its processors in a nanosecond; 0 if unknown. host: the processors of the
    host; 0 if unknown. source: the directory whose micro-measurements these are.
    """

    title: str
    memory: float
    link: float
    cycles: float
    host: int
    source: str


class KernelPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an application took at one size, in ns; None: not measured.

    source: the directory of the records. rounds: the iterations that it took, or 0. kernels: of all kernels in the
    device's own memory, which declare `kernel_bytes`. link: of all kernels whose buffers are page-locked memory of the
    host, which declare `link_bytes` of those. cpu: what the CPU computes between them, which declares `cpu_bytes`.
    begin: what the CPU computes in the phase initialise, in memory that is there, which declares `begin_bytes`. asked:
    the bytes, not a time, that the kernels ask the first-level caches for. settings: factors that decide what is
    computed, and by how many threads, where they are not as usual.
    """

    device: str
    source: str
    footprint: int
    rounds: int
    kernel_bytes: float
    link_bytes: float
    cpu_bytes: float
    begin_bytes: float
    kernels: float | None = None
    link: float | None = None
    cpu: float | None = None
    begin: float | None = None
    asked: float | None = None
    settings: dict[str, str] = {}


class KernelProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An application's points by size. digest: of its kernels and of what it declares."""

    digest: str
    points: tuple[KernelPoint, ...]


class RateSpread(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By how much times for a declared byte are off, as factors: in nine of ten cases by less.

    repeats: from one visit to another. one: for each doubling from the only known size. two: for each doubling beyond
    two known sizes.
    """

    repeats: float = 1.0
    one: float = 1.0
    two: float = 1.0


class KernelProfiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Profiles by application, and the devices by the names that points use. spreads: of kernels in the device's
    memory, across the link, and of the CPU's code.
    """

    devices: dict[str, ProfiledDevice]
    spreads: dict[Literal["kernels", "link", "cpu"], RateSpread]
    applications: dict[str, KernelProfile]
    schema: Literal["firsttouch-kernels/1"] = "firsttouch-kernels/1"


@dataclass(frozen=True)
class LinkTraffic:
    """How many bytes cross the link for each that kernels declare of buffers in memory of the host. at_most: they take
    hardly longer in memory of the host than in their own, so that fewer may cross.
    """

    value: float
    low: float
    high: float
    at_most: bool


@dataclass(frozen=True)
class Kernels:
    """What an application's kernels take on a device, at one size. None: not measured.

    per_byte: ns of a kernel in the device's own memory, for each byte that it declares. cpu_per_byte, begin_per_byte:
    ns of the CPU's code in the phases compute and initialise, where the memory is its own and there. alone_per_byte: of
    code in the phase compute that is so small that one thread carries it out. asked: the bytes
    that they ask caches for, for each byte that they declare. rounds: the
    iterations that were measured at the nearest size, for loops that end when data say so. sources: the directories of
    the records.
    """

    name: str
    per_byte: Time | None
    crossings: LinkTraffic | None
    cpu_per_byte: Time | None
    alone_per_byte: Time | None
    begin_per_byte: Time | None
    asked: Time | None
    rounds: int
    sources: tuple[str, ...]
    grounds: tuple[Ground, ...]

    def time(self, launch: Launch) -> Time:
        """ns of a kernel in the device's own memory. Raises NoProfile if that was not measured."""
        return _require_measured(self.per_byte, f"the time of the kernels of {self.name}").times(kernel_bytes(launch))

    def in_place(self, of_kernels: float, of_the_link: float, link: Price) -> Time:
        """ns of kernels that declare so many bytes, and so many of them in memory of the host. Raises NoProfile if what
        crosses the link was not measured.
        """
        cross = _require_measured(self.crossings, f"what kernels of {self.name} take across the link")
        low, value, high = (link.of(of_the_link * n) for n in (cross.low, cross.value, cross.high))
        crossing = Time(value.value, low.low, high.high)
        return crossing if self.per_byte is None else crossing.at_least(self.per_byte.times(of_kernels))

    def cpu_time(self, launch: Launch, phase: str) -> Time:
        """ns of the CPU's code in a phase. Raises NoProfile if that was not measured."""
        if not (declared := kernel_bytes(launch)):
            return Time()
        if phase == INITIALISE:
            per_byte = self.begin_per_byte
        else:
            by_one = launch.by == "kernel" and launch.threads <= SMALL_LAUNCH
            per_byte = self.alone_per_byte if by_one else self.cpu_per_byte
        return _require_measured(per_byte, f"what the CPU computes in the phase {phase} of {self.name}").times(declared)


class NoProfile(Unsupported):
    """The kernels of an application were not measured, or not as it is now. The text is the reason."""


def _require_measured(measured: T | None, subject: str) -> T:
    if measured is None:
        raise NoProfile(f"{subject} was not measured, and is not in the times")
    return measured


# ------------------------------------------------------------------------------------------------ what is declared


def kernel_bytes(launch: Launch) -> float:
    """The bytes that a launch declares, reads and writes each."""
    return sum((a.end - a.start) * a.passes * (a.reads + a.writes) for a in launch.accesses)


def link_bytes(launch: Launch, blocks: Sequence[Block]) -> float:
    """The bytes that a kernel declares of buffers that are in memory of the host, if a strategy places none on the
    device. Reads and writes cross at once.
    """
    return sum((a.end - a.start) * a.passes for a in launch.accesses if _in_place(blocks[a.block]))


def _in_place(block: Block) -> bool:
    """Whether a strategy that does not copy places a buffer (program/declarations.py: placement)."""
    return block.role != "exchange" and block.sides != "cpu" and (block.sides == "both" or block.role != "scratch")


def summed(items: Sequence[Item], amount: Callable[[Launch], float]) -> float:
    """An amount of all launches."""
    total = 0.0
    for item in items:
        if isinstance(item, Repeat):
            total += item.count * summed(item.body, amount)
        elif isinstance(item, Launch):
            total += amount(item)
    return total


def of_agent(
    agent: Literal["cpu", "gpu"], amount: Callable[[Launch], float] = kernel_bytes
) -> Callable[[Launch], float]:
    """The amount of launches of one agent."""
    return lambda launch: amount(launch) if launch.agent == agent else 0.0


def tiny_of(app: Callable[[Params], Declares]) -> Params:
    """The parameters of an application's size tiny."""
    sizes: Mapping[str, Params] = getattr(app, "sizes", {})
    return sizes["tiny"]


@cache
def digest_of(app: Callable[[Params], Declares]) -> str:
    """The digest of an application's kernels and of what it declares at size tiny, but for how its faults spread."""
    tiny = tiny_of(app)
    kernels = [" ".join(file.text.split()) for file in app(tiny).kernel_files()]
    program = program_of(app, tiny)
    blocks = [msgspec.structs.replace(block, strided=False) for block in program.blocks]
    declared = encode_json([blocks, program.initialise, program.compute])
    return hashlib.sha256(encode_json(kernels) + declared).hexdigest()[:16]


# ------------------------------------------------------------------------------------------------ on a device


@cache
def known_profiles() -> KernelProfiles:
    """The profiles of this program's applications (data/kernels.json, made by evidence/recompute/kernels.py)."""
    return msgspec.json.decode(FILE.read_bytes(), type=KernelProfiles)


def kernels_at(
    app: type[Declares],
    nbytes: int,
    platform: Platform,
    profiles: KernelProfiles,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> Kernels:
    """What the kernels of an application of so many bytes take by given profiles. settings: as of KernelPoint. Raises
    what kernels_for does.
    """
    profile = profiles.applications.get(app.name)
    if profile is None or not profile.points:
        raise NoProfile(f"the kernels of {app.name} were not measured, and are not in the times")
    if profile.digest != digest_of(app):
        raise NoProfile(f"{app.name} has changed since its kernels were measured, which are not in the times")
    options = _options(settings)
    points = tuple(p for p in profile.points if _options(p.settings) == options)
    if not points:
        words = " and ".join(f"{name}={value}" for name, value in options.items())
        raise NoProfile(f"the kernels of {app.name} were not measured with {words}, and are not in the times")
    profile = msgspec.structs.replace(profile, points=points)
    return _ProfileOnPlatform(platform, profiles, profile).kernels(app.name, nbytes, settings)


def _options(settings: Mapping[str, str]) -> Mapping[str, str]:
    """The settings that decide what is computed."""
    return {name: value for name, value in settings.items() if name not in USUAL_THREADS}


@dataclass(frozen=True)
class _Scale:
    """How many times as long kernels take on the platform if the device's memory limits them, or its processors: None
    if their number or clock is unknown.
    """

    memory: Time
    processors: float | None


class _ProfileOnPlatform:
    """A profile on a platform."""

    def __init__(self, platform: Platform, profiles: KernelProfiles, profile: KernelProfile) -> None:
        self.platform, self.profiles, self.profile = platform, profiles, profile

    @cached_property
    def _order(self) -> list[str]:
        """The devices of the profile: first those like the platform's, then those whose memory is most like its."""
        bandwidth = self.platform.quantity(BANDWIDTH).value if self.platform.has(BANDWIDTH) else None
        used = {p.device: self.profiles.devices[p.device] for p in self.profile.points}
        title = self.platform.device.title
        return sorted(
            used,
            key=lambda name: (
                used[name].title != title,
                abs(math.log(used[name].memory / bandwidth)) if bandwidth else 0.0,
            ),
        )

    def _scale(self, device: ProfiledDevice) -> _Scale:
        if device.title == self.platform.device.title:
            return _Scale(Time(1.0, 1.0, 1.0), 1.0)
        bandwidth = self.platform.quantity(BANDWIDTH)
        memory = Time(*(device.memory / rate for rate in (bandwidth.value, bandwidth.high, bandwidth.low)))
        cycles = cycles_of(self.platform.device.facts)
        if self.platform.has(CLOCK) and self.platform.has(UNITS):
            cycles = self.platform.quantity(CLOCK).value * self.platform.quantity(UNITS).value
        return _Scale(memory, device.cycles / cycles if cycles and device.cycles else None)

    def kernels(self, name: str, size: int, settings: Mapping[str, str]) -> Kernels:
        on_device = self._points(lambda p: p.kernels)
        across = self._points(lambda p: p.link)
        asking = self._points(lambda p: p.asked)
        between, between_scale = self._by_threads(CPU_CODE, settings, lambda p: p.cpu)
        begin, begin_scale = self._by_threads(INITIALISE, settings, lambda p: p.begin)
        spreads = self.profiles.spreads
        per_byte = _rate(size, on_device, self._time, spreads["kernels"])
        crossing = _rate(size, across, self._crossing, spreads["link"])
        cpu = _rate(size, between, lambda p: between_scale(p).times((p.cpu or 0.0) / p.cpu_bytes), spreads["cpu"])
        alone = _rate(size, between, lambda p: _exactly((p.cpu or 0.0) / p.cpu_bytes), spreads["cpu"])
        begins = _rate(size, begin, lambda p: begin_scale(p).times((p.begin or 0.0) / p.begin_bytes), spreads["cpu"])
        asked = _rate(size, asking, lambda p: _exactly((p.asked or 0.0) / p.kernel_bytes), RateSpread())
        crossings = None
        if crossing is not None:
            at_most = _hides_link(_nearest_points(size, across))
            crossings = LinkTraffic(crossing.value, 0.0 if at_most else crossing.low, crossing.high, at_most)
        points = next(near for p in (on_device, across, begin, asking) if (near := _nearest_points(size, p)))
        rounds = min(points, key=lambda p: abs(math.log(p.footprint / size))).rounds
        sources = tuple(dict.fromkeys(p.source for p in points))
        grounds = self._grounds(name, points, by_one=SINGLE in settings.values())
        return Kernels(name, per_byte, crossings, cpu, alone, begins, asked, rounds, sources, grounds)

    def _points(self, measured: Callable[[KernelPoint], float | None]) -> list[KernelPoint]:
        """The points of the first device for which the value is measured, where the CPU's threads are as usual if they
        are at any.
        """
        measured_points = [p for p in self.profile.points if measured(p)]
        measured_points = [p for p in measured_points if not p.settings.keys() & USUAL_THREADS] or measured_points
        first = next((name for name in self._order if any(p.device == name for p in measured_points)), None)
        return [p for p in measured_points if p.device == first]

    def _grounds(self, name: str, points: Sequence[KernelPoint], *, by_one: bool) -> tuple[Ground, ...]:
        devices = [self.profiles.devices[p.device] for p in points]
        titles, hosts = [device.title for device in devices], sorted({device.host for device in devices})
        origin = f"{' and '.join(dict.fromkeys(titles))} ({', '.join(dict.fromkeys(p.source for p in points))})"
        grounds: list[Ground] = [Assumption(f"the kernels of {name} take as long as on an {origin}")]
        if not set(titles) <= {self.platform.device.title}:
            scaled = "kernel times are scaled by the ratio of the devices' memory bandwidth or compute rate"
            scale_values = [name for name in (BANDWIDTH, CLOCK, UNITS) if self.platform.has(name)]
            grounds += [Assumption(scaled), *(self.platform.quantity(name).ground for name in scale_values)]
        if (processors := self.platform.quantity(PROCESSORS)).value not in hosts:
            shared = (
                f"the CPU's computation scales with the number of cores, measured with {' or '.join(map(str, hosts))}"
            )
            grounds += [Assumption(shared), processors.ground]
        if by_one:
            grounds.append(Assumption("what one thread of the CPU computes takes as long as there"))
        return tuple(grounds)

    def _time(self, point: KernelPoint) -> Time:
        """The time for a byte on the platform, where the kernel is limited by what limited it elsewhere, or by the
        memory.
        """
        device, rate = self.profiles.devices[point.device], (point.kernels or 0.0) / point.kernel_bytes
        scale = self._scale(device)
        by_processors = 1.0 if scale.processors is None else scale.processors
        bounds = (by_processors, scale.memory.low, scale.memory.high)
        value = scale.memory.value
        if rate * device.memory * BUSY > 1 and scale.processors is not None:
            value = max(value / (rate * device.memory), scale.processors)
        return Time(value, min(bounds), max(bounds)).times(rate)

    def _by_threads(
        self, name: str, settings: Mapping[str, str], measured: Callable[[KernelPoint], float | None]
    ) -> tuple[list[KernelPoint], Callable[[KernelPoint], Time]]:
        """The points of CPU code by as many threads, of any device, since the hosts' code is the same, and how many
        times as long it takes on the platform. Code by one thread, where all of them were measured, takes as long to as
        many times as long as they were.
        """
        usual, wanted = USUAL_THREADS[name], settings.get(name, USUAL_THREADS[name])
        points = [p for p in self.profile.points if measured(p)]
        by_as_many = [p for p in points if p.settings.get(name, usual) == wanted]
        if wanted == usual:
            return by_as_many, self._shared
        if by_as_many:
            return by_as_many, lambda point: _exactly(1.0)
        return points, lambda point: Time(self._threads(point), 1.0, self._threads(point))

    def _threads(self, point: KernelPoint) -> float:
        return self.profiles.devices[point.device].host or self.platform.quantity(PROCESSORS).value

    def _shared(self, point: KernelPoint) -> Time:
        """Of code that the host's processors share, or which is all one's."""
        part = self._threads(point) / self.platform.quantity(PROCESSORS).value
        return Time(part, min(part, 1.0), max(part, 1.0))

    def _crossing(self, point: KernelPoint) -> Time:
        """The bytes that cross for each that is declared."""
        return _exactly((point.link or 0.0) * self.profiles.devices[point.device].link / point.link_bytes)


def scaled_time(platform: Platform, title: str, ns: float, declared: float) -> Time | None:
    """The ns on a platform of a kernel that took `ns` on a device of this title and used so many bytes. None unless the
    device is the platform's own, or one whose rates are known. Raises MissingValue as kernels_for does.
    """
    devices = known_profiles().devices
    if title == platform.device.title or ns <= 0:
        return _exactly(ns)
    name = next((name for name, device in devices.items() if device.title == title), None)
    if name is None:
        return None
    point = KernelPoint(name, "", 1, 0, declared or 1.0, 0.0, 0.0, 0.0, kernels=ns)
    profiles = KernelProfiles(devices, known_profiles().spreads, {})
    return _ProfileOnPlatform(platform, profiles, KernelProfile("", (point,)))._time(point).times(point.kernel_bytes)


def _rate(
    size: int, points: Sequence[KernelPoint], rate_of: Callable[[KernelPoint], Time], spread: RateSpread
) -> Time | None:
    """What is measured, for each byte that is declared, at a size between the known ones or beyond them."""
    rates: dict[int, Time] = {}
    for footprint in nearest_two(size, {p.footprint for p in points}):
        at_footprint = [rate_of(p) for p in points if p.footprint == footprint]
        value = median(t.value for t in at_footprint)
        rates[footprint] = Time(value, min(t.low for t in at_footprint), max(t.high for t in at_footprint))
    if not rates:
        return None
    value = between(size, {footprint: rate.value for footprint, rate in rates.items()})
    beyond = 0.0 if min(rates) <= size <= max(rates) else min(abs(math.log2(size / f)) for f in rates)
    wide = spread.repeats * (spread.one if len(rates) == 1 else spread.two) ** beyond
    if beyond:
        nearest = rates[min(rates, key=lambda n: abs(math.log(n / size)))]
        return Time(value, value * nearest.low / nearest.value / wide, value * nearest.high / nearest.value * wide)
    low, high = min(r.low for r in rates.values()), max(r.high for r in rates.values())
    return Time(value, min(value, low) / wide, max(value, high) * wide)


def _exactly(value: float) -> Time:
    return Time(value, value, value)


def _nearest_points(size: int, points: Sequence[KernelPoint]) -> list[KernelPoint]:
    """The points of the nearest size on either side."""
    below = max((p.footprint for p in points if p.footprint <= size), default=None)
    above = min((p.footprint for p in points if p.footprint >= size), default=None)
    return [p for p in points if p.footprint in (below, above)]


def _hides_link(points: Sequence[KernelPoint]) -> bool:
    """Whether kernels took hardly longer with all their buffers across the link."""
    return any(p.link < HARDLY_LONGER * p.kernels for p in points if p.link and p.kernels)


def nearest_two(size: int, sizes: Collection[int]) -> list[int]:
    """The sizes on either side; or an equal one; or, if all are on one side, the nearest, and the next that differs by
    half or more, so that noise matters little.
    """
    if size in sizes:
        return [size]
    nearest = sorted(sizes, key=lambda n: abs(math.log(n / size)))
    below, above = [n for n in nearest if n < size], [n for n in nearest if n > size]
    if below and above:
        return [below[0], above[0]]
    return nearest[:1] + [n for n in nearest if abs(math.log(n / nearest[0])) >= math.log(1.5)][:1]


def between(size: int, rates: Mapping[int, float]) -> float:
    """The rate at a size, from the fixed time and the time for each byte that two sizes imply. Beyond them, if that
    fixed time would be below zero: the rate of the nearest.
    """
    (first, low), (last, high) = min(rates.items()), max(rates.items())
    if first == last:
        return low
    slope = (last * high - first * low) / (last - first)
    fixed = first * (low - slope)
    if not first <= size <= last and (fixed < 0 or slope < 0):
        return low if size < first else high
    return slope + fixed / size


def cycles_of(facts: Mapping[str, object]) -> float:
    """Cycles of all processors of a device in a nanosecond; 0 if its facts do not say."""
    processors, khz = facts.get("multiprocessors"), facts.get("clock_khz")
    return processors * khz * 1e-6 if isinstance(processors, int) and isinstance(khz, int) else 0.0
