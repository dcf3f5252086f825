"""Ranks the memory strategies for a program on a device of a run, and says what the ranking rests on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import msgspec

from firsttouch.advice.answer import Absent, Advice, PatternAsked, StrategyRow, Turn
from firsttouch.advice.apis import ApiWords
from firsttouch.advice.least import OnlyLeast
from firsttouch.advice.settings import Setting, settings
from firsttouch.advice.verdict import FIRST_TOUCH, SIMILAR, fastest_of, often_of, turns_of, verdict_of, with_same
from firsttouch.advice.wording import with_buffers
from firsttouch.base.errors import UsageError, unknown
from firsttouch.base.units import parse_size, size_option
from firsttouch.harness.app import App, Params, solve
from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.machine.conditions import first_touch_note
from firsttouch.machine.switches import SWITCHES
from firsttouch.model.costs import Unmeasured, assumptions, measured_point
from firsttouch.model.estimate import Impossible, NotEstimated, estimate
from firsttouch.model.measured import MeasuredPrices
from firsttouch.model.moving import TURNS, UNMEASURED_TURNS
from firsttouch.model.platform import MissingValue, platform_of
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import SMALL_COPIES
from firsttouch.model.ranges import accuracy_of, difference
from firsttouch.model.terms import Term, more_of
from firsttouch.program import patterns
from firsttouch.program.dry_run import program_of
from firsttouch.program.program import Program
from firsttouch.program.strategies import STRATEGIES, Strategy, strategies_of, unavailable
from firsttouch.records.equal_places import for_device, measured_on
from firsttouch.records.predicted import is_predicted, predicted_for
from firsttouch.records.reading import RUNS, Results, kept_runs, load_results
from firsttouch.records.schema import DeviceInfo, Record, Scalar
from firsttouch.records.statistics import measured, median_of
from firsttouch.records.text import caption, count, quantity

T = TypeVar("T")
PLAIN_FACTORS = {"app", "strategy", "size", "repeat", "events", "kernel_times", "timeline"}
"""The factors of a run of an application that sets nothing else."""
NOT_ESTIMATED = "not estimated"
NOT_MEASURED = "not measured here"
NO_SCALE = "not measured; of the measured strategies none is estimated, so its estimate cannot be compared with them"


# ------------------------------------------------------------------------------------------------ what is asked


def advise(
    directories: Sequence[str | Path] = (),
    *,
    device: str | None = None,
    app: str | None = None,
    size: int | str | None = None,
    pattern: str | None = None,
    sets: Mapping[str, object] | None = None,
    iterations: int | None = None,
    apps: Mapping[str, type[App]] | None = None,
) -> Advice:
    """Advice from result directories of one machine, for an application or a pattern.

    Args:
        directories: what `firsttouch run` and `firsttouch app` wrote; without any, the newest in firsttouch-results.
        device: the device whose records count; without it, the first that has a memory of its own. One of a platform,
            such as model:gh200, needs no directories: its prices are those of the file.
        app, size: an application, and its size in bytes, or 'tiny' or 'default'.
        pattern: one of workload.patterns, instead of an application.
        sets: settings of the pattern, such as {"kernels": 100, "out": "64MiB"}, and conditions of the platform, such
            as {"xnack": "1"}.
        iterations: how often the program does all its work on the same buffers; without it, the advice is for one time,
            and says from how many on it is another.
        apps: the applications that are known.

    Raises:
        UsageError: a name is unknown, a size is invalid, a directory has no results, or they are of several machines.
    """
    if app is not None and pattern is not None:
        raise UsageError("give an application or a pattern, not both")
    prices, records, sets = prices_under(directories, device, sets or {})
    if app is not None and sets:
        raise UsageError(f"an application says itself what it does; {', '.join(sets)} is set for patterns")
    if app is not None:
        kind = _look_up("application", app, apps or {})
        advice = _for_app(kind, *_params_of(kind, size, records, prices.device), prices, records, iterations)
    else:
        advice = _for_pattern(pattern, size, sets, prices, iterations)
    note_equal_devices(advice, records)
    note_conditions(advice, prices)
    return advice


def prices_of(directories: Sequence[str | Path], device: str | None) -> tuple[Prices, list[Record]]:
    """The prices of results directories, or of the platform that `device` names, and the records that they come from.

    Raises UsageError as `advise` does.
    """
    if device is not None and is_predicted(device):
        if directories:
            raise UsageError(
                f"{device} has its own costs; leave out the directory, or leave out --device to use the run's costs"
            )
        return PlatformPrices(platform_of(device)), []
    results = sorted(map(load_results, map(Path, directories or [newest()])), key=_sort_by_age)
    if any(d.modelled for result in results for d in result.machine.devices):
        raise UsageError("predictions can't be the basis of advice; give --device model:PLATFORM without a directory")
    info = choose_device(results, device)
    records = [r for result in results for r in result.records]
    return MeasuredPrices(results[0].machine, records, info), records


def prices_under(
    directories: Sequence[str | Path], device: str | None, sets: Mapping[str, object]
) -> tuple[Prices, list[Record], Mapping[str, object]]:
    """`prices_of`, under those of `sets` that are conditions of the platform, and the others.

    Raises UsageError as `prices_of` does, or if a condition is given a value that it cannot have.
    """
    prices, records = prices_of(directories, device)
    if not isinstance(prices, PlatformPrices):
        return prices, records, sets
    under, others = dict[str, Scalar](), dict(sets)
    for name in {name for part in prices.platform.description.when for name in part.factors} & others.keys():
        value = others.pop(name)
        values = [str(each) for each in (value if isinstance(value, list) else [value])]
        accepted = SWITCHES[name].values if name in SWITCHES else values
        if len(values) != 1 or values[0] not in accepted:
            raise UsageError(f"--set {name}={','.join(values)}: give one of {', '.join(accepted)}")
        under[name] = values[0]
    return PlatformPrices(prices.platform.under(under)) if under else prices, records, others


def note_conditions(advice: Advice, prices: Prices) -> None:
    """Say under which conditions of the platform the prices are."""
    if isinstance(prices, PlatformPrices) and prices.platform.factors:
        stated = " and ".join(f"{name}={value}" for name, value in prices.platform.factors.items())
        (advice.traced.assumed if advice.traced else advice.assumptions).append(f"the prices are those under {stated}")


def note_equal_devices(advice: Advice, records: Sequence[Record]) -> None:
    """Say on which of several equal devices the prices were measured."""
    if held := measured_on(for_device(records, advice.device)):
        advice.assumptions.append(f"{caption(held)}.")


def _for_pattern(
    pattern: str | None,
    size: int | str | None,
    sets: Mapping[str, object] | None,
    prices: Prices,
    iterations: int | None,
) -> Advice:
    name = _check_name("pattern", pattern or patterns.USUAL, patterns.PATTERNS)
    chosen = patterns.settings_for(name, None if size is None else _bytes(size), sets)
    workload = patterns.program_for(name, settings=chosen)
    program = f"a program that {patterns.PATTERNS[name].meaning(chosen)}"
    advice = ranked(workload, program, workload.nbytes, prices, iterations=iterations)
    advice.pattern = PatternAsked(name, chosen)
    return advice


def _sort_by_age(results: Results) -> tuple[str, int, str]:
    """Sorts results by when they were measured, so that the order in which directories are named changes nothing."""
    records = results.records
    return results.machine.created, len(records), min((record.started for record in records), default="")


def newest() -> Path:
    """The newest results directory in the folder where runs are kept."""
    directories = kept_runs()
    if not directories:
        raise UsageError(f"there are no results in {RUNS}; name a directory that `firsttouch run` wrote")
    return directories[0]


def choose_device(results: Sequence[Results], name: str | None) -> DeviceInfo:
    """The device whose records count. Raises UsageError if it is unknown, or if the directories differ in machine."""
    devices: dict[str, DeviceInfo] = {}
    processors = {_processor(result) for result in results}
    for result in results:
        for info in result.machine.devices:
            if info.name in devices and info.available and devices[info.name].title != info.title:
                raise UsageError(
                    f"the directories are of different machines: {info.name} is {devices[info.name].title} in one and "
                    f"{info.title} in another; give directories of one machine"
                )
            if info.available:
                devices.setdefault(info.name, info)
    if len(processors) > 1:
        raise UsageError(
            f"the directories are of different machines, one with {' and one with '.join(sorted(processors))}; give "
            "directories of one machine"
        )
    usable = {n: d for n, d in devices.items() if d.capabilities.runs_kernels}
    if name is not None:
        if name in devices and name not in usable:
            raise UsageError(f"{name} does not run kernels; choose one that does: {', '.join(usable) or 'none here'}")
        return _look_up("device", name, usable)
    if not usable:
        raise UsageError("no device in these results runs kernels, so there is nothing to choose between")
    return next((d for d in usable.values() if not d.capabilities.shares_host_memory), next(iter(usable.values())))


def _processor(results: Results) -> str:
    facts = results.machine.facts.get("cpu", {})
    return f"{facts.get('cores_online')} cores of {facts.get('model') or 'an unnamed processor'}"


def _check_name(noun: str, name: str, accepted: Mapping[str, object]) -> str:
    if name not in accepted:
        raise unknown(noun, name, accepted)
    return name


def _look_up(noun: str, name: str, accepted: Mapping[str, T]) -> T:
    return accepted[_check_name(noun, name, accepted)]


def _bytes(size: int | str) -> int:
    try:
        return size if isinstance(size, int) else parse_size(size)
    except ValueError as error:
        raise UsageError(f"--size {error}") from None


def _params_of(
    app: type[App], size: int | str | None, records: Iterable[Record], device: DeviceInfo
) -> tuple[Params, int | str]:
    """The parameters of an application at a size, those with which it was measured if it was. Without a size, the
    largest at which it was measured, else default.
    """
    runs = measured_runs(records, app.name, device.name)
    if size is None:
        sizes = {r.factors["size"] for r in runs}
        numbers = [s for s in sizes if isinstance(s, int) and not isinstance(s, bool)]
        size = max(numbers) if numbers else "default"
    if isinstance(size, str) and size in app.sizes and size != "bytes":
        return app.sizes[size], size
    nbytes = _bytes(size)
    try:
        params = solve(app, nbytes)
    except ValueError as error:
        raise UsageError(str(error)) from None
    for run in (r for r in runs if r.factors["size"] == nbytes):
        used = {name: run.parameters.get(name) for name in params}
        return {name: v if type(v) is int else params[name] for name, v in used.items()}, nbytes
    return params, nbytes


def measured_runs(records: Iterable[Record], app: str, device: str, also: Iterable[str] = ()) -> list[Record]:
    """The runs of an application that set nothing but strategy, size and the factors `also`, and recorded no events."""
    allowed = PLAIN_FACTORS.union(also)
    return [
        r
        for r in measured(records)
        if r.experiment == "app"
        and r.device == device
        and r.factors.get("app") == app
        and r.factors.get("events", "off") == "off"
        and "size" in r.factors
        and set(r.factors) <= allowed
    ]


# ------------------------------------------------------------------------------------------------ the ranking


def _for_app(
    app: type[App],
    params: Params,
    size: int | str,
    prices: Prices,
    records: Sequence[Record],
    iterations: int | None,
) -> Advice:
    device = prices.device
    workload = program_of(app, params)
    with_other_rounds = [program_of(app, params, rounds) for rounds in _other_rounds(app, workload)]
    runs = [r for r in measured_runs(records, app.name, device.name) if r.factors["size"] == size]
    size_word = size if isinstance(size, str) else size_option(size)
    where = "" if is_predicted(device.name) else f" --device {device.name}"
    measure = f"firsttouch app {app.name} --size {size_word}{where}"
    footprint = app.footprint(params)
    return ranked(
        workload,
        app.name,
        size if isinstance(size, int) and footprint > 0.99 * size else footprint,
        prices,
        app=app,
        runs={str(r.factors.get("strategy")): r for r in runs},
        measure=measure,
        others=with_other_rounds,
        iterations=iterations,
    )


def _other_rounds(app: type[App], workload: Program) -> list[int]:
    """Other numbers of rounds of loops that data end, which a program may as well have."""
    factor = 1.5 if app.expected_rounds else 5
    return [max(1, int(workload.rounds / factor)), int(workload.rounds * factor)] if workload.rounds else []


def estimates(
    workload: Program, prices: Prices, app: type[App] | None = None, measure: str = "", api: ApiWords | None = None
) -> tuple[dict[str, list[Term]], list[Absent]]:
    """The terms of each strategy of the device, and the strategies that have none. api: of the program, if it has one
    already.
    """
    device, terms, absent = prices.device, dict[str, list[Term]](), list[Absent]()
    for name in strategies_of(device):
        strategy = STRATEGIES[name]
        reason = unavailable(strategy, device) or _why_refused(app, strategy, device)
        reason = reason or (api.why_not(strategy, device) if api else "")
        if reason:
            absent.append(Absent(name, reason))
            continue
        try:
            terms[name] = estimate(workload, strategy, prices)
        except Unmeasured as missing:
            absent.append(Absent(name, NOT_MEASURED, str(missing), perhaps_faster=True))
        except MissingValue as missing:
            absent.append(Absent(name, f"{NOT_ESTIMATED}: {missing}", perhaps_faster=True))
        except Impossible as why:
            absent.append(Absent(name, str(why)))
        except NotEstimated as why:
            run = f"{measure} --strategy {name}" if measure else ""
            absent.append(Absent(name, f"{NOT_ESTIMATED}: {why}", run, True, _sum(why.least)[1] or None))
    fastest = min((_sum(rows)[0] for rows in terms.values()), default=math.inf)
    return terms, [replace(a, perhaps_faster=a.least_ms < fastest) if a.least_ms is not None else a for a in absent]


def _why_refused(app: type[App] | None, strategy: Strategy, device: DeviceInfo) -> str | None:
    if strategy.bounded and (app is None or not app.bounded):
        return "its buffers must have a size that is known at compile time"
    return app.refuses(strategy, device) if app is not None else None


def ranked(
    workload: Program,
    program: str,
    size: int,
    prices: Prices,
    *,
    app: type[App] | None = None,
    runs: Mapping[str, Record] | None = None,
    measure: str = "",
    others: Sequence[Program] = (),
    iterations: int | None = None,
    withheld: Callable[[str, Sequence[Term]], OnlyLeast | None] = lambda strategy, terms: None,
    api: ApiWords | None = None,
) -> Advice:
    """Advice about a program. program: what it is called. runs: measured runs of the same program, by strategy. others:
    the same program with other numbers of rounds of loops that data end. iterations: how often the program does its
    work; measured runs are of one time. withheld: why the estimate of a strategy is only its least time. api: that
    the program uses already, if it uses any.
    """
    device = prices.device
    if iterations is not None:
        workload = msgspec.structs.replace(workload, iterations=iterations)
        others = [msgspec.structs.replace(other, iterations=iterations) for other in others]
        runs = runs if iterations == 1 else None
    terms, absent = estimates(workload, prices, app, measure, api)
    terms, absent = _split_withheld(terms, absent, withheld)
    runs = runs or {}
    if not terms and not runs:
        raise UsageError(_no_time_message(absent, device, with_buffers(program, size), measure))
    if runs and not any(name in runs for name in terms):
        absent += [Absent(name, NO_SCALE, f"{measure} --strategy {name}", perhaps_faster=True) for name in terms]
        terms = {}
    each = _each_iteration(workload, terms, prices) if iterations is None else {}
    rows, scale, common = _strategy_rows(terms, runs, each)
    absent = [_put_on_scale(a, common, rows[0].ms) for a in absent if a.strategy not in runs]
    best, prediction = fastest_of(rows), predicted_for([device.name])
    turned = [] if runs else [_by_rounds(best, workload, others, prices, app, measure), _by_small_blocks(rows, device)]
    turns = [
        *(turn for turn in turned if turn is not None),
        *turns_of(rows, measure, absent, elsewhere=bool(prediction)),
    ]
    chosen_settings = settings(prices, STRATEGIES[best.strategy])
    chosen_settings.control = _control_setting(workload, terms, prices)
    return Advice(
        device.name,
        device.title,
        program,
        size,
        scale,
        rows,
        absent,
        verdict_of(rows, size, turns),
        often_of(rows, each) if each else None,
        iterations,
        accuracy_of([term for row in rows for term in row.terms]).level,
        turns,
        [*_assumptions(workload, terms), *_of_first_touches(terms, prices)],
        chosen_settings,
        predicted=prediction,
        on_processor=device.capabilities.on_host_processor,
    )


def _split_withheld(
    terms: dict[str, list[Term]], absent: list[Absent], withheld: Callable[[str, Sequence[Term]], OnlyLeast | None]
) -> tuple[dict[str, list[Term]], list[Absent]]:
    """The strategies that have a time, and those that have none or the least one only."""
    reasons = {name: reason for name, rows in terms.items() if (reason := withheld(name, rows))}
    in_full = {name: rows for name, rows in terms.items() if name not in reasons}
    fastest = min((_sum(rows)[0] for rows in in_full.values()), default=math.inf)
    for name, (why, longer) in reasons.items():
        least = _sum(terms[name])[0]
        absent = [*absent, Absent(name, why, "", least < fastest, least, None if longer is None else least + longer)]
    return in_full, absent


def _no_time_message(absent: Sequence[Absent], device: DeviceInfo, about: str, measure: str) -> str:
    """Why no strategy has a time."""
    if needed := [a.run for a in absent if a.reason == NOT_MEASURED]:
        return f"these results have too few measurements of {device.name} for advice; run: {needed[0]}"
    command = f"; measure: {measure}" if measure and any(a.run for a in absent) else ""
    return f"no strategy is estimated for {about}; {absent[0].strategy}: {absent[0].reason}{command}"


def _put_on_scale(absent: Absent, common: float, fastest: float) -> Absent:
    """A strategy without a time, on the scale of the rows."""
    if absent.least_ms is None:
        return absent
    least, most = absent.least_ms + common, absent.most_ms
    return replace(
        absent, least_ms=least, most_ms=None if most is None else most + common, perhaps_faster=least < fastest
    )


def _sum(terms: Iterable[Term]) -> tuple[float, float, float]:
    rows = list(terms)
    return sum(t.ms for t in rows), sum(t.low for t in rows), sum(t.high for t in rows)


def _each_iteration(workload: Program, terms: Mapping[str, list[Term]], prices: Prices) -> dict[str, list[Term]]:
    """What a further iteration on the same buffers adds, by strategy: the third, since what is there of the first
    begins to count in the second.
    """
    each = {}
    for name in terms:
        with suppress(Unmeasured, MissingValue, NotEstimated, Impossible):
            two, three = (
                estimate(msgspec.structs.replace(workload, iterations=n), STRATEGIES[name], prices) for n in (2, 3)
            )
            each[name] = more_of(three, two)
    return each


def _strategy_rows(
    terms: Mapping[str, list[Term]], runs: Mapping[str, Record], each: Mapping[str, list[Term]]
) -> tuple[list[StrategyRow], str, float]:
    """Rows fastest first, what their times mean, and by how many ms measured times exceed estimates. If some strategies
    were measured, the others are put on their scale. each: the terms of a further iteration.
    """
    measured_and_estimated = [name for name in terms if name in runs]
    common = 0.0
    if measured_and_estimated:
        common = max(0.0, median(median_of(runs[name]) - _sum(terms[name])[0] for name in measured_and_estimated))
    times = {name: median_of(runs[name]) for name in measured_and_estimated} or {
        name: _sum(row_terms)[0] for name, row_terms in terms.items()
    }
    best = min(times, key=lambda name: times[name], default="")
    rows = []
    for name in [*terms, *(name for name in runs if name not in terms)]:
        row_terms = terms.get(name, [])
        ms, further = _sum(row_terms)[0] + common, _sum(each[name])[0] if name in each else None
        if record := runs.get(name):
            assert record.summary is not None
            estimated = ms if name in measured_and_estimated else None
            s = record.summary
            grounds = (measured_point(record),)
            row = StrategyRow(name, s.median, s.ci_low, s.ci_high, row_terms, True, estimated, grounds, further)
        else:
            apart = difference(row_terms, terms[best])
            least, most = times[best] + apart.low, times[best] + apart.high
            if (record := runs.get(best)) is not None and record.summary is not None:
                least, most = min(least, record.summary.ci_low), max(most, record.summary.ci_high)
            low, high = max(0.0, min(ms, least)), max(ms, most)
            row = StrategyRow(name, ms, low, high, row_terms, further_ms=further)
        rows.append(row)
    rows.sort(key=lambda row: (row.ms, [*STRATEGIES].index(row.strategy) if row.strategy in STRATEGIES else 99))
    rows = with_same(rows)
    if not runs:
        return rows, "what each strategy adds to the kernels and the CPU's work, which all share", common
    scale = "the whole time; for strategies that were not measured, the estimate plus the time that all share"
    return rows, scale, common


def _assumptions(workload: Program, terms: Mapping[str, list[Term]]) -> list[str]:
    notes = [note for rows in terms.values() for t in rows for note in assumptions(t.grounds)]
    return list(dict.fromkeys([*workload.assumptions, *notes]))


def _of_first_touches(terms: Mapping[str, list[Term]], prices: Prices) -> list[str]:
    """The note on prices of new pages, if they are not those of hardware."""
    note = first_touch_note(prices.machine)
    return [note] if note and any(t.what.startswith(FIRST_TOUCH) for rows in terms.values() for t in rows) else []


def _by_small_blocks(rows: Sequence[StrategyRow], device: DeviceInfo) -> Turn | None:
    """How turns over small blocks that are not measured would turn the advice; None if they would not."""
    assumed = {row.strategy: [t for t in row.terms if UNMEASURED_TURNS in assumptions(t.grounds)] for row in rows}
    best, certain = rows[0], [row for row in rows if not assumed[row.strategy]]
    most = best.ms + sum(t.high - t.ms for t in assumed[best.strategy])
    if not assumed[best.strategy] or not certain or most <= SIMILAR * certain[0].ms:
        return None
    times = sum(t.count for t in assumed[best.strategy])
    run = "" if is_predicted(device.name) else f"firsttouch run exchange --device {device.name}"
    return Turn("small blocks", best.strategy, (certain[0].strategy,), most, certain[0].ms, count=times, run=run)


def _control_setting(workload: Program, terms: Mapping[str, list[Term]], prices: Prices) -> Setting | None:
    """That small blocks which both agents use in turns should be copied, if that is clearly faster: under the strategy
    that is then the fastest of those whose pages move.
    """
    with suppress(Unmeasured, MissingValue):
        if prices["copy", "h2d", common_allocator("host")].sizes[-1] <= 1:
            return None  # a rate alone says nothing of small copies
    found: dict[str, list[Term]] = {}
    for name, rows in terms.items():
        with suppress(Unmeasured):
            copied = (
                estimate(workload, STRATEGIES[name], prices, copy_control=True) if _terms_named(TURNS, rows) else rows
            )
            if _is_more(rows, copied, prices.device):
                found[name] = copied
    if not found:
        return None
    name = min(found, key=lambda n: _sum(found[n])[0])
    turns, copies = _terms_named(TURNS, terms[name]), _terms_named(SMALL_COPIES, found[name])
    before, after = _sum(turns)[0], _sum(copies)[0]
    text = (
        f"copy small buffers that CPU and GPU use alternately (control=copied): under {name}, "
        f"{count(sum(term.count for term in turns), 'round trip')} take {quantity(before, 'ms')}, the copies "
        f"{quantity(after, 'ms')}"
    )
    grounds = dict.fromkeys(ground for term in (*turns, *copies) for ground in term.grounds)
    return Setting(text, before / after if after else math.inf, tuple(grounds))


def _is_more(rows: Sequence[Term], copied: Sequence[Term], device: DeviceInfo) -> bool:
    """Whether the copies are clearly faster than the turns; of predictions, over the whole range of both."""
    if _sum(rows)[0] <= SIMILAR * _sum(copied)[0]:
        return False
    return (
        not is_predicted(device.name)
        or _sum(_terms_named(TURNS, rows))[1] > _sum(_terms_named(SMALL_COPIES, copied))[2]
    )


def _terms_named(description: str, terms: Iterable[Term]) -> list[Term]:
    return [term for term in terms if term.what == description]


def _by_rounds(
    best: StrategyRow,
    workload: Program,
    other_programs: Sequence[Program],
    prices: Prices,
    app: type[App] | None,
    measure: str,
) -> Turn | None:
    """What other number of rounds would turn the advice; None if none would."""
    take = best.strategy
    for program in other_programs:
        times = {name: _sum(terms)[0] for name, terms in estimates(program, prices, app)[0].items()}
        least = min(times, key=lambda name: times[name], default=take)
        if take in times and times[take] > SIMILAR * times[least]:
            rounds, assumed = program.rounds, workload.rounds
            return Turn("rounds", take, (least,), times[take], times[least], count=rounds, assumed=assumed, run=measure)
    return None
