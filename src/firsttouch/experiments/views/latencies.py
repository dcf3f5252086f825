"""The latencies of a machine's memories that a first screen shows together: those beyond the caches, at one size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firsttouch.experiments.analysis.plateaus import OVERSHOOT, stated_caches
from firsttouch.experiments.views.ranking import comparable
from firsttouch.machine.allocators.properties import is_common
from firsttouch.machine.caches import effective_cache_bytes
from firsttouch.records.findings import number
from firsttouch.records.schema import DeviceInfo, Machine, Record
from firsttouch.records.statistics import group_by, measured

MOST_MEMORIES = 8
"""If there are more memories, only the usual allocators are shown."""


def latencies(records: Sequence[Record], machine: Machine) -> list[Record]:
    """The random loads of the first GPU and of the host that differ in agent and memory alone, the GPU's first: at the
    largest size that most memories have beyond the caches of who loads, otherwise at any size.
    """
    devices = {d.name: d for d in machine.devices}
    first_gpu = [d.name for d in machine.devices if d.role == "gpu"][:1]
    hosts = [d.name for d in machine.devices if d.role == "host"]
    device_names = {*first_gpu, *hosts} or set(devices)
    loads = [
        r
        for r in measured(records)
        if r.experiment == "latency" and r.device in device_names and not r.parties
        and r.factors.get("order") == "random" and r.factors.get("first_touch") == "self"
    ]  # fmt: skip
    loads.sort(key=lambda r: (r.device not in first_gpu, r.factors.get("agent") != "gpu"))
    if len(group_by(loads, "agent", "allocator")) > MOST_MEMORIES:
        loads = [r for r in loads if is_common(str(r.factors.get("allocator")))]
    by = ("device", "agent", "allocator")
    beyond = comparable((r for r in loads if not may_be_cached(r, devices)), by, min)
    return beyond if len(beyond) > 1 else comparable(loads, by, min)


def may_be_cached(record: Record, devices: Mapping[str, DeviceInfo]) -> bool:
    """Whether the caches of who uses the buffer of a point may hold it: those of the device, or of the host."""
    hosts = [d for d in devices.values() if d.role == "host"]
    user = hosts[0] if record.factors.get("agent") == "cpu" and hosts else devices.get(record.device)
    if user is None:
        return False
    largest, processors = max(stated_caches(user.facts).values(), default=0), user.facts.get("processors")
    if user.capabilities.on_host_processor and isinstance(processors, int):
        largest = effective_cache_bytes(largest, processors)
    return number(record, "size") <= OVERSHOOT * largest
