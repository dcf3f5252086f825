"""Tests the papers' claims on a run's records.

Values are compared by their medians and the 95 % intervals of these. A comparison agrees with a claim, or contradicts
it, only if the interval of the ratio leaves no doubt; otherwise there is no clear difference. A counter has no
interval. Unless it is an exact count, it is taken to be uncertain by a factor, such that two of them differ clearly
only if their ratio is above CLEAR_RATIO. A point that was measured once is not tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from firsttouch.analysis.findings import CLEAR_RATIO, Quantity, are_apart, number, quantity, ratio_of
from firsttouch.analysis.statistics import group_by, measured, series
from firsttouch.errors import UsageError
from firsttouch.machine.backends import HOST
from firsttouch.machine.switches import SWITCHES, switches_of
from firsttouch.papers.claims import (
    Alike,
    Check,
    Claim,
    Compare,
    Iterations,
    Level,
    Need,
    Trend,
    Untestable,
    Word,
    all_claims,
)
from firsttouch.papers.rows import APPLICATIONS, MEDIAN, Condition, all_rows
from firsttouch.records.reading import Results, key_of, load_results
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Record, Scalar, Struct
from firsttouch.text import condition, is_size
from firsttouch.text import quantity as in_words
from firsttouch.units import format_number, format_size
from firsttouch.workspace.strategies import STRATEGIES

LEAST = 1.05
"""Below this ratio of two values neither is called less or more, even if their intervals are apart: other runs of one
machine differ by about as much.
"""
ALIKE = 1.1
"""The largest ratio of values that are the same."""
_SPECIAL_SIZES = ("tiny", "oversubscribed")
"""Sizes of applications for tests, and beyond the memory of the GPU."""
_ONE_COUNTER = math.sqrt(CLEAR_RATIO)
"""How far a counter without an interval may be off."""

Agreement: TypeAlias = Literal["yes", "no", "unclear"]
Outcome: TypeAlias = Literal["holds", "does not hold", "no clear difference", "not testable"]
OUTCOMES: Sequence[Outcome] = ("holds", "does not hold", "no clear difference", "not testable")


class Value(Struct):
    """A measured value with its unit and the bounds of its interval, None if it has none."""

    value: float
    unit: str
    low: float | None = None
    high: float | None = None


class Comparison(Struct, kw_only=True):
    """One comparison that a verdict rests on.

    agrees: whether it agrees with the claim. about: what is compared, in words. first, second: the values; second is
    None if the claim is about one value. ratio: first / second. points: the keys of the records.
    """

    agrees: Agreement
    about: str
    first: Value
    points: list[str]
    second: Value | None = None
    ratio: Value | None = None


class Verdict(Struct, kw_only=True):
    """A claim and what a run says about it.

    why: a sentence: the values that decide, or why the claim can't be tested here. command: the call that measures what
    is missing, or ''. device: whose records were tested.
    """

    id: str
    paper: str
    section: str
    rows: list[str]
    text: str
    verdict: Outcome
    why: str
    device: str = ""
    command: str = ""
    comparisons: list[Comparison] = []


class Claims(Struct):
    """What `firsttouch claims --json` prints: every claim, those that can't be tested included."""

    claims: list[Verdict]


def claims(directory: Path) -> Claims:
    """The papers' claims, tested on the run in `directory`.

    Raises:
        UsageError: as load_results, or there are no points.
    """
    results = load_results(Path(directory))
    if not results.records:
        raise UsageError(f"{directory} holds no measured points; name a directory that `firsttouch run` wrote")
    return of_results(results)


def of_results(results: Results) -> Claims:
    run = _Run(results)
    return Claims(claims=[run.verdict(claim) for claim in all_claims()])


