"""Advice in at most three sentences for the first screen of a report, each with the findings behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import TypeAlias

from firsttouch.advice import patterns
from firsttouch.advice.advisor import SIZE, Advice, Row, choose_device, measured_runs, ranked
from firsttouch.analysis.findings import CLEAR_RATIO, Claim, Finding, Quantity, keys
from firsttouch.analysis.statistics import median_of
from firsttouch.errors import UsageError
from firsttouch.harness.derive import BASELINE
from firsttouch.records.reading import Results
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.text import caption, count, quantity
from firsttouch.units import format_number, format_size

_Group: TypeAlias = tuple[str, object]
"""An application and its size."""
MOST = 3
OFTEN_ENOUGH = 3
"""The least number of applications from which it is said which strategy is the fastest most often."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of advice. The values of its findings are the numbers in the text."""

    text: str
    findings: tuple[Finding, ...]


def sentences(run: Results, device: str | None = None) -> list[Sentence]:
    """At most three sentences of advice from a run; none if it has too little for advice.

    They are about the applications that were measured, if there are enough of them, and otherwise about a program that
    writes data on the CPU, works on them in kernels and reads them back.
    """
    try:
        info = choose_device([run], device)
    except UsageError:
        return []
    return (_of_applications(run, info) or _of_prices(run, info))[:MOST]


def _sentence(
    claim: str, text: str, value: Quantity, device: str, points: Iterable[str], **details: Quantity
) -> Sentence:
    literal = text.replace("{", "{{").replace("}", "}}")
    unique = tuple(dict.fromkeys(points))
    found = Finding(Claim(f"advice.{claim}", literal), value, {"device": device}, unique, details)
    return Sentence(f"{caption(text)}.", (found,))


# ------------------------------------------------------------------------------------------------ applications


def _groups(run: Results, device: DeviceInfo) -> dict[_Group, dict[str, Record]]:
    """The runs of each application at each size, by strategy, where several strategies were measured."""
    apps = dict.fromkeys(str(r.factors.get("app")) for r in run.records if r.experiment == "app")
    groups: dict[_Group, dict[str, Record]] = {}
    for name in apps:
        for r in measured_runs(run.records, name, device.name):
            groups.setdefault((name, r.factors["size"]), {})[str(r.factors.get("strategy"))] = r
    return {group: rows for group, rows in groups.items() if len(rows) > 1}


def _of_applications(run: Results, device: DeviceInfo) -> list[Sentence]:
    groups = _groups(run, device)
    if len(groups) < OFTEN_ENOUGH:
        return []
    everyone = [r for rows in groups.values() for r in rows.values()]
    least = {group: min(map(median_of, rows.values())) for group, rows in groups.items()}
    ratios: dict[str, dict[_Group, float]] = {}
    for group, rows in groups.items():
        for name, r in rows.items():
            ratios.setdefault(name, {})[group] = median_of(r) / least[group]
    wins = Counter(name for name, found in ratios.items() for ratio in found.values() if ratio == 1)
    best, won = max(wins.items(), key=lambda item: item[1])
    noun = "application" if len({size for _, size in groups}) == 1 else "measured case"
    first = _sentence(
        "fastest",
        f"take {best}: it was the fastest of {len(ratios)} strategies in {won} of {count(len(groups), noun)}",
        Quantity(won),
        device.name,
        keys(everyone),
        of=Quantity(len(groups)),
        strategies=Quantity(len(ratios)),
    )
    found = [first]
    slow = max((name for name in ratios if name != best), key=lambda name: _against(ratios[name], ratios[best]))
    factor = _against(ratios[slow], ratios[best])
    shared = [groups[g] for g in ratios[slow] if g in ratios[best]]
    if factor > 1:
        text = f"{slow} took {format_number(factor, 2)} times as long as {best} (mean of {count(len(shared), noun)})"
        points = keys(rows[name] for rows in shared for name in (slow, best))
        found.append(_sentence("slowest", text, Quantity(factor), device.name, points))
    worst = max(ratios[best], key=lambda group: ratios[best][group])
    if ratios[best][worst] > 1.05:
        rows = groups[worst]
        winner = min(rows, key=lambda name: median_of(rows[name]))
        text = (
            f"it is not the best for every program: {worst[0]} took {quantity(median_of(rows[best]), 'ms')}, under "
            f"{winner} {quantity(median_of(rows[winner]), 'ms')}"
        )
        value = Quantity(median_of(rows[best]), "ms")
        other = Quantity(median_of(rows[winner]), "ms")
        found.append(_sentence("exception", text, value, device.name, keys([rows[best], rows[winner]]), other=other))
    return found


def _against(one: Mapping[_Group, float], other: Mapping[_Group, float]) -> float:
    common = [group for group in one if group in other]
    return mean(one[group] / other[group] for group in common) if common else 0.0


# ------------------------------------------------------------------------------------------------ prices


def _of_prices(run: Results, device: DeviceInfo) -> list[Sentence]:
    try:
        advice = ranked(patterns.declared_for(patterns.USUAL, SIZE), patterns.USUAL, SIZE, run, device, run.records)
    except UsageError:
        return []
    if len(advice.strategies) < 2:
        return []
    points = [point for row in advice.strategies for term in row.terms for point in term.points]
    best, others = advice.strategies[0], _named(advice)
    said = ", ".join(f"{row.strategy} {quantity(row.ms, 'ms')}" for row in others)
    text = (
        f"take {best.strategy} for data that the CPU writes and kernels work on: it adds an estimated "
        f"{quantity(best.ms, 'ms')} to {format_size(SIZE)}, {said}"
    )
    details = {row.strategy: Quantity(row.ms, "ms", row.low, row.high) for row in others}
    value = Quantity(best.ms, "ms", best.low, best.high)
    found = [_sentence("estimate", text, value, device.name, points, **details)]
    for name, one in advice.settings.named().items():
        found.append(_sentence(name, one.text, Quantity(one.value), device.name, one.points))
    return found


def _named(advice: Advice) -> list[Row]:
    """The rows that are named next to the best: the baseline, and the best of those that are clearly slower."""
    best, *others = advice.strategies
    baseline = [row for row in others if row.strategy == BASELINE]
    slower = [row for row in others if row not in baseline and row.ms > CLEAR_RATIO * best.ms]
    return [*baseline, *slower][:2]
