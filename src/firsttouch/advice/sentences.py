"""Advice in at most three sentences for the first screen of a report, each with the findings behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import TypeAlias

from firsttouch.advice.advisor import choose_device, on_processor, ranked
from firsttouch.advice.answer import Advice, StrategyRow
from firsttouch.advice.settings import Settings, settings
from firsttouch.advice.wording import FIRST_TOUCH, SIMILAR, not_apart
from firsttouch.base.errors import UsageError
from firsttouch.base.units import format_number, format_seconds, format_size, significant_digits
from firsttouch.experiments.contract.shares import speedup
from firsttouch.experiments.views.ranking import not_told_apart, some
from firsttouch.harness.outcomes.app_findings import fastest
from firsttouch.harness.outcomes.derive import BASELINE, application, is_events_run, setting, strategy
from firsttouch.harness.outcomes.placements import begun, is_gain, without_candidates
from firsttouch.machine.conditions import first_touch_note
from firsttouch.model.costs import record_keys
from firsttouch.model.measured import MeasuredPrices
from firsttouch.program import patterns
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.findings import CLEAR_RATIO, Claim, Finding, Quantity, keys
from firsttouch.records.findings import quantity as quantity_of
from firsttouch.records.predicted import is_predicted, of_prediction, predicted_for
from firsttouch.records.reading import Results
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.records.statistics import measured, median_of, varying
from firsttouch.records.text import SECONDS, caption, condition, count, join_names, quantity

_GroupKey: TypeAlias = tuple[str, tuple[str, ...]]
"""An application and the conditions under which its strategies may be compared."""
MOST = 3
ESTIMATE = "advice.estimate"
"""The claim of which strategy a program should take by prices, of which `firsttouch advise` tells more."""
OFTEN_ENOUGH = 3
"""The least number of applications from which it is said which strategy is the fastest most often."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of advice. The values of its findings are the numbers in the text.

    estimated: its numbers follow from measured prices; those of the others are themselves measured.
    """

    text: str
    findings: tuple[Finding, ...]
    estimated: bool = False


def sentences(run: Results) -> list[Sentence]:
    """At most three sentences of advice from a run; none if it has too little for advice.

    They are about the applications that were measured, if there are enough of them. Otherwise they are about each of
    them, about searches, and about a program that writes data on the CPU, works on them in kernels and reads them back.
    If no device runs kernels, or too little was measured of it, they are about how the CPU should touch memory first.
    """
    try:
        info = choose_device([run], None)
    except UsageError:
        return _host_sentences(run)
    runs = [r for r in measured(run.records) if r.experiment == "app" and r.device == info.name]
    groups = _groups([r for r in without_candidates(runs) if not is_events_run(r)])
    of_apps = _application_sentences(groups, info) if len(groups) >= OFTEN_ENOUGH else _sentences_of_few(groups, info)
    chosen = [
        *of_apps[: MOST - 1],
        *_placement_sentences(runs, info),
        *_share_sentences(runs, info),
        *of_apps[MOST - 1 :],
    ]
    return (chosen if len(groups) >= OFTEN_ENOUGH else [*chosen, *_price_sentences(run, info)])[
        :MOST
    ] or _host_sentences(run)


def _sentence(
    claim: str, text: str, value: Quantity, device: str, points: Iterable[str], **details: Quantity
) -> Sentence:
    literal = text.replace("{", "{{").replace("}", "}}")
    unique = tuple(dict.fromkeys(points))
    finding = Finding(Claim(f"advice.{claim}", literal), value, {"device": device}, unique, details)
    prediction = predicted_for([device])
    return Sentence(f"{caption(f'{prediction}: {of_prediction(text)}' if prediction else text)}.", (finding,))


# ------------------------------------------------------------------------------------------------ applications


def _groups(runs: Iterable[Record]) -> dict[_GroupKey, dict[str, Record]]:
    """The runs of each application by strategy, where several strategies were measured under the same conditions."""
    groups: dict[_GroupKey, dict[str, Record]] = {}
    for r in runs:
        groups.setdefault((application(r), setting(r)), {})[strategy(r)] = r
    return {group: rows for group, rows in groups.items() if len(rows) > 1}


def _application_sentences(groups: Mapping[_GroupKey, Mapping[str, Record]], device: DeviceInfo) -> list[Sentence]:
    leaders = {group: fastest(list(rows.values())) for group, rows in groups.items()}
    wins = Counter(strategy(first) for first, *_ in leaders.values())
    clear = Counter(strategy(first) for first, *rivals in leaders.values() if not rivals)
    best = max(wins, key=lambda name: (clear[name], wins[name]))
    cases = count(len(groups), _noun_of_cases(groups))
    everyone = [r for rows in groups.values() for r in rows.values()]
    at = _at_size(everyone)
    strategies = {strategy(r) for r in everyone}
    if clear[best]:
        up_to = "" if all(len(rows) == len(strategies) for rows in groups.values()) else "up to "
        text = f"take {best}: it was the fastest of {up_to}{len(strategies)} strategies in {wins[best]} of {cases}{at}"
        text += ", each of them run once" if _ran_once(everyone) else f", clearly in {clear[best]}"
    else:
        text = f"no strategy was clearly the fastest in any of {cases}{at}; most often it was {best}, in {wins[best]}"
    text = f"{on_processor(device)}{text}"
    details = {"clear": Quantity(clear[best]), "of": Quantity(len(groups)), "strategies": Quantity(len(strategies))}
    fastest_sentence = [_sentence("fastest", text, Quantity(wins[best]), device.name, keys(everyone), **details)]
    return [
        *fastest_sentence,
        *_slowest_sentence(groups, best, device),
        *_exception_sentence(leaders, groups, best, device),
    ]


def _noun_of_cases(groups: Iterable[_GroupKey]) -> str:
    """What is counted: applications, unless some were measured under several conditions."""
    apps = [app for app, _ in groups]
    return "application" if len(set(apps)) == len(apps) else "measured case"


def _at_size(records: Iterable[Record]) -> str:
    """' with 4 GiB of buffers' if all runs have one size in bytes; otherwise ''."""
    size, *other_sizes = {r.factors.get("size") for r in records}
    is_one_size = not other_sizes and isinstance(size, int) and not isinstance(size, bool)
    return f" with {format_size(size)} of buffers" if is_one_size and isinstance(size, int) else ""


def _ran_once(records: Iterable[Record]) -> bool:
    return not any(r.has_interval for r in records)


def _slowest_sentence(
    groups: Mapping[_GroupKey, Mapping[str, Record]], best: str, device: DeviceInfo
) -> list[Sentence]:
    """The strategy that took the longest on average, relative to the best, in what was run under every strategy."""
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
    over = count(len(shared), _noun_of_cases(groups))
    text = (
        f"the slowest on average was {name}{not_told_apart(alike)}: it took {format_number(factor, 2)} times as long "
        f"as {best} (geometric mean of {over}{'' if len(shared) == len(groups) else ' that ran under all strategies'})"
    )
    points = keys(rows[strategy_name] for rows in shared for strategy_name in (name, best))
    return [_sentence("slowest", text, Quantity(factor), device.name, points, over=Quantity(len(shared)))]


def _exception_sentence(
    leaders: Mapping[_GroupKey, Sequence[Record]],
    groups: Mapping[_GroupKey, Mapping[str, Record]],
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
    clear = "" if _ran_once(r for rows in groups.values() for r in rows.values()) else "clear "
    rivals = not_told_apart([strategy(r) for r in leaders[worst][1:]])
    text = (
        f"the largest {clear}loss with {best} was in {worst[0]}: {quantity(median_of(mine), 'ms')}, against "
        f"{quantity(median_of(winner), 'ms')} under {strategy(winner)}{rivals}"
    )
    value, fastest_time = Quantity(median_of(mine), "ms"), Quantity(median_of(winner), "ms")
    return [_sentence("exception", text, value, device.name, keys([mine, winner]), other=fastest_time)]


def _sentences_of_few(groups: Mapping[_GroupKey, Mapping[str, Record]], device: DeviceInfo) -> list[Sentence]:
    """A sentence for each application, of which there are too few for a general one."""
    texts = []
    differing = [n for n in varying([next(iter(rows.values())) for rows in groups.values()]) if n != "strategy"]
    for (app, _), rows in groups.items():
        best, *rivals = fastest(list(rows.values()))
        slowest = max(rows.values(), key=median_of)
        slower = slowest if best is rows.get(BASELINE) else rows.get(BASELINE, slowest)
        details = {"other": quantity_of(slower)}
        points = keys([best, *rivals, *([] if slower in rivals else [slower])])
        several = len({name for name, _ in groups}) < len(groups)
        case = app + (f" with {condition(best, differing)}" if several else _at_size(rows.values()))
        if slower in rivals or (best.modelled and any(median_of(r) > SIMILAR * median_of(best) for r in rivals)):
            text = f"for {case} {_none_faster_words(best, rivals, slower)}"
        else:
            names = join_names([strategy(r) for r in (best, *rivals)], "or")
            text = (
                f"take {names} for {case}: a run took {_format_time(best)}, against {_format_time(slower)} "
                f"under {strategy(slower)}"
            )
            text += ", the slowest" if slower is slowest and slower is not rows.get(BASELINE) and len(rows) > 2 else ""
            text += ", each run once" if _ran_once(rows.values()) else ""
        texts.append(_sentence("app", text, quantity_of(best), device.name, points, **details))
    return texts


def _none_faster_words(best: Record, rivals: Sequence[Record], than: Record) -> str:
    """Says that no strategy is clearly faster than one. Of predictions, the shortest comes first."""
    if best.modelled is None:
        return f"no strategy is clearly faster than {strategy(than)}, which took {_format_time(than)}"
    rivals_in_words = some([f"{strategy(r)} ({_format_time(r)})" for r in sorted(rivals, key=median_of)])
    return (
        f"no strategy is clearly the fastest: {strategy(best)} took {_format_time(best)}, not told apart from "
        f"{rivals_in_words}"
    )


def _format_time(run: Record) -> str:
    """The time of a run with no more digits than its interval supports, as the numbers of the first screen have it."""
    q = quantity_of(run)
    return format_seconds(q.value * SECONDS[q.unit], significant_digits(q.value, q.low, q.high))


def _placement_sentences(runs: Iterable[Record], device: DeviceInfo) -> list[Sentence]:
    """What searches for better placements of single buffers found."""
    searches = begun(runs)
    if not searches:
        return []
    gains = [search for search in searches if is_gain(search, search.final[0])]
    points = keys(r for search in searches for r in (search.base, search.final[0]))
    value, case_count = Quantity(len(gains)), Quantity(len(searches))
    if not gains:
        text = f"advice and prefetches of single buffers made none of {count(len(searches), 'measured case')} faster"
        return [_sentence("placements", text, value, device.name, points, of=case_count)]
    least = min(median_of(search.final[0]) / median_of(search.base) for search in gains)
    text = (
        f"advice and prefetches of single buffers made {len(gains)} of {count(len(searches), 'measured case')} faster; "
        f"the best took {format_number(least, 2)} times as long as the fastest strategy alone"
    )
    return [_sentence("placements", text, value, device.name, points, of=case_count, best=Quantity(least))]


def _share_sentences(runs: Iterable[Record], device: DeviceInfo) -> list[Sentence]:
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


# ------------------------------------------------------------------------------------------------ prices


def _price_sentences(run: Results, device: DeviceInfo) -> list[Sentence]:
    if is_predicted(device.name):
        return []
    try:
        prices = MeasuredPrices(run.machine, run.records, device)
        advice = ranked(patterns.program_for(patterns.USUAL, patterns.SIZE), patterns.USUAL, patterns.SIZE, prices)
    except UsageError:
        return []
    if len(advice.strategies) < 2 or not advice.fastest_known:
        return []
    points = record_keys(ground for row in advice.strategies for term in row.terms for ground in term.grounds)
    best, named_rows = advice.strategies[0], _rows_beside_best(advice)
    alike = [row.strategy for row in not_apart(advice.strategies, best)]
    use = f"{format_size(patterns.SIZE)} that the CPU writes, kernels update and the CPU reads back"
    estimated = f"an estimated {quantity(best.ms, 'ms')} besides the kernels"
    tied = f"; not told apart from it: {join_names(alike)}" if alike else ""
    if len(alike) == len(advice.strategies) - 1:
        text = f"for {use}, {join_names([best.strategy, *alike])} are not told apart: {best.strategy} takes {estimated}"
    elif device.capabilities.on_host_processor and not STRATEGIES[best.strategy].duplicated:
        text = f"nothing needs to be copied: for {use}, {best.strategy} takes {estimated}"
    else:
        text = f"take {best.strategy} for {use}: it takes {estimated}"
    text = on_processor(device) + "".join([text, *(f", {row.strategy} {quantity(row.ms, 'ms')}" for row in named_rows)])
    text += "" if len(alike) == len(advice.strategies) - 1 else tied
    if any(t.what.startswith(FIRST_TOUCH) for t in best.terms) and (note := first_touch_note(run.machine)):
        text += f"; {note}"
    details = {row.strategy: Quantity(row.ms, "ms", row.low, row.high) for row in named_rows}
    value = Quantity(best.ms, "ms", best.low, best.high)
    result = [_sentence(ESTIMATE.removeprefix("advice."), text, value, device.name, points, **details)]
    result += _setting_sentences(advice.settings, device)
    return [replace(sentence, estimated=True) for sentence in result]


def _host_sentences(run: Results) -> list[Sentence]:
    """What follows for a program without kernels."""
    host = next((d for d in run.machine.devices if d.role == "host" and d.available), None)
    if host is None or is_predicted(host.name):
        return []
    try:
        of_host = settings(MeasuredPrices(run.machine, run.records, host), STRATEGIES[BASELINE])
    except UsageError:
        return []
    return [replace(sentence, estimated=True) for sentence in _setting_sentences(of_host, host)][:MOST]


def _setting_sentences(choices: Settings, device: DeviceInfo) -> list[Sentence]:
    return [
        _sentence(name, choice.text, Quantity(choice.value), device.name, record_keys(choice.grounds))
        for name, choice in choices.named().items()
    ]


def _rows_beside_best(advice: Advice) -> list[StrategyRow]:
    """The rows that are named next to the best: the baseline, and the best of those that are clearly slower."""
    best, *other_rows = advice.strategies
    baseline = [row for row in other_rows if row.strategy == BASELINE]
    alike = not_apart(other_rows, best)
    slower = [row for row in other_rows if row not in (*baseline, *alike) and row.ms > CLEAR_RATIO * best.ms]
    return [*baseline, *slower][:2]
