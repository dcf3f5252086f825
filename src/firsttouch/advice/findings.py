"""Advice for the first screen of a report: at most three findings, from measured applications or from prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TypeAlias

from firsttouch.advice.advisor import choose_device, ranked
from firsttouch.advice.answer import Advice, StrategyRow
from firsttouch.advice.settings import Settings, settings
from firsttouch.advice.verdict import SIMILAR
from firsttouch.advice.wording import in_few_words
from firsttouch.base.errors import UsageError
from firsttouch.base.units import format_size
from firsttouch.experiments.contract.shares import speedup
from firsttouch.experiments.views.ranking import not_told_apart, some
from firsttouch.harness.outcomes.app_findings import fastest
from firsttouch.harness.outcomes.derive import BASELINE, application, is_events_run, setting, strategy
from firsttouch.harness.outcomes.placements import begun, is_gain, without_candidates
from firsttouch.model.costs import record_keys
from firsttouch.model.measured import MeasuredPrices
from firsttouch.program import patterns
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.findings import Claim, Condition, Finding, Quantity, keys, literal, quantity
from firsttouch.records.predicted import is_predicted
from firsttouch.records.reading import Results
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.records.statistics import measured, median_of, varying
from firsttouch.records.text import condition, join_names

_GroupKey: TypeAlias = tuple[str, tuple[str, ...]]
"""An application and the conditions under which its strategies may be compared."""
MOST = 3
ESTIMATE = "advice.estimate"
"""The claim of which strategy a program should take by prices, of which `firsttouch advise` tells more."""
OFTEN_ENOUGH = 3
"""The least number of applications from which it is said which strategy is the fastest most often."""


@dataclass(frozen=True)
class AdviceFinding:
    """estimated: its numbers follow from measured prices; those of the others are themselves measured."""

    finding: Finding
    estimated: bool = False


def advice_of(run: Results) -> list[AdviceFinding]:
    """At most three findings that are advice from a run; none if it has too little for advice.

    They are about the applications that were measured, if there are enough of them. Otherwise they are about each of
    them, about searches, and about a program that writes data on the CPU, works on them in kernels and reads them back.
    If no device runs kernels, or too little was measured of it, they are about how the CPU should touch memory first;
    if the processor alone runs them, also about where a memory method would matter.
    """
    try:
        info = choose_device([run], None)
    except UsageError:
        return _of_host(run)
    if info.capabilities.on_host_processor:
        return [*_without_gpu(info), *_of_host(run)][:MOST]
    runs = [r for r in measured(run.records) if r.experiment == "app" and r.device == info.name]
    groups = _groups([r for r in without_candidates(runs) if not is_events_run(r)])
    of_apps = _of_applications(groups, info) if len(groups) >= OFTEN_ENOUGH else _of_few(groups, info)
    chosen = [
        *map(AdviceFinding, [*of_apps[: MOST - 1], *_of_placements(runs, info), *_of_shares(runs, info)]),
        *map(AdviceFinding, of_apps[MOST - 1 :]),
        *(_of_prices(run, info) if len(groups) < OFTEN_ENOUGH else ()),
    ]
    return chosen[:MOST] or _of_host(run)


def _finding(
    claim: str,
    text: str,
    value: Quantity,
    device: str,
    points: Iterable[str],
    details: Mapping[str, Quantity] | None = None,
    **conditions: Condition,
) -> Finding:
    """text: the template of the claim, with placeholders for values, details and conditions."""
    unique = tuple(dict.fromkeys(points))
    return Finding(Claim(f"advice.{claim}", text), value, {"device": device, **conditions}, unique, details or {})


# ------------------------------------------------------------------------------------------------ applications


def _groups(runs: Iterable[Record]) -> dict[_GroupKey, dict[str, Record]]:
    """The runs of each application by strategy, where several strategies were measured under the same conditions."""
    groups: dict[_GroupKey, dict[str, Record]] = {}
    for r in runs:
        groups.setdefault((application(r), setting(r)), {})[strategy(r)] = r
    return {group: rows for group, rows in groups.items() if len(rows) > 1}


def _of_applications(groups: Mapping[_GroupKey, Mapping[str, Record]], device: DeviceInfo) -> list[Finding]:
    leaders = {group: fastest(list(rows.values())) for group, rows in groups.items()}
    wins = Counter(strategy(first) for first, *_ in leaders.values())
    clear = Counter(strategy(first) for first, *rivals in leaders.values() if not rivals)
    best = max(wins, key=lambda name: (clear[name], wins[name]))
    cases = f"{{of}} {_noun_of_cases(groups)}"
    everyone = [r for rows in groups.values() for r in rows.values()]
    at = _at_size(everyone)
    strategies = {strategy(r) for r in everyone}
    if clear[best]:
        up_to = "" if all(len(rows) == len(strategies) for rows in groups.values()) else "up to "
        text = f"use {{best}}: it is the fastest of {up_to}{{strategies}} strategies in {{wins}} of {cases}{at}"
        text += ", each run once" if _ran_once(everyone) else ", clearly in {clear}"
    else:
        text = f"no strategy is clearly the fastest in any of {cases}{at}; most often it is {{best}}, in {{wins}}"
    first = _finding(
        "fastest",
        text,
        Quantity(wins[best]),
        device.name,
        keys(everyone),
        best=best,
        wins=wins[best],
        clear=clear[best],
        of=len(groups),
        strategies=len(strategies),
    )
    return [first, *_slowest(groups, best, device), *_exception(leaders, groups, best, device)]


def _noun_of_cases(groups: Iterable[_GroupKey]) -> str:
    """What is counted: applications, unless some were measured under several conditions."""
    apps = [app for app, _ in groups]
    noun = "application" if len(set(apps)) == len(apps) else "measured case"
    return noun if len(apps) == 1 else f"{noun}s"


def _at_size(records: Iterable[Record]) -> str:
    """' with 4 GiB of buffers' if all runs have one size in bytes; otherwise ''."""
    size, *other_sizes = {r.factors.get("size") for r in records}
    is_one_size = not other_sizes and isinstance(size, int) and not isinstance(size, bool)
    return f" with {format_size(size)} of buffers" if is_one_size and isinstance(size, int) else ""


def _ran_once(records: Iterable[Record]) -> bool:
    return not any(r.has_interval for r in records)


def _slowest(groups: Mapping[_GroupKey, Mapping[str, Record]], best: str, device: DeviceInfo) -> list[Finding]:
    """The strategy that takes the longest on average, relative to the best, in what was run under every strategy."""
    strategies = {name for rows in groups.values() for name in rows}
    shared = [rows for rows in groups.values() if strategies <= set(rows)]
    if not shared:
        return []
    factors = {
        name: geometric_mean(median_of(rows[name]) / median_of(rows[best]) for rows in shared) for name in strategies
    }
    name = max(factors, key=lambda strategy_of_factor: factors[strategy_of_factor])
    if (factor := factors[name]) < SIMILAR:
        return []
    alike = sorted(
        strategy_of_factor
        for strategy_of_factor in strategies
        if strategy_of_factor != name and factors[strategy_of_factor] * SIMILAR >= factor
    )
    noun = _noun_of_cases([group for group, rows in groups.items() if strategies <= set(rows)])
    text = (
        f"the slowest on average is {{slowest}}{not_told_apart(alike)}: it takes {{value}} times as long as {{best}} "
        f"(geometric mean of {{over}} {noun}{'' if len(shared) == len(groups) else ' that ran under all strategies'})"
    )
    points = keys(rows[strategy_name] for rows in shared for strategy_name in (name, best))
    value = Quantity(factor)
    return [_finding("slowest", text, value, device.name, points, slowest=name, best=best, over=len(shared))]


def _exception(
    leaders: Mapping[_GroupKey, Sequence[Record]],
    groups: Mapping[_GroupKey, Mapping[str, Record]],
    best: str,
    device: DeviceInfo,
) -> list[Finding]:
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
    clear = "" if _ran_once(r for rows in groups.values() for r in rows.values()) else "clear "
    text = f"the largest {clear}loss with {{best}} is in {{app}}: {{value}}, against {{other}} under {{strategy}}"
    text += not_told_apart([strategy(r) for r in leaders[worst][1:]])
    names = {"app": worst[0], "best": best, "strategy": strategy(winner)}
    points = keys([mine, winner])
    return [_finding("exception", text, quantity(mine), device.name, points, {"other": quantity(winner)}, **names)]


def _of_few(groups: Mapping[_GroupKey, Mapping[str, Record]], device: DeviceInfo) -> list[Finding]:
    """A finding for each application, of which there are too few for a general one."""
    found = []
    differing = [n for n in varying([next(iter(rows.values())) for rows in groups.values()]) if n != "strategy"]
    several = len({name for name, _ in groups}) < len(groups)
    for (app, _), rows in groups.items():
        best, *rivals = fastest(list(rows.values()))
        slowest = max(rows.values(), key=median_of)
        slower = slowest if best is rows.get(BASELINE) else rows.get(BASELINE, slowest)
        points = keys([best, *rivals, *([] if slower in rivals else [slower])])
        case = literal(app + (f" with {condition(best, differing)}" if several else _at_size(rows.values())))
        details = {"other": quantity(slower)}
        names: dict[str, Condition] = {"app": app, "best": strategy(best), "slower": strategy(slower)}
        if best.modelled is not None and (
            slower in rivals or any(median_of(r) > SIMILAR * median_of(best) for r in rivals)
        ):
            by_time = sorted(rivals, key=median_of)
            details = {f"rival_{n}": quantity(r) for n, r in enumerate(by_time)}
            texts = some([f"{strategy(r)} ({{rival_{n}}})" for n, r in enumerate(by_time)])
            text = (
                f"no strategy is clearly the fastest: {{best}} takes {{value}}, with no clear difference from {texts}"
            )
            text = f"for {case} {text}"
        elif slower in rivals:
            text = f"for {case} no strategy is clearly faster than {{slower}}, which takes {{other}}"
        else:
            equals = sorted((best, *rivals), key=lambda r: (STRATEGIES[strategy(r)].effort, median_of(r)))
            text = f"use {{best}} for {case}: a run takes {{value}}, against {{other}} under {{slower}}"
            if rivals:
                best = equals[0]
                names["best"], names["equals"] = strategy(best), tuple(map(strategy, equals))
                simpler = f"{{best}} is {'the simplest' if len(equals) > 2 else 'simpler'} to write"
                alike = in_few_words([strategy(r) for r in equals], "or")
                text = f"use {alike} for {case}; {simpler}: a run takes {{value}}, against {{other}} under {{slower}}"
            text += ", the slowest" if slower is slowest and slower is not rows.get(BASELINE) and len(rows) > 2 else ""
            text += ", each run once" if _ran_once(rows.values()) else ""
        found.append(_finding("app", text, quantity(best), device.name, points, details, **names))
    return found


def _of_placements(runs: Iterable[Record], device: DeviceInfo) -> list[Finding]:
    """What searches for better placements of single buffers found."""
    searches = begun(runs)
    if not searches:
        return []
    gains = [search for search in searches if is_gain(search, search.final[0])]
    points = keys(r for search in searches for r in (search.base, search.final[0]))
    noun = "measured case" if len(searches) == 1 else "measured cases"
    text, details = f"advice and prefetches of single buffers make none of {{of}} {noun} faster", {}
    if gains:
        least = min(median_of(search.final[0]) / median_of(search.base) for search in gains)
        text = (
            f"advice and prefetches of single buffers make {{faster}} of {{of}} {noun} faster; the best is "
            "{least_as_long} as the fastest strategy alone"
        )
        details = {"least": Quantity(least)}
    counts = {"of": len(searches), "faster": len(gains)}
    return [_finding("placements", text, Quantity(len(gains)), device.name, points, details, **counts)]


def _of_shares(runs: Iterable[Record], device: DeviceInfo) -> list[Finding]:
    """What searches for the best division of work between GPU and CPU found."""
    searches = [(r, ratio) for r in runs if (ratio := speedup(r)) is not None]
    if not searches:
        return []
    points = keys(r for r, _ in searches)
    gains = [(r, ratio) for r, ratio in searches if ratio.low is not None and ratio.low > 1]
    if not gains:
        apps = tuple(dict.fromkeys(application(r) for r, _ in searches))
        text = "run {app} on the GPU alone: no division of its work between GPU and CPU is clearly faster"
        return [_finding("shares", text, Quantity(0), device.name, points, app=apps)]
    record, ratio = max(gains, key=lambda pair: pair[1].value)
    text = (
        "divide the work of {app} between GPU and CPU: with {share} of it on the GPU it is {value} times as fast as on "
        "the GPU alone"
    )
    found = {"app": application(record), "share": f"{record.counters['best_share']:g}"}
    return [_finding("shares", text, ratio, device.name, keys([record]), None, **found)]


# ------------------------------------------------------------------------------------------------ prices


def _of_prices(run: Results, device: DeviceInfo) -> list[AdviceFinding]:
    if is_predicted(device.name):
        return []
    try:
        prices = MeasuredPrices(run.machine, run.records, device)
        advice = ranked(patterns.program_for(patterns.USUAL, patterns.SIZE), patterns.USUAL, patterns.SIZE, prices)
    except UsageError:
        return []
    if len(advice.strategies) < 2 or any(turn.kind != "ranges" for turn in advice.turns):
        return []
    points = record_keys(ground for row in advice.strategies for term in row.terms for ground in term.grounds)
    verdict, often = advice.verdict, advice.often
    best, named_rows = advice.row(verdict.strategies[0]), _rows_beside_best(advice)
    use = f"{format_size(patterns.SIZE)} that the CPU writes, kernels update and the CPU reads back"
    if advice.turns:
        text = f"no clear answer for {use}: {{best}} has the lowest estimate, {{value}} besides the kernels"
    elif verdict.kind == "take":
        text = f"use {{best}} for {use}: an estimated {{value}} besides the kernels"
    else:
        simpler = f"{{best}} is {'the simplest' if len(verdict.strategies) > 2 else 'simpler'} to write"
        names = in_few_words(verdict.strategies, "or")
        text = f"use {names} for {use}; {simpler}, and takes an estimated {{value}} besides the kernels"
    others = [f"{{{row.strategy}}} under {row.strategy}" for row in named_rows]
    text += f", against {join_names(others)}" if others else ""
    names_of: dict[str, Condition] = {"best": best.strategy, "equals": verdict.strategies}
    if advice.turns:
        text += f"; {in_few_words(advice.turns[0].others)} may be as fast, which `firsttouch app` can measure"
    if often is not None and often.iterations:
        text += ". For {iterations} or more iterations on the same buffers, use {often}"
        names_of |= {"often": often.strategies[0], "iterations": often.iterations}
    details = {row.strategy: Quantity(row.ms, "ms") for row in named_rows}
    value = Quantity(best.ms, "ms")
    result = _finding(ESTIMATE.removeprefix("advice."), text, value, device.name, points, details, **names_of)
    return [AdviceFinding(result, estimated=True), *_of_settings(advice.settings, device)]


def _without_gpu(device: DeviceInfo) -> list[AdviceFinding]:
    if is_predicted(device.name):
        return []
    text = (
        "this machine has no GPU: {device} is the CPU itself, where no memory strategy is better than another, since "
        "no data has to move; `firsttouch app NAME --device model:gh200` predicts strategies on a GPU"
    )
    return [AdviceFinding(_finding("no-gpu", text, Quantity(0), device.name, ()), estimated=True)]


def _of_host(run: Results) -> list[AdviceFinding]:
    """What follows for a program without kernels."""
    host = next((d for d in run.machine.devices if d.role == "host" and d.available), None)
    if host is None or is_predicted(host.name):
        return []
    try:
        of_host = settings(MeasuredPrices(run.machine, run.records, host), STRATEGIES[BASELINE])
    except UsageError:
        return []
    return _of_settings(of_host, host)[:MOST]


def _of_settings(choices: Settings, device: DeviceInfo) -> list[AdviceFinding]:
    rows = [
        _finding(name, literal(choice.text), Quantity(choice.value), device.name, record_keys(choice.grounds))
        for name, choice in choices.named().items()
    ]
    return [AdviceFinding(row, estimated=True) for row in rows]


def _rows_beside_best(advice: Advice) -> list[StrategyRow]:
    """The rows that are named next to the best: the baseline, and the next that is told apart."""
    best, next_one = advice.verdict.strategies[0], advice.verdict.next
    names = [name for name in (BASELINE, next_one) if name and name != best]
    return [row for name in dict.fromkeys(names) for row in advice.strategies if row.strategy == name]
