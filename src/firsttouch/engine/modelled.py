"""Calls on machines that platform files describe: their devices, their limits, and what does not go with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firsttouch.base.errors import UsageError
from firsttouch.machine.backends import MODEL, is_modelled
from firsttouch.records.schema import DeviceInfo, Machine, Request, Scalar
from firsttouch.records.text import join_names

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

HOST_BYTES = ("memory", "total_bytes")
"""The topic and the name of the fact of machine.json with the size of the host's memory."""


def check_request(request: Request) -> None:
    """Raises UsageError for options that ask for what nothing that is predicted can have."""
    if not any(map(is_modelled, request.devices)):
        return
    if request.counters:
        raise UsageError("--counters was given, but a modelled device has no profiler; leave it out")


def notes(request: Request) -> list[str]:
    """What a call asks for that changes nothing in a prediction, a sentence for each."""
    if not any(map(is_modelled, request.devices)):
        return []
    return ["each point is predicted once: --repeat changes nothing"] if "repeat" in request.set else []


def check_one_sort(directory: Path, stored: Sequence[DeviceInfo], devices: Sequence[DeviceInfo]) -> None:
    """Raises UsageError if a directory has what was measured and the call predicts, or the other way round."""
    holds, adds = (any(device.modelled for device in side_devices) for side_devices in (stored, devices))
    if holds != adds:
        was, would = ("predicted", "measured") if holds else ("measured", "predicted")
        raise UsageError(f"{directory} has {was} results, and this call would add {would} ones; choose another --out")
    before = {device.name: device.modelled for device in stored}
    for device in devices:
        now, then = device.modelled, before.get(device.name)
        if now is not None and then is not None and now != then:
            changed_part = "its file" if then.digest != now.digest else "the rules of drivers"
            raise UsageError(
                f"{directory} was predicted before {changed_part} changed for {device.name}; choose another --out"
            )


def modelled_devices(names: Sequence[str]) -> list[DeviceInfo]:
    """The devices of all machines that are named: of each machine the named ones first.

    Raises:
        UsageError: a name is of no platform, or of a device of this machine.
    """
    if real := [name for name in names if not is_modelled(name)]:
        raise UsageError(
            f"{join_names(list(dict.fromkeys(real)))} would be measured and "
            f"{next(filter(is_modelled, names))} predicted; make a call for each"
        )
    devices: dict[str, DeviceInfo] = {}
    for platform in _load_platforms(names):
        devices |= {device.name: device for device in platform.devices}
    return list(devices.values())


def device_under(device: DeviceInfo, factors: Mapping[str, Scalar]) -> DeviceInfo:
    """A modelled device as the switches among the factors of a point leave it."""
    from firsttouch.model.platform import platform_of

    return next(d for d in platform_of(device.name).under(factors).devices if d.name == device.name)


def modelled_limits(names: Collection[str]) -> dict[str, int]:
    """The size of the host's memory of each machine, and of the memory of each device that is named."""
    limits: dict[str, int] = {}
    for platform in _load_platforms(names):
        topic, fact = HOST_BYTES
        sizes = {platform.host.name: platform.machine().facts.get(topic, {}).get(fact)}
        sizes |= {d.name: d.facts.get("memory_bytes") for d in platform.devices if d.capabilities.runs_kernels}
        limits |= {name: size for name, size in sizes.items() if isinstance(size, int)}
    return limits


def modelled_machine(devices: Sequence[DeviceInfo]) -> Machine:
    """The content of machine.json for all machines of a call, which are several if values were changed. A fact that
    they do not agree on is left out.
    """
    machines = [platform.machine() for platform in _load_platforms([device.name for device in devices])]
    first = machines[0]
    facts: dict[str, dict[str, Scalar]] = {}
    for topic, first_facts in first.facts.items():
        alike = {k: v for k, v in first_facts.items() if all(m.facts.get(topic, {}).get(k) == v for m in machines)}
        if alike:
            facts[topic] = alike
    return replace(
        first,
        host=", ".join(dict.fromkeys(machine.host.removeprefix(f"{MODEL}:") for machine in machines)),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        facts=facts,
        devices=list(devices),
    )


def _load_platforms(names: Collection[str]) -> list[Platform]:
    from firsttouch.model.platform import platform_of

    platforms = {platform.device_name: platform for platform in map(platform_of, names)}
    return list(platforms.values())


def platform_title(names: Collection[str]) -> str:
    """What a directory with predictions for these devices is called: the names of their platforms."""
    stems = dict.fromkeys(Path(platform.name).stem for platform in _load_platforms(names))
    return "-".join(["model", *stems])
