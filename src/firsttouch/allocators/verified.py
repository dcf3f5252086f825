"""methods.json: what `firsttouch methods --verify --out DIR` established, and how a later run takes it on trust.

It holds for the machine, kernel and drivers on which it was found; on any other it is refused.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from firsttouch import __version__
from firsttouch.allocators.methods import Cell
from firsttouch.errors import UsageError
from firsttouch.files import as_usage, read_regular, write_atomically
from firsttouch.machine import host
from firsttouch.machine.facts import host_topics
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import SCHEMA, DeviceInfo, Scalar, Struct
from firsttouch.records.trust import fill_in

METHODS = "methods.json"

_SYSTEM = (("kernel", "release"), ("nvidia", "kernel_module"), ("amd", "kernel_module"))
"""Facts of the machine, by topic, on which the answers depend."""
_DRIVER = ("uuid", "driver", "driver_api", "version", "runtime", "arch", "xnack")
"""The same of a device."""


class VerifiedDevice(Struct):
    """A device that was tried, and which driver it had."""

    name: str
    title: str
    facts: dict[str, Scalar]


class VerifiedMethods(Struct):
    """What methods.json holds. system: facts of the machine on which the answers depend."""

    schema: str
    host: str
    created: str
    firsttouch: str
    system: dict[str, Scalar]
    devices: list[VerifiedDevice]
    cells: list[Cell]


_FACTS: Mapping[str, tuple[str, Mapping[str, bool]]] = {
    "allocation": ("on_demand", {"on-demand": True, "up-front": False}),
    "coherent": ("concurrent", {"both": True, "no": False, "gpu sees cpu": False, "cpu sees gpu": False}),
    "atomics": ("shared_atomics", {"yes": True, "no": False}),
    "concurrent": ("disjoint", {"yes": True, "no": False}),
}
"""The fact of AllocatorInfo that each property of methods.py answers, and what its answers mean."""


def _system() -> dict[str, Scalar]:
    topics = host_topics(Tree(), os.environ, host.usable_cores())
    return {f"{topic}.{name}": topics.get(topic, {}).get(name) for topic, name in _SYSTEM}


def _seen(device: DeviceInfo) -> VerifiedDevice:
    facts = {name: device.facts[name] for name in _DRIVER if name in device.facts}
    return VerifiedDevice(name=device.name, title=device.title, facts=facts)


def write_methods(directory: Path, devices: Sequence[DeviceInfo], cells: Sequence[Cell]) -> Path:
    """Write DIR/methods.json. Raises UsageError where it can't be written."""
    found = VerifiedMethods(
        schema=SCHEMA,
        host=platform.node(),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        firsttouch=__version__,
        system=_system(),
        devices=[_seen(device) for device in devices],
        cells=list(cells),
    )
    path = directory / METHODS
    with as_usage("write", path, "a directory that can be written"):
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return path


@dataclass(frozen=True)
class Trust:
    """What a methods.json of this machine says, to be taken where a driver says nothing."""

    directory: Path
    devices: Mapping[str, VerifiedDevice]
    facts: Mapping[tuple[str, str], Mapping[str, bool]]
    """By device and allocator: facts of AllocatorInfo."""

    def applied_to(self, devices: Iterable[DeviceInfo]) -> list[DeviceInfo]:
        """`devices` with what their drivers leave unsaid filled in.

        Raises:
            UsageError: one of them is not the device that was tried, or has another driver.
        """
        return [self._applied(device) if device.available else device for device in devices]

    def _applied(self, device: DeviceInfo) -> DeviceInfo:
        tried = self.devices.get(device.name)
        if tried is None:
            return device
        here = _seen(device)
        then, now = {"title": tried.title, **tried.facts}, {"title": here.title, **here.facts}
        _refuse_other(self.directory, f"{device.name} ", then, now)
        allocators = [
            fill_in(info, self.facts.get((device.name, info.name), {}), str(self.directory))
            for info in device.allocators
        ]
        return msgspec.structs.replace(device, allocators=allocators)


def _refuse_other(directory: Path, of: str, then: Mapping[str, Scalar], now: Mapping[str, Scalar]) -> None:
    for name in dict.fromkeys([*then, *now]):
        if then.get(name) != now.get(name):
            raise UsageError(
                f"{directory / METHODS} was made on another machine or driver ({of}{name}: {then.get(name)}, here "
                f"{now.get(name)}); make it here with: firsttouch methods --verify --out DIR"
            )


def read_trust(directory: Path) -> Trust:
    """What DIR/methods.json says.

    Raises:
        UsageError: there is none, it is broken, or it was made on another machine or kernel.
    """
    path = directory / METHODS
    with as_usage("read", path, "a directory that `firsttouch methods --verify --out DIR` wrote"):
        data = read_regular(path)
    try:
        found = msgspec.json.decode(data, type=VerifiedMethods)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from None
    if found.schema != SCHEMA:
        raise UsageError(f"{path}: schema {found.schema!r} is not {SCHEMA!r}, which this version reads")
    _refuse_other(directory, "", {"host": found.host, **found.system}, {"host": platform.node(), **_system()})
    return Trust(directory, {device.name: device for device in found.devices}, _facts(found.cells))


def _facts(cells: Iterable[Cell]) -> dict[tuple[str, str], dict[str, bool]]:
    """What was measured, as facts of AllocatorInfo."""
    facts: dict[tuple[str, str], dict[str, bool]] = {}
    for cell in cells:
        if cell.origin != "measured" or cell.value is None or cell.property not in _FACTS:
            continue
        fact, meanings = _FACTS[cell.property]
        answer = cell.value.partition(",")[0]
        if answer in meanings:
            facts.setdefault((cell.device, cell.allocator), {})[fact] = meanings[answer]
    return facts
