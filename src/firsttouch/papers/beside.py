"""Published values beside those of a run, where hardware and conditions allow a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from firsttouch.analysis.findings import Quantity, counter, quantity
from firsttouch.analysis.statistics import measured, varying
from firsttouch.papers.rows import MEDIAN, PaperRow, PublishedValue, all_rows, papers, side
from firsttouch.records.reading import key_of
from firsttouch.records.schema import DeviceInfo, Record, Scalar, Struct, as_number
from firsttouch.text import condition

_BETWEEN_MEMORIES = ("transfer", "migration", "concurrency", "caching", "locking")
"""Experiments whose values depend on whether CPU and GPU share one memory, whatever the allocator."""


class Beside(Struct, kw_only=True):
    """A value of a run, and what a paper states for another machine under the same conditions.

    says: what was measured, in the paper's words. experiment, device, factors, point: of the record here. value, low,
    high, unit: measured here; the bounds are None if there is no interval. stated: the ends of the published range,
    equal for a single value. machine, source: the other machine, and where it is stated.
    """

    says: str
    experiment: str
    device: str
    factors: dict[str, Scalar]
    point: str
    value: float
    unit: str
    low: float | None
    high: float | None
    stated: tuple[float, float]
    machine: str
    paper: str
    section: str
    source: str
    qualifier: str = ""
    note: str = ""
    assumed: str = ""
    conditions: str = ""
    """What the statement leaves open and other points of the run have otherwise, in words."""


def beside(records: Iterable[Record], devices: Sequence[DeviceInfo]) -> list[Beside]:
    """The published values that correspond to points of a run, in the order of the papers.

    A point corresponds to a value if it has every factor that the value has, and if both were measured on hardware of
    the same kind: a GPU that is one, and memory that is as near to the agent. A value on a machine whose CPU and GPU
    share one memory stands beside one of separate memories only if the agent uses its own, and not for copies.
    """
    by_name = {device.name: device for device in devices}
    usable: dict[str, list[Record]] = {}
    for record in measured(records):
        if record.device in by_name:
            usable.setdefault(record.experiment, []).append(record)
    entries = []
    for row in all_rows():
        stated = side(row)
        if stated is None or row.here is None:
            continue
        matching = [
            r
            for r in usable.get(stated.experiment, [])
            if r.metric_version == stated.metric_version and row.here.matches(r.factors)
        ]
        allowed = [r for r in matching if _is_comparable(row, r, by_name[r.device])]
        if allowed and (entry := _entry(row, stated, best := _best(stated, allowed))):
            names = [name for name in varying(allowed) if name in best.factors and name not in _fixed(stated)]
            entries.append(replace(entry, conditions=condition(best, names)))
    return entries


def _fixed(stated: PublishedValue) -> list[str]:
    """The factors of which the statement has one value."""
    return [name for name, wanted in stated.factors.items() if not isinstance(wanted, list)]


def _is_comparable(row: PaperRow, record: Record, device: DeviceInfo) -> bool:
    if device.role == "processor":
        return False
    shared = papers()[row.paper].platforms[row.platform].memory == "shared"
    if device.role == "host" or shared == device.capabilities.shares_host_memory:
        return True
    if record.experiment in _BETWEEN_MEMORIES:
        return False
    memory = device.allocator(str(record.factors.get("allocator", "")))
    agent = record.factors.get("agent")
    if memory is None or agent is None:
        return True
    return memory.host_memory if agent == "cpu" else memory.device_memory


def _best(stated: PublishedValue, records: Sequence[Record]) -> Record:
    """Of several points, that of the value listed first, and the largest."""

    def order(record: Record) -> tuple[list[int], list[float]]:
        listed = [
            wanted.index(record.factors[name])
            for name, wanted in stated.factors.items()
            if isinstance(wanted, list) and all(isinstance(v, str) for v in wanted)
        ]
        sizes = [-v for v in map(as_number, record.factors.values()) if v is not None]
        return listed, sizes

    return min(records, key=order)


def _entry(row: PaperRow, stated: PublishedValue, record: Record) -> Beside | None:
    ours: Quantity | None = quantity(record) if stated.metric == MEDIAN else counter(record, stated.metric, stated.unit)
    if ours is None:
        return None
    return Beside(
        says=row.says,
        experiment=record.experiment,
        device=record.device,
        factors=dict(record.factors),
        point=key_of(record),
        value=ours.value,
        unit=stated.unit,
        low=ours.low,
        high=ours.high,
        stated=(stated.low, stated.high),
        machine=row.machine,
        paper=row.paper,
        section=row.section,
        source=stated.source,
        qualifier=row.qualifier,
        note=row.note,
        assumed=stated.assumed,
    )
