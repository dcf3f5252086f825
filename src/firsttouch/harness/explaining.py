"""Why predicted times are what they are: which values of the platform decide them, and where another strategy becomes
the fastest.

Each answer is that of the prediction itself, made again with one thing changed. Nothing is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby, pairwise
from statistics import median
from typing import TypeAlias

from firsttouch.base.errors import Unsupported
from firsttouch.base.units import format_number, format_size
from firsttouch.experiments.contract.base import Experiment, Measurement
from firsttouch.harness.outcomes.explanations import (
    Crossing,
    Decision,
    ExplainedPoint,
    Explanation,
    FastestPart,
    Overtaking,
    ValueEffect,
)
from firsttouch.model.costs import Price, Time
from firsttouch.model.parameters import parameter
from firsttouch.model.platform import Platform, platform_of
from firsttouch.model.values import Magnitude, Value
from firsttouch.records.schema import DeviceInfo, Factors, Point, Record, Scalar

MOST_VALUES = 3
"""The values that are listed: those that move the answer most."""
TENTH = 1.1
"""A value is also tried at so many times what it is, since those that are stated have no range."""
MOST_OVERTAKINGS = 4
"""The pairs that a sentence names besides the fastest."""
ITERATIONS = tuple(2.0**k for k in range(7))
PAGES = (4096.0, 16384.0, 65536.0)
"""Bytes of the pages that kernels of hosts have."""
SHARES = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 0.9, 1.1, 1.5)
"""Of the device's memory, that the buffers take."""
NumberOrPrice: TypeAlias = Magnitude | Price


def explain(records: Iterable[Record], find: Callable[[Record], Experiment]) -> list[Explanation]:
    """The explanations of the predicted points among some records. find: the experiment of a record."""
    predicted = [r for r in records if r.modelled is not None and r.status == "ok" and r.summary is not None]
    predicted = [
        r for r in predicted if r.factors.get("events") != "on"
    ]  # a prediction with events takes the same time
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in predicted:
        other_factors = {name: value for name, value in record.factors.items() if name != "strategy"}
        groups.setdefault((record.device, repr(sorted(other_factors.items()))), []).append(record)
    return [_explain_setting(rows, find) for rows in groups.values()]


