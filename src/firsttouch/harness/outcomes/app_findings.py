"""Findings of applications: the fastest strategy, the times relative to the baseline, and the memory saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import geometric_mean

from firsttouch.experiments.contract.shares import best_found
from firsttouch.experiments.views.ranking import TIED, names_in, not_told_apart
from firsttouch.harness.outcomes import exchanges
from firsttouch.harness.outcomes.derive import (
    EVENTS,
    MACHINE_PEAK,
    application,
    baseline_of,
    is_events_run,
    setting,
    strategy,
)
from firsttouch.harness.outcomes.placements import PLACEMENT
from firsttouch.records.findings import (
    CLEAR_RATIO,
    EVERY,
    Claim,
    Finding,
    Quantity,
    are_apart,
    compare_medians,
    extremes,
    finding,
    points_are_apart,
    quantity,
)
from firsttouch.records.schema import INTERFACE, Record
from firsttouch.records.statistics import measured, median_of, non_negative, positive, varying
from firsttouch.records.text import condition, count, join_names

NOTABLE_SAVING = 0.95
"""A peak memory below this fraction of the peak under the baseline is reported."""

MOST_MISSING = 3
"""How many applications are named that a mean leaves out."""
_KINDS = (EVENTS, PLACEMENT)
"""Factors of further kinds of points, on which no finding rests: events runs, and candidates of a search."""
WRONG = Claim("app.wrong", "incorrect results are excluded: {value} of {strategy}", names=(EVERY,))
NONE = Claim("app.none", "no run produced a correct result", names=(EVERY,))
ONLY_EVENTS = Claim(
    "app.only_events", "all runs recorded events, which takes time, so none is compared", names=(EVERY,)
)
ONCE = Claim("app.once", "each point was run once, so small differences may be chance", names=(EVERY,))
ONLY = Claim("app.only", "only {strategy} was {measured}: a run takes {value}", names=_KINDS)
_FASTEST = "app.fastest"
_IS_FASTEST = "the fastest strategy is {strategy}, at {value}"
_AGAINST = ", {ratio_as_fast} as {other_strategy} ({other_value})"
_RIVALS = ", but not clearly faster than {rivals}"
_RELATIVE = "compared with {other_strategy}:"
RELATIVE = Claim("app.relative", "{strategy} is {ratio_as_fast}", _RELATIVE, _KINDS)
MEMORY = Claim(
    "app.memory",
    "the peak memory of {strategy} is {saved} lower than that of {baseline} ({value} instead of {baseline_bytes})",
    names=_KINDS,
)
KERNELS = Claim(
    "app.kernels",
    "under {strategy} the kernels are {value_as_fast} as under {baseline}, but the whole run is {run_as_fast}",
    names=_KINDS,
)
_WINS = ("app.wins", "fastest over {where}:")
WINS = Claim(_WINS[0], "{strategy} in {value}", _WINS[1], (EVERY,))
NO_WINNER = Claim(_WINS[0], "no strategy clearly in {value}", _WINS[1], (EVERY,))
MEAN = Claim(
    "app.mean", "{strategy} is {value_as_fast}", "compared with {baseline}, geometric mean over {over}:", (EVERY,)
)
NOT_COMPARED = Claim(
    "app.not_compared",
    "not compared with {baseline}, under which they have no correct run: {applications}",
    names=(EVERY,),
)
ALONE = Claim("app.alone", "{app} takes {value} under {strategy}", "only one strategy was {measured}:", _KINDS)
_RUN = "{value} for a run of {app}"
RUN = Claim("app.run", _RUN, "{strategy}:", _KINDS)
RUN_AGAINST = Claim("app.run", _RUN + ", {ratio_as_fast} as {other_strategy} ({other_value})", "{strategy}:", _KINDS)
BEST_RUN = Claim("app.best_run", "{value} under {strategy}, the fastest of {strategies}{unclear}", "{app}:", _KINDS)
SLOWEST_TOO = Claim(
    "app.best_run", BEST_RUN.text + "; {other_value} under {other_strategy}, the slowest", "{app}:", _KINDS
)
ONLY_RUN = Claim("app.best_run", "{value} under {strategy}", "{app}:", _KINDS)


def of_application(records: Sequence[Record]) -> list[Finding]:
    """Findings of one application, from derived records."""
    findings, good = _split_usable(records)
    if not good:
        return findings
    of_exchanges = exchanges.findings(good)
    if of_exchanges and len({strategy(r) for r in good}) == 1:
        return [*findings, *of_exchanges, *_caveat_findings(good)]
    settings = _group_by_setting(good)
    chosen = max(reversed(settings), key=len)
    names = [n for n in varying([s[0] for s in settings]) if n not in ("strategy", EVENTS)]
    findings += [*_speed_findings(chosen, names), *_kernel_findings(chosen), *_memory_findings(chosen)]
    if len(settings) > 1:
        findings += _win_findings(settings, count(len(settings), "setting"))
    findings += of_exchanges
    findings += [f for record in good for f in best_found(record, strategy(record))]
    return [*findings, *_caveat_findings(good)]


def of_all(records: Sequence[Record]) -> list[Finding]:
    """Findings over several applications: how often each strategy is fastest, and its mean relative time."""
    findings, good = _split_usable(records)
    if not good:
        return findings
    settings = _group_by_setting(good)
    names = {application(r) for r in good}
    if all(len(rows) == 1 for rows in settings):
        if (of_exchanges := exchanges.findings(good)) and all(INTERFACE in r.factors for r in good):
            return [*findings, *of_exchanges, *_caveat_findings(good)]
        return [*findings, *(finding(ALONE, rows[0]) for rows in settings), *_caveat_findings(good)]
    more = f" under {count(len(settings), 'setting')}" if len(settings) > len(names) else ""
    findings += _win_findings(settings, f"{count(len(names), 'application')}{more}")
    baseline, relative = baseline_of(good), dict[str, list[Record]]()
    for record in good:
        if strategy(record) != baseline and positive(record, "relative_time") is not None:
            relative.setdefault(strategy(record), []).append(record)
    everything = [r for rows in relative.values() for r in rows]
    means = [_mean_finding(name, rows, everything) for name, rows in relative.items() if len(rows) > 1]
    findings += sorted(means, key=lambda f: (-len(f.points), f.value.value if isinstance(f.value, Quantity) else 0))
    compared = {application(r) for r in good if positive(r, "relative_time")}
    if alone := [r for r in good if application(r) not in compared]:
        left_out = tuple(sorted({application(r) for r in alone}))
        findings.append(finding(NOT_COMPARED, alone, "not compared", baseline=baseline, applications=left_out))
    return [*findings, *_caveat_findings(good)]


def numbers(records: Sequence[Record]) -> list[Finding]:
    """The times that are quoted of one device's runs: of one application those of its strategies, fastest first; of
    several the fastest run of each.
    """
    settings: dict[str, list[Record]] = {}
    for rows in _group_by_setting(_split_usable(records)[1]):
        app = application(rows[0])
        settings[app] = max(settings.get(app, []), rows, key=len)
    if len(settings) != 1:
        good = _split_usable(records)[1]
        by_ranks = {app: exchanges.best_runs([r for r in good if application(r) == app]) for app in settings}
        return [f for app, rows in sorted(settings.items()) for f in by_ranks[app] or [_best_run_finding(rows)]]
    (rows,) = settings.values()
    if len(rows) == 1 and (ways := exchanges.runs(_split_usable(records)[1])):
        return ways
    base = next((r for r in rows if strategy(r) == baseline_of(rows)), None)
    return [
        finding(RUN, r) if base is None or base is r else finding(RUN_AGAINST, r, comparison=compare_medians(r, base))
        for r in sorted(rows, key=median_of)
    ]


def _best_run_finding(rows: Sequence[Record]) -> Finding:
    """The fastest run of an application, and the slowest if they clearly differ."""
    best, worst = extremes(rows)
    if best is worst:
        return finding(ONLY_RUN, best)
    comparison = compare_medians(best, worst)
    claim = SLOWEST_TOO if comparison.is_clear else BEST_RUN
    unclear = not_told_apart([strategy(r) for r in fastest(rows)[1:]])
    return finding(claim, best, comparison=comparison, strategies=f"{len(rows)} strategies", unclear=unclear)


def _split_usable(records: Sequence[Record]) -> tuple[list[Finding], list[Record]]:
    """Findings about incorrect results, and the records that others are based on: correct, timed, without events."""
    good = [r for r in measured(records) if not is_events_run(r) and positive(r, "median")]
    findings = []
    if wrong := [r for r in records if r.verified is False]:
        names = tuple(dict.fromkeys(map(strategy, wrong)))
        findings.append(finding(WRONG, wrong, count(len(wrong), "point"), strategy=names))
    if not good and records:
        claim = ONLY_EVENTS if any(is_events_run(r) for r in measured(records)) else NONE
        findings.append(finding(claim, records, "none"))
    return findings, good


def _caveat_findings(good: Sequence[Record]) -> list[Finding]:
    once = not any(r.has_interval for r in good)
    return [finding(ONCE, good, "once")] if once and len(good) > 1 else []


def _group_by_setting(records: Sequence[Record]) -> list[list[Record]]:
    """Records by the conditions under which strategies may be compared."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(setting(record), []).append(record)
    return list(groups.values())


