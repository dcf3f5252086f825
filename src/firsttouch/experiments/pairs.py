"""What experiments share whose kernels access memory of another device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import msgspec

from firsttouch import _core
from firsttouch.allocators.properties import is_device_side, main_allocator
from firsttouch.analysis.findings import at_shared
from firsttouch.analysis.statistics import group_by
from firsttouch.experiments.base import Experiment, Factor, Point, Preset, ReportSection
from firsttouch.experiments.common import allocator_names, peer, unreachable, unreachable_peer
from firsttouch.experiments.presets import FULL, QUICK, STANDARD, Candidate, Contains, Not, Octave, leave_out, take
from firsttouch.figures import Heat
from firsttouch.records.schema import PEER, SELF, DeviceInfo, Factors, Record
from firsttouch.session import Session


def _peers(device: DeviceInfo) -> list[str]:
    return [other.name for other in device.peers if other.same_driver]


def _has_no_peer(candidate: Candidate) -> bool:
    return not _peers(candidate.device)


def _in_first_pair(candidate: Candidate) -> bool:
    """True if the first device acts, on its own memory or on that of the second."""
    first = next(iter(_peers(candidate.device)), "")
    return candidate.factors[PEER] in (SELF, first) and candidate.device.name < first


def _is_largest(candidate: Candidate) -> bool:
    experiment = candidate.experiment
    assert isinstance(experiment, PairExperiment)
    return candidate.factors.size("size") == experiment.sizes(candidate.device, candidate.preset)[-1]


class PairExperiment(Experiment):
    """Kernels of `device` access memory that belongs to `peer`, in place. The owner writes it first."""

    across_devices = True
    rules = (
        leave_out("a device's own memory is what other experiments measure, unless --set peer=self asks for it here",
                  no_peer=True, chosen=Not(Contains(PEER))),
        take("the full preset measures every pair at every size", FULL),
        take("every pair is measured at the sizes that --set names", chosen=Contains("size")),
        leave_out("pairs are measured with the main allocator", QUICK, main=False),
        take("every pair is measured at the largest size", main=True, largest=True),
        leave_out("one pair is measured at all sizes, the others at the largest", in_first_pair=False),
        leave_out("other allocators are measured at every second octave", STANDARD, main=False, size=Not(Octave(2))),
    )  # fmt: skip
    properties: ClassVar = {"no_peer": _has_no_peer, "in_first_pair": _in_first_pair, "largest": _is_largest}

    def sizes(self, device: DeviceInfo, preset: Preset) -> Sequence[int]:
        """The sizes of the buffers in bytes, in ascending order."""
        raise NotImplementedError

    def supports(self, device: DeviceInfo) -> str | None:
        return None if device.capabilities.runs_kernels else f"{device.name} runs no kernels"

    def common_factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        """The factors `peer`, `allocator` and `size`."""
        usual = [a.name for a in device.allocators if a.available and is_device_side(a) and not a.managed]
        return [
            peer(device, itself=True),
            Factor(
                "allocator", usual or [main_allocator(device)], choices=allocator_names(device), doc="the peer's memory"
            ),
            Factor("size", list(self.sizes(device, preset)), "size", doc="bytes of one buffer"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        allocator, name = factors.text("allocator"), factors.text(PEER)
        if reason := unreachable(device, allocator, "gpu") or unreachable_peer(device, name):
            return reason
        entry, other = device.allocator(allocator), device.peer(name)
        if entry is not None and entry.managed:
            return f"pages of {allocator} memory move to the device that touches them, so it has none in the other's"
        return other.reason if other is not None and other.access == "copies" else None

    def derive(self, records: Sequence[Record]) -> list[Record]:
        """Adds `owner`, the device whose memory is used: with it for the peer, pairs are a matrix."""
        return [msgspec.structs.replace(r, counters={**r.counters, OWNER: owner_of(r)}) for r in records]

    def sections(self, records: Sequence[Record], device: DeviceInfo | None) -> list[ReportSection]:
        ordered = sorted(records, key=lambda r: (owner_of(r), r.device))
        shown = {name: value for r in matrix(ordered)[:1] for name, value in r.factors.items() if name in _OF_MATRIX}
        figures = [replace(f, where={**f.where, **shown}) if isinstance(f, Heat) else f for f in self.figures]
        return [ReportSection(self.question, ordered, figures, counted=self.counted, source=self.source)]


OWNER = "owner"
_OF_MATRIX = ("allocator", "size")


def owner_of(record: Record) -> str:
    """The device to which the memory belongs."""
    peer_name = record.text(PEER)
    return record.device if peer_name == SELF else peer_name


def matrix(records: Sequence[Record]) -> list[Record]:
    """The points at the size, and with the allocator, for which most pairs were measured."""
    usual = max(
        group_by(records, "allocator").values(), key=lambda rows: len(group_by(rows, "device", PEER)), default=[]
    )
    return at_shared(usual, ("device", PEER))


def between_devices(records: Sequence[Record]) -> list[Record]:
    """Those of the matrix in which a device uses another's memory."""
    return [r for r in matrix(records) if r.factors[PEER] != SELF]


def open_peer(point: Point, session: Session) -> _core.Device:
    """The device that owns the memory, with access to it by the session's device.

    Raises:
        _core.Unavailable: the device does not open, or the driver refuses access; the text says why.
    """
    owner = session.peer(point.text(PEER))
    session.device.reach(owner)
    return owner


def own_of(record: Record, records: Sequence[Record]) -> Record | None:
    """The point in which the same device uses its own memory and nothing else differs."""
    wanted = {**record.factors, PEER: SELF}
    return next((r for r in records if r.device == record.device and dict(r.factors) == wanted), None)
