"""Why predicted times are what they are: which values of the platform decide them, and where another strategy becomes
the fastest.

Each answer is that of the prediction itself, made again with one thing changed. Nothing is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import median
from typing import TypeAlias

from firsttouch.errors import Unsupported
from firsttouch.experiment.base import Experiment
from firsttouch.model.costs import Price, Time
from firsttouch.model.parameters import parameter, units_of
from firsttouch.model.platform import Platform, platform_of
from firsttouch.model.values import Magnitude, Value
from firsttouch.outcomes.explanations import Crossing, ExplainedPoint, Explanation, FastestPart, ValueEffect
from firsttouch.records.schema import DeviceInfo, Factors, Point, Record, Scalar
from firsttouch.units import format_size

MOST_VALUES = 3
"""The values that are listed: those that move the answer most."""
TENTH = 1.1
"""A value is also tried at so many times what it is, since those that are stated have no range."""
ITERATIONS = tuple(2.0**k for k in range(11))
PAGES = (4096.0, 16384.0, 65536.0)
"""Bytes of the pages that kernels of hosts have."""
SHARES = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 3 / 4, 0.9, 1.1, 1.25, 1.5, 2.0)
"""Of the device's memory, that the buffers take."""
NumberOrPrice: TypeAlias = Magnitude | Price


def explain(records: Iterable[Record], find: Callable[[Record], Experiment]) -> list[Explanation]:
    """The explanations of the predicted points among some records. find: the experiment of a record."""
    predicted = [r for r in records if r.modelled is not None and r.status == "ok" and r.summary is not None]
    predicted = [r for r in predicted if r.factors.get("events") != "on"]  # which takes the same time
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in predicted:
        others = {name: value for name, value in record.factors.items() if name != "strategy"}
        groups.setdefault((record.device, repr(sorted(others.items()))), []).append(record)
    return [_explained(rows, find) for rows in groups.values()]


def _explained(rows: Sequence[Record], find: Callable[[Record], Experiment]) -> Explanation:
    first = rows[0]
    asked = [_Asked(find(record), record) for record in rows]
    points = []
    for each, record in zip(asked, rows, strict=True):
        assert record.summary is not None
        summary, terms = record.summary, sorted(record.terms, key=lambda term: -term.ms)
        points.append(
            ExplainedPoint(
                strategy=str(record.factors.get("strategy")),
                ms=summary.median,
                low=summary.ci_low,
                high=summary.ci_high,
                terms=terms,
                values=each.values_that_move(summary.median),
            )
        )
    assert first.modelled is not None
    return Explanation(
        app=str(first.factors.get("app")),
        device=first.device,
        platform=first.modelled.platform,
        size=first.factors.get("size"),
        strategies=sorted(points, key=lambda point: point.ms),
        crossings=[crossing for crossing in _crossings(asked) if crossing.parts],
    )


@dataclass
class _Asked:
    """A point that can be predicted again with something changed."""

    experiment: Experiment
    record: Record

    def __post_init__(self) -> None:
        self.platform = platform_of(self.record.device)
        names = [device.name for device in self.platform.devices]
        self._which = names.index(self.record.device)

    @property
    def strategy(self) -> str:
        return str(self.record.factors.get("strategy"))

    def device(self, platform: Platform) -> DeviceInfo:
        return platform.devices[self._which]

    def ms(self, platform: Platform | None = None, factors: Mapping[str, Scalar] | None = None) -> float | None:
        """The predicted time, or None where the point is impossible or not modelled."""
        chosen = Factors({**self.record.factors, **(factors or {})})
        machine = (platform or self.platform).under(chosen)
        device = self.device(machine)
        if self.experiment.skip(chosen, device):
            return None
        try:
            measurement = self.experiment.predict(Point(self.record.experiment, device.name, chosen), machine)
        except Unsupported:
            return None
        return median(measurement.samples)

    def values_that_move(self, ms: float) -> list[ValueEffect]:
        names = dict.fromkeys(name for term in self.record.terms for name in term.values)
        known = {value.name: value for value in self.platform.under(self.record.factors).values()}
        effects = [effect for name in names if name in known and (effect := self._effect(known[name], ms))]
        effects = [effect for effect in effects if effect.moves(ms) > 0]
        return sorted(effects, key=lambda effect: -effect.moves(ms))[:MOST_VALUES]

    def _effect(self, value: Value, ms: float) -> ValueEffect | None:
        content = value.content
        if not isinstance(content, Magnitude | Price):
            return None
        tenth = 1 / TENTH if isinstance(content, Price) and value.entry.unit in units_of("rate") else TENTH
        tried = [self._with(value, at) for at in (_low(content), _high(content), _times(content, tenth))]
        if any(time is None for time in tried):
            return None
        low, high, more = (time or 0.0 for time in tried)
        known = parameter(value.name)
        return ValueEffect(
            name=value.name,
            says=known.says if known else "",
            value=value.text,
            low_ms=min(ms, low, high),
            high_ms=max(ms, low, high),
            tenth_ms=more,
        )

    def _with(self, value: Value, content: NumberOrPrice) -> float | None:
        changed = replace(value, content=content)
        return self.ms(replace(self.platform, given={**self.platform.given, value.name: ("changed", changed)}))