NEEDS: Mapping[Need, tuple[Callable[[DeviceInfo], bool], str]] = {
    "one memory": (
        lambda device: device.capabilities.shares_host_memory,
        "CPU and GPU here have separate memories (shares_host_memory of {device} is false)",
    ),
    "separate memories": (
        lambda device: not device.capabilities.shares_host_memory,
        "CPU and GPU here share one memory (shares_host_memory of {device} is true)",
    ),
    "host reaches device memory": (
        lambda device: bool(device.facts.get("directManagedMemAccessFromHost")),
        "the CPU here cannot use the memory of {device} in place (directManagedMemAccessFromHost is false)",
    ),
    "migration": (
        lambda device: device.capabilities.page_migration,
        "pages of {device} do not migrate (page_migration is false)",
    ),
}
"""Whether a device has a property that a claim needs, and the sentence if it has not."""


@dataclass(frozen=True)
class _Side:
    """The points of one side of a test: a selection of factors."""

    factors: Mapping[str, Condition]

    def matches(self, factors: Mapping[str, Scalar]) -> bool:
        return all(_includes(wanted, factors.get(name)) for name, wanted in self.factors.items())


def _includes(wanted: Condition, value: Scalar) -> bool:
    if isinstance(wanted, list):
        return any(_includes(one, value) for one in wanted)
    if isinstance(wanted, str) and _is_bound(wanted) and isinstance(value, int | float):
        return value > float(wanted[1:])
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


class _NotTestable(Exception):
    """Why a claim can't be tested, and the call that measures what is missing."""

    def __init__(self, why: str, command: str = "") -> None:
        super().__init__(why)
        self.why, self.command = why, command


