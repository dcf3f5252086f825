"""Prints the findings of a run: the first ones of each experiment on each device."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firsttouch.cli.output import print_stdout

if TYPE_CHECKING:
    from firsttouch.report.answers import Answered

MOST = 4
"""The most sentences for each experiment on each device. The report has all of them."""
WIDTH = 100


def read(directory: Path) -> list[Answered]:
    """The sections of a results directory with their findings, in the order of the report."""
    from firsttouch.records.reading import load_results
    from firsttouch.report.answers import answered
    from firsttouch.work import reportable_experiments

    results = load_results(directory)
    return list(answered(results.records, results.machine.devices, reportable_experiments()))


def plain(answers: Iterable[Answered]) -> list[dict[str, Any]]:
    """All findings as plain data, each with its sentence."""
    from firsttouch.report.sentences import plain as as_data

    return [entry for part in answers for entry in as_data(part.experiment, part.answer.findings)]


def show(answers: Iterable[Answered]) -> None:
    """Prints the most important findings. Sections whose points were all skipped are only in the report."""
    for part in answers:
        if all(r.status == "skipped" for r in part.section.records):
            continue
        sentences = part.answer.sentences
        print_stdout(f"{part.title} on {', '.join(part.devices)}")
        for sentence in sentences[:MOST]:
            _print_indented(sentence)
        if (more := len(sentences) - MOST) > 0:
            print_stdout(f"  ({more} more in the report)")
        print_stdout("")


def show_suspect(points_by_rule: Mapping[str, int]) -> None:
    """Prints how many points are suspect, and the rules that they break."""
    from firsttouch.records.plausibility import explain
    from firsttouch.text import count

    if points_by_rule:
        print_stdout(f"{count(sum(points_by_rule.values()), 'suspect point')}, left out of the findings")
        for rule, n in points_by_rule.items():
            _print_indented(f"{n} against the rule {explain(rule)}")
        print_stdout("")


def _print_indented(sentence: str) -> None:
    print_stdout(textwrap.fill(sentence, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False))
