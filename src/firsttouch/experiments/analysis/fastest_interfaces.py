"""The fastest interface for each movement of data, by its conditions and size, and the sizes between which it changes.

Only points that are ok and verified count. An interface is the fastest if its interval is apart from those of all
others and it is at least LEAST_WIN times as fast; otherwise all that cannot be told apart from the one with the best
median, or are nearly as fast, are named. Intervals are those of the records: the 95 % interval of a median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Literal, TypeAlias

from firsttouch.records.findings import Quantity, are_apart, number, quantity, ratio_of
from firsttouch.records.predicted import predicted_for
from firsttouch.records.reading import PointIdentity, identity_of, point_key
from firsttouch.records.schema import NODE, PEER, RANKS, SELF, Record, Scalar, as_number

Measure: TypeAlias = Literal["blocking", "bandwidth"]
"""blocking: the time of one operation, until the receiver can use the data. bandwidth: of operations back to back."""
InterfaceVerdict: TypeAlias = Literal["fastest", "tie", "no interval", "one interface"]
Read: TypeAlias = Callable[[Record], Quantity | None]
Describe: TypeAlias = Callable[[Record], tuple[str, dict[str, Scalar]]]

SIZE = "size"
LEAST_WIN = 1.02
"""How many times as fast as the next an interface must be. Runs of one machine differ by less."""


@dataclass(frozen=True)
class MovementKind:
    """What one experiment contributes.

    describe: returns the interface of a record, and its other conditions without the size. measures: how each measure
    is read from a record.
    """

    name: str
    experiment: str
    describe: Describe
    measures: Mapping[Measure, Read]


@dataclass(frozen=True)
class InterfaceValue:
    """What one interface reached."""

    interface: str
    value: Quantity
    point: PointIdentity


@dataclass(frozen=True)
class MovementRow:
    """One movement of data at one size.

    conditions: all that is not the interface. size: in bytes. verdict: "fastest" if one interface is; "tie" if the
    intervals of several overlap, or they differ by less than LEAST_WIN; "no interval" if records without intervals
    leave it open; "one interface" if no other was measured. fastest: the one or those that cannot be told apart, the
    best median first. ratio: how many times as fast it is as the next; None unless one is the fastest. measured: all,
    the best median first.
    """

    kind: str
    measure: Measure
    conditions: Mapping[str, Scalar]
    size: int
    verdict: InterfaceVerdict
    fastest: tuple[str, ...]
    ratio: Quantity | None
    measured: tuple[InterfaceValue, ...]

    @property
    def interfaces(self) -> set[str]:
        return {answer.interface for answer in self.measured}


@dataclass(frozen=True)
class Crossover:
    """The fastest interface changes between two measured sizes: it is `before` at the size `smaller`, and `after` at
    `larger`. Both were measured at both sizes. No interface is the fastest at the sizes between them, `undecided`,
    which are none if the two sizes are neighbours.
    """

    kind: str
    measure: Measure
    conditions: Mapping[str, Scalar]
    smaller: int
    larger: int
    before: str
    after: str
    undecided: tuple[int, ...] = ()


@dataclass(frozen=True)
class Interfaces:
    """rows: by kind, measure and conditions, with ascending sizes."""

    rows: Sequence[MovementRow]
    crossovers: Sequence[Crossover]

    @property
    def predicted(self) -> str:
        """'predicted for gh200' if the values are predictions; otherwise ''."""
        return predicted_for(value.point.device for row in self.rows for value in row.measured)

    @property
    def curves(self) -> list[list[MovementRow]]:
        """The rows of each movement, which differ in the size alone."""
        return [list(rows) for _, rows in groupby(self.rows, key=_curve)]


@dataclass(frozen=True)
class Segment:
    """Neighbouring rows with the same answer. best: that with the largest ratio."""

    first: int
    last: int
    verdict: InterfaceVerdict
    fastest: tuple[str, ...]
    best: MovementRow


def interfaces(records: Iterable[Record]) -> Interfaces:
    """The fastest interface of every movement at every size, and where it changes."""
    values: dict[tuple[int, int, str], dict[int, dict[str, InterfaceValue]]] = {}
    conditions: dict[tuple[int, int, str], Mapping[str, Scalar]] = {}
    order: dict[str, int] = {}
    for record in records:
        if (
            (experiment_kind := _PLACES.get(record.experiment)) is None
            or not counts(record)
            or number(record, SIZE) < 1
        ):
            continue
        kind = KINDS[experiment_kind]
        name, other_conditions = kind.describe(record)
        for i, read in enumerate(kind.measures.values()):
            value = read(record)
            if value is None or not 0 < value.value < inf:
                continue
            condition_key = point_key(kind.name, "", other_conditions)
            curve = (experiment_kind, i, condition_key)
            order.setdefault(condition_key, len(order))
            conditions[curve] = other_conditions
            at_size = values.setdefault(curve, {}).setdefault(int(number(record, SIZE)), {})
            at_size.setdefault(name, InterfaceValue(name, value, identity_of(record)))
    rows, crossovers = [], []
    for experiment_kind, i, condition_key in sorted(values, key=lambda c: (c[0], c[1], order[c[2]])):
        measure = list(KINDS[experiment_kind].measures)[i]
        sizes = sorted(values[experiment_kind, i, condition_key].items())
        curve_conditions = conditions[experiment_kind, i, condition_key]
        curve_rows = [
            _row(KINDS[experiment_kind].name, measure, curve_conditions, size, list(by.values())) for size, by in sizes
        ]
        rows += curve_rows
        crossovers += _crossovers(curve_rows)
    return Interfaces(rows, crossovers)


def counts(record: Record) -> bool:
    """Whether a point counts: it is ok, not suspect, and verified, or a prediction."""
    return record.is_measured and (record.verified is True or record.modelled is not None)


def is_about(records: Iterable[Record]) -> bool:
    """Whether any of the records is of an experiment that has interfaces, whatever became of it."""
    return any(record.experiment in _PLACES for record in records)


def segments(rows: Sequence[MovementRow]) -> list[Segment]:
    """The rows of one movement, neighbours with the same answer as one."""
    made = []
    for (verdict, _), same in groupby(rows, key=lambda r: (r.verdict, frozenset(r.fastest))):
        some = list(same)
        best = max(some, key=lambda r: r.ratio.value if r.ratio else 0)
        made.append(Segment(some[0].size, some[-1].size, verdict, tuple(sorted(some[0].fastest)), best))
    return made


def _curve(row: MovementRow) -> tuple[str, str, str]:
    return row.kind, row.measure, point_key("", "", row.conditions)


def _row(
    kind: str, measure: Measure, conditions: Mapping[str, Scalar], size: int, values: list[InterfaceValue]
) -> MovementRow:
    is_time = measure == "blocking"
    ranked = sorted(values, key=lambda value: value.value.value if is_time else -value.value.value)
    best, slower = ranked[0], ranked[1:]
    not_slower = [value for value in slower if not are_apart(best.value, value.value) or _is_close(best, value)]
    verdict: InterfaceVerdict = "fastest"
    if not slower:
        verdict = "one interface"
    elif not_slower:
        unknown = any(value.value.low is None and not _is_close(best, value) for value in not_slower)
        unknown |= best.value.low is None and not all(_is_close(best, value) for value in not_slower)
        verdict = "no interval" if unknown else "tie"
    ratio = None
    if verdict == "fastest":
        ratio = ratio_of(slower[0].value, best.value) if is_time else ratio_of(best.value, slower[0].value)
    names = tuple(value.interface for value in [best, *not_slower])
    return MovementRow(kind, measure, conditions, size, verdict, names, ratio, tuple(ranked))


def _is_close(a: InterfaceValue, b: InterfaceValue) -> bool:
    low, high = sorted((a.value.value, b.value.value))
    return high < LEAST_WIN * low


def _crossovers(rows: Sequence[MovementRow]) -> list[Crossover]:
    """The changes of the fastest interface along the sizes. Where one of the two was not measured at both sizes,
    nothing is known about a change.
    """
    crossovers, last, between = [], None, list[int]()
    for row in rows:
        if row.verdict == "one interface":
            continue
        if row.verdict != "fastest":
            between.append(row.size)
            continue
        (winner,) = row.fastest
        if last is not None and last.fastest != row.fastest:
            (before,) = last.fastest
            if {before, winner} <= row.interfaces & last.interfaces:
                sizes = last.size, row.size
                crossovers.append(
                    Crossover(row.kind, row.measure, row.conditions, *sizes, before, winner, tuple(between))
                )
        last, between = row, []
    return crossovers


_USUAL: Mapping[str, Scalar] = {"threads": 0, "route": "default", "sdma": "unset", "processes": "each"}
"""Factors that are a part of the interface, with the values that go without saying."""


HOSTS = "hosts"


def _describe_by_factor(factor: str, **derived: Callable[[Record], Scalar]) -> Describe:
    """For experiments in which a factor names the interface. derived: conditions that are no factors. If several hosts
    took part, their number is one too.
    """

    def describe(record: Record) -> tuple[str, dict[str, Scalar]]:
        factors = record.factors
        unusual = [f"{name} {factors[name]}" for name, usual in _USUAL.items() if factors.get(name, usual) != usual]
        other_factors = {n: v for n, v in factors.items() if n not in (factor, SIZE, *_USUAL)}
        more = {name: derive(record) for name, derive in derived.items()}
        if (hosts := len({party.host for party in record.parties})) > 1:
            more[HOSTS] = hosts
        name = f"{factors.get(factor)} ({', '.join(unusual)})" if unusual else str(factors.get(factor))
        return name, {"device": record.device, **other_factors, **more}

    return describe


PUSH, PULL, KERNEL = "push", "pull", "kernel"
_CROSSING: Mapping[Scalar, tuple[str, str]] = {
    "write": ("stream", PUSH),
    "read": ("stream", PULL),
    "copy-out": ("copy", PUSH),
    "copy-in": ("copy", PULL),
}
"""What each kernel of p2p-direct that crosses one way moves, and by whose kernel: of `from` (push) or of `to` (pull).
A stream is produced by one kernel and consumed by another, without being copied.
"""


def _describe_direct_access(record: Record) -> tuple[str, dict[str, Scalar]]:
    """Direct access: data get from one memory to another by a kernel of the one that has them, or of the one that needs
    them. In memory of its own, and where both arrays are the peer's, there is no choice.
    """
    acting = record.factors.get(NODE, record.device)
    owner = acting if record.factors.get(PEER) == SELF else record.factors.get(PEER)
    kernel = record.factors.get("kernel")
    other_factors = {n: v for n, v in record.factors.items() if n not in (NODE, PEER, "kernel", SIZE)}
    movement, way = _CROSSING.get(kernel, (kernel, KERNEL)) if owner != acting else (kernel, KERNEL)
    source, target = (owner, acting) if way == PULL else (acting, owner)
    on = {"device": record.device} if NODE in record.factors else {}
    return way, {**on, "movement": movement, "from": source, "to": target, **other_factors}


def _kernel_rate(record: Record) -> Quantity | None:
    """The rate of a kernel. One above the peak of the link moves nothing: most of it comes from the kernel's caches."""
    of_peak = _counter(record, "of_peak")
    return None if of_peak is not None and of_peak > 1 else quantity(record)


