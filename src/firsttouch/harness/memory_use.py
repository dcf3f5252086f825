"""Memory in use during a run: of the host, of the device, and where a page may be in both counts, of the machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from firsttouch import _core
from firsttouch.harness.outcomes.derive import MACHINE_NOISE, MACHINE_PEAK
from firsttouch.machine import numa, usage
from firsttouch.machine.allocators.properties import is_plain_host
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import AllocatorInfo, DeviceInfo

_AT_REST, _APART = 5, 0.004
"""Readings of the machine before the first allocation, and the seconds between two."""
_RETURNED, _SETTLING = 0.02, 0.5
"""The part of a peak that may be in use after all is freed, and the seconds for which more than that is waited for."""
_SHORTEST, _COST = 0.01, 0.01
"""The least seconds between two readings during a run, and the share of the time that readings may take."""


@dataclass(frozen=True)
class MemoryCounters:
    """Counters of memory in use besides the process's resident size. Each returns None if it cannot count.

    device: bytes of device memory, by the device's own count. machine: bytes of all memory of the machine, each page
    once; it includes all other programs. overlap: a page may be in the resident size and in the device's count at once,
    so that their sum means nothing. sampled: the counter of the machine calls no driver, so that it can be read while
    the application runs.
    """

    device: Callable[[], int | None] = lambda: None
    machine: Callable[[], int | None] = lambda: None
    overlap: bool = False
    sampled: bool = False


class Meter:
    """Measures memory in use on the host, on the device and, unless pages may be in both, the sum.

    The machine's memory is read before the first allocation, after each phase, in between within `with meter:`, and
    after all is freed.
    """

    def __init__(self, counters: MemoryCounters) -> None:
        self._counters = counters
        with suppress(OSError):  # resets VmHWM, the peak resident size: proc(5), clear_refs
            Path("/proc/self/clear_refs").write_text("5")
        self._at_rest = self._read_at_rest()
        self._during: list[int] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._before = self._in_use()
        self.peak = dict.fromkeys(("peak_host_bytes",) if counters.overlap else ("peak_host_bytes", "peak_bytes"), 0)

    def _read_at_rest(self) -> list[int]:
        readings: list[int] = []
        while len(readings) < _AT_REST and (now := self._counters.machine()) is not None:
            readings.append(now)
            time.sleep(_APART)
        return readings

    def __enter__(self) -> Meter:
        if self._counters.sampled and self._at_rest:
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _sample(self) -> None:
        pause = _SHORTEST
        while not self._ended.wait(pause):
            started = time.monotonic()
            if (now := self._counters.machine()) is not None:
                self._during.append(now)
            pause = max(_SHORTEST, (time.monotonic() - started) / _COST)

    def _in_use(self) -> dict[str, int]:
        counted = {"device": self._counters.device(), "machine": self._counters.machine()}
        return {"host": _resident_bytes()[0], **{name: value for name, value in counted.items() if value is not None}}

    def more(self) -> dict[str, int]:
        """The memory in use now over that before the first allocation, by counter."""
        now = self._in_use()
        return {name: max(0, now[name] - before) for name, before in self._before.items() if name in now}

    def read(self, phase: str) -> None:
        """Update the peaks at the end of a phase."""
        more = self.more()
        sides = {f"_{name}": more[name] for name in ("host", "device") if name in more}
        in_phase = sides if self._counters.overlap else {"": sum(sides.values())}
        self.peak |= {f"memory_{phase}{side}_bytes": value for side, value in in_phase.items()}
        highest = max(more["host"], _resident_bytes()[1] - self._before["host"])
        peaks = {**{f"_{name}": value for name, value in more.items()}, "_host": highest}
        if not self._counters.overlap:
            peaks[""] = in_phase[""]
        for side, value in peaks.items():
            self.peak[f"peak{side}_bytes"] = max(self.peak.get(f"peak{side}_bytes", 0), value)
        if "peak_bytes" in self.peak:  # the host's peak may be between two readings
            self.peak["peak_bytes"] = max(self.peak["peak_bytes"], self.peak["peak_host_bytes"])

    def after_free(self) -> dict[str, int]:
        """The counters of a run whose memory was freed.

        That of the machine has a bound of its noise: what it changed by while nothing ran or from before the run to
        after it, and what it lacks to the process's own resident memory, which is a part of it.
        """
        if (before := self._before.get("machine")) is None or MACHINE_PEAK not in self.peak:
            return self.peak
        peak = max([self.peak[MACHINE_PEAK], *(reading - before for reading in self._during)])
        drift = self._machine_drift(before, _RETURNED * peak)
        lacking = self.peak["peak_host_bytes"] - peak
        noise = max(max(self._at_rest) - min(self._at_rest), drift, lacking)
        return self.peak | {MACHINE_PEAK: peak, MACHINE_NOISE: noise}

    def _machine_drift(self, before: int, small: float) -> int:
        """How far the machine's memory in use is from what it was before. A driver may return memory after the call, so
        it is read until the difference is small, for at most _SETTLING seconds.
        """
        least, end = None, time.monotonic() + _SETTLING
        while least is None or (least > small and time.monotonic() < end):
            if (now := self._counters.machine()) is None:
                break
            least = abs(now - before) if least is None else min(least, abs(now - before))
            time.sleep(_APART)
        return least or 0


def over_runs(runs: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The counters of a point from those of its runs: the largest, and of the machine the middle one, because another
    program's memory is in it. Its noise includes how far the runs' peaks are from it.
    """
    most = {name: max(run.get(name, 0) for run in runs) for name in runs[-1]}
    if MACHINE_NOISE not in most:
        return most
    peaks = sorted(run[MACHINE_PEAK] for run in runs if MACHINE_PEAK in run)
    middle = peaks[(len(peaks) - 1) // 2]
    return most | {MACHINE_PEAK: middle, MACHINE_NOISE: max(most[MACHINE_NOISE], peaks[-1] - middle, middle - peaks[0])}


def _resident_bytes() -> tuple[int, int]:
    """Resident size of this process in bytes: current and peak."""
    fields = Tree().kibibytes("proc/self/status")
    return fields.get("VmRSS", 0), fields.get("VmHWM", 0)


def memory_counters(info: DeviceInfo, device: _core.Device, allocator: str, tree: Tree | None = None) -> MemoryCounters:
    """The counters for a strategy whose buffers are memory of the allocator.

    The device's own count is that of the vendor's management library, or else the kernel's, or else what its driver
    reports as free.
    """
    tree, shares = tree or Tree(), info.capabilities.shares_host_memory
    if not info.capabilities.reports_free_memory:
        return MemoryCounters()

    def on_device() -> int:
        counted = usage.vendor_usage(device, info, tree).get("vendor_used")
        total, free = device.memory()
        return total - free if counted is None else counted

    def on_machine() -> int:
        return usage.machine_usage(usage.host_usage(tree), None if shares else on_device())

    may_overlap = [entry.name for entry in info.allocators if _is_in_both(info, entry, tree)]
    return MemoryCounters(
        on_device, on_machine if may_overlap else lambda: None, allocator in may_overlap, sampled=shares
    )


def _is_in_both(info: DeviceInfo, entry: AllocatorInfo, tree: Tree) -> bool:
    """Whether a page of the allocator may be in the process's resident size and in the device's count at once.

    So it may on a device whose memory is the host's. Otherwise it may be plain host memory that moved to the device,
    since the kernel keeps counting it for the process; and where the device's memory is a NUMA node, a managed page.
    """
    if info.capabilities.shares_host_memory:
        return True
    if entry.gpu == "none" or not entry.available:
        return False
    return is_plain_host(entry.name) or (entry.managed and bool(numa.memory_only_nodes(tree)))