def _explain_setting(rows: Sequence[Record], find: Callable[[Record], Experiment]) -> Explanation:
    first = rows[0]
    asked = [_Asked(find(record), record) for record in rows]
    points = []
    for each, record in zip(asked, rows, strict=True):
        assert record.summary is not None
        summary, terms = record.summary, sorted(record.terms, key=lambda term: -term.ms)
        exact_low, exact_high, widest = each.left_open()
        points.append(
            ExplainedPoint(
                strategy=str(record.factors.get("strategy")),
                ms=summary.median,
                low=summary.ci_low,
                high=summary.ci_high,
                terms=terms,
                values=each.values_that_move(summary.median),
                exact_low=exact_low,
                exact_high=exact_high,
                widest=widest,
            )
        )
    assert first.modelled is not None
    return Explanation(
        app=str(first.factors.get("app")),
        device=first.device,
        platform=first.modelled.platform,
        size=first.factors.get("size"),
        strategies=sorted(points, key=lambda point: point.ms),
        decisions=list(_decisions(asked)),
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
        measurement = self.predict(platform, factors)
        return None if measurement is None else median(measurement.samples)

    def predict(
        self, platform: Platform | None = None, factors: Mapping[str, Scalar] | None = None
    ) -> Measurement | None:
        chosen = Factors({**self.record.factors, **(factors or {})})
        machine = (platform or self.platform).under(chosen)
        device = self.device(machine)
        if self.experiment.skip(chosen, device):
            return None
        try:
            return self.experiment.predict(Point(self.record.experiment, device.name, chosen), machine)
        except Unsupported:
            return None

    def left_open(self) -> tuple[float, float, str]:
        """The range of the time if every value is exact, and the term that has most of it."""
        ms = record_ms(self.record)
        numbers = [(v, v.content) for v in self.values().values() if isinstance(v.content, Magnitude | Price)]
        measurement = self.predict(self._platform_with((value, _times(content, 1.0)) for value, content in numbers))
        if measurement is None or measurement.low is None or measurement.high is None:
            return ms, ms, ""
        widest = max(measurement.terms, key=lambda term: term.high - term.low, default=None)
        return measurement.low, measurement.high, widest.what if widest and widest.high > widest.low else ""

    def values(self) -> dict[str, Value]:
        """The values of the platform that the terms rest on."""
        names = {name for term in self.record.terms for name in term.values}
        return {value.name: value for value in self.platform.under(self.record.factors).values() if value.name in names}

    def values_that_move(self, ms: float) -> list[ValueEffect]:
        effects = [effect for value in self.values().values() if (effect := self._effect_of_value(value, ms))]
        effects = [effect for effect in effects if effect.moves(ms) > 0]
        return sorted(effects, key=lambda effect: -effect.moves(ms))[:MOST_VALUES]

    def _effect_of_value(self, value: Value, ms: float) -> ValueEffect | None:
        content = value.content
        if not isinstance(content, Magnitude | Price):
            return None
        tried = [self.with_value(value, at) for at in (_low_end(content), _high_end(content), _times(content, TENTH))]
        if any(time is None for time in tried):
            return None
        low, high, more = (time or 0.0 for time in tried)
        known_parameter = parameter(value.name)
        return ValueEffect(
            name=value.name,
            says=known_parameter.says if known_parameter else "",
            value=value.text,
            is_price=isinstance(content, Price),
            low_ms=min(ms, low, high),
            high_ms=max(ms, low, high),
            tenth_ms=more,
        )

    def with_value(self, value: Value, content: NumberOrPrice) -> float | None:
        return self.ms(self._platform_with([(value, content)]))

    def _platform_with(self, contents: Iterable[tuple[Value, NumberOrPrice]]) -> Platform:
        """The platform with other contents of some values."""
        changed_values = {value.name: ("changed", replace(value, content=content)) for value, content in contents}
        return replace(self.platform, given={**self.platform.given, **changed_values})


def _as_exact_value(content: NumberOrPrice, bound: Callable[[float, float, float], float]) -> NumberOrPrice:
    """A value that is exact. bound: chooses from value, low and high."""
    if isinstance(content, Magnitude):
        exact = bound(content.value, content.low, content.high)
        return Magnitude(exact, exact, exact, content.ground)
    times = tuple(Time(*[bound(t.value, t.low, t.high)] * 3) for t in content.times)
    return Price(content.sizes, times, content.grounds)


def _low_end(content: NumberOrPrice) -> NumberOrPrice:
    return _as_exact_value(content, lambda value, low, high: low)


def _high_end(content: NumberOrPrice) -> NumberOrPrice:
    return _as_exact_value(content, lambda value, low, high: high)


def _times(content: NumberOrPrice, factor: float) -> NumberOrPrice:
    return _as_exact_value(content, lambda value, low, high: value * factor)


# ---------------------------------------------------------------------------------------------------- decisions


def _decisions(strategies: Sequence[_Asked]) -> Iterator[Decision]:
    """The values within whose range another strategy is the fastest: each at one end, for all strategies at once."""
    timed = [(record_ms(strategy_asked.record), strategy_asked) for strategy_asked in strategies]
    fastest = min(timed, key=lambda row: (row[0], row[1].strategy))[1]
    values = {name: value for strategy_asked in strategies for name, value in strategy_asked.values().items()}
    for value in values.values() if len(strategies) > 1 else ():
        content = value.content
        if not isinstance(content, Magnitude | Price):
            continue
        for end, words in ((_low_end(content), "as little"), (_high_end(content), "as long")):
            times = {
                strategy_asked.strategy: ms
                for strategy_asked in strategies
                if (ms := strategy_asked.with_value(value, end)) is not None
            }
            best = min(times, key=lambda name: (times[name], name), default=fastest.strategy)
            if best != fastest.strategy and fastest.strategy in times:
                condition = f"took {words} as its range allows"
                if isinstance(end, Magnitude):
                    condition = f"were {replace(value, content=end).text}"
                text = f"{best} would be the fastest if {value.name} {condition}"
                yield Decision(name=value.name, strategy=best, ms=times[best], text=text)


def record_ms(record: Record) -> float:
    assert record.summary is not None
    return record.summary.median


# ---------------------------------------------------------------------------------------------------- crossings

TimeAt: TypeAlias = Callable[[_Asked, float], float | None]
"""The predicted ms of a point where a condition has another value."""


def _crossings(asked: Sequence[_Asked]) -> Iterator[Crossing]:
    if len(asked) < 2:
        return
    if _takes_iterations(asked[0]):
        compared = _Compared(asked, ITERATIONS, lambda each, n: each.ms(factors={"iterations": int(n)}), whole=True)
        yield compared.crossing("iterations", "by iterations", lambda n: str(int(n)))
    compared = _Compared(
        asked, PAGES, lambda each, page: each.ms(each.platform.changed({"host.page": f"{int(page)}B"}))
    )
    yield compared.crossing("host.page", "by the page of the host", lambda page: format_size(int(page)))
    memory = asked[0].device(asked[0].platform).facts.get("memory_bytes")
    if isinstance(memory, int | float):
        compared = _Compared(asked, SHARES, lambda each, share: each.ms(factors={"size": int(share * memory)}))
        yield compared.crossing("share", "by the part of the device's memory that the buffers take", _format_percent)


def _format_percent(share: float) -> str:
    return f"{format_number(100 * share, 2)} %"


def _takes_iterations(asked: _Asked) -> bool:
    factors = asked.experiment.factors(asked.device(asked.platform), "quick")
    return any(factor.name == "iterations" for factor in factors)


class _Compared:
    """Strategies at several values of one condition. whole: the values are whole numbers, between which the one is
    looked for from which on another strategy is faster.
    """

    def __init__(self, asked: Sequence[_Asked], values: Sequence[float], at: TimeAt, *, whole: bool = False) -> None:
        self.by_strategy = {each.strategy: each for each in asked}
        self.at, self.whole = at, whole
        self.rows = [(value, times) for value in values if (times := self._times(value))]

    def _times(self, value: float) -> dict[str, float]:
        times_or_none = {name: self.at(each, value) for name, each in self.by_strategy.items()}
        return {name: ms for name, ms in times_or_none.items() if ms is not None}

    def crossing(self, along: str, words: str, text_of: Callable[[float], str]) -> Crossing:
        parts = self._fastest_parts()
        fastest = ", ".join(
            f"{part.strategy} {_range_words(text_of(part.first), text_of(part.last))}" for part in parts
        )
        winners = {frozenset((before.strategy, after.strategy)) for before, after in pairwise(parts)}
        overtakings = self._overtakings()
        others = [o for o in overtakings if frozenset((o.strategy, o.other)) not in winners][:MOST_OVERTAKINGS]
        beside = [f"{o.strategy} is faster than {o.other} from {text_of(o.first)} on" for o in others]
        text = f"the fastest {words}: {fastest}" + "".join(f"; {sentence}" for sentence in beside)
        return Crossing(along=along, parts=parts, overtakings=overtakings, text=text)

    def _fastest_parts(self) -> list[FastestPart]:
        """Which strategy is the fastest, in stretches of the same one."""
        best = [(value, min(times, key=lambda name: (times[name], name)), times) for value, times in self.rows]
        stretches = (list(group) for _, group in groupby(best, key=lambda row: row[1]))
        parts = [
            FastestPart(first=rows[0][0], last=rows[-1][0], strategy=rows[0][1], ms=rows[0][2][rows[0][1]])
            for rows in stretches
        ]
        for before, after in pairwise(parts):
            after.first, times = self._first_overtaking(before.last, after.first, before.strategy, after.strategy)
            after.ms = times.get(after.strategy, after.ms)
            before.last = after.first - 1 if self.whole else before.last
        return parts

    def _overtakings(self) -> list[Overtaking]:
        """For each pair of strategies, the value from which on the other one is faster."""
        overtakings = []
        for first_strategy, second_strategy in combinations(self.by_strategy, 2):
            rows_of_both = [
                (value, times) for value, times in self.rows if first_strategy in times and second_strategy in times
            ]
            for (before, at_first), (after, then) in pairwise(rows_of_both):
                slower, faster = (
                    (first_strategy, second_strategy)
                    if at_first[first_strategy] < at_first[second_strategy]
                    else (second_strategy, first_strategy)
                )
                if then[faster] < then[slower]:
                    first, _ = self._first_overtaking(before, after, slower, faster)
                    overtakings.append(Overtaking(strategy=faster, other=slower, first=first))
        return overtakings

    def _first_overtaking(self, low: float, high: float, before: str, after: str) -> tuple[float, dict[str, float]]:
        """The value from which on a strategy is faster than another, and the times there, as far as they are new."""
        times: dict[str, float] = {}
        while self.whole and high - low > 1:
            middle = float(int(low + high) // 2)
            at_middle = {name: self.at(self.by_strategy[name], middle) for name in (before, after)}
            known_times = {name: ms for name, ms in at_middle.items() if ms is not None}
            if len(known_times) < 2:
                break
            if known_times[after] < known_times[before]:
                high, times = middle, known_times
            else:
                low = middle
        return high, times


def _range_words(first: str, last: str) -> str:
    return f"at {first}" if first == last else f"from {first} to {last}"
