"""Collects the facts about this machine for machine.json."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from firsttouch import __version__
from firsttouch.base.encoding import host_name
from firsttouch.machine import amd, effects, host, numa, nvidia, partitions, processor_time
from firsttouch.machine.backends import names_together
from firsttouch.machine.libraries import find_libraries
from firsttouch.machine.measurement_warnings import measurement_warnings
from firsttouch.machine.tree import Facts, Tree
from firsttouch.records.schema import SCHEMA, DeviceInfo, Machine, Scalar, as_number

_LONGEST = 1000


def collect_machine(devices: Sequence[DeviceInfo]) -> Machine:
    """The record of this machine, with the devices that discovery found.

    Changes nothing, needs no root privileges and never fails: facts that are not available are absent.
    """
    before = processor_time.use_now()
    nvml, reason = nvidia.collect()
    topics = host_topics(Tree(), os.environ, host.usable_cores())
    for topic, facts in (nvml | amd.collect()).items():
        topics[topic] = topics.get(topic, {}) | _clean(facts)
    for topic, facts in _measured_facts(before, topics, host.usable_cores()).items():
        topics[topic] = topics.get(topic, {}) | facts
    if reason and topics.get("nvidia"):
        topics["nvidia"]["nvml_reason"] = _clean({"": reason})[""]
    return Machine(
        schema=SCHEMA,
        host=host_name(),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        firsttouch=__version__,
        facts=topics,
        devices=list(devices),
        libraries=find_libraries(),
        warnings=[*measurement_warnings(topics), *_notes(devices)],
    )


def _notes(devices: Sequence[DeviceInfo]) -> list[str]:
    """The notes on devices, each once, with the devices that it is about."""
    about: dict[str, list[str]] = {}
    for device in devices:
        for note in device.notes:
            about.setdefault(note, []).append(device.name)
    return [f"{names_together(names)}: {note}" for note, names in about.items()]


def _measured_facts(
    before: processor_time.ProcessorUse | None, topics: Mapping[str, Facts], usable: Sequence[int]
) -> dict[str, Facts]:
    """The facts by topic that no file states: they are measured on this process. before: what was used at the start."""
    available = as_number(topics.get("memory", {}).get("available_to_process_bytes")) or 0.0
    return {
        "cpu": {
            **processor_time.load_since(before),
            **(effects.pair(usable) if topics.get("kernel", {}).get("virtualisation") else {}),
        },
        "limits": effects.pinning(),
        "memory": effects.touches(available),
    }


def host_topics(tree: Tree, environment: Mapping[str, str], usable: Sequence[int]) -> dict[str, Facts]:
    """All facts that need no vendor library, by topic; topics without facts are left out."""
    topics = {
        "cpu": host.cpu(tree, usable),
        "memory": host.memory(tree),
        "numa": numa.facts(tree),
        "huge_pages": host.huge_pages(tree),
        "limits": host.limits(tree),
        "kernel": host.kernel(tree, environment),
        "software": host.software(),
        "environment": host.memory_environment(environment),
        "nvidia": host.nvidia(tree),
        "nvidia_uvm": host.nvidia_uvm(tree),
        "amd": amd.driver(tree),
        "amd_kfd": amd.kfd(tree),
    }
    topics |= partitions.topics(amd.partitions(tree))
    return {topic: _clean(facts) for topic, facts in topics.items() if facts}


def _clean(facts: Mapping[str, Scalar]) -> Facts:
    """The facts with texts that can be stored: valid Unicode, no control characters, limited length."""
    return {key: _plain(value) if isinstance(value, str) else value for key, value in facts.items()}


def _plain(text: str) -> str:
    valid = text[:_LONGEST].encode(errors="replace").decode()
    return "".join(character if character.isprintable() else " " for character in valid)
