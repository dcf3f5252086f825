"""What the kernels of applications take, measured elsewhere: their time in the device's own memory, the bytes that they
take across the link from memory of the host, and what the CPU computes between them.

Kernels are never predicted. A profile holds what they took at one or several sizes, as time for each byte that the
application declares its kernels to use (`Access.passes`). At another size the rates are interpolated. On another device
times are scaled by the rates of the memories, or by the cycles of all processors if the memory was not what limited
them (Williams et al., CACM 2009, roofline), and the interval has both. How many bytes cross the link is a property of
the program, and is not scaled.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Literal, TypeVar

import msgspec

from firsttouch.encoding import encode_json
from firsttouch.errors import Unsupported
from firsttouch.model.costs import Assumption, Ground, Price, Time
from firsttouch.model.parameters import KERNELS
from firsttouch.model.platform import Platform
from firsttouch.workload.dry_run import Declares, program_of
from firsttouch.workload.program import Block, Item, Launch, Program, Repeat
from firsttouch.workspace.declarations import Params

FILE = files("firsttouch.model") / "data" / "kernels.json"
BANDWIDTH = "device.bandwidth"
BUSY = 0.5
"""Kernels that take declared bytes at less than this part of the memory's rate are limited by something else."""
T = TypeVar("T")


class ProfiledDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device on which kernels were measured. memory, link: GB/s at which its kernels read its memory, and page-locked
    memory of the host. cycles: cycles of all its processors in a nanosecond; 0 if unknown. source: the directory whose
    micro-measurements these are.
    """

    title: str
    memory: float
    link: float
    cycles: float
    source: str


class KernelPoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An application's phase compute at one size, in ns; None: not measured.

    source: the directory of the records. rounds: the iterations that it took, or 0. kernels: of all kernels in the
    device's own memory, which declare `kernel_bytes`. link: of all kernels whose buffers are page-locked memory of the
    host, which declare `link_bytes` of those. cpu: what the CPU computes between them, which declares `cpu_bytes`.
    """

    device: str
    source: str
    footprint: int
    rounds: int
    kernel_bytes: float
    link_bytes: float
    cpu_bytes: float
    kernels: float | None = None
    link: float | None = None
    cpu: float | None = None


class KernelProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An application's points by size. digest: of its kernels and of what it declares."""

    digest: str
    points: tuple[KernelPoint, ...]


class KernelProfiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Profiles by application, and the devices by the names that points use.

    repeats: by how much the same point differs between visits, as a factor. sizes: by how much time for a declared byte
    differs between two sizes, as a factor for each doubling. Nine in ten of what was measured twice differ by less.
    """

    devices: dict[str, ProfiledDevice]
    repeats: float
    sizes: float
    applications: dict[str, KernelProfile]
    schema: Literal["firsttouch-kernels/1"] = "firsttouch-kernels/1"


@dataclass(frozen=True)
class Crossings:
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

    per_byte: ns of a kernel in the device's own memory, for each byte that it declares. cpu_per_byte: ns of the CPU's
    code in the phase compute for each byte that it declares, where the memory is its own and there. rounds: the
    iterations of a loop that ends when data say so, where they were measured; or 0. sources: the directories of the
    records.
    """

    name: str
    per_byte: Time | None
    crossings: Crossings | None
    cpu_per_byte: Time | None
    rounds: int
    sources: tuple[str, ...]
    grounds: tuple[Ground, ...]

    def time(self, launch: Launch) -> Time:
        """ns of a kernel in the device's own memory. Raises NoProfile if that was not measured."""
        return _known(self.per_byte, f"the time of the kernels of {self.name}").times(kernel_bytes(launch))

    def time_in_place(self, launch: Launch, blocks: Sequence[Block], link: Price) -> Time:
        """ns of a kernel whose buffers are in memory of the host. Raises NoProfile if what crosses was not measured."""
        cross = _known(self.crossings, f"what kernels of {self.name} take across the link")
        declared = link_bytes(launch, blocks)
        low, value, high = (link.of(declared * n) for n in (cross.low, cross.value, cross.high))
        crossing = Time(value.value, low.low, high.high)
        return crossing if self.per_byte is None else crossing.at_least(self.time(launch))

    def cpu_time(self, launch: Launch) -> Time:
        """ns of the CPU's code. Raises NoProfile if that was not measured."""
        declared = kernel_bytes(launch)
        return (
            _known(self.cpu_per_byte, f"what the CPU computes in {self.name}").times(declared) if declared else Time()
        )


