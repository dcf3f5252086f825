"""Devices that one side has and another, otherwise alike, has not, such as a GPU that fell off its bus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from firsttouch.comparison.runs import MachineDevice
from firsttouch.comparison.table import Side

Devices = Sequence[MachineDevice]


class MissingDevices(msgspec.Struct, frozen=True, tag_field="kind", tag="missing"):
    """Devices that a side lacks of one kind. missing: how many of `expected`. names: those by which it lists them;
    empty if it does not, as where its driver numbers the others anew. addresses: the PCI addresses of the base that it
    has not. why: what their driver said.
    """

    side: str
    role: str
    missing: int
    expected: int
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    why: str = ""


def missing_devices(sides: Sequence[Side], *, fleet: bool) -> list[MissingDevices]:
    """What each side lacks of the devices of the first side, and that of another; with many sides, of as many as most
    have.
    """
    usable = {i: _usable_devices(side) for i, side in enumerate(sides) if side.runs}
    if not usable or (not fleet and 0 not in usable):
        return []
    found: list[MissingDevices] = []
    for kind in dict.fromkeys(d.kind for devices in usable.values() for d in devices):
        having = {i: [d for d in devices if d.kind == kind] for i, devices in usable.items()}
        usual = _side_with_most(having) if fleet else 0
        for i in having:
            # The first side may itself lack devices.
            base = max(having, key=lambda n: len(having[n])) if i == 0 and not fleet else usual
            if len(having[i]) < len(having[base]) and _is_alike(sides, base, i, having, kind):
                listed = [d for run in sides[i].runs for d in run.machine if d.kind == kind]
                found.append(_missing_devices(sides[i].name, having[base], having[i], listed))
    return found


def unusable(sides: Sequence[Side]) -> list[MissingDevices]:
    """The devices that the machine lists and that cannot be used, of the kind of those that are the sides."""
    run = sides[0].runs[0]
    measured = [side.name for side in sides]
    kinds = {d.kind: d.role for d in run.machine if d.name in measured}
    found = []
    for kind, role in kinds.items():
        listed = [d for d in run.machine if d.kind == kind]
        if bad := [d for d in listed if d.reason]:
            reasons = "; ".join(dict.fromkeys(d.reason for d in bad))
            found.append(
                MissingDevices(measured[0], role, len(bad), len(listed), tuple(d.name for d in bad), (), reasons)
            )
    return found


def _usable_devices(side: Side) -> list[MachineDevice]:
    """The devices that can be used in every run of a side, without the host alone."""
    runs = Counter(d.name for run in side.runs for d in run.machine if not d.reason and d.role != "host")
    return [d for d in side.runs[0].machine if runs[d.name] == len(side.runs)]


def _side_with_most(having: Mapping[int, Devices]) -> int:
    """A side with as many devices as most have; of two such numbers, the larger."""
    sizes = Counter(len(devices) for devices in having.values())
    usual = max(sizes, key=lambda n: (sizes[n], n))
    return next(i for i, devices in having.items() if len(devices) == usual)


def _is_alike(sides: Sequence[Side], base: int, side: int, having: Mapping[int, Devices], kind: str) -> bool:
    """Whether a machine with fewer devices of a kind is one that should have as many: its devices are of the same
    models, or it has none at all, looked for them, and has the same processor.
    """
    if having[side]:
        return {d.title for d in having[side]} <= {d.title for d in having[base]}
    looked = any(d.kind == kind for d in sides[side].runs[0].machine)
    models = [sides[i].runs[0].identity.get("cpu.model") for i in (base, side)]
    return looked and models[0] == models[1] is not None


def _missing_devices(side: str, expected: Devices, here: Devices, listed: Devices) -> MissingDevices:
    missing = len(expected) - len(here)
    reasons = {d.name: d.reason for d in listed if d.reason and d.name in {e.name for e in expected}}
    gone = tuple(sorted({d.address for d in expected} - {d.address for d in here} - {""}))
    whole = next((d.reason for d in listed if d.reason), "") if not here else ""
    return MissingDevices(
        side,
        expected[0].role,
        missing,
        len(expected),
        tuple(reasons) if len(reasons) == missing else (),
        gone if here and len(gone) == missing else (),
        "; ".join(dict.fromkeys(reasons.values())) if len(reasons) == missing else whole,
    )