def fastest(rows: Sequence[Record]) -> list[Record]:
    """The record with the lowest median, and those whose confidence intervals overlap with its interval."""
    best = min(rows, key=median_of)
    rivals = [r for r in rows if r is not best and _is_indistinguishable(r, best)]
    return [best, *rivals]


def _is_indistinguishable(a: Record, b: Record) -> bool:
    if a.modelled is not None and b.modelled is not None:
        return not points_are_apart(a, b)
    x, y = quantity(a), quantity(b)
    return x.value == y.value if x.low is None or y.low is None else not are_apart(x, y)


def _speed_findings(rows: Sequence[Record], names: Sequence[str]) -> list[Finding]:
    """The fastest strategy of one setting, and the time of every other relative to the baseline, or to the fastest.

    names: the factors that the setting is named by.
    """
    setting_words = condition(rows[0], names)
    first, *rivals = fastest(rows)
    if len(rows) == 1:
        return [finding(ONLY, first)]
    base = next((r for r in rows if strategy(r) == baseline_of(rows)), first)
    text = (f"with {setting_words}, " if setting_words else "") + _IS_FASTEST
    text += (_AGAINST if base is not first else "") + (_RIVALS if rivals else "")
    comparison = compare_medians(first, base) if base is not first else None
    claim = Claim(_FASTEST, text, names=(*names, *_KINDS))
    answer = finding(claim, first, comparison=comparison, rivals=tuple(map(strategy, rivals)))
    other_runs = sorted((r for r in rows if r not in (first, base)), key=median_of)
    return [answer, *(finding(RELATIVE, r, comparison=compare_medians(r, base)) for r in other_runs)]