class NoProfile(Unsupported):
    """The kernels of an application were not measured, or not as it is now. The text is the reason."""


def _known(measured: T | None, what: str) -> T:
    if measured is None:
        raise NoProfile(f"{what} was not measured, and is not in the times")
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
    """Whether a strategy that does not copy places a buffer (workspace/declarations.py: placement)."""
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
    """The digest of an application's kernels and of what it declares at size tiny."""
    tiny = tiny_of(app)
    kernels = [" ".join(file.text.split()) for file in app(tiny).kernel_files()]
    program = program_of(app, tiny)
    declared = encode_json([program.blocks, program.initialise, program.compute])
    return hashlib.sha256(encode_json(kernels) + declared).hexdigest()[:16]


# ------------------------------------------------------------------------------------------------ on a device


@cache
def known_profiles() -> KernelProfiles:
    """The profiles of this program's applications (data/kernels.json, made by docs/recompute/kernels.py)."""
    return msgspec.json.decode(FILE.read_bytes(), type=KernelProfiles)


def kernels_for(
    app: type[Declares], program: Program, platform: Platform, profiles: KernelProfiles | None = None
) -> Kernels:
    """What the kernels of an application take on a platform.

    profiles: by default those of the directory that the platform's value `kernels` names, or this program's.

    Raises:
        NoProfile: they were not measured, or the application has changed since.
        MissingValue: the platform has no bandwidth of the device, by which times are scaled.
    """
    if profiles is None and platform.has(KERNELS):
        from firsttouch.model.kernel_records import profiles_of

        profiles = profiles_of(platform.word(KERNELS), app)
    profiles = profiles or known_profiles()
    profile = profiles.applications.get(app.name)
    if profile is None:
        raise NoProfile(f"the kernels of {app.name} were not measured: what it computes is not in the times")
    if profile.digest != digest_of(app):
        raise NoProfile(f"{app.name} has changed since its kernels were measured: what it computes is not in the times")
    return _On(platform, profiles, profile).kernels(app.name, program)


@dataclass(frozen=True)
class _Scale:
    """How many times as long kernels take on the platform if the device's memory limits them, or its processors: None
    if their number or clock is unknown.
    """

    memory: Time
    processors: float | None


