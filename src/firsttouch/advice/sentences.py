"""Advice in at most three sentences for the first screen of a report, each with the findings behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TypeAlias

from firsttouch.advice import patterns
from firsttouch.advice.advisor import SIMILAR, SIZE, Advice, Row, choose_device, measured_runs, on_processor, ranked
from firsttouch.analysis.findings import CLEAR_RATIO, Claim, Finding, Quantity, keys
from firsttouch.analysis.statistics import median_of
from firsttouch.errors import UsageError
from firsttouch.harness.derive import BASELINE, strategy
from firsttouch.harness.findings import fastest
from firsttouch.records.reading import Results
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.text import caption, count, quantity
from firsttouch.units import format_number, format_size
from firsttouch.workspace.strategies import STRATEGIES

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
    leaders = {group: fastest(list(rows.values())) for group, rows in groups.items()}
    wins = Counter(strategy(first) for first, *_ in leaders.values())
    clear = Counter(strategy(first) for first, *rivals in leaders.values() if not rivals)
    best = max(wins, key=lambda name: (clear[name], wins[name]))
    cases = count(len(groups), _noun(groups))
    everyone = [r for rows in groups.values() for r in rows.values()]
    strategies = {strategy(r) for r in everyone}
    if clear[best]:
        up_to = "" if all(len(rows) == len(strategies) for rows in groups.values()) else "up to "
        text = f"take {best}: it was the fastest of {up_to}{len(strategies)} strategies in {wins[best]} of {cases}"
        text += ", each of them run once" if _once(everyone) else f", clearly in {clear[best]}"
    else:
        text = f"no strategy was clearly the fastest in any of {cases}; most often it was {best}, in {wins[best]}"
    text = f"{on_processor(device)}{text}"
    details = {"clear": Quantity(clear[best]), "of": Quantity(len(groups)), "strategies": Quantity(len(strategies))}
    found = [_sentence("fastest", text, Quantity(wins[best]), device.name, keys(everyone), **details)]
    return [*found, *_slowest(groups, best, device), *_exception(leaders, groups, best, device)]


def _noun(groups: Iterable[_Group]) -> str:
    """What is counted: applications, unless some were measured at several sizes."""
    return "application" if len({size for _, size in groups}) == 1 else "measured case"


def _once(records: Iterable[Record]) -> bool:
    return all(r.summary is not None and r.summary.n == 1 for r in records)


def _slowest(groups: Mapping[_Group, Mapping[str, Record]], best: str, device: DeviceInfo) -> list[Sentence]:
    """The strategy that took the longest on average, relative to the best."""
    shared: dict[str, list[_Group]] = {}
    for group, rows in groups.items():
        for name in rows if best in rows else ():
            shared.setdefault(name, []).append(group)

    def relative(name: str) -> float:
        return geometric_mean(median_of(groups[g][name]) / median_of(groups[g][best]) for g in shared[name])

    name = max(shared, key=relative)
    if (factor := relative(name)) < SIMILAR:
        return []
    text = (
        f"the slowest on average, {name}, took {format_number(factor, 2)} times as long as {best}, geometric mean of "
        f"{count(len(shared[name]), _noun(groups))}"
    )
    points = keys(groups[g][one] for g in shared[name] for one in (name, best))
    return [_sentence("slowest", text, Quantity(factor), device.name, points, over=Quantity(len(shared[name])))]


def _exception(
    leaders: Mapping[_Group, Sequence[Record]],
    groups: Mapping[_Group, Mapping[str, Record]],
    best: str,
    device: DeviceInfo,
) -> list[Sentence]:
    """The application for which the best strategy is farthest from the fastest, if it is clearly slower there."""
    slower = {
        group: median_of(rows[best]) / median_of(leaders[group][0])
        for group, rows in groups.items()
        if best in rows and rows[best] not in leaders[group]
    }
    worst = max(slower, key=lambda group: slower[group], default=None)
    if worst is None or slower[worst] < SIMILAR:
        return []
    mine, winner = groups[worst][best], leaders[worst][0]
    text = (
        f"the largest loss with {best} was in {worst[0]}: {quantity(median_of(mine), 'ms')}, under "
        f"{strategy(winner)} {quantity(median_of(winner), 'ms')}"
    )
    value, other = Quantity(median_of(mine), "ms"), Quantity(median_of(winner), "ms")
    return [_sentence("exception", text, value, device.name, keys([mine, winner]), other=other)]


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
    use = f"{format_size(SIZE)} that the CPU writes, kernels update and the CPU reads back"
    estimated = f"an estimated {quantity(best.ms, 'ms')} besides the kernels"
    alike = sum(row.ms <= SIMILAR * best.ms for row in advice.strategies) - 1
    if device.capabilities.on_host_processor and alike and not STRATEGIES[best.strategy].duplicated:
        text = f"nothing needs to be copied: for {use}, {best.strategy} takes {estimated}"
        text += f", {count(alike, 'other')} about as long"
    else:
        text = f"take {best.strategy} for {use}: it takes {estimated}"
    text = on_processor(device) + "".join([text, *(f", {row.strategy} {quantity(row.ms, 'ms')}" for row in others)])
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