def _mapped(content: NumberOrPrice, bound: Callable[[float, float, float], float]) -> NumberOrPrice:
    """A value that is exact. bound: chooses from value, low and high."""
    if isinstance(content, Magnitude):
        exact = bound(content.value, content.low, content.high)
        return Magnitude(exact, exact, exact, content.ground)
    times = tuple(Time(*[bound(t.value, t.low, t.high)] * 3) for t in content.times)
    return Price(content.sizes, times, content.grounds)


def _low(content: NumberOrPrice) -> NumberOrPrice:
    return _mapped(content, lambda value, low, high: low)


def _high(content: NumberOrPrice) -> NumberOrPrice:
    return _mapped(content, lambda value, low, high: high)


def _times(content: NumberOrPrice, factor: float) -> NumberOrPrice:
    return _mapped(content, lambda value, low, high: value * factor)


# ---------------------------------------------------------------------------------------------------- crossings

TimeAt: TypeAlias = Callable[[_Asked, float], float | None]
"""The predicted ms of a point where a condition has another value."""


def _crossings(asked: Sequence[_Asked]) -> Iterator[Crossing]:
    if len(asked) < 2:
        return
    if _takes_iterations(asked[0]):
        parts = _whole(asked, ITERATIONS, lambda each, n: each.ms(factors={"iterations": int(n)}))
        yield _crossing("iterations", "by iterations", parts, lambda n: str(int(n)))
    parts = _parts(asked, PAGES, lambda each, page: each.ms(each.platform.changed({"host.page": f"{int(page)}B"})))
    yield _crossing("host.page", "by the page of the host", parts, lambda page: format_size(int(page)))
    memory = asked[0].device(asked[0].platform).facts.get("memory_bytes")
    if isinstance(memory, int | float):
        parts = _parts(asked, SHARES, lambda each, share: each.ms(factors={"size": int(share * memory)}))
        yield _crossing("share", "by the part of the device's memory that the buffers take", parts, "{:.3g}".format)


def _takes_iterations(asked: _Asked) -> bool:
    return any(factor.name == "iterations" for factor in asked.experiment.optional())


def _crossing(along: str, words: str, parts: list[FastestPart], text_of: Callable[[float], str]) -> Crossing:
    ranges = []
    for part in parts:
        first, last = text_of(part.first), text_of(part.last)
        ranges.append(f"{part.strategy} {f'at {first}' if first == last else f'from {first} to {last}'}")
    return Crossing(along=along, parts=parts, text=f"the fastest {words}: {', '.join(ranges)}")


def _fastest(asked: Sequence[_Asked], value: float, at: TimeAt) -> tuple[str, float] | None:
    """The strategy with the least time, and that time; None if none has any."""
    known = [(ms, each.strategy) for each in asked if (ms := at(each, value)) is not None]
    return (min(known)[1], min(known)[0]) if known else None


def _parts(asked: Sequence[_Asked], values: Sequence[float], at: TimeAt) -> list[FastestPart]:
    """Which strategy is the fastest at these values, in stretches of the same one."""
    known = [(value, best) for value in values if (best := _fastest(asked, value, at))]
    stretches = (list(group) for _, group in groupby(known, key=lambda row: row[1][0]))
    return [
        FastestPart(first=rows[0][0], last=rows[-1][0], strategy=rows[0][1][0], ms=rows[0][1][1]) for rows in stretches
    ]


def _whole(asked: Sequence[_Asked], values: Sequence[float], at: TimeAt) -> list[FastestPart]:
    """As _parts, with the whole number from which on another strategy is the fastest."""
    parts = _parts(asked, values, at)
    by_strategy = {each.strategy: each for each in asked}
    for before, after in pairwise(parts):
        two = [by_strategy[before.strategy], by_strategy[after.strategy]]
        low, high = int(before.last), int(after.first)
        while high - low > 1 and (best := _fastest(two, (low + high) // 2, at)):
            if best[0] == after.strategy:
                high, after.ms = (low + high) // 2, best[1]
            else:
                low = (low + high) // 2
        before.last, after.first = float(low), float(high)
    return parts
