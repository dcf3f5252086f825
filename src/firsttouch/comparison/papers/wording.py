"""What decides a claim, in words."""

from __future__ import annotations

from firsttouch.base.units import format_number
from firsttouch.comparison.papers.comparisons import ClaimComparison, ComparedValue
from firsttouch.records.text import quantity


def decision_in_words(first: ClaimComparison, agree: int, contradict: int, unclear: int) -> str:
    """The comparison that decides, and how many of several agree and contradict."""
    return f"{_comparison_in_words(first)}{counts_in_words(agree, contradict, unclear)}"


def counts_in_words(agree: int, contradict: int, unclear: int = 0) -> str:
    """How many of several comparisons agree and contradict, as the end of a sentence; '' of one alone."""
    total = agree + contradict + unclear
    return f"; {agree} of {total} comparisons agree, {contradict} contradict" if total > 1 else ""


def _comparison_in_words(comparison: ClaimComparison) -> str:
    """A comparison in words: '4,330 GB/s against 73.3 GB/s (ratio 59, 58 to 60): allocator device against pinned'."""
    if comparison.second is None:
        bare = comparison.first.low is None
        return comparison.about if bare else f"{_format_amount(comparison.first)}: {comparison.about}"
    ratio = comparison.ratio
    times = f" ({_format_ratio(ratio)})" if ratio is not None else ""
    return f"{_format_amount(comparison.first)} against {_format_amount(comparison.second)}{times}: {comparison.about}"


def _format_amount(value: ComparedValue) -> str:
    return quantity(value.value, value.unit)


def _format_ratio(ratio: ComparedValue) -> str:
    text = f"ratio {format_number(ratio.value)}"
    if ratio.low is None or ratio.high is None or ratio.low == ratio.high:
        return text
    return f"{text}, {format_number(ratio.low)} to {format_number(ratio.high)}"
