"""Partitions of GPUs: parts of one GPU that are devices of their own, with a name and a memory.

NVIDIA calls them MIG devices, AMD compute partitions. gpus.py and amd.py find them; this module says which devices they
are and what they share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firsttouch.machine.links import pci_address
from firsttouch.machine.tree import Facts, drop_missing
from firsttouch.records.schema import DeviceInfo, Scalar

ALONE = "FIRSTTOUCH_ALONE"
"""The environment variable with the name of the device that is the only one of its kind in a process."""
SAME_GPU = "same GPU"
"""The link between two partitions of one GPU."""
TOPIC = "partition "
"""How the names of the topics with facts about partitions begin; the GPU's PCI address and a number follow."""


@dataclass(frozen=True)
class Partition:
    """A part of a GPU.

    gpu: the GPU's PCI address. number: from 0, of `partitions`. mode: as its vendor names it, such as MIG or CPX, NPS1.
    memory_shared_by: how many partitions use this one's memory and its bandwidth, with itself; None if unknown. name,
    uuid: '' if its driver states none. opened: whether a process opens it in this environment. chosen_by: the variable
    that says which one a process opens, if it opens no other and reaches none; '' if it opens all. offered: whether the
    user's environment lets that variable name it.
    """

    gpu: str
    number: int
    partitions: int
    mode: str
    memory_shared_by: int | None
    memory_bytes: int | None = None
    name: str = ""
    uuid: str = ""
    processors: int | None = None
    free_bytes: int | None = None
    opened: bool = True
    chosen_by: str = ""
    offered: bool = True

    @property
    def label(self) -> str:
        """Its number from 1 and its mode, for people."""
        return _label(self.number, self.partitions, self.mode)

    @property
    def key(self) -> str:
        """What `links` has instead of a PCI address, which partitions share."""
        return partition_key(self.gpu, self.number)

    def facts(self) -> Facts:
        return drop_missing(
            {
                "name": self.name or None,
                "uuid": self.uuid or None,
                "gpu": self.gpu,
                "number": self.number,
                "mode": self.mode,
                "memory_bytes": self.memory_bytes,
                "multiprocessors": self.processors,
                "memory_shared_by": self.memory_shared_by,
            }
        )


def _label(number: int, partitions: Scalar, mode: Scalar) -> str:
    return f"partition {number + 1} of {partitions} ({mode})"


def partition_key(gpu: str, number: int) -> str:
    return f"{gpu}/{number}"


def link_key(device: DeviceInfo) -> str:
    """What names a device among links: its PCI address, and if it is a partition also its number."""
    address = pci_address(str(device.facts.get("pci_bus", "")))
    number = device.facts.get("partition")
    return partition_key(address, number) if isinstance(number, int) else address


def of_one_gpu(*devices: DeviceInfo) -> bool:
    return all("partitions" in d.facts for d in devices) and len({d.facts.get("pci_bus") for d in devices}) == 1


def topics(partitions: Iterable[Partition]) -> dict[str, Facts]:
    return {f"{TOPIC}{p.gpu} {p.number}": p.facts() for p in partitions}


def topics_of(facts: Mapping[str, Facts]) -> list[Facts]:
    """The facts about each partition of a machine."""
    return [topic_facts for topic, topic_facts in facts.items() if topic.startswith(TOPIC)]


def name_partitions(devices: Sequence[DeviceInfo], partitions: Iterable[Partition]) -> list[Partition]:
    """Give the devices that are partitions their facts, a title and a UUID of their own, and the first of each GPU a
    note on what they share. A device's number is left out if the driver's devices are not those that were expected.
    Returns the partitions that are none of the devices, as far as that is known.
    """
    by_gpu: dict[str, list[Partition]] = {}
    for partition in partitions:
        by_gpu.setdefault(partition.gpu, []).append(partition)
    others: list[Partition] = []
    for gpu, parts in by_gpu.items():
        gpu_devices = [device for device in devices if _gpu_of(device) == _board(gpu)]
        opened = [part for part in parts if part.opened]
        is_matched = len(gpu_devices) == len(opened) and all(map(_is_named, gpu_devices, opened))
        for device, part in zip(gpu_devices, opened if is_matched else [parts[0]] * len(gpu_devices), strict=True):
            _describe(device, part, numbered=is_matched)
        if gpu_devices:
            gpu_devices[0].notes.append(remark(parts, gpu_devices))
        others += [part for part in parts if not gpu_devices or (is_matched and part not in opened)]
    return others