class _Run:
    """A run's records by experiment, and its devices."""

    def __init__(self, results: Results) -> None:
        devices = [device for device in results.machine.devices if device.available]
        self.gpus = [d for d in devices if d.capabilities.runs_kernels and not d.capabilities.on_host_processor]
        hosts = [d for d in devices if not d.capabilities.runs_kernels]
        self.hosts = hosts or [DeviceInfo(name=HOST, kind=HOST, title=HOST)]
        usable = measured(results.records)
        self.records = {experiment: rows for (experiment,), rows in _by_experiment(results.records).items()}
        self.usable = {id(record) for record in usable}

    def verdict(self, claim: Claim) -> Verdict:
        """The verdict on the first device on which the claim can be tested."""
        rows = {row.name: row for row in all_rows()}
        first = rows[claim.rows[0]]
        found = Verdict(
            id=claim.id,
            paper=first.paper,
            section=first.section,
            rows=claim.rows,
            text=claim.text,
            verdict="not testable",
            why="",
        )
        if isinstance(claim.test, Untestable):
            found.why = claim.test.why
            return found
        for device in self.gpus if claim.on == "gpu" else self.hosts:
            try:
                comparisons = self._comparisons(claim, claim.test, device)
            except _NotTestable as reason:
                if not found.why:
                    found.why, found.command, found.device = reason.why, reason.command, device.name
                continue
            found.device, found.command, found.comparisons = device.name, "", comparisons
            found.verdict, found.why = _judge(claim, comparisons)
            return found
        found.why = found.why or "these results have no GPU"
        return found

    def _comparisons(self, claim: Claim, test: Check, device: DeviceInfo) -> list[Comparison]:
        for need in claim.needs:
            has, sentence = NEEDS[need]
            if not has(device):
                raise _NotTestable(sentence.format(device=device.name))
        pool = self._pool(test, device)
        sides = list(_sides(test))
        points = [record for record in pool if id(record) in self.usable]
        if lacking := [side for side in sides if not any(side.matches(r.factors) for r in points)]:
            whys = filter(None, (self._why_not(test, side, device) for side in lacking))
            if why := next(whys, ""):
                raise _NotTestable(why)
            raise _NotTestable("not measured in this run", self.command(claim, test, device))
        found = list(_compared(test, points))
        if not found:
            selected = [r for r in points if any(side.matches(r.factors) for side in sides)]
            raise _NotTestable(_why_nothing(test, selected), self.command(claim, test, device))
        named = test.where.get("app")
        compared = {msgspec.json.decode(c.points[0])[2].get("app") for c in found}
        if isinstance(named, list) and 2 * len(compared) < len(named):
            why = (
                f"only {len(compared)} of {len(named)} applications {'was' if len(compared) == 1 else 'were'} compared"
            )
            raise _NotTestable(why, self.command(claim, test, device))
        return found

    def _pool(self, test: Check, device: DeviceInfo) -> list[Record]:
        """The records of a device, and those of the host about memory, since plain host memory is measured there. Sizes
        of applications that only some claims are about are left out of the others.
        """
        hosts = {host.name for host in self.hosts}
        rows = self.records.get(test.experiment, [])
        if test.experiment == APPLICATIONS and "size" not in test.where:
            rows = [r for r in rows if r.factors.get("size") not in _SPECIAL_SIZES and "oversubscribe" not in r.factors]
        return [r for r in rows if r.device == device.name or (r.device in hosts and "allocator" in r.factors)]

    def _why_not(self, test: Check, side: _Side, device: DeviceInfo) -> str:
        """Why no point of a side can be measured on a device: the reason in the records, or a property of the hardware;
        '' if nobody tried.
        """
        pool = self._pool(test, device)
        for record in pool:
            if side.matches(record.factors):
                return _reason(record)
        if why := _impossible(side, device, self.hosts):
            return why
        if "allocator" in side.factors:
            of_memory = _Side({"allocator": side.factors["allocator"]})
            same = [r for r in pool if r.device == device.name and of_memory.matches(r.factors)]
            if same and all(record.status == "skipped" for record in same):
                return _reason(same[0])
        return ""

    def command(self, claim: Claim, test: Check, device: DeviceInfo) -> str:
        """The call that measures a test's points. Where a side leaves a factor open, the preset chooses its values."""
        known = {a.name for owner in (device, *self.hosts) for a in owner.allocators}
        values: dict[str, list[Scalar]] = {}
        open_factors = set(test.first.keys() ^ test.second.keys()) if isinstance(test, Compare) else set()
        for side in _sides(test):
            for name, wanted in side.factors.items():
                given = _values(wanted)
                open_factors |= {name} if any(map(_is_bound, given)) else set()
                usable = [v for v in given if v is not None and (name != "allocator" or not known or v in known)]
                listed = values.setdefault(name, [])
                listed += [v for v in usable if v not in listed]
        optional = [name for name, wanted in test.where.items() if isinstance(wanted, list) and None in wanted]
        for name in {*open_factors, *optional}:
            del values[name]
        allocators = values.get("allocator", [])
        plain = [h.name for h in self.hosts if any(h.allocator(str(a)) is not None for a in allocators)]
        plain = plain if "cpu" in values.get("agent", ["cpu"]) and test.experiment != APPLICATIONS else []
        names = [f"--device {name}" for name in dict.fromkeys([*plain, device.name])]
        if test.experiment == APPLICATIONS:
            words = ["app", *map(str, values.pop("app", [])), *names]
            words += [f"--strategy {name}" for name in values.pop("strategy", [])]
            words += [f"--size {value}" for value in values.pop("size", [])]
            words += [] if test.exact else ["--repeat 3"]
        else:
            words = ["run", test.experiment, *names, *(["--preset standard"] if open_factors else [])]
        words += [f"--set {name}={','.join(_argument(name, v) for v in given)}" for name, given in values.items()]
        return " ".join(["firsttouch", *words, *filter(None, [claim.options])])


def _by_experiment(records: Iterable[Record]) -> dict[tuple[Scalar, ...], list[Record]]:
    groups: dict[tuple[Scalar, ...], list[Record]] = {}
    for record in records:
        groups.setdefault((record.experiment,), []).append(record)
    return groups


def _values(wanted: Condition) -> list[Scalar]:
    return wanted if isinstance(wanted, list) else [wanted]


def _is_bound(value: Scalar) -> bool:
    """True for a condition that any number above one meets, such as ">64"."""
    return isinstance(value, str) and value.startswith(">")


