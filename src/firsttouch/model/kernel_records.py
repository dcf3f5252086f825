"""Profiles of kernels from records: of runs that copy, whose kernels use the device's own memory, and of runs in
page-locked memory of the host, which make the link a meter of what kernels take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Literal, TypeAlias

import msgspec

from firsttouch.base.errors import UsageError
from firsttouch.machine.allocators.properties import common_allocator, is_common, is_main_of_device, role
from firsttouch.model.costs import Price, Unmeasured
from firsttouch.model.kernels import (
    BANDWIDTH,
    NO_SETTINGS,
    KernelPoint,
    KernelProfile,
    KernelProfiles,
    Kernels,
    NoProfile,
    ProfiledDevice,
    RateSpread,
    between,
    cycles_of,
    digest_of,
    kernel_bytes,
    kernels_at,
    known_profiles,
    link_bytes,
    nearest_two,
    of_agent,
    summed,
    tiny_of,
)
from firsttouch.model.measured import MeasuredPrices
from firsttouch.model.parameters import KERNELS
from firsttouch.model.platform import Platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.program.declarations import Params
from firsttouch.program.dry_run import Declares, program_of
from firsttouch.program.phase_threads import USUAL_THREADS
from firsttouch.program.program import Program
from firsttouch.program.strategies import STRATEGIES, Strategy
from firsttouch.records.reading import Results, has_results, load_results
from firsttouch.records.schema import DeviceInfo, Machine, Record, Scalar, as_number
from firsttouch.records.statistics import measured
from firsttouch.records.text import join_names

PLAIN_FACTORS = frozenset({"app", "strategy", "size", "events", "repeat", "kernel_times"})
ALONE: Mapping[str, Scalar] = {"ranks": 1, "interface": "none", "buffers": "device"}
"""Factors of runs, and what an application that could share its work with others has of more. Runs that set more are
another program, or on other memory."""
DeclaringApp: TypeAlias = Callable[[Params], Declares]
TimeOfPoint: TypeAlias = "Callable[[KernelPoint], tuple[float | None, float]]"
"""What was measured at a point, and the bytes that are declared for it."""
HOW = "make them with: firsttouch app NAME --strategy explicit --strategy pinned --set kernel_times=on --out DIR"
COMMON_SIZE = 256 << 20
LEAST_SIZE = 16 << 20
"""Of runs that say how times grow with the size: in smaller ones launches decide."""
IDLE = 0.01
"""If the CPU declares less than this part of the bytes of the kernels, what it computes between them does not count."""
SAME_TIME = 0.03
"""The time of iterations stands for that of kernels if both are known at some size and differ by at most this part."""


@dataclass(frozen=True)
class KernelRun:
    """Records of one device: of its micro-measurements, in the directory `source`, and of applications by directory.
    platform: may know the rates of the device, where the micro-measurements do not.
    """

    name: str
    machine: Machine
    device: DeviceInfo
    source: str
    prices: Sequence[Record]
    applications: Mapping[str, Sequence[Record]]
    platform: Platform | None = None


@dataclass
class _Found:
    """A point, and the ns of its iterations in the device's own memory, if they may stand for those of its kernels."""

    point: KernelPoint
    iterations: float | None


def profiles_from(runs: Iterable[KernelRun], apps: Mapping[str, DeclaringApp]) -> KernelProfiles:
    """The profiles of applications that ran as they are now.

    Raises:
        NoProfile: nothing says at which rate kernels read the device's memory, or that of the host.
    """
    devices: dict[str, ProfiledDevice] = {}
    found: dict[str, list[_Found]] = {}
    for run in runs:
        devices[run.name] = _device(run)
        for source, records in run.applications.items():
            for name, point_records in _by_point(records, run.device.name, apps):
                if point := _point_from(run.name, source, apps[name], point_records):
                    found.setdefault(name, []).append(point)
    kept = {name: _points(points) for name, points in sorted(found.items())}
    profiles = {name: KernelProfile(digest_of(apps[name]), tuple(points)) for name, points in kept.items() if points}
    return KernelProfiles(devices, _spreads(list(kept.values())), profiles)


