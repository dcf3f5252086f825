"""Whether the data of an application exceed the memory of its device, on which its times depend most."""

from __future__ import annotations

from firsttouch.records.schema import DeviceInfo, Record, as_number


def exceeds_memory(record: Record, device: DeviceInfo) -> bool:
    """Whether the data of an application exceed the memory that they may use on the device; of several processes, that
    of all their devices.
    """
    factors = record.factors
    if (ratio := as_number(factors.get("oversubscribe"))) is not None:
        return ratio > 1
    data = as_number(record.counters.get("footprint_bytes")) or as_number(factors.get("size"))
    free = as_number(factors.get("budget")) or as_number(device.facts.get("memory_bytes"))
    devices = len({(party.host, party.device) for party in record.parties}) or 1
    return data is not None and free is not None and data > devices * free