class _On:
    """A profile on a platform."""

    def __init__(self, platform: Platform, profiles: KernelProfiles, profile: KernelProfile) -> None:
        self.platform, self.profiles, self.profile = platform, profiles, profile

    @cached_property
    def _scales(self) -> dict[str, _Scale]:
        used = {p.device: self.profiles.devices[p.device] for p in self.profile.points}
        same = {name: device for name, device in used.items() if device.title == self.platform.device.title}
        return {name: self._scale(device) for name, device in (same or used).items()}

    def _scale(self, device: ProfiledDevice) -> _Scale:
        if device.title == self.platform.device.title:
            return _Scale(Time(1.0, 1.0, 1.0), 1.0)
        own = self.platform.quantity(BANDWIDTH)
        memory = Time(*(device.memory / rate for rate in (own.value, own.high, own.low)))
        cycles = cycles_of(self.platform.device.facts)
        return _Scale(memory, device.cycles / cycles if cycles and device.cycles else None)

    def kernels(self, name: str, program: Program) -> Kernels:
        size = program.nbytes
        per_byte = self._rate(size, lambda p: (p.kernels, p.kernel_bytes), self._time)
        crossing = self._rate(size, lambda p: (p.link, p.link_bytes), self._crossing)
        cpu = self._rate(size, lambda p: (p.cpu, p.cpu_bytes), lambda p, rate: Time(rate, rate, rate))
        crossings = None
        if crossing is not None:
            at_most = self._hides_link(size)
            crossings = Crossings(crossing.value, 0.0 if at_most else crossing.low, crossing.high, at_most)
        nearest = min(self._points, key=lambda p: abs(math.log(p.footprint / size)))
        rounds = nearest.rounds if program.rounds else 0
        points = self._near(size, self._points)
        sources = tuple(dict.fromkeys(p.source for p in points))
        return Kernels(name, per_byte, crossings, cpu, rounds, sources, self._grounds(name, points))

    def _grounds(self, name: str, points: Sequence[KernelPoint]) -> tuple[Ground, ...]:
        titles = " and ".join(dict.fromkeys(self.profiles.devices[p.device].title for p in points))
        sources = ", ".join(dict.fromkeys(p.source for p in points))
        measured = Assumption(f"the kernels of {name} take what they took on an {titles} ({sources})")
        if all(self._scales[p.device].memory.value == 1 for p in points):
            return (measured,)
        scaled = Assumption("times of kernels are scaled by the rates of the devices' memories or processors")
        return (measured, scaled, self.platform.quantity(BANDWIDTH).ground)

    @cached_property
    def _points(self) -> list[KernelPoint]:
        """Those of the device whose memory is most like the platform's."""
        nearest = min(self._scales, key=lambda name: abs(math.log(self._scales[name].memory.value)))
        return sorted((p for p in self.profile.points if p.device == nearest), key=lambda p: p.footprint)

    def _near(self, size: int, points: Sequence[KernelPoint]) -> list[KernelPoint]:
        """The points of the nearest size on either side."""
        below = max((p.footprint for p in points if p.footprint <= size), default=None)
        above = min((p.footprint for p in points if p.footprint >= size), default=None)
        return [p for p in points if p.footprint in (below, above)]

    def _rate(
        self,
        size: int,
        measured: Callable[[KernelPoint], tuple[float | None, float]],
        scaled: Callable[[KernelPoint, float], Time],
    ) -> Time | None:
        """What is measured, for each byte that is declared, at a size between the known ones or beyond them."""
        known = [p for p in self._points if (m := measured(p))[0] is not None and m[1] > 0]
        if not known:
            return None
        near = self._near(size, known)
        rates = {p.footprint: Time() for p in near}
        for footprint in rates:
            same = [scaled(p, (measured(p)[0] or 0.0) / measured(p)[1]) for p in near if p.footprint == footprint]
            values = sorted(t.value for t in same)
            rates[footprint] = Time(values[len(values) // 2], min(t.low for t in same), max(t.high for t in same))
        nearest = min(rates, key=lambda footprint: abs(math.log(footprint / size)))
        away = self.profiles.sizes ** abs(math.log2(size / nearest))
        wide = self.profiles.repeats * (away if len(rates) == 1 else 1.0)
        value = _between(size, {f: rate.value for f, rate in rates.items()})
        return Time(value, min(r.low for r in rates.values()) / wide, max(r.high for r in rates.values()) * wide)

    def _time(self, point: KernelPoint, rate: float) -> Time:
        """The time for a byte on the platform: what limits it there is what did elsewhere, or the memory."""
        scale, memory = self._scales[point.device], self.profiles.devices[point.device].memory
        other = 1.0 if scale.processors is None else scale.processors
        bounds = (other, scale.memory.low, scale.memory.high)
        value = scale.memory.value
        if rate * memory * BUSY > 1 and scale.processors is not None:
            value = max(value / (rate * memory), scale.processors)
        return Time(value, min(bounds), max(bounds)).times(rate)

    def _crossing(self, point: KernelPoint, rate: float) -> Time:
        """The bytes that cross for each that is declared."""
        ratio = rate * self.profiles.devices[point.device].link
        return Time(ratio, ratio, ratio)

    def _hides_link(self, size: int) -> bool:
        """Whether kernels took hardly longer with all their buffers across the link."""
        pairs = [(p.link, p.kernels) for p in self._near(size, [p for p in self._points if p.link and p.kernels])]
        return any(link is not None and own is not None and link < 1.25 * own for link, own in pairs)


def _between(size: int, rates: Mapping[int, float]) -> float:
    """The rate at a size, in proportion to the logarithms of the sizes; beyond them that of the nearest."""
    (first, low), (last, high) = min(rates.items()), max(rates.items())
    if first == last:
        return low
    part = min(1.0, max(0.0, math.log(size / first) / math.log(last / first)))
    return low + part * (high - low)


def cycles_of(facts: Mapping[str, object]) -> float:
    """Cycles of all processors of a device in a nanosecond; 0 if its facts do not say."""
    processors, khz = facts.get("multiprocessors"), facts.get("clock_khz")
    return processors * khz * 1e-6 if isinstance(processors, int) and isinstance(khz, int) else 0.0