@cache
def own_runs(path: str) -> dict[str, Results]:
    """One's own runs, in a directory or in those that it holds, by directory.

    Raises UsageError if there are none, if they are predictions, or of several GPUs.
    """
    folder = Path(path)
    found = [folder] if has_results(folder) else sorted(p for p in folder.glob("*") if has_results(p))
    if not found:
        raise UsageError(f"{path} holds no results of applications; {HOW}")
    runs = {str(each): load_results(each) for each in found}
    ran = [r for results in runs.values() for r in measured(results.records)]
    if any(r.modelled for r in ran):
        raise UsageError(f"{path} holds predictions, which say nothing of kernels; {HOW}")
    if len(titles := {device.title for _, device in _profiled(runs)}) > 1:
        raise UsageError(f"{path} holds runs on {join_names(sorted(titles))}; name a directory of runs on one of them")
    return runs


def _profiled(runs: Mapping[str, Results]) -> list[tuple[Machine, DeviceInfo]]:
    """The devices on which applications ran that use kernels."""
    return [
        (results.machine, device)
        for results in runs.values()
        for device in results.machine.devices
        if device.capabilities.runs_kernels
        and any(r.device == device.name and "app" in r.factors for r in measured(results.records))
    ]


def profiles_of(path: str, app: type[Declares], platform: Platform) -> KernelProfiles:
    """The profile of an application from one's own runs, which is as sure as those of this program. platform: knows the
    rates of its own device.

    Raises NoProfile if the application is not in them, or the rates of the GPU's memory and of its link are unknown.
    """
    key = (path, app, platform.device_name, platform.digest)
    if key not in _PROFILES:
        _PROFILES[key] = _own_profiles(path, app, platform)
    return _PROFILES[key]


_PROFILES: dict[tuple[object, ...], KernelProfiles] = {}


def _own_profiles(path: str, app: type[Declares], platform: Platform) -> KernelProfiles:
    runs = own_runs(path)
    records = {name: [r for r in run.records if r.factors.get("app") == app.name] for name, run in runs.items()}
    for machine, device in _profiled(runs)[:1]:
        micro = [r for run in runs.values() for r in run.records]
        run = KernelRun("own", machine, device, path, micro, records, platform)
        profiles = profiles_from([run], {app.name: app})
        if app.name in profiles.applications:
            return msgspec.structs.replace(profiles, spreads=known_profiles().spreads)
    raise NoProfile(f"no runs in {path} say what the kernels of {app.name} take, which is not in the times; {HOW}")


def _device(run: KernelRun) -> ProfiledDevice:
    """The device with its measured rates, or those of its platform, or as this program knows it."""
    title, locked = run.device.title, common_allocator("page-locked")
    try:
        prices = MeasuredPrices(run.machine, run.prices, run.device)
        memory = _rate(prices.price("stream", "gpu", common_allocator("device"), "read"))
        link = _rate(prices["remote", "h2d", locked])
    except Unmeasured as missing:
        known_device = next((d for d in known_profiles().devices.values() if d.title == title), None)
        if run.platform is not None and run.platform.device.title == title and run.platform.has(BANDWIDTH):
            memory = run.platform.quantity(BANDWIDTH).value
            link = _rate(PlatformPrices(run.platform)["remote", "h2d", locked])
        elif known_device is not None:
            memory, link = known_device.memory, known_device.link
        else:
            raise NoProfile(
                f"{run.source} does not say at which rates {title} uses its memory and the host's; add a directory of "
                f"{missing}"
            ) from None
    processors = int(as_number(run.machine.facts.get("cpu", {}).get("cores_usable")) or 0)
    rates = _five_digits(memory), _five_digits(link), _five_digits(cycles_of(run.device.facts))
    return ProfiledDevice(title, *rates, processors, run.source)


def _rate(price: Price) -> float:
    """GB/s at a size that all runs have measured, so that devices are compared at the same."""
    return COMMON_SIZE / price.of(COMMON_SIZE).value


def _by_point(
    records: Iterable[Record], device: str, apps: Mapping[str, DeclaringApp]
) -> list[tuple[str, list[Record]]]:
    """Plain runs of applications, without events, with their names: those with the same parameters and settings."""
    by_point: dict[tuple[str, str, str], list[Record]] = {}
    for r in measured(records):
        name, events = r.factors.get("app"), r.factors.get("events", "off")
        if r.device != device or not isinstance(name, str) or name not in apps or events != "off":
            continue
        usual = _usual_settings(apps[name])
        known = PLAIN_FACTORS | usual.keys() | tiny_of(apps[name]).keys()
        more = {n: v for n, v in r.factors.items() if n not in known}
        if more.items() <= ALONE.items():
            key = (name, str(sorted(r.parameters.items())), str(_unusual(r.factors, usual)))
            by_point.setdefault(key, []).append(r)
    return [(name, same) for (name, _, _), same in by_point.items()]