def _argument(name: str, value: Scalar) -> str:
    """A factor's value as --set takes it."""
    if is_size(name) and isinstance(value, int) and not isinstance(value, bool) and value >= 1024:
        text = format_size(value).replace(" ", "")
        return text if value % 1024 == 0 and "." not in text else str(value)
    return str(value)


def _why_nothing(test: Check, points: Sequence[Record]) -> str:
    """Why points that were measured do not test a claim."""
    if test.metric != MEDIAN and not any(test.metric in record.counters for record in points):
        return f"not measured in this run: the points have no {test.metric}"
    if not test.exact and not all(map(_repeated, points)):
        return "each point was measured once, so that a difference may be chance"
    return "not measured in this run: no two of its points differ in this alone"


def _sides(test: Check) -> Iterator[_Side]:
    if isinstance(test, Compare):
        yield _Side({**test.where, **test.first})
        yield _Side({**test.where, **test.second})
    else:
        yield _Side(test.where)


def _reason(record: Record) -> str:
    """Why a record is not used."""
    if record.status == "ok":
        return "the result of the point is wrong" if record.verified is False else "the point is suspect"
    words = {"skipped": "", "failed": "it failed: ", "timeout": "it ran too long: ", "crashed": "it crashed: "}
    return f"{words[record.status]}{record.reason}".rstrip(". ") or record.status


def _impossible(side: _Side, device: DeviceInfo, hosts: Sequence[DeviceInfo]) -> str:
    """A property of the hardware for which no point of a side is possible, or ''."""
    for name in side.factors:
        if name in SWITCHES and name not in switches_of(device):
            return f"the runtime of {device.name} does not read {SWITCHES[name].variable}"
    names, agent = [str(v) for v in _values(side.factors.get("allocator", []))], _agent(side.factors)
    for strategy in _values(side.factors.get("strategy", [])):
        if (known := STRATEGIES.get(str(strategy))) is not None and not known.duplicated:
            names, agent = [known.allocator], "both"
    reasons = [_unusable(name, agent, device, hosts) for name in names]
    return reasons[0] if reasons and all(reasons) else ""


def _agent(factors: Mapping[str, Condition]) -> str:
    """Who must be able to use the memory of a point: "cpu", "gpu", "both", or '' if that is not said."""
    acting = {
        str(v) for name in ("agent", "toucher", "first_touch", "streamed_by") for v in _values(factors.get(name, []))
    }
    acting |= {"gpu" for v in _values(factors.get("scenario", [])) if v != "cpu"}
    if "starts_on" in factors or {"cpu", "gpu"} <= acting:
        return "both"
    return "gpu" if "gpu" in acting else "cpu" if "cpu" in acting else ""


def _unusable(name: str, agent: str, device: DeviceInfo, hosts: Sequence[DeviceInfo]) -> str:
    """Why an agent cannot use an allocator's memory, or ''."""
    info: AllocatorInfo | None = device.allocator(name)
    if info is None:
        unknown = any(host.allocator(name) or not host.allocators for host in hosts)
        return "" if unknown else f"{device.name} has no {name} memory"
    if not info.available:
        return info.reason or f"{name} memory is not available on {device.name}"
    if agent in ("gpu", "both") and info.gpu == "none":
        return info.gpu_reason or f"the GPU cannot reach {name} memory"
    if agent in ("cpu", "both") and info.cpu == "none":
        return f"the CPU cannot reach {name} memory of {device.name}"
    return ""


# ------------------------------------------------------------------------------------------------ values


def _repeated(record: Record) -> bool:
    return record.summary is not None and record.summary.n > 1


def _value(test: Check, record: Record) -> Quantity | None:
    """A point's value with its interval; None if there is none, or if it was measured once and is no exact count."""
    if test.metric == MEDIAN:
        found = quantity(record)
        return found if found.low is not None else None
    counted = record.counters.get(test.metric)
    if counted is None or isinstance(counted, bool | str) or record.counters.get("um_dropped"):
        return None
    value, unit = float(counted), _unit(test.metric)
    if test.exact:
        return Quantity(value, unit, value, value)
    return Quantity(value, unit, *sorted((value / _ONE_COUNTER, value * _ONE_COUNTER))) if _repeated(record) else None


