"""Writes methods.json, the answers of `firsttouch methods --verify --out DIR`, and reads it for --trust-verified.

It is valid only for the machine, kernel and drivers on which it was made. Other machines refuse it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from firsttouch import __version__
from firsttouch.base.encoding import encode_json, host_name
from firsttouch.base.errors import UsageError
from firsttouch.base.files import as_usage_error, read_json, write_atomically
from firsttouch.engine.methods import Cell
from firsttouch.machine import host
from firsttouch.machine.facts import host_topics
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import SCHEMA, DeviceInfo, Scalar, Struct
from firsttouch.records.trust import fill_in

METHODS = "methods.json"

_SYSTEM = (("kernel", "release"), ("nvidia", "kernel_module"), ("amd", "kernel_module"))
"""Facts of the machine, with their topics, on which the answers depend."""
_DRIVER = ("uuid", "driver", "driver_api", "version", "runtime", "arch", "xnack")
"""Facts of a device on which the answers depend."""


class VerifiedDevice(Struct):
    """A device on which trials were made, with facts that identify it and its driver."""

    name: str
    title: str
    facts: dict[str, Scalar]


class VerifiedMethods(Struct):
    """The contents of methods.json. system: facts of the machine on which the answers depend."""

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
"""For properties of methods.py, the corresponding field of AllocatorInfo and its value for each answer."""


def _system_facts() -> dict[str, Scalar]:
    topics = host_topics(Tree(), os.environ, host.usable_cores())
    return {f"{topic}.{name}": topics.get(topic, {}).get(name) for topic, name in _SYSTEM}


def _verified_device(device: DeviceInfo) -> VerifiedDevice:
    facts = {name: device.facts[name] for name in _DRIVER if name in device.facts}
    return VerifiedDevice(name=device.name, title=device.title, facts=facts)


def write_methods(directory: Path, devices: Sequence[DeviceInfo], cells: Sequence[Cell]) -> Path:
    """Write DIR/methods.json and return its path. Raises UsageError if it can't be written."""
    methods = VerifiedMethods(
        schema=SCHEMA,
        host=host_name(),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        firsttouch=__version__,
        system=_system_facts(),
        devices=[_verified_device(device) for device in devices],
        cells=list(cells),
    )
    path = directory / METHODS
    with as_usage_error("write", path, "a directory that can be written"):
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.format(encode_json(methods), indent=1) + b"\n")
    return path


@dataclass(frozen=True)
class VerifiedFacts:
    """The measured answers of a methods.json of this machine, to be used where a driver states nothing."""

    directory: Path
    devices: Mapping[str, VerifiedDevice]
    facts: Mapping[tuple[str, str], Mapping[str, bool]]
    """Values for fields of AllocatorInfo, by device and allocator."""

    def apply(self, devices: Iterable[DeviceInfo]) -> list[DeviceInfo]:
        """`devices`, with these answers where their drivers state nothing.

        Raises:
            UsageError: a device is not the one on which the trials were made, or has another driver.
        """
        return [self._apply_to(device) if device.available else device for device in devices]

    def _apply_to(self, device: DeviceInfo) -> DeviceInfo:
        tried, current = self.devices.get(device.name), _verified_device(device)
        if tried is not None:
            _require_same(self.directory, f"{device.name} ", _identity_facts(tried), _identity_facts(current))
        else:
            tried = next((d for d in self.devices.values() if _model_facts(d) == _model_facts(current)), None)
        if tried is None:
            return device
        allocators = [
            fill_in(info, self.facts.get((tried.name, info.name), {}), str(self.directory))
            for info in device.allocators
        ]
        return msgspec.structs.replace(device, allocators=allocators)


def _identity_facts(device: VerifiedDevice) -> dict[str, Scalar]:
    return {"title": device.title, **device.facts}


def _model_facts(device: VerifiedDevice) -> dict[str, Scalar]:
    """What equal devices have in common."""
    return _identity_facts(device) | {"uuid": None}


def _require_same(directory: Path, subject: str, then: Mapping[str, Scalar], now: Mapping[str, Scalar]) -> None:
    for name in dict.fromkeys([*then, *now]):
        if then.get(name) != now.get(name):
            raise UsageError(
                f"{directory / METHODS} was made on another machine or driver ({subject}{name}: {then.get(name)}, here "
                f"{now.get(name)}); make it here with: firsttouch methods --verify --out DIR"
            )


def read_verified_facts(directory: Path) -> VerifiedFacts:
    """Read DIR/methods.json.

    Raises:
        UsageError: the file is missing or malformed, or was made on another machine or kernel.
    """
    path = directory / METHODS
    methods = read_json(path, VerifiedMethods, "a directory that `firsttouch methods --verify --out DIR` wrote")
    if methods.schema != SCHEMA:
        raise UsageError(f"{path}: schema {methods.schema!r} is not {SCHEMA!r}, which this version reads")
    _require_same(directory, "", {"host": methods.host, **methods.system}, {"host": host_name(), **_system_facts()})
    return VerifiedFacts(directory, {device.name: device for device in methods.devices}, _measured_facts(methods.cells))


def _measured_facts(cells: Iterable[Cell]) -> dict[tuple[str, str], dict[str, bool]]:
    """The measured answers as values for fields of AllocatorInfo, by device and allocator."""
    facts: dict[tuple[str, str], dict[str, bool]] = {}
    for cell in cells:
        if cell.origin != "measured" or cell.value is None or cell.property not in _FACTS:
            continue
        fact, meanings = _FACTS[cell.property]
        answer = cell.value.partition(",")[0]
        if answer in meanings:
            facts.setdefault((cell.device, cell.allocator), {})[fact] = meanings[answer]
    return facts