def _usual_settings(app: DeclaringApp) -> Mapping[str, str]:
    """The settings that decide what an application computes, and by how many threads, with their usual values."""
    options: Mapping[str, Sequence[str]] = getattr(app, "options", {})
    same: Collection[str] = getattr(app, "same_kernels", ())
    return {**{name: values[0] for name, values in options.items() if name not in same}, **USUAL_THREADS}


def _unusual(settings: Mapping[str, object], usual: Mapping[str, str]) -> dict[str, str]:
    return {name: str(settings[name]) for name, value in usual.items() if settings.get(name, value) != value}


def _uses_device_memory(strategy: Strategy) -> bool:
    return strategy.duplicated and is_main_of_device(strategy.allocator) and is_common(strategy.host_arrays)


def _uses_host_memory(strategy: Strategy) -> bool:
    return not strategy.duplicated and is_common(strategy.allocator) and role(strategy.allocator) == "page-locked"


def _point_from(device: str, source: str, app: DeclaringApp, records: Sequence[Record]) -> _Found | None:
    """A point from the records of one application with the same parameters. None if there is nothing in them, or if
    the application does not take these parameters any more.
    """
    device_run = _last_record(r for r in records if _uses_device_memory(STRATEGIES[str(r.factors.get("strategy"))]))
    host_run = _last_record(r for r in records if _uses_host_memory(STRATEGIES[str(r.factors.get("strategy"))]))
    any_run = device_run or host_run
    if any_run is None:
        return None
    params = {name: v for name, v in any_run.parameters.items() if isinstance(v, int)}
    if set(params) != set(tiny_of(app)) or app(params).footprint(params) != any_run.counters.get("footprint_bytes"):
        return None
    rounds = sum(name.startswith("iteration_") and name.endswith("_ms") for name in any_run.counters)
    settings = _unusual(any_run.factors, _usual_settings(app))
    options = {name: value for name, value in settings.items() if name not in USUAL_THREADS}
    program = program_of(app, params, rounds, options)
    ns = 1e6 * (_number(device_run, "iterations_ms") or 0.0) or None
    kernel, link, cpu = _declared(program)
    idle = cpu < IDLE * kernel
    own_ns, link_ns, cpu_ns = _times(device_run, host_run, idle)
    begin = _five_digits(summed(program.initialise, of_agent("cpu")))
    other_bytes = summed(program.initialise, lambda launch: kernel_bytes(launch) * (launch.by == "file"))
    other_bytes += summed(program.initialise, of_agent("gpu"))
    begin_ms = _number(host_run, "phase_initialise_ms") if other_bytes < begin else None
    begin_ns = None if begin_ms is None else _five_digits(begin_ms * 1e6)
    declared, times = (kernel, link, cpu, begin), (own_ns, link_ns, cpu_ns, begin_ns)
    asked = _number(device_run, "hw_l1_bytes")
    asked = None if asked is None else _five_digits(asked)
    point = KernelPoint(device, source, program.nbytes, rounds, *declared, *times, asked, settings)
    return _Found(point, ns if idle else None)


def _last_record(records: Iterable[Record]) -> Record | None:
    """The last record, of those with kernel times if any has them."""
    chosen = list(records)
    return next((r for r in reversed(chosen) if "kernel_ms" in r.counters), chosen[-1] if chosen else None)


def _declared(program: Program) -> tuple[float, float, float]:
    """The bytes that kernels declare, those of them in memory of the host, and those that the CPU's code declares."""
    in_place = of_agent("gpu", lambda launch: link_bytes(launch, program.blocks))
    kernels, link, cpu = (
        _five_digits(summed(program.compute, a)) for a in (of_agent("gpu"), in_place, of_agent("cpu"))
    )
    return kernels, link, cpu


