"""What `firsttouch validate` says, in sentences, of what it judged."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from firsttouch.base.units import format_number
from firsttouch.comparison.validation.results import (
    FAR_OFF,
    ErrorSummary,
    MeasuredJudgement,
    ValidatedClaim,
    ValidatedPlatform,
    ValidatedRow,
)
from firsttouch.comparison.validation.targets import JudgedTarget, judged_targets
from firsttouch.records.text import count, number, percent, quantity

_TITLES = {"inputs": "Published numbers that are inputs", "fitted": "Fitted numbers"}
_TARGETS: Mapping[Sequence[str], str] = {
    ("fitted mean",): "Fitted numbers: mean error {}.",
    ("micro median", "micro within"): (
        f"Held-out micro-measurements: median error {{}}, {{}} within a factor of {FAR_OFF}."
    ),
    ("applications within", "applications worst"): (
        f"Held-out numbers of applications: {{}} within a factor of {FAR_OFF}, the worst off by {{}}."
    ),
    ("claims right",): "Held-out claims: {} right, {right} of {decided}.",
}
"""The sentences on targets, by their names."""
_ROLES: Mapping[str, str] = {"input": "input", "fitted": "fitted", "held": "held out"}
"""The roles of rows, in words."""


def summary_of(platforms: Collection[ValidatedPlatform]) -> str:
    """What validation found, in a sentence, and of several platforms what is reached of each target."""
    rows = [row for platform in platforms for row in platform.rows if row.ratio is not None]
    claims = [claim for platform in platforms for claim in platform.claims if claim.outcome != "not predicted"]
    wrong = sum(len(platform.entries("wrong")) for platform in platforms)
    first = (
        f"{count(len(platforms), 'platform')}: {number(len(rows))} published numbers and {number(len(claims))} claims "
        f"are predicted, {wrong} of them wrong."
    )
    return " ".join([first, *(target_sentences(judged_targets(platforms)) if len(platforms) > 1 else ())])


def target_sentences(judged: Iterable[JudgedTarget]) -> Iterator[str]:
    """What is reached of each target."""
    by_name = {target.name: target for target in judged}
    for names, text in _TARGETS.items():
        if targets := [by_name[name] for name in names if name in by_name]:
            last = targets[-1]
            yield text.format(*map(_target_in_words, targets), right=last.right, decided=last.decided)


def _target_in_words(target: JudgedTarget) -> str:
    missed = ": missed" if target.is_missed else ""
    if target.unit == "part":
        return f"{percent(target.value)} (target {percent(target.bound)}{missed})"
    if target.unit == "error":
        return f"{percent(target.value - 1)}, target {percent(target.bound - 1)}{missed}"
    return f"a factor of {format_number(target.value, 3)}, target {target.bound:g}{missed}"


def platform_sentences(judged: ValidatedPlatform) -> Iterator[str]:
    """What the judgement is, the most important first."""
    chosen = (
        f"{count(judged.free, 'value')} of {judged.platform} {'is' if judged.free == 1 else 'are'} fitted or assumed"
    )
    held_rows = count(judged.held, "published row")
    if judged.free > judged.held:
        yield f"{chosen}, but only {held_rows} {'was' if judged.held == 1 else 'were'} held out to check it."
    else:
        yield f"{chosen}, and {held_rows} {'was' if judged.held == 1 else 'were'} held out to check it."
    for number_kind, errors in judged.numbers.items():
        if errors.numbers:
            yield _error_sentence(number_kind, errors)
    decided = judged.right + judged.wrong
    if decided or judged.open:
        yield (
            f"Held-out claims: {judged.right} of {decided} {'is' if judged.right == 1 else 'are'} predicted right, and "
            f"for {judged.open} more the prediction shows no clear difference."
        )
    if missing := len(judged.entries("not predicted")):
        total = count(len(judged.rows) + len(judged.claims), "row and claim", "rows and claims")
        yield f"{missing} of {total} {'is' if missing == 1 else 'are'} not predicted."


def _error_sentence(number_kind: str, errors: ErrorSummary) -> str:
    title = _TITLES.get(number_kind, f"Held-out numbers of {number_kind}")
    assert errors.median is not None
    assert errors.worst is not None
    assert errors.within is not None
    worst = format_number(errors.worst) if math.isfinite(errors.worst) else "infinity"
    return (
        f"{title}: {errors.numbers}, off by a factor of {format_number(errors.median)} in the median and of {worst} at "
        f"worst; {percent(errors.within)} are within a factor of {FAR_OFF}."
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
    if isinstance(entry, ValidatedClaim):
        return f"{entry.id} ({_ROLES[entry.role]}): {entry.text}; {entry.why}"
    return f"{entry.row} ({_ROLES[entry.role]}): {entry.says} {_predicted(entry)}"


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
