"""Equal devices, and equal pairs of devices: which of them is measured for all.

Devices are equal if their drivers state the same of them, pairs if their devices and the links between these are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from firsttouch.experiments.contract.base import Candidate, Experiment, Factor
from firsttouch.experiments.contract.presets import holds, meets
from firsttouch.records.schema import PEER, DeviceInfo, Factors, Location, Peer, Scalar

_Names: TypeAlias = tuple[str, str]
"""The device of a place, and its peer or ''."""
_Link: TypeAlias = tuple[object, ...]
MOST_PAIRS = 240
"""The most equal pairs that are all in a plan: those of 16 GPUs."""


class Sisters:
    """The equal places among some devices. Without devices, each place is equal to itself alone.

    places: equal ones together. Of more than MOST_PAIRS equal pairs, each device has one, with the next of its peers;
    the others are in no plan.
    """

    def __init__(self, places: Sequence[Sequence[_Names]] = ()) -> None:
        self._equal = {place: equal for equal in map(_first_of_each_device, places) for place in equal}
        self._pairs = {place for equal in places for place in equal}
        self._places = places

    @classmethod
    def of(cls, devices: Iterable[DeviceInfo]) -> Sisters:
        all_devices, alike = list(devices), dict[tuple[bytes, bytes, _Link], list[_Names]]()
        models = {device.name: device.model for device in all_devices}
        for i, device in enumerate(all_devices):
            alike.setdefault((models[device.name], b"", ()), []).append((device.name, ""))
            peers = {peer.name: peer for peer in device.peers}
            for other_device in (*all_devices[i + 1 :], *all_devices[:i]):
                if other_device.name in peers:
                    kinds = (models[device.name], models[other_device.name], _link_key(peers[other_device.name]))
                    alike.setdefault(kinds, []).append((device.name, other_device.name))
        return cls([*alike.values()])

    def among(self, devices: Iterable[DeviceInfo]) -> Sisters:
        """The equal places among some of the devices."""
        names = {"", *(device.name for device in devices)}
        return Sisters([[place for place in equal if names.issuperset(place)] for equal in self._places])

    def has(self, device: str, factors: Factors) -> bool:
        """Whether the place of a point is in the plan at all."""
        place = (device, str(factors.get(PEER, "")))
        return place not in self._pairs or place in self._equal

    def leads(self, device: str, factors: Factors) -> bool:
        """Whether the place of a point is the first of those that are equal to it, so that it stands for the others."""
        place = self._place(device, factors)
        return self._equal.get(place, [place])[0] == place

    def leads_nowhere(self, device: str) -> bool:
        """Whether other devices and pairs stand for the device and all pairs in which it acts."""
        first = [places[0] == place for place, places in self._equal.items() if place[0] == device]
        return bool(first) and not any(first)

    def first(self, device: str) -> str:
        """The first of the devices that are equal to a device."""
        return self._equal.get((device, ""), [(device, "")])[0][0]

    def others(self, device: str, factors: Factors) -> list[Location]:
        """The places that are equal to that of a point."""
        place = self._place(device, factors)
        return [Location(device=name, peer=peer) for name, peer in self._equal.get(place, []) if (name, peer) != place]

    def _place(self, device: str, factors: Factors) -> _Names:
        peer = str(factors.get(PEER, ""))
        return (device, peer) if (device, peer) in self._equal else (device, "")


def _first_of_each_device(places: Sequence[_Names]) -> Sequence[_Names]:
    """All places, or of very many pairs the first of each device."""
    if len(places) <= MOST_PAIRS:
        return places
    return [*{device: (device, peer) for device, peer in reversed(places)}.values()][::-1]


def _link_key(peer: Peer) -> _Link:
    return peer.access, peer.same_driver, peer.link, peer.hops, peer.peak_in_gbs, peer.peak_out_gbs


def values_on_each(factor: Factor, experiment: Experiment) -> list[Scalar]:
    """The values of a factor with which a point may be measured on each of several equal devices."""
    conditions = [each.get(factor.name, tuple(factor.values)) for each in experiment.planning.on_each]
    return [value for value in factor.values if any(holds(condition, value) for condition in conditions)]


def on_each(candidate: Candidate) -> bool:
    """Whether a point is measured on each of several equal devices."""
    return any(meets(candidate, conditions) for conditions in candidate.experiment.planning.on_each)