def _unit(counter: str) -> str:
    """The unit of a counter, by the project's naming."""
    for ending, unit in (("_bytes", "B"), ("_ms", "ms"), ("_ns", "ns")):
        if counter.endswith(ending):
            return unit
    return ""


def _compared(test: Check, points: Sequence[Record]) -> Iterator[Comparison]:
    if isinstance(test, Compare):
        yield from _pairs(test, points)
        return
    rows = [r for r in points if _Side(test.where).matches(r.factors)]
    if isinstance(test, Alike):
        yield from _extremes(test, rows)
    elif isinstance(test, Trend):
        yield from _trends(test, rows)
    elif isinstance(test, Level):
        yield from (found for row in rows if (found := _level(test, row)))
    elif isinstance(test, Word):
        yield from (_word(test, row) for row in rows if row.counters.get(test.metric) is not None)
    elif isinstance(test, Iterations):
        yield from (found for row in rows if _repeated(row) and (found := _iterations(row)))


def _agrees(test: Compare, ratio: Quantity) -> Agreement:
    low, high = ratio.low, ratio.high
    if low is None or high is None:
        return "unclear"
    if test.relation == "same":
        return _within(low, high, 1 / ALIKE, ALIKE)
    if test.relation == "ratio":
        return _within(low, high, test.low, test.high)
    less, more = high < 1 and ratio.value < 1 / LEAST, low > 1 and ratio.value > LEAST
    if test.relation == "no more":
        return "no" if more else "yes" if high <= LEAST else "unclear"
    wanted, opposite = (less, more) if test.relation == "less" else (more, less)
    return "yes" if wanted else "no" if opposite else "unclear"


def _within(low: float, high: float, least: float, most: float) -> Agreement:
    """Whether an interval lies within a range, or apart from it."""
    return "yes" if least <= low and high <= most else "no" if high < least or low > most else "unclear"


def _pairs(test: Compare, points: Sequence[Record]) -> Iterator[Comparison]:
    firsts, seconds = ([r for r in points if side.matches(r.factors)] for side in _sides(test))
    varied = {*test.first, *test.second, *test.ignore}
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in seconds:
        groups.setdefault(_others(record, varied), []).append(record)
    pairs = [(a, b) for a in firsts for b in groups.get(_others(a, varied), []) if a is not b]
    for name, which in test.at.items():
        best = (max if which == "largest" else min)((number(a, name) for a, _ in pairs), default=0)
        pairs = [(a, b) for a, b in pairs if number(a, name) == best]
    for a, b in pairs:
        x, y = _value(test, a), _value(test, b)
        if x is None or y is None or (not y.value and not x.value):
            continue
        ratio = _exact_ratio(x, y) if test.exact else ratio_of(x, y)
        yield Comparison(
            agrees=_agrees(test, ratio),
            about=_difference(a, b),
            first=_given(x),
            second=_given(y),
            ratio=_finite(ratio),
            points=[key_of(a), key_of(b)],
        )


def _exact_ratio(x: Quantity, y: Quantity) -> Quantity:
    ratio = x.value / y.value if y.value else math.inf
    return Quantity(ratio, "", ratio, ratio)


def _others(record: Record, varied: set[str]) -> tuple[str, ...]:
    return tuple(sorted(f"{name}={value!r}" for name, value in record.factors.items() if name not in varied))


