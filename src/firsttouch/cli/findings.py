"""What a run found, on the terminal: the first findings of each experiment on each device."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firsttouch.cli.output import say

if TYPE_CHECKING:
    from firsttouch.report.answers import Answered

MOST = 4
"""Sentences for each experiment on each device; the report has all of them."""
WIDTH = 100


def read(directory: Path) -> list[Answered]:
    """Everything that a results directory holds, answered in the order of the report."""
    from firsttouch.records.reading import load_results
    from firsttouch.report.answers import answered
    from firsttouch.work import reportable_experiments

    results = load_results(directory)
    return list(answered(results.records, results.machine.devices, reportable_experiments()))


def plain(answers: Iterable[Answered]) -> list[dict[str, Any]]:
    """All findings as plain data, each with its sentence."""
    from firsttouch.report.sentences import plain as as_data

    return [entry for one in answers for entry in as_data(one.experiment, one.answer.findings)]


def show(answers: Iterable[Answered]) -> None:
    """Print the most important findings. What was skipped on a device has none, and is in the report."""
    for one in answers:
        if all(r.status == "skipped" for r in one.section.records):
            continue
        said = one.answer.sentences
        say(f"{one.title} on {', '.join(one.devices)}")
        for sentence in said[:MOST]:
            say(textwrap.fill(sentence, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False))
        if (more := len(said) - MOST) > 0:
            say(f"  ({more} more in the report)")
        say("")