def _read_time(name: str) -> Read:
    """Reads the counters NAME_us, NAME_low_us and NAME_high_us. Records of older versions may lack the interval."""

    def read(record: Record) -> Quantity | None:
        value, low, high = (_counter(record, f"{name}{end}_us") for end in ("", "_low", "_high"))
        return None if value is None else Quantity(value, "us", *((low, high) if low and high else ()))

    return read


def _read_rate(rates: Sequence[str], time: Read) -> Read:
    """Reads the first of these counters, in GB/s, which follow from a time and have the bounds that follow from it."""

    def read(record: Record) -> Quantity | None:
        rate, seconds = next((v for name in rates if (v := _counter(record, name))), None), time(record)
        if rate is None or seconds is None:
            return None
        bounds = (
            (rate * seconds.value / seconds.high, rate * seconds.value / seconds.low)
            if seconds.low and seconds.high
            else ()
        )
        return Quantity(rate, "GB/s", *bounds)

    return read


def _counter(record: Record, name: str) -> float | None:
    return as_number(record.counters.get(name))


KINDS: Sequence[MovementKind] = (
    MovementKind("direct", "p2p-direct", _describe_direct_access, {"bandwidth": _kernel_rate}),
    MovementKind(
        "copy",
        "p2p-copy",
        _describe_by_factor("engine"),
        {"blocking": _read_time("latency"), "bandwidth": quantity},
    ),
    MovementKind(
        "message",
        "p2p-message",
        _describe_by_factor("interface", **{RANKS: lambda r: max(1, len(r.parties))}),
        {"blocking": _read_time("latency"), "bandwidth": quantity},
    ),
    MovementKind(
        "collective",
        "collective",
        _describe_by_factor("interface"),
        {"blocking": quantity, "bandwidth": _read_rate(("bus_gbs", "algorithm_gbs"), _read_time("interval"))},
    ),
)
"""The kinds of movement. An experiment with another one is a row here."""
_PLACES = {kind.experiment: i for i, kind in enumerate(KINDS)}