def _groups(test: Alike | Trend, rows: Sequence[Record]) -> list[list[Record]]:
    """Points that differ in one factor alone."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in rows:
        if _value(test, record) is not None:
            groups.setdefault(_others(record, {test.over}), []).append(record)
    return [group for group in groups.values() if len(group_by(group, test.over)) > 1]


def _extremes(test: Alike, rows: Sequence[Record]) -> Iterator[Comparison]:
    groups = _groups(test, rows)
    for name, which in test.at.items():
        best = (max if which == "largest" else min)((number(g[0], name) for g in groups), default=0)
        groups = [g for g in groups if number(g[0], name) == best]
    for group in groups:
        values = sorted(((_known(test, r), r) for r in group), key=lambda pair: pair[0].value)
        (x, a), (y, b) = values[-1], values[0]
        ratio = ratio_of(x, y)
        same = _within(ratio.low or 0, math.inf if ratio.high is None else ratio.high, 1 / ALIKE, ALIKE)
        agrees = same if test.alike else _NOT[same]
        yield Comparison(
            agrees=agrees,
            about=_difference(a, b),
            first=_given(x),
            second=_given(y),
            ratio=_finite(ratio),
            points=[key_of(r) for _, r in values],
        )


_NOT: Mapping[Agreement, Agreement] = {"yes": "no", "no": "yes", "unclear": "unclear"}


def _known(test: Check, record: Record) -> Quantity:
    found = _value(test, record)
    assert found is not None
    return found


def _trends(test: Trend, rows: Sequence[Record]) -> Iterator[Comparison]:
    for group in _groups(test, rows):
        ordered = sorted(group, key=lambda r: number(r, test.over))
        values = [_known(test, r) for r in ordered]
        if not test.rises:
            values.reverse()
        whole, against = _rise(values[0], values[-1]), any(_rise(a, b) == "no" for a, b in pairwise(values))
        first, last = (ordered[0], ordered[-1]) if test.rises else (ordered[-1], ordered[0])
        yield Comparison(
            agrees="no" if against else whole,
            about=_difference(last, first),
            first=_given(values[-1]),
            second=_given(values[0]),
            ratio=_finite(ratio_of(values[-1], values[0])),
            points=[key_of(r) for r in ordered],
        )


def _rise(a: Quantity, b: Quantity) -> Agreement:
    """Whether b is clearly more than a; "no" if it is clearly less."""
    if not are_apart(a, b) or max(a.value, b.value) < LEAST * min(a.value, b.value):
        return "unclear"
    return "yes" if b.value > a.value else "no"


def _level(test: Level, record: Record) -> Comparison | None:
    found = _value(test, record)
    divisor = number(record, test.per) if test.per else 1.0
    if found is None or found.low is None or found.high is None or divisor <= 0:
        return None
    unit = "" if test.per else found.unit
    share = Quantity(found.value / divisor, unit, found.low / divisor, found.high / divisor)
    assert share.low is not None
    assert share.high is not None
    return Comparison(
        agrees=_within(share.low, share.high, test.low, test.high),
        about=f"{_measure(test)}, {condition(record, _naming(record))}",
        first=_given(share),
        points=[key_of(record)],
    )


def _measure(test: Level) -> str:
    """What a level is of: 'call_headline / size'."""
    return " / ".join(filter(None, [test.metric, test.per]))


def _word(test: Word, record: Record) -> Comparison:
    found = record.counters[test.metric]
    given = {True: "yes", False: "no"}.get(found, found) if isinstance(found, bool) else found
    return Comparison(
        agrees="yes" if found == test.word else "no",
        about=f"{condition(record, _naming(record))}: {given}",
        first=Value(value=float(found == test.word), unit="", low=None, high=None),
        points=[key_of(record)],
    )


def _iterations(record: Record) -> Comparison | None:
    """The first iteration against the slowest later one; the later ones are its interval."""
    times = {n: float(v) for n, v in series(record, "iteration_{}_ms").items() if isinstance(v, int | float)}
    later = [v for n, v in times.items() if n != 0]
    if 0 not in times or not later or min(later) <= 0:
        return None
    first, slowest = times[0], max(later)
    clear: Agreement = "yes" if first > CLEAR_RATIO * slowest else "no" if first < slowest / CLEAR_RATIO else "unclear"
    return Comparison(
        agrees=clear,
        about=f"the first iteration against the slowest later one, {condition(record, _naming(record))}",
        first=Value(value=first, unit="ms"),
        second=Value(value=slowest, unit="ms"),
        ratio=Value(value=first / slowest, unit=""),
        points=[key_of(record)],
    )


def _finite(ratio: Quantity) -> Value | None:
    """A ratio; None if the divisor was zero."""
    return _given(ratio) if math.isfinite(ratio.value) else None


def _given(q: Quantity) -> Value:
    return Value(value=q.value, unit=q.unit, low=q.low, high=q.high)


# ------------------------------------------------------------------------------------------------ words


def _naming(record: Record) -> list[str]:
    """The factors that tell a point from others best."""
    known = ("app", "strategy", "allocator", "operation", "toucher", "advice", "prefetch")
    return [name for name in known if record.factors.get(name) is not None]


def _difference(a: Record, b: Record) -> str:
    """What differs between two points: 'allocator device against pinned'."""
    names = [n for n in dict.fromkeys([*a.factors, *b.factors]) if a.factors.get(n) != b.factors.get(n)]
    shared = [n for n in ("app", "allocator", "type", "elements", "size") if n in a.factors and n not in names]
    return f"{condition(a, names)} against {condition(b, names)}{'; ' + condition(a, shared) if shared else ''}"


def _judge(claim: Claim, comparisons: Sequence[Comparison]) -> tuple[Outcome, str]:
    """The verdict over all comparisons, and the sentence about those that decide."""
    by = {agrees: [c for c in comparisons if c.agrees == agrees] for agrees in ("yes", "no", "unclear")}
    total, yes, no = len(comparisons), len(by["yes"]), len(by["no"])
    outcome: Outcome = "no clear difference"
    if claim.holds_for == "all":
        outcome = "does not hold" if no else "holds" if yes == total else outcome
    elif claim.holds_for == "most":
        outcome = "holds" if 2 * yes > total else "does not hold" if 2 * no >= total else outcome
    else:
        outcome = "holds" if yes else "does not hold" if no == total else outcome
    decisive = {"holds": by["yes"], "does not hold": by["no"]}.get(outcome) or by["unclear"] or list(comparisons)
    alike = isinstance(claim.test, Alike) or (isinstance(claim.test, Compare) and claim.test.relation == "same")
    shown = (max if alike or outcome == "does not hold" else min)(decisive, key=_strength)
    counts = f"{yes} of {total} comparisons agree, {no} contradict" if total > 1 else ""
    return outcome, "; ".join(filter(None, [_words(shown), counts]))


def _strength(comparison: Comparison) -> float:
    """How far a ratio is from 1."""
    ratio = comparison.ratio
    return abs(math.log(ratio.value)) if ratio is not None and ratio.value > 0 else math.inf


def _words(comparison: Comparison) -> str:
    """A comparison in words: '4,330 GB/s against 73.3 GB/s (59 times, 58 to 60): allocator device against pinned'."""
    if comparison.second is None:
        bare = comparison.first.low is None
        return comparison.about if bare else f"{_amount(comparison.first)}: {comparison.about}"
    ratio = comparison.ratio
    times = f" ({_ratio(ratio)})" if ratio is not None else ""
    return f"{_amount(comparison.first)} against {_amount(comparison.second)}{times}: {comparison.about}"


def _amount(value: Value) -> str:
    return in_words(value.value, value.unit)


def _ratio(ratio: Value) -> str:
    text = f"{format_number(ratio.value)} times"
    if ratio.low is None or ratio.high is None or ratio.low == ratio.high:
        return text
    return f"{text}, {format_number(ratio.low)} to {format_number(ratio.high)}"


def commands(verdicts: Iterable[Verdict]) -> list[str]:
    """The calls that measure what is missing, without repetitions."""
    return list(dict.fromkeys(v.command for v in verdicts if v.command))
