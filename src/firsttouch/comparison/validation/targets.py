"""What predictions are to reach, over all platforms, and what they do."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from firsttouch.base.units import format_number
from firsttouch.comparison.validation.results import FAR_OFF, RowRole, ValidatedPlatform, error_summary
from firsttouch.records.text import percent

FITTED_MEAN, MICRO_MEDIAN, MICRO_WITHIN = 1.1, 1.15, 0.9
APPLICATIONS_WITHIN, APPLICATIONS_WORST, CLAIMS_RIGHT = 0.7, 3.0, 0.9
"""Targets: factors, and parts of the numbers that are within FAR_OFF, or of the claims."""


def of_all_platforms(validated: Collection[ValidatedPlatform]) -> str:
    """What holds of each target, as one sentence after another; '' without what any is about."""
    return "".join(f" {sentence}" for sentence in _sentences(validated))


def _sentences(validated: Collection[ValidatedPlatform]) -> Iterator[str]:
    def errors(role: RowRole, *application: bool) -> list[float]:
        rows = (row for platform in validated for row in platform.rows if row.ratio is not None)
        return [row.factor for row in rows if row.role == role and row.application in application]

    fitted = error_summary(errors("fitted", False, True))
    if fitted.mean is not None:
        yield f"Fitted numbers: mean error {_off_in_words(fitted.mean, FITTED_MEAN)}."
    micro = error_summary(errors("held", False))
    if micro.median is not None and micro.within is not None:
        yield (
            f"Held micro-measurements: median error {_off_in_words(micro.median, MICRO_MEDIAN)}, "
            f"{_part_in_words(micro.within, MICRO_WITHIN)} within {FAR_OFF}."
        )
    applications = error_summary(errors("held", True))
    if applications.worst is not None and applications.within is not None:
        worst = f"{format_number(applications.worst, 3)} times, target {APPLICATIONS_WORST:g}"
        yield (
            f"Held numbers of applications: {_part_in_words(applications.within, APPLICATIONS_WITHIN)} within "
            f"{FAR_OFF}, the "
            f"worst off by {worst}{_missed_in_words(applications.worst > APPLICATIONS_WORST)}."
        )
    right, wrong = sum(p.right for p in validated), sum(p.wrong for p in validated)
    if right + wrong:
        yield f"Held claims: {_part_in_words(right / (right + wrong), CLAIMS_RIGHT)} right, {right} of {right + wrong}."


def _off_in_words(factor: float, target: float) -> str:
    return f"{percent(factor - 1)}, target {percent(target - 1)}{_missed_in_words(factor > target)}"


def _part_in_words(part: float, target: float) -> str:
    return f"{percent(part)} (target {percent(target)}{_missed_in_words(part < target)})"


def _missed_in_words(missed: bool) -> str:
    return ": missed" if missed else ""