def opened_alone(partitions: Iterable[Partition], devices: Sequence[DeviceInfo], kind: str) -> Iterator[DeviceInfo]:
    """The partitions that a process opens only if an environment variable names them, as further devices of a kind. One
    that is like a device is described as that is; of others, discovery asks a process of their own.
    """
    offered = [part for part in partitions if part.chosen_by and part.uuid and part.offered]
    for number, part in enumerate(offered, len(devices)):
        name = f"{kind}:{number}"
        device = DeviceInfo(name=name, kind=kind, title=part.name, available=False, reason="not opened yet")
        device.facts = {"pci_bus": part.gpu, "uuid": part.uuid, "partition": part.number}
        device.facts |= drop_missing({"memory_free_bytes": part.free_bytes})
        device.environment = {part.chosen_by: part.uuid, ALONE: name}
        yield like(device, devices)


def like(device: DeviceInfo, devices: Iterable[DeviceInfo]) -> DeviceInfo:
    """A partition that was not opened, described by one of the same model among the devices if there is one."""
    sibling = next((d for d in devices if d.available and d.facts.get("model") == device.title), None)
    if sibling is None:
        return device
    number = device.facts["partition"]
    assert isinstance(number, int)
    label = _label(number, sibling.facts["partitions"], sibling.facts["partition_mode"])
    return msgspec.structs.replace(
        sibling,
        name=device.name,
        title=f"{device.title}, {label}",
        facts={**{k: v for k, v in sibling.facts.items() if k != "memory_free_bytes"}, **device.facts},
        environment=device.environment,
        notes=[],
        peers=[],
    )


def _describe(device: DeviceInfo, part: Partition, numbered: bool) -> None:
    device.facts |= {"pci_bus": part.gpu, "partition_mode": part.mode, "partitions": part.partitions}
    if part.memory_shared_by is not None:
        device.facts["memory_shared_by"] = part.memory_shared_by
    if numbered:
        device.facts |= {"partition": part.number} | ({"uuid": part.uuid} if part.uuid else {})
    label = part.label if numbered else f"one of {part.partitions} partitions ({part.mode})"
    device.facts["model"] = device.title
    device.title = f"{device.title}, {label}"


def _board(address: str) -> str:
    """A PCI address without the function, which some drivers replace by the number of a partition."""
    return address.rpartition(".")[0]


def _gpu_of(device: DeviceInfo) -> str:
    return _board(pci_address(str(device.facts.get("pci_bus", ""))))


def _is_named(device: DeviceInfo, part: Partition) -> bool:
    return part.name in ("", device.title)


def remark(parts: Sequence[Partition], devices: Sequence[DeviceInfo]) -> str:
    """What the partitions of a GPU share, and how to measure those that this call does not offer."""
    first = parts[0]
    total = f"{first.partitions} partitions of one GPU ({first.mode}, {first.gpu})"
    subject = (
        f"this is one of {total}" if len(devices) == 1 else f"{devices[0].name} to {devices[-1].name} are of {total}"
    )
    text = f"{subject}{_sharing_clause(parts)}."
    if first.chosen_by:
        text += " Each is opened by processes of its own, and none reaches another."
    if hidden := [part for part in parts if part.chosen_by and part.uuid and not (part.offered or part.opened)]:
        text += f" `{first.chosen_by}={hidden[0].uuid} firsttouch run` measures another."
    return text


def _sharing_clause(parts: Sequence[Partition]) -> str:
    sharing = {part.memory_shared_by for part in parts}
    if None in sharing:
        return ""
    if sharing == {1}:
        return "; each has a part of the memory and of its bandwidth, and they share the link to the host"
    least, most = min(filter(None, sharing)), max(filter(None, sharing))
    who = f"up to {most}" if least < most else "all" if most == len(parts) else f"every {most}"
    return f"; {who} share a memory and its bandwidth, so values of one hold while the others are idle"
