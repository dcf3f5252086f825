"""What `firsttouch validate` says, in sentences, of what it judged."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from firsttouch.base.units import format_number
from firsttouch.comparison.validation.results import (
    FAR_OFF,
    ErrorSummary,
    IndependentFigures,
    MeasuredJudgement,
    RowRole,
    ValidatedClaim,
    ValidatedPlatform,
    ValidatedRow,
)
from firsttouch.comparison.validation.targets import JudgedTarget, figures_of, judged_targets
from firsttouch.records.text import count, percent, quantity

_TITLES: Mapping[RowRole, str] = {"input": "Published numbers that are inputs", "fitted": "Fitted numbers"}
_TARGETS: Mapping[str, str] = {
    "numbers within": f"Independent numbers within a factor of {FAR_OFF}: {{}}.",
    "orders right": "Independent orders right: {}.",
    "fitted mean": "Fitted numbers: mean error {}.",
}
"""The sentences on targets, by their names."""
_ROLES: Mapping[str, str] = {"input": "input", "fitted": "fitted", "held": "independent"}
"""The roles of rows, in words."""


def summary_of(platforms: Collection[ValidatedPlatform]) -> str:
    """What validation found: the three figures, and of several platforms what is reached of each target."""
    sentences = [*figure_sentences(figures_of(platforms))]
    if len(platforms) > 1:
        sentences = [f"{count(len(platforms), 'platform')}.", *sentences, *target_sentences(judged_targets(platforms))]
    return " ".join(sentences)


def figure_sentences(figures: IndependentFigures) -> Iterator[str]:
    """The three figures, a sentence for each that is about anything."""
    numbers, orders = figures.numbers, figures.orders
    if numbers.total:
        median = numbers.median_factor
        off = "" if median is None else f"; those predicted are off by a factor of {_factor(median)} in the median"
        yield (
            f"Independent numbers: {numbers.right} of {numbers.total} within a factor of {FAR_OFF}, {numbers.wrong} "
            f"not, {numbers.refused} not predicted{off}."
        )
    if orders.total:
        right, wrong, tied, refused, total = (
            number_of_claims(n) for n in (orders.right, orders.wrong, orders.tied, orders.refused, orders.total)
        )
        yield (
            f"Independent orders: {right} of {total} right, {wrong} wrong, {tied} predicted as equal, {refused} not "
            "predicted."
        )
    if figures.total:
        refused, total = number_of_claims(figures.refused), number_of_claims(figures.total)
        yield f"Refused: {refused} of {total} independent numbers and orders."


def number_of_claims(n: float) -> str:
    """A number of claims, of which parts count."""
    return f"{n:.1f}".removesuffix(".0")


def _factor(factor: float) -> str:
    return format_number(factor) if math.isfinite(factor) else "infinity"


def target_sentences(judged: Iterable[JudgedTarget]) -> Iterator[str]:
    """What is reached of each target."""
    for target in judged:
        yield _TARGETS[target.name].format(_target_in_words(target))


def _target_in_words(target: JudgedTarget) -> str:
    missed = ": missed" if target.is_missed else ""
    if target.unit == "part":
        return f"{percent(target.value)} (target {percent(target.bound)}{missed})"
    return f"{percent(target.value - 1)} (target {percent(target.bound - 1)}{missed})"


def platform_sentences(judged: ValidatedPlatform) -> Iterator[str]:
    """What the judgement is, the most important first."""
    yield from figure_sentences(judged.figures)
    chosen = (
        f"{count(judged.free, 'value')} of {judged.platform} {'is' if judged.free == 1 else 'are'} fitted or assumed"
    )
    verb = "judges" if judged.held == 1 else "judge"
    link = ", but only" if judged.free > judged.held else ", and"
    yield f"{chosen}{link} {count(judged.held, 'independent published row')} {verb} it."
    if judged.open:
        yield f"{count(judged.open, 'claim')} {'is' if judged.open == 1 else 'are'} not decided by the paper."
    for role, errors in judged.compared.items():
        if errors.numbers:
            yield _error_sentence(role, errors)


def _error_sentence(role: RowRole, errors: ErrorSummary) -> str:
    assert errors.median is not None
    assert errors.worst is not None
    assert errors.within is not None
    return (
        f"{_TITLES[role]}, which judge nothing: {errors.numbers}, off by a factor of {format_number(errors.median)} in "
        f"the median and of {_factor(errors.worst)} at worst."
    )


def measured_sentences(judged: MeasuredJudgement) -> Iterator[str]:
    """How right the estimates of measured applications are, the most important first."""
    assert judged.median_error is not None
    assert judged.most_error is not None
    yield (
        f"Of {count(judged.points, 'estimate')} of the difference to {judged.baseline}, half are within "
        f"{percent(judged.median_error)} of the measured time, and nine of ten within {percent(judged.most_error)}."
    )
    if judged.factors.median is not None and judged.factors.worst is not None:
        worst = format_number(judged.factors.worst) if math.isfinite(judged.factors.worst) else "infinity"
        yield (
            f"Whole times, if that of {judged.baseline} is as measured, are off by a factor of "
            f"{format_number(judged.factors.median)} in the median and of {worst} at worst."
        )
    if judged.repeated_median is not None and judged.repeated_most is not None:
        yield (
            f"For comparison, of {count(judged.repeated, 'pair')} of measurements of one point in two directories, "
            f"half differ by at most {percent(judged.repeated_median)}, and nine of ten by at most "
            f"{percent(judged.repeated_most)}."
        )
    if judged.inside is not None and judged.half_width is not None:
        yield (
            f"{percent(judged.inside)} of the measured differences are in the range of their estimate; in the median, "
            f"half the width of a range is {percent(judged.half_width)} of the measured time."
        )
    if judged.in_order is not None:
        yield (
            f"Of {count(judged.pairs, 'pair')} of strategies that differ clearly, {percent(judged.in_order)} are "
            "estimated in the right order."
        )
    if judged.not_estimated:
        yield f"Not estimated: {judged.not_estimated}."


def entry_in_words(entry: ValidatedRow | ValidatedClaim) -> str:
    """An entry that is predicted, with its role."""
    role = f"{_ROLES[entry.role]}{': ' if entry.role_reason else ''}{entry.role_reason}"
    if isinstance(entry, ValidatedClaim):
        return f"{entry.id} ({role}): {entry.text}; {entry.why}"
    return f"{entry.row} ({role}): {entry.says} {_predicted(entry)}"


def _predicted(row: ValidatedRow) -> str:
    assert row.predicted is not None
    unit = "" if row.unit == "ratio" else row.unit
    off = "within the published range" if row.low < row.high or row.qualifier else "equal"
    if row.factor > 1:
        much = "high" if (row.ratio or 0) > 1 else "low"
        off = (
            f"a factor of {format_number(row.factor)} too {much}" if math.isfinite(row.factor) else "infinitely far off"
        )
    return f"Predicted: {quantity(row.predicted, unit)}, published: {published_value(row)}; {off}."


def published_value(row: ValidatedRow) -> str:
    """What a row states, in the unit of the prediction."""
    unit = "" if row.unit == "ratio" else row.unit
    ends = dict.fromkeys(quantity(value, unit) for value in (row.low, row.high))
    hedge = f"{row.qualifier.replace('-', ' ')} " if row.qualifier else ""
    return f"{hedge}{' to '.join(ends)}"