def _kernel_findings(rows: Sequence[Record]) -> list[Finding]:
    """The strategies with clearly slower kernels than the baseline in a clearly faster run, or vice versa."""
    base = next((r for r in rows if strategy(r) == baseline_of(rows)), None)
    spread = None if base is None else _kernel_spread(base)
    findings = []
    for record in rows if spread else []:
        bounds = [positive(record, f"relative_time_{end}") for end in ("low", "high")]
        record_spread, (low, high), ratio = _kernel_spread(record), bounds, positive(record, "relative_kernel")
        run = positive(record, "relative_time")
        if record_spread is None or spread is None or low is None or high is None or ratio is None or run is None:
            continue
        apart = (record_spread[0] > spread[1] and high < 1) or (record_spread[1] < spread[0] and low > 1)
        if apart and max(ratio, 1 / ratio) > CLEAR_RATIO:
            findings.append(
                finding(KERNELS, record, Quantity(ratio), details={"run": Quantity(run)}, baseline=baseline_of(rows))
            )
    return findings


def _kernel_spread(record: Record) -> tuple[float, float] | None:
    """Two standard deviations around the mean kernel time, in ms."""
    mean, deviation = positive(record, "kernel_ms"), non_negative(record, "kernel_sd_ms")
    return None if mean is None or deviation is None else (mean - 2 * deviation, mean + 2 * deviation)


def _memory_findings(rows: Sequence[Record]) -> list[Finding]:
    """The strategies with the lowest peak memory, if it is notably below the baseline's."""
    ratios = [(ratio, r) for r in rows if (ratio := positive(r, "relative_memory")) is not None]
    if not ratios:
        return []
    ratio, record = min(ratios, key=lambda pair: pair[0])
    peak = positive(record, "peak_bytes") or positive(record, MACHINE_PEAK)
    if (positive(record, "relative_memory_high") or ratio) >= NOTABLE_SAVING or not peak:
        return []
    details = {"saved": Quantity(100 * (1 - ratio), "%"), "baseline_bytes": Quantity(peak / ratio, "B")}
    least = [record, *(r for other_ratio, r in ratios if r is not record and other_ratio <= TIED * ratio)]
    value, names = Quantity(peak, "B"), names_in(least, "strategy")
    return [finding(MEMORY, least, value, details=details, strategy=names, baseline=baseline_of(rows))]


def _win_findings(settings: Iterable[Sequence[Record]], where: str) -> list[Finding]:
    """The number of settings in which each strategy is clearly the fastest."""
    leaders = [fastest(rows) for rows in settings]
    winners = [first[0] for first in leaders if len(first) == 1]
    findings = []
    for name, n in Counter(map(strategy, winners)).most_common():
        rows = [r for r in winners if strategy(r) == name]
        findings.append(finding(WINS, rows, str(n), strategy=name, where=where))
    if undecided := [r for first in leaders if len(first) > 1 for r in first]:
        findings.append(finding(NO_WINNER, undecided, str(len(leaders) - len(winners)), where=where))
    return findings


def _mean_finding(name: str, rows: Sequence[Record], everything: Sequence[Record]) -> Finding:
    """everything: the runs that were compared under any strategy."""
    ratios = [ratio for r in rows if (ratio := positive(r, "relative_time")) is not None]
    over = _describe_cases(rows, everything)
    return finding(MEAN, rows, Quantity(geometric_mean(ratios)), strategy=name, baseline=baseline_of(rows), over=over)


def _describe_cases(rows: Sequence[Record], everything: Sequence[Record]) -> str:
    """Which of all applications, or cases of them, records are of: '3 applications without bfs'."""
    apps, cases = {application(r) for r in everything}, {setting(r) for r in everything}
    missing = sorted(apps - {application(r) for r in rows})
    text = f"{len(rows)} of {len(cases)} cases" if len(rows) < len(cases) else f"{len(rows)} cases"
    if len(cases) == len(apps):
        text = count(len(rows), "application")
    text += f" without {join_names(missing[:MOST_MISSING])}" if missing else ""
    return text + (f" and {len(missing) - MOST_MISSING} more" if len(missing) > MOST_MISSING else "")
