"""How fast page-locked memory is copied on the machine of a profile, if a run has measured it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from firsttouch.base.errors import UsageError
from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.model.costs import Price, Unmeasured
from firsttouch.profile.content import Profile
from firsttouch.profile.link import LinkSpeed, LinkWay
from firsttouch.profile.schema import Header
from firsttouch.profile.summarise import summarise
from firsttouch.profile.summary import ProfileSummary
from firsttouch.records.reading import has_results, kept_runs, load_results, read_machine
from firsttouch.records.schema import DeviceInfo, Machine

if TYPE_CHECKING:
    from firsttouch.model.measured import MeasuredPrices


class MeasuredLink:
    """The copies that a run measured. source: its directory."""

    def __init__(self, source: str, prices: MeasuredPrices) -> None:
        self.source = source
        self._prices: dict[LinkWay, Price] = {}
        ways: tuple[LinkWay, ...] = ("h2d", "d2h")
        for way in ways:
            with suppress(Unmeasured):
                self._prices[way] = prices["copy", way, common_allocator("page-locked")]

    def __bool__(self) -> bool:
        return bool(self._prices)

    def seconds(self, way: LinkWay, nbytes: int) -> float | None:
        return self._prices[way].of(nbytes).value * 1e-9 if way in self._prices else None


def link_speed(profile: Profile) -> LinkSpeed | None:
    """What the newest run on the machine of a profile measured: of the profile's own directory, or of those where runs
    are kept. None if no run did, or if nothing was copied.
    """
    if not any(journal.copies for journal in profile.journals):
        return None
    for directory in _runs(profile.directory):
        with suppress(UsageError):
            machine = read_machine(directory)
            device = _same_device(machine, profile.header) if machine is not None else None
            if device is None:
                continue
            from firsttouch.model.measured import MeasuredPrices

            results = load_results(directory)
            link = MeasuredLink(str(directory), MeasuredPrices(results.machine, results.records, device))
            if link:
                return link
    return None


def summary_of(profile: Profile) -> ProfileSummary:
    """The numbers of a profile, beside what its machine can do if a run has measured that."""
    return summarise(profile, link_speed(profile))


def _runs(profile: Path) -> Iterator[Path]:
    """Results directories, the likeliest first."""
    if has_results(profile):
        yield profile
    with suppress(OSError):
        yield from kept_runs()


def _same_device(machine: Machine, header: Header) -> DeviceInfo | None:
    """The device of a run that is a GPU of the profile: by its UUID, or by its model on a host of the same name."""
    known = [device for device in machine.devices if device.available and device.modelled is None]
    uuids = {gpu.uuid for gpu in header.gpus} - {""}
    models = {gpu.model for gpu in header.gpus} if machine.host == header.host else set()
    by_uuid = (device for device in known if device.facts.get("uuid") in uuids)
    return next(by_uuid, None) or next((device for device in known if device.product in models), None)
