"""What a results directory says, as its page, the terminal and --json have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from firsttouch.report.answers import AnsweredSection
from firsttouch.report.first_screen import FirstScreen

if TYPE_CHECKING:
    from firsttouch.records.reading import Results
    from firsttouch.report.sentences import WordedFinding


@dataclass(frozen=True)
class Conclusions:
    """What a results directory says: its first screen, and its sections with their findings, as in the report."""

    screen: FirstScreen
    answers: Sequence[AnsweredSection]

    @cached_property
    def findings(self) -> list[WordedFinding]:
        """All findings, each with its sentence; those of the first screen come first."""
        from firsttouch.report.sentences import worded

        of_first_screen = [
            entry for number in self.screen.numbers for entry in worded(number.experiment, [number.finding])
        ]
        advice = [
            msgspec.structs.replace(entry, text=sentence.text)
            for sentence in self.screen.advice
            for entry in worded("advice", sentence.findings)
        ]
        of_sections = [entry for part in self.answers for entry in worded(part.experiment, part.answer.findings)]
        return [*of_first_screen, *advice, *(e for e in of_sections if e not in of_first_screen)]


def conclusions(results: Results) -> Conclusions:
    from firsttouch.engine.work_kinds import reportable_experiments
    from firsttouch.report.answers import answered
    from firsttouch.report.first_screen import first_screen

    answers = list(answered(results.records, results.machine.devices, reportable_experiments()))
    return Conclusions(first_screen(results, answers), answers)