def _times(run: Record | None, host: Record | None, idle: bool) -> tuple[float | None, float | None, float | None]:
    """ns of kernels in the device's memory, of kernels in the host's, and of the CPU between them."""
    kernels, across, cpu = _number(run, "kernel_ms"), _number(host, "kernel_ms"), None
    whole = _number(host, "kernel_compute_ms")
    if across is not None and whole is not None:
        cpu = max(0.0, whole - across)
    elif idle:
        across = _number(host, "phase_compute_ms")
    kernels_ns, link, between = (
        None if ms is None else _five_digits(ms * 1e6) for ms in (kernels, across, None if idle else cpu)
    )
    return kernels_ns, link, between


def _number(record: Record | None, counter: str) -> float | None:
    return None if record is None else as_number(record.counters.get(counter))


def _points(found: Sequence[_Found]) -> list[KernelPoint]:
    """The points of an application, with the time of their iterations where it stands for that of kernels."""
    known = [
        (f.point.footprint, abs(f.iterations / f.point.kernels - 1)) for f in found if f.iterations and f.point.kernels
    ]
    largest = max((footprint for footprint, _ in known), default=0)

    def stands(footprint: int) -> bool:
        """Whether the time of iterations stands for that of kernels, by larger runs, or by the largest."""
        return all(apart <= SAME_TIME for other, apart in known if other >= min(footprint, largest))

    points = [
        msgspec.structs.replace(f.point, kernels=_five_digits(f.iterations))
        if f.iterations and f.point.kernels is None and stands(f.point.footprint)
        else f.point
        for f in found
    ]
    kept = [p for p in points if p.kernels or p.link or p.begin or p.asked]
    return sorted(kept, key=lambda p: (p.device, p.footprint, p.source.rpartition("/")[2]))


def _spreads(profiles: Sequence[Sequence[KernelPoint]]) -> dict[Literal["kernels", "link", "cpu"], RateSpread]:
    usual = [[p for p in points if not p.settings and p.footprint >= LEAST_SIZE] for points in profiles]
    return {
        "kernels": _spread([(p, lambda p: (p.kernels, p.kernel_bytes)) for p in usual]),
        "link": _spread([(p, lambda p: (p.link, p.link_bytes)) for p in usual]),
        "cpu": _spread([(p, lambda p: (p.begin, p.begin_bytes)) for p in usual]),
    }


def _spread(profiles: Iterable[tuple[Sequence[KernelPoint], TimeOfPoint]]) -> RateSpread:
    repeats, one, two = list[float](), list[float](), list[float]()
    for points, measured_of in profiles:
        rates: dict[str, dict[int, list[float]]] = {}
        for point in points:
            time, declared = measured_of(point)
            if time and declared:
                rates.setdefault(point.device, {}).setdefault(point.footprint, []).append(time / declared)
        for by_size in rates.values():
            repeats += [abs(math.log(a / b)) for at_size in by_size.values() for a, b in combinations(at_size, 2)]
            medians = {size: median(at_size) for size, at_size in by_size.items()}
            for size, rate in medians.items():
                other_medians = {n: other_median for n, other_median in medians.items() if n != size}
                one += [
                    abs(math.log(other_median / rate)) / abs(math.log2(n / size))
                    for n, other_median in other_medians.items()
                ]
                if len(near := nearest_two(size, other_medians)) == 2 and not min(near) < size < max(near):
                    away = min(abs(math.log2(n / size)) for n in near)
                    two.append(abs(math.log(between(size, {n: other_medians[n] for n in near}) / rate)) / away)
    return RateSpread(_factor(repeats), _factor(one), _factor(two))


def _factor(changes: Sequence[float]) -> float:
    """The factor below which nine in ten changes are."""
    return _five_digits(math.exp(sorted(changes)[len(changes) * 9 // 10])) if changes else 1.0


def _five_digits(number: float) -> float:
    """Five significant digits."""
    return float(f"{number:.5g}")


def kernels_for(
    app: type[Declares], nbytes: int, platform: Platform, settings: Mapping[str, str] = NO_SETTINGS
) -> Kernels:
    """What the kernels of an application of so many bytes take on a platform: by the runs in the directory that the
    platform's value `kernels` names, or by the records of this program. settings: options of the application,
    and threads of the CPU, that are set.

    Raises:
        NoProfile: they were not measured, not with these options, or the application has changed since.
        MissingValue: the platform lacks the bandwidth of the device or the host's processors, which scale times.
    """
    profiles = known_profiles()
    if platform.has(KERNELS):
        profiles = profiles_of(platform.word(KERNELS), app, platform)
    return kernels_at(app, nbytes, platform, profiles, _unusual(settings, _usual_settings(app)))
