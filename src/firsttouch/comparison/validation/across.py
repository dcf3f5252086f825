"""Judges claims about several machines by their platforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from firsttouch.base.units import format_number
from firsttouch.comparison.papers.comparisons import compared
from firsttouch.comparison.papers.evaluate import outcome_of
from firsttouch.comparison.papers.wording import counts_in_words
from firsttouch.comparison.validation.points import PlatformPoints
from firsttouch.comparison.validation.results import Shares, ValidationOutcome
from firsttouch.model.platform import platform_of
from firsttouch.records.papers.claims import Across, PaperClaim
from firsttouch.records.schema import Record

RecordsOf = Callable[[PlatformPoints], Sequence[Record]]
"""The records of a claim's points on a platform. Raises UsageError."""


def judged_across(test: Across, claim: PaperClaim, records_of: RecordsOf) -> tuple[ValidationOutcome, str, Shares]:
    """Whether ratios are less on some platforms than on others, the comparison that is furthest from that, and how
    many agree.

    Raises:
        UsageError: as records_of, or there is no such platform.
    """
    less, than = ({name: _ratios(test, records_of, name) for name in names} for names in (test.less_on, test.than_on))
    pairs = [
        (a / b, f"{program}: {format_number(a, 3)} on {first} against {format_number(b, 3)} on {second}")
        for first, by_program in less.items()
        for program, a in by_program.items()
        for second, others in than.items()
        if (b := others.get(program))
    ]
    if not pairs:
        return "not predicted", "no program has both points on each of the platforms", Shares(refused=1)
    agree = sum(ratio < 1 for ratio, _ in pairs)
    contradict = len(pairs) - agree
    said = f"{max(pairs)[1]}{counts_in_words(agree, contradict)}"
    holds = outcome_of(claim, agree, contradict, len(pairs)) == "holds"
    shares = Shares(right=agree / len(pairs), wrong=1 - agree / len(pairs))
    return "right" if holds else "wrong", said, shares


def _ratios(test: Across, records_of: RecordsOf, platform: str) -> Mapping[str, float]:
    """The ratio of the two points on a platform, by program."""
    comparisons = compared(test, [r for r in records_of(PlatformPoints(platform_of(platform))) if r.is_measured])
    return {str(c.points[0].factors.get("app")): c.ratio.value for c in comparisons if c.ratio is not None}
