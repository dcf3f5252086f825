"""Published values beside those of a run, where hardware and conditions allow a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from firsttouch.comparison.papers.exceeded_memory import exceeds_memory
from firsttouch.records.codebook import codebook_of
from firsttouch.records.findings import Quantity, counter, is_noisy, quantity, ratio_of
from firsttouch.records.papers.files import MEDIAN
from firsttouch.records.papers.rows import (
    APPLICATIONS,
    Correspondence,
    PaperRow,
    PublishedValue,
    all_rows,
    papers,
    stated_value,
)
from firsttouch.records.reading import key_of, point_key
from firsttouch.records.schema import DeviceInfo, Record, Scalar, Struct, as_number
from firsttouch.records.statistics import distinct, measured, varying
from firsttouch.records.text import condition, label, named


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
    predicted: bool = False
    """Whether the value of the run is a prediction."""
    conditions: str = ""
    """What a ratio is of, and what the statement leaves open and other points of the run have otherwise, in words."""


def beside(records: Iterable[Record], devices: Sequence[DeviceInfo]) -> list[Beside]:
    """The published values that correspond to points of a run, in the order of the papers.

    A point corresponds to a value if it has every factor that the value has, and if both were measured on hardware of
    the same kind: a GPU that is one, and memory that is as near to the agent. A value on a machine whose CPU and GPU
    share one memory stands beside one of separate memories only if the agent uses its own, and not for copies or
    applications. Of a row about several applications, each has an entry. Their times depend on the input: only a ratio
    of two runs, or a value whose input is stated, stands beside another.
    """
    by_name = {device.name: device for device in devices}
    usable: dict[str, list[Record]] = {}
    for record in measured(records):
        if record.device in by_name:
            usable.setdefault(record.experiment, []).append(record)
    listed: list[Beside] = []
    for row in all_rows():
        stated = stated_value(row)
        if stated is None or row.here is None:
            continue
        points = [r for r in usable.get(stated.experiment, []) if r.metric_version == stated.metric_version]
        allowed = [r for r in points if _corresponds(row, row.here, r, by_name[r.device])]
        for application in distinct(allowed, "app") or [None]:
            of_one = [r for r in allowed if r.factors.get("app") == application]
            listed += entries(row, stated, row.here.relative_to, of_one, points)
    return listed


def _corresponds(row: PaperRow, here: Correspondence, record: Record, device: DeviceInfo) -> bool:
    """Whether a row's value may stand beside a point's."""
    if not (here.matches(record.factors) and _is_comparable(row, record, device)):
        return False
    if here.experiment != APPLICATIONS:
        return True
    of_events = record.factors.get("events") == "on"
    input_stated = bool(here.relative_to) or any(name in record.parameters for name in here.factors)
    return input_stated and not of_events and exceeds_memory(record, device) == here.exceeds_memory


def entries(
    row: PaperRow,
    stated: PublishedValue,
    relative_to: Mapping[str, Scalar],
    allowed: Sequence[Record],
    points: Iterable[Record],
) -> Iterator[Beside]:
    """The entry of a row, if one of the points allowed has its value. relative_to: how the other point of a ratio
    differs, which is one of `points`. Of several applications, that of one.
    """
    values = {key_of(r): value for r in allowed if (value := _stated_value(stated, r)) is not None}
    if relative_to:
        other_values = {
            key_of(r): value for r in points if (value := _stated_value(stated, r)) is not None and value.value > 0
        }
        pairs = (
            (r, other_values.get(point_key(r.experiment, r.device, {**r.factors, **relative_to}))) for r in allowed
        )
        values = {key: ratio_of(values[key], o) for r, o in pairs if o is not None and (key := key_of(r)) in values}
    with_value = [r for r in allowed if key_of(r) in values]
    if with_value:
        best = _best_point(stated, with_value)
        varied = [name for name in varying(with_value) if name not in _fixed_factors(stated)]
        names = dict.fromkeys([*(("app", "size") if stated.experiment == APPLICATIONS else ()), *varied])
        entry = _make_entry(row, stated, best, values[key_of(best)])
        over = [f"{named(name, best.factors.get(name))} over {label(name, v)}" for name, v in relative_to.items()]
        left_open = condition(best, [name for name in names if name in best.factors and name not in relative_to])
        yield replace(entry, conditions=", ".join(filter(None, [*over, left_open])))


def factor_beyond(value: float, low: float, high: float) -> float:
    """The ratio of a value to the nearer end of a range; 1 within it. An open end is infinite."""
    if low <= value <= high:
        return 1.0
    bound = high if value > high else low
    return value / bound if bound else float("inf")


def _fixed_factors(stated: PublishedValue) -> list[str]:
    """The factors of which the statement has one value."""
    return [name for name, wanted in stated.factors.items() if not isinstance(wanted, list)]


def _is_comparable(row: PaperRow, record: Record, device: DeviceInfo) -> bool:
    if device.role == "processor":
        return False
    shared = papers()[row.paper].platforms[row.platform].memory == "shared"
    if device.role == "host" or shared == device.capabilities.shares_host_memory:
        return True
    if codebook_of(record.experiment).between_memories:
        return False
    memory = device.allocator(str(record.factors.get("allocator", "")))
    agent = record.factors.get("agent")
    if memory is None or agent is None:
        return True
    return memory.host_memory if agent == "cpu" else memory.device_memory


def _best_point(stated: PublishedValue, records: Sequence[Record]) -> Record:
    """The point whose factor has the value listed first; of several, the largest."""

    def order(record: Record) -> tuple[list[int], list[float]]:
        listed = [
            wanted.index(record.factors[name])
            for name, wanted in stated.factors.items()
            if isinstance(wanted, list) and all(isinstance(v, str) for v in wanted)
        ]
        sizes = [-v for v in map(as_number, record.factors.values()) if v is not None]
        return listed, sizes

    return min(records, key=order)


def _stated_value(stated: PublishedValue, record: Record) -> Quantity | None:
    if stated.metric == MEDIAN:
        return quantity(record)
    value = counter(record, stated.metric, stated.unit)
    return None if value is None or is_noisy(value) else value


def _make_entry(row: PaperRow, stated: PublishedValue, record: Record, ours: Quantity) -> Beside:
    return Beside(
        says=row.says,
        experiment=record.experiment,
        device=record.device,
        factors=dict(record.factors),
        point=key_of(record),
        value=ours.value,
        unit="times" if stated.unit == "ratio" else stated.unit,
        low=ours.low,
        high=ours.high,
        stated=(stated.low, stated.high),
        machine=row.machine,
        paper=row.paper,
        section=row.section,
        source=stated.source,
        qualifier=stated.qualifier,
        note=row.note,
        assumed=stated.assumed,
        predicted=record.modelled is not None,
    )
