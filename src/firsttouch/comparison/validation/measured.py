"""Judges the prices of a platform by applications that were measured on a device of its kind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from statistics import fmean, median

from firsttouch.base.errors import UsageError
from firsttouch.base.units import format_size
from firsttouch.comparison.validation.judged import (
    Case,
    Judgement,
    cases,
    exceptions,
    platform_estimator,
)
from firsttouch.comparison.validation.results import MeasuredJudgement, ValidatedStrategy, error_summary
from firsttouch.harness.outcomes.derive import BASELINE
from firsttouch.model.platform import Platform, platform_names, platform_of
from firsttouch.records.reading import Results, load_results
from firsttouch.records.schema import DeviceInfo
from firsttouch.records.text import join_names


def judged_by_runs(names: Sequence[str], directories: Sequence[Path]) -> list[MeasuredJudgement]:
    """The platforms that are named, or those whose device was measured, each judged by applications in directories.

    Raises:
        UsageError: a directory has no results, or no application was measured on the device of a platform.
    """
    runs = {str(directory): load_results(directory) for directory in directories}
    for name, results in runs.items():
        if any(device.modelled for device in results.machine.devices):
            raise UsageError(f"{name} was predicted, not measured; give what `firsttouch app` measured")
    titles = {device.title: "" for results in runs.values() for device in _devices(results)}
    platforms = [platform_of(name) for name in dict.fromkeys(names or platform_names())]
    matching = [platform for platform in platforms if platform.device.title in titles]
    if lacking := [p for p in platforms if names and p not in matching]:
        raise UsageError(
            f"nothing was measured on {lacking[0].device.title}, the device of {lacking[0].name}; these results are of "
            f"{join_names([*titles]) or 'no GPU'}"
        )
    if not matching:
        known_names = ", ".join(platform.name for platform in platforms)
        raise UsageError(
            f"no platform describes {join_names([*titles]) or 'a device'} of these results; name one of "
            f"{known_names}, or "
            "fit a file to micro-measurements with `firsttouch fit`"
        )
    return [judged_by_results(platform, runs) for platform in matching]


def _devices(results: Results) -> list[DeviceInfo]:
    return [device for device in results.machine.devices if device.available and device.role == "gpu"]


def judged_by_results(platform: Platform, runs: Mapping[str, Results]) -> MeasuredJudgement:
    """A platform, judged by applications in runs, which are given by name. Raises UsageError if there are none."""
    used, all_cases, visits = [], list[Case](), dict[str, list[Case]]()
    for name, results in runs.items():
        for device in _devices(results):
            if device.title == platform.device.title and (
                device_cases := cases(platform_estimator(platform, device.name), results)
            ):
                used.append(name)
                all_cases += device_cases
                visits[name] = device_cases
    judgement = Judgement(all_cases)
    if not judgement.errors:
        raise UsageError(
            f"no application was measured on {platform.device.title} under {BASELINE} and another strategy in "
            f"{join_names([*runs])}"
        )
    return judged_by_strategies(
        [strategy for case in all_cases for strategy in _strategies(case)],
        platform=platform.name,
        directories=used,
        baseline=BASELINE,
        cases=len(all_cases),
        in_order=[right for *_, right in judgement.pairs],
        repeated=[*_repetition_errors([*visits.values()])],
        not_estimated=exceptions(judgement),
    )


def judged_by_strategies(
    strategies: Iterable[ValidatedStrategy],
    *,
    platform: str,
    directories: Iterable[str],
    baseline: str,
    cases: int,
    in_order: Sequence[bool],
    repeated: Sequence[float] = (),
    not_estimated: str = "",
) -> MeasuredJudgement:
    """in_order: of each pair of strategies that differ clearly, whether their estimates have the same order. repeated:
    the errors of measurements as predictions of others. There is at least one strategy.
    """
    rows = sorted(strategies, key=lambda strategy: -strategy.error)
    errors = [row.error for row in rows]
    return MeasuredJudgement(
        platform=platform,
        directories=list(dict.fromkeys(directories)),
        baseline=baseline,
        cases=cases,
        points=len(errors),
        factors=error_summary(row.factor for row in rows),
        median_error=median(errors),
        most_error=_nine_tenths(errors),
        inside=fmean(row.is_inside for row in rows),
        half_width=median((row.high_ms - row.low_ms) / 2 / row.whole_ms for row in rows),
        repeated=len(repeated),
        repeated_median=median(repeated) if repeated else None,
        repeated_most=_nine_tenths(repeated) if repeated else None,
        pairs=len(in_order),
        in_order=fmean(in_order) if in_order else None,
        not_estimated=not_estimated,
        sentences=[],
        strategies=rows,
    )


def _nine_tenths(errors: Sequence[float]) -> float:
    """What nine tenths of errors are at most."""
    return sorted(errors)[math.ceil(0.9 * len(errors)) - 1]


def _repetition_errors(visits: Sequence[Sequence[Case]]) -> Iterator[float]:
    """The errors of measurements in one directory as predictions of those of the same points in another."""
    points: dict[tuple[object, ...], list[tuple[int, float, float]]] = {}
    for visit, visit_cases in enumerate(visits):
        for case in visit_cases:
            for name in case.measured.keys() - {BASELINE} if BASELINE in case.measured else ():
                whole = case.measured[name].median
                key = (case.application, case.parameters, name)
                points.setdefault(key, []).append((visit, whole - case.measured[BASELINE].median, whole))
    for repeated_points in points.values():
        for (first_visit, predicted, _), (second_visit, difference, whole) in permutations(repeated_points, 2):
            if first_visit != second_visit:
                yield abs(predicted - difference) / whole


def _strategies(case: Case) -> Iterator[ValidatedStrategy]:
    for name, error in case.errors().items():
        low, high = case.interval(name)
        yield ValidatedStrategy(
            application=case.application,
            size=format_size(case.size, 3) if isinstance(case.size, int) else str(case.size),
            strategy=name,
            measured_ms=case.measured[name].median - case.measured[BASELINE].median,
            estimated_ms=case.estimated[name] - case.estimated[BASELINE],
            whole_ms=case.measured[name].median,
            low_ms=low,
            high_ms=high,
            error=error,
        )
