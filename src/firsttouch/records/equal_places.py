"""Equal devices, and equal pairs of devices: which of them is measured for all, and which differ from that one.

Devices are equal if their drivers state the same of them, pairs if their devices and the links between these are equal;
each is a place. A call that names nothing measures most points at one of several equal places (`stands_for` of a
record), and some on each device (`on_each` of an experiment).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from firsttouch.records.findings import compare_medians
from firsttouch.records.predicted import is_predicted
from firsttouch.records.reading import point_key
from firsttouch.records.schema import PEER, DeviceInfo, Factors, Location, Peer, Record
from firsttouch.records.statistics import median_of
from firsttouch.records.text import join_names, quantity

_DeviceAndPeer: TypeAlias = tuple[str, str]
"""The device of a place, and its peer or ''."""
_Link: TypeAlias = tuple[object, ...]
MOST_PAIRS = 240
"""The most equal pairs that are all in a plan: those of 16 GPUs."""
APART = 1.1
"""From this ratio on, a device whose interval lies apart differs from those equal to it."""


# ------------------------------------------------------------------------------------------------------------- in plans


class EqualPlaces:
    """The equal places among some devices. Without devices, each place is equal to itself alone.

    places: equal ones together. Of more than MOST_PAIRS equal pairs, each device has one, with the next of its peers;
    the others are in no plan.
    """

    def __init__(self, places: Sequence[Sequence[_DeviceAndPeer]] = ()) -> None:
        self._equal = {place: equal for equal in map(_first_of_each_device, places) for place in equal}
        self._pairs = {place for equal in places for place in equal}
        self._places = places

    @classmethod
    def of(cls, devices: Iterable[DeviceInfo]) -> EqualPlaces:
        all_devices, alike = list(devices), dict[tuple[bytes, bytes, _Link], list[_DeviceAndPeer]]()
        models = {device.name: device.model for device in all_devices}
        for i, device in enumerate(all_devices):
            alike.setdefault((models[device.name], b"", ()), []).append((device.name, ""))
            peers = {peer.name: peer for peer in device.peers}
            for other_device in (*all_devices[i + 1 :], *all_devices[:i]):
                if other_device.name in peers:
                    kinds = (models[device.name], models[other_device.name], _link_key(peers[other_device.name]))
                    alike.setdefault(kinds, []).append((device.name, other_device.name))
        return cls([*alike.values()])

    def among(self, devices: Iterable[DeviceInfo]) -> EqualPlaces:
        """The equal places among some of the devices."""
        names = {"", *(device.name for device in devices)}
        return EqualPlaces([[place for place in equal if names.issuperset(place)] for equal in self._places])

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

    def _place(self, device: str, factors: Factors) -> _DeviceAndPeer:
        peer = str(factors.get(PEER, ""))
        return (device, peer) if (device, peer) in self._equal else (device, "")


def _first_of_each_device(places: Sequence[_DeviceAndPeer]) -> Sequence[_DeviceAndPeer]:
    """All places, or of very many pairs the first of each device."""
    if len(places) <= MOST_PAIRS:
        return places
    return [*{device: (device, peer) for device, peer in reversed(places)}.values()][::-1]


def _link_key(peer: Peer) -> _Link:
    return peer.access, peer.same_driver, peer.link, peer.hops, peer.peak_in_gbs, peer.peak_out_gbs


# ----------------------------------------------------------------------------------------------------------- in records


def groups(records: Sequence[Record]) -> list[list[str]]:
    """Each device that stands for others, followed by these; the largest groups first."""
    found: list[list[str]] = []
    for names in sorted({(r.device, *_others(r)) for r in records}, key=len, reverse=True):
        if len(names) > 1 and not any(set(names) <= set(group) for group in found):
            found.append(list(names))
    return found


def measured_on(records: Sequence[Record]) -> str:
    """Which equal devices the records hold for: 'measured on cuda:0, which stands for 8 equal GPUs'; '' if only for
    their own. If just some of them hold for others, the sentence begins with how many.
    """
    points, standing = [r for r in records if r.status == "ok"], dict[tuple[str, str], list[Record]]()
    for record in points:
        if record.stands_for:
            peer = str(record.factors.get(PEER, "")) if record.stands_for[0].peer else ""
            standing.setdefault((record.device, peer), []).append(record)
    parts = []
    for (device, peer), rows in standing.items():
        numbers = {1 + len(r.stands_for) for r in rows}
        most = f"{'up to ' if len(numbers) > 1 else ''}{max(numbers)}"
        back = {(place.device, place.peer) for r in rows for place in r.stands_for} == {(peer, device)}
        pairs = "both directions" if back else f"{most} equal pairs"
        scope = f"from {device} to {peer}" if peer else f"on {device}"
        some = f"{len(rows):,} of {len(points):,} points " if len(rows) < len(points) else ""
        others = pairs if peer else f"{most} equal GPUs"
        done = "predicted" if is_predicted(device) else "measured"
        parts.append(f"{some}{done} {scope}, which stands for {others}")
    return "; ".join(parts)


def for_device(records: Sequence[Record], name: str) -> list[Record]:
    """The records that hold for a device: its own, and of other points the last that stands for it."""
    by_point = {_point(r): r for r in records if name in _others(r)} | {
        _point(r): r for r in records if r.device == name
    }
    return [r for r in records if r is by_point.get(_point(r))]


def unlike(records: Sequence[Record]) -> list[tuple[str, list[str]]]:
    """Each device that stands for others, with those of them that differ from it in what was measured on each, grouped
    by likeness.
    """
    return [(group[0], devices) for group in groups(records) for devices in _alike(group, records)[1:]]


def differing(records: Sequence[Record], first: str, other: str) -> list[tuple[Record, Record]]:
    """The points in which a device clearly differs from another, with the records of both."""
    of_first, of_other = ({_point(r): r for r in records if r.device == name and _is_own(r)} for name in (first, other))
    pairs = [(of_first[point], of_other[point]) for point in of_first if point in of_other]
    return [(a, b) for a, b in pairs if _are_apart(a, b)]


def differences(records: Sequence[Record]) -> list[str]:
    """A sentence for each set of devices that differ from the one that stands for them: by how much the first of them
    does, in the point of each experiment in which that is most.
    """
    sentences = []
    for first, devices in unlike(records):
        most: dict[str, tuple[Record, Record]] = {}
        for usual, own in sorted(differing(records, first, devices[0]), key=_ratio_of_medians):
            most[own.experiment] = usual, own
        parts = [
            f"{name} {quantity(median_of(own), own.unit)}, not {quantity(median_of(usual), usual.unit)}"
            for name, (usual, own) in most.items()
        ]
        verb = "differs" if len(devices) == 1 else "differ"
        sentences.append(f"{join_names(devices)} {verb} from {first}: {'; '.join(parts)}")
    return sentences


def _alike(group: Sequence[str], records: Sequence[Record]) -> list[list[str]]:
    """The devices of a group, divided into those that are alike; the one that stands for the others is in the first."""
    classes: list[list[str]] = []
    for name in group:
        matching = next((candidate for candidate in classes if not differing(records, candidate[0], name)), None)
        if matching is None:
            classes.append([name])
        else:
            matching.append(name)
    return classes


def _are_apart(a: Record, b: Record) -> bool:
    low, high = sorted(map(median_of, (a, b)))
    return compare_medians(a, b).is_clear and high >= APART * low > 0


def _is_own(record: Record) -> bool:
    """Whether the record has a value, and was measured on one device alone."""
    return record.is_measured and not record.parties and PEER not in record.factors and record.better != "neither"


def _point(record: Record) -> str:
    return point_key(record.experiment, "", record.factors)


def with_headlines_alone(records: Sequence[Record]) -> set[tuple[str, str]]:
    """The experiments and devices of which only points were measured that each of several equal devices measures."""
    stood_for = {(r.experiment, name, _point(r)) for r in records for name in _others(r)}
    measured_directly = {(r.experiment, r.device) for r in records if (r.experiment, r.device, _point(r)) in stood_for}
    return {(experiment, name) for experiment, name, _ in stood_for} - measured_directly


def _others(record: Record) -> list[str]:
    """The other devices that a record of one device stands for."""
    return [place.device for place in record.stands_for if not place.peer]


def _ratio_of_medians(pair: tuple[Record, Record]) -> float:
    low, high = sorted(map(median_of, pair))
    return high / low
