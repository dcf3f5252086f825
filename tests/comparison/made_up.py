"""Made-up runs of a claim's own machine: the points that its call plans there, with the values that its paper states,
or with the opposite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from tests.fabricated import MACHINES
from tests.planning import plan_on

from firsttouch.comparison.papers.comparisons import sides_of
from firsttouch.comparison.papers.evaluate import Verdict, of_results
from firsttouch.comparison.papers.pooled import CONDITIONS, pooled
from firsttouch.experiments import all_experiments
from firsttouch.records.codebook import codebook_of
from firsttouch.records.papers.claims import (
    Alike,
    Check,
    Compare,
    Iterations,
    Level,
    PaperClaim,
    Trend,
    Untestable,
    Word,
    all_claims,
)
from firsttouch.records.papers.files import MEDIAN
from firsttouch.records.papers.rows import PaperRow, all_rows, numbers
from firsttouch.records.reading import Results
from firsttouch.records.schema import SCHEMA, Machine, Metric, Record, Scalar, Summary

ROWS = {row.name: row for row in all_rows()}
PLAYED_BY: Mapping[str, str] = {
    "mi300a": "mi300a-xnack",
    "gh200": "gh200",
    "tk1": "tk1",
    "kaveri": "kaveri-hsa",
    "intel-pascal": "pascal",
    "intel-volta": "volta",
    "p9-volta": "power9",
    "all": "pascal",
    "intel": "pascal",
}
"""The description of each platform that a claim's first row names; of a node of it for the paper on that."""


@cache
def metrics() -> dict[str, Metric]:
    return {name: experiment.metric for name, experiment in all_experiments().items()}


def machine_of(claim: PaperClaim) -> str:
    row = ROWS[claim.rows[0]]
    return "mi300a-node" if row.paper == "mi300a-node" else PLAYED_BY[row.platform]


def results_of(machine: str, records: Sequence[Record] = ()) -> Results:
    described = Machine(schema=SCHEMA, created="", firsttouch="", host=machine, devices=list(MACHINES[machine].devices))
    return Results(described, None, list(records))


def verdict_on(claim: PaperClaim, results: Results) -> Verdict:
    return of_results(results, [claim]).claims[0]


@cache
def calls_on(machine: str) -> dict[str, str]:
    """The call that measures what each claim of the machine needs, by the claim's id."""
    own = [c for c in all_claims() if machine_of(c) == machine and not isinstance(c.test, Untestable)]
    return {claim.id: verdict_on(claim, results_of(machine)).command for claim in own}


def points_on(machine: str, call: str) -> list[dict[str, Any]]:
    """The points that a call measures on a machine."""
    measured: list[dict[str, Any]] = plan_on(machine, call)["measured"]
    return measured


def made_up(claim: PaperClaim, *, opposite: bool = False) -> Results:
    """A run of a claim's call on its machine; or runs, where it compares several."""
    machine = machine_of(claim)
    points = points_on(machine, calls_on(machine)[claim.id])
    runs = {}
    for facts in _facts(claim):
        run = results_of(machine, [_record(dict(point)) for point in points])
        run.machine.facts |= facts
        runs[str(facts)] = run
    together = pooled(runs)
    _fill_in(claim, together.records, opposite)
    return together


def _facts(claim: PaperClaim) -> list[dict[str, dict[str, Any]]]:
    """The facts about the machine of each run that a claim compares."""
    assert isinstance(claim.test, Check)
    facts = [
        {topic: {fact: side.factors[name]}}
        for name, (topic, fact) in CONDITIONS.items()
        for side in sides_of(claim.test)
        if name in side.factors
    ]
    return facts or [{}]


def _record(point: dict[str, Any]) -> Record:
    experiment, device = point.pop("experiment"), point.pop("device")
    metric = metrics().get(experiment)
    return Record(
        schema=SCHEMA,
        experiment=experiment,
        device=device,
        factors=point,
        unit="ms" if metric is None else metric.unit,
        metric_version=1 if metric is None else metric.version,
        status="ok",
    )


def _fill_in(claim: PaperClaim, records: Sequence[Record], opposite: bool) -> None:
    test = claim.test
    assert isinstance(test, Check)
    values = _VALUES[type(test)](test, records, [ROWS[name] for name in claim.rows], opposite)
    for record, value in zip(records, values, strict=True):
        number = 1.0 if test.metric != MEDIAN or value is None else float(value)
        record.summary = Summary(
            n=3, median=number, p5=number, p95=number, min=number, max=number, ci_low=number * 0.999,
            ci_high=number * 1.001,
        )  # fmt: skip
        if test.counters and value is not None:
            first, *others = test.counters
            record.counters |= {first: value, **dict.fromkeys(others, 0)}
            deviation = f"{first.removesuffix('_ms')}_sd_ms"
            record.counters |= {deviation: 0.0} if codebook_of(record.experiment).knows(deviation) else {}
    return list(records)


