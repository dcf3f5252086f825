"""Advice in at most three sentences for the first screen of a report, each with the findings behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import mean
from typing import TypeAlias

from firsttouch.advice import patterns
from firsttouch.advice.advisor import SIZE, Advice, Row, choose_device, ranked
from firsttouch.analysis.findings import CLEAR_RATIO, Claim, Finding, Quantity, keys
from firsttouch.analysis.findings import quantity as quantity_of
from firsttouch.analysis.statistics import measured, median_of, varying
from firsttouch.errors import UsageError
from firsttouch.experiments.shares import speedup
from firsttouch.harness.derive import BASELINE, application, is_events_run, setting, strategy
from firsttouch.harness.findings import fastest
from firsttouch.harness.search import begun, is_gain, without_candidates
from firsttouch.records.reading import Results
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.text import SECONDS, caption, condition, count, join_names, quantity
from firsttouch.units import format_number, format_seconds, format_size, significant_digits

_Group: TypeAlias = tuple[str, tuple[str, ...]]
"""An application and the conditions under which its strategies may be compared."""
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

    They are about the applications that were measured, if there are enough of them. Otherwise they are about each of
    them, about searches, and about a program that writes data on the CPU, works on them in kernels and reads them back.
    """
    try:
        info = choose_device([run], device)
    except UsageError:
        return []
    runs = [r for r in measured(run.records) if r.experiment == "app" and r.device == info.name]
    groups = _groups([r for r in without_candidates(runs) if not is_events_run(r)])
    of_apps = _of_applications(groups, info) if len(groups) >= OFTEN_ENOUGH else _of_few(groups, info)
    found = [*of_apps[: MOST - 1], *_of_placements(runs, info), *_of_shares(runs, info), *of_apps[MOST - 1 :]]
    return (found if len(groups) >= OFTEN_ENOUGH else [*found, *_of_prices(run, info)])[:MOST]


def _sentence(
    claim: str, text: str, value: Quantity, device: str, points: Iterable[str], **details: Quantity
) -> Sentence:
    literal = text.replace("{", "{{").replace("}", "}}")
    unique = tuple(dict.fromkeys(points))
    found = Finding(Claim(f"advice.{claim}", literal), value, {"device": device}, unique, details)
    return Sentence(f"{caption(text)}.", (found,))


# ------------------------------------------------------------------------------------------------ applications


def _groups(runs: Iterable[Record]) -> dict[_Group, dict[str, Record]]:
    """The runs of each application by strategy, where several strategies were measured under the same conditions."""
    groups: dict[_Group, dict[str, Record]] = {}
    for r in runs:
        groups.setdefault((application(r), setting(r)), {})[strategy(r)] = r
    return {group: rows for group, rows in groups.items() if len(rows) > 1}


def _of_applications(groups: Mapping[_Group, Mapping[str, Record]], device: DeviceInfo) -> list[Sentence]:
    everyone = [r for rows in groups.values() for r in rows.values()]
    least = {group: min(map(median_of, rows.values())) for group, rows in groups.items()}
    ratios: dict[str, dict[_Group, float]] = {}
    for group, rows in groups.items():
        for name, r in rows.items():
            ratios.setdefault(name, {})[group] = median_of(r) / least[group]
    wins = Counter(name for name, found in ratios.items() for ratio in found.values() if ratio == 1)
    best, won = max(wins.items(), key=lambda item: item[1])
    noun = "application" if len({app for app, _ in groups}) == len(groups) else "measured case"
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


def _of_few(groups: Mapping[_Group, Mapping[str, Record]], device: DeviceInfo) -> list[Sentence]:
    """A sentence for each application, of which there are too few for a general one."""
    found = []
    differing = [n for n in varying([next(iter(rows.values())) for rows in groups.values()]) if n != "strategy"]
    for (app, _), rows in groups.items():
        best, *rivals = fastest(list(rows.values()))
        slowest = max(rows.values(), key=median_of)
        other = slowest if best is rows.get(BASELINE) else rows.get(BASELINE, slowest)
        details = {"other": quantity_of(other)}
        points = keys([best, *rivals, *([] if other in rivals else [other])])
        case = f"{app} with {condition(best, differing)}" if len({name for name, _ in groups}) < len(groups) else app
        if other in rivals:
            text = f"for {case} no strategy is clearly faster than {strategy(other)}, which took {_time(other)}"
        else:
            names = join_names([strategy(r) for r in (best, *rivals)], "or")
            text = f"take {names} for {case}: a run took {_time(best)}, under {strategy(other)} {_time(other)}"
        found.append(_sentence("app", text, quantity_of(best), device.name, points, **details))
    return found


def _time(run: Record) -> str:
    """The time of a run with no more digits than its interval supports, as the numbers of the first screen have it."""
    q = quantity_of(run)
    return format_seconds(q.value * SECONDS[q.unit], significant_digits(q.value, q.low, q.high))


def _of_placements(runs: Iterable[Record], device: DeviceInfo) -> list[Sentence]:
    """What searches for better placements of single buffers found."""
    searches = begun(runs)
    if not searches:
        return []
    gains = [search for search in searches if is_gain(search, search.final[0])]
    points = keys(r for search in searches for r in (search.base, search.final[0]))
    value, of = Quantity(len(gains)), Quantity(len(searches))
    if not gains:
        text = f"advice and prefetches of single buffers made none of {count(len(searches), 'measured case')} faster"
        return [_sentence("placements", text, value, device.name, points, of=of)]
    least = min(median_of(search.final[0]) / median_of(search.base) for search in gains)
    text = (
        f"advice and prefetches of single buffers made {len(gains)} of {count(len(searches), 'measured case')} faster, "
        f"at best to {format_number(least, 2)} times the time of a strategy by itself"
    )
    return [_sentence("placements", text, value, device.name, points, of=of, best=Quantity(least))]


def _of_shares(runs: Iterable[Record], device: DeviceInfo) -> list[Sentence]:
    """What searches for the best division of work between GPU and CPU found."""
    searches = [(r, ratio) for r in runs if (ratio := speedup(r)) is not None]
    if not searches:
        return []
    points = keys(r for r, _ in searches)
    gains = [(r, ratio) for r, ratio in searches if ratio.low is not None and ratio.low > 1]
    if not gains:
        names = join_names(list(dict.fromkeys(application(r) for r, _ in searches)))
        text = f"leave the work of {names} to the GPU: no division with the CPU was clearly faster"
        return [_sentence("shares", text, Quantity(0), device.name, points, of=Quantity(len(searches)))]
    record, ratio = max(gains, key=lambda pair: pair[1].value)
    share = f"{record.counters['best_share']:g}"
    text = (
        f"divide the work of {application(record)} between GPU and CPU: with {share} of it on the GPU it was "
        f"{format_number(ratio.value, 2)} times as fast as on the GPU alone"
    )
    return [_sentence("shares", text, ratio, device.name, keys([record]))]


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
