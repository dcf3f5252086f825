"""Advice about traced programs, judged by what `firsttouch try` measured of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from firsttouch.advice.tried.findings import BASELINE, LEAST_ROUNDS, PredictedTime, TryFindings
from firsttouch.advice.tried.predicting import beside, differences
from firsttouch.advice.tried.results import records
from firsttouch.advice.tried.stored import PROFILE, read_findings
from firsttouch.advice.tried.wording import name_of
from firsttouch.base.errors import UsageError
from firsttouch.comparison.validation.judged import is_clear
from firsttouch.comparison.validation.measured import judged_by_strategies
from firsttouch.comparison.validation.results import MeasuredJudgement, ValidatedStrategy
from firsttouch.records.schema import Summary
from firsttouch.records.text import join_names


@dataclass(frozen=True)
class TriedProgram:
    """A program with its measured times in seconds, and what was predicted, by strategy. The baseline is among both."""

    findings: TryFindings
    measured: Mapping[str, Summary]
    predicted: Mapping[str, PredictedTime]

    @property
    def arguments(self) -> str:
        return shlex.join(self.findings.command[1:])

    def strategies(self) -> Iterator[ValidatedStrategy]:
        none = self.measured[BASELINE].median
        for name, time in self.predicted.items():
            if name == BASELINE:
                continue
            whole = self.measured[name].median
            yield ValidatedStrategy(
                application=name_of(self.findings),
                size=self.arguments,
                strategy=name,
                whole_ms=1e3 * whole,
                measured_ms=1e3 * (whole - none),
                estimated_ms=1e3 * (time.seconds - none),
                low_ms=1e3 * (time.low - none),
                high_ms=1e3 * (time.high - none),
                error=abs(time.seconds - whole) / whole,
            )

    def in_order(self) -> Iterator[bool]:
        """Of each pair whose measured times differ clearly, whether the predicted ones have the same order. Of few
        rounds no order is known.
        """
        if self.findings.rounds < LEAST_ROUNDS:
            return
        for pair in combinations(self.predicted, 2):
            fast, slow = sorted(pair, key=lambda name: self.measured[name].median)
            if is_clear(self.measured[fast], self.measured[slow]):
                yield self.predicted[fast].seconds < self.predicted[slow].seconds


def judged_by_tries(directories: Sequence[Path], prices: Path | None = None) -> MeasuredJudgement:
    """prices: the results of a run by which times are predicted anew; else those that `try` predicted are judged.

    Raises:
        UsageError: A directory holds nothing that was tried, or there are no predictions.
    """
    programs = [tried_program(directory, prices) for directory in directories]
    strategies = [strategy for program in programs for strategy in program.strategies()]
    if not strategies:
        names = join_names([*map(str, directories)])
        raise UsageError(f"nothing that was timed is predicted in {names}; give --prices the results of a run")
    return judged_by_strategies(
        strategies,
        platform="",
        directories=map(str, directories),
        baseline=BASELINE,
        cases=len(programs),
        in_order=[right for program in programs for right in program.in_order()],
    )


def tried_program(directory: Path, prices: Path | None = None) -> TriedProgram:
    """Raises UsageError as `judged_by_tries`."""
    findings = read_findings(directory)
    measured = {record.text("strategy"): record.summary for record in records(findings) if record.summary}
    predicted = {row.strategy: row.predicted for row in findings.results if row.predicted}
    if prices is not None and BASELINE in measured:
        none = measured[BASELINE].median
        anew = differences(directory / PROFILE, prices)
        predicted = {row.strategy: beside(none, anew[row.strategy]) for row in findings.results if row.strategy in anew}
    if BASELINE in measured:
        none = measured[BASELINE].median
        predicted[BASELINE] = PredictedTime(seconds=none, low=none, high=none)
    return TriedProgram(findings, measured, {name: time for name, time in predicted.items() if name in measured})
