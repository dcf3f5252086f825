"""Prints why predicted times are what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from firsttouch.base.units import format_size
from firsttouch.cli.console import Console
from firsttouch.cli.output import print_stdout
from firsttouch.records.predicted import predicted_for
from firsttouch.records.text import caption, quantity

if TYPE_CHECKING:
    from firsttouch.harness.outcomes.explanations import ExplainedPoint, Explanation, ValueEffect

MOST_TERMS = 6


def show(explanations: Sequence[Explanation]) -> None:
    """Prints the terms of each strategy, the values that move its time most, and where another becomes the fastest."""
    for explanation in explanations:
        caption_text = caption(predicted_for([explanation.device]))
        size = format_size(explanation.size) if isinstance(explanation.size, int) else explanation.size
        print_stdout("")
        print_stdout(f"{caption_text}: {explanation.app}, {size}. Where the time goes:")
        for point in explanation.strategies:
            _show_point(point)
        assumed = (text for point in explanation.strategies for term in point.terms for text in term.assumptions)
        print_stdout("")
        for text in dict.fromkeys(assumed):
            print_stdout(f"- Assumed: {text}.")
        for decision in explanation.decisions:
            print_stdout(f"{caption_text}: {decision.text}.")
        if explanation.crossings:
            print_stdout("Where strategies cross if each value is as the file has it, not elsewhere in its range:")
        for crossing in explanation.crossings:
            print_stdout(f"{caption_text}: {crossing.text}.")


def _show_point(point: ExplainedPoint) -> None:
    from rich.table import Table

    print_stdout("")
    print_stdout(f"{point.strategy}: {_ms(point.ms)} ({_ms(point.low)} to {_ms(point.high)})")
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(3):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    terms = [term for term in point.terms if term.ms > 0]
    for term in terms[:MOST_TERMS]:
        amount = ", ".join([*([format_size(term.bytes)] if term.bytes else []), *_how_often(term.count)])
        share = f"{term.ms / point.ms:.0%}" if point.ms else ""
        table.add_row(
            share, _ms(term.ms), f"{_ms(term.low)} to {_ms(term.high)}", term.phase, f"{term.what} ({amount})"
        )
    if rest := terms[MOST_TERMS:]:
        table.add_row("", _ms(sum(term.ms for term in rest)), "", "", f"{len(rest)} more")
    Console().print(table)
    for value in point.values:
        print_stdout(f"  {value.name} ({value.value}): {_effect_words(value)}")
    if point.widest:
        left = f"{_ms(point.exact_low)} to {_ms(point.exact_high)}"
        print_stdout(f"  if every value of the platform is exact: {left}, most of it in: {point.widest}")


def _effect_words(value: ValueEffect) -> str:
    more = f"{_ms(value.tenth_ms)} if it {'takes a tenth longer' if value.is_price else 'is a tenth more'}"
    if value.low_ms == value.high_ms:
        return more
    return f"{_ms(value.low_ms)} to {_ms(value.high_ms)} over its range; {more}"


def _how_often(number: int) -> list[str]:
    """How often something happens, in words; nothing if it happens once."""
    return [f"{number:,} times"] if number > 1 else []


def _ms(value: float) -> str:
    return quantity(value, "ms")