def _stated(record: Record, rows: Iterable[PaperRow], metric: str) -> float | None:
    """What the paper states of a point."""
    for row in rows:
        here, bounds = row.here, numbers(row)
        if here is None or bounds is None or here.relative_to:
            continue
        if (here.experiment, here.metric) == (record.experiment, metric) and here.matches(record.factors):
            return sum(bounds) / 2
    return None


def _ratio(test: Compare, rows: Iterable[PaperRow], opposite: bool) -> float:
    """Of the first side to the second: what the paper states, or any that agrees with the claim; or its opposite."""
    if test.relation == "ratio":
        stated = [bounds for row in rows if row.here and row.here.relative_to and (bounds := numbers(row))]
        exact = [bounds for bounds in stated if test.low < bounds[0] <= bounds[1] < test.high]
        agreeing = sum(exact[0]) / 2 if exact else (test.low + test.high) / 2
        return 2 * test.high if opposite else agreeing
    agreeing, opposed = {"less": (0.5, 2.0), "more": (2.0, 0.5), "no more": (0.9, 2.0), "same": (1.0, 2.0)}[
        test.relation
    ]
    return opposed if opposite else agreeing


def _compared(test: Check, records: Sequence[Record], rows: Sequence[PaperRow], opposite: bool) -> list[float]:
    assert isinstance(test, Compare)
    first, second = sides_of(test)
    firsts = [first.matches(r.factors) and not second.matches(r.factors) for r in records]
    stated = [_stated(r, rows, test.metric) for r in records]
    ones, others = ([v for v, is_first in zip(stated, firsts, strict=True) if is_first == side and v is not None]
                    for side in (True, False))  # fmt: skip
    if ones and others and not opposite:
        return [v or (ones if is_first else others)[0] for v, is_first in zip(stated, firsts, strict=True)]
    ratio = _ratio(test, rows, opposite)
    steps = [float(str(r.factors.get(test.growth, 0))) for r in records]
    growing = [10 ** (step - min(steps)) for step in steps]
    return [100.0 * growth * (ratio if growth > 1 or not test.growth else 1) if is_first else 100.0 * growth
            for is_first, growth in zip(firsts, growing, strict=True)]  # fmt: skip


def _alike(test: Check, records: Sequence[Record], rows: Sequence[PaperRow], opposite: bool) -> list[float]:
    assert isinstance(test, Alike)
    kinds = list(dict.fromkeys(record.factors.get(test.over) for record in records))
    differ = test.alike == opposite
    return [100.0 * (1 + differ * kinds.index(r.factors.get(test.over))) for r in records]


def _along(test: Check, records: Sequence[Record], rows: Sequence[PaperRow], opposite: bool) -> list[float]:
    assert isinstance(test, Trend)
    rises = test.rises != opposite
    numbers = [float(str(record.factors.get(test.over, 0))) for record in records]
    return [100.0 * (1 + n) if rises else 1e6 / (1 + n) for n in numbers]


def _level(test: Check, records: Sequence[Record], rows: Sequence[PaperRow], opposite: bool) -> list[float]:
    assert isinstance(test, Level)
    width = test.high - test.low
    inside, outside = (test.low + test.high) / 2, test.high + (width or 1)
    if width > 10 * abs(test.low or test.high):  # a bound on one side only
        inside, outside = 1.5 * test.low, 0.5 * test.low
    level = outside if opposite else inside
    return [level * (float(str(record.factors[test.per])) if test.per else 1) for record in records]


def _word(test: Check, records: Sequence[Record], rows: Sequence[PaperRow], opposite: bool) -> list[Scalar]:
    assert isinstance(test, Word)
    other: Scalar = not test.word if isinstance(test.word, bool) else f"not {test.word}"
    return [other if opposite else test.word for _ in records]


def _iterations(test: Check, records: Sequence[Record], rows: Sequence[PaperRow], opposite: bool) -> list[float]:
    assert isinstance(test, Iterations)
    longest = "iteration_0_ms" if test.longest != opposite else "iteration_2_ms"
    for record in records:
        record.counters |= {f"iteration_{i}_ms": 1.0 for i in range(4)} | {longest: 4.0}
    return [7.0 for _ in records]


_VALUES: Mapping[type[Check], Any] = {
    Compare: _compared,
    Alike: _alike,
    Trend: _along,
    Level: _level,
    Word: _word,
    Iterations: _iterations,
}
