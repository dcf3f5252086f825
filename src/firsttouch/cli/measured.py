"""Carries out `firsttouch run` and `firsttouch app`, and what they say of a run that ended."""

from __future__ import annotations

import shlex
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from firsttouch.base.errors import Terminated, UsageError
from firsttouch.cli import first_findings
from firsttouch.cli.module_code import code_of_modules
from firsttouch.cli.output import print_failure, print_json, print_stdout, text_width

if TYPE_CHECKING:
    from firsttouch.base.outputs import Output
    from firsttouch.cli.progress import RunProgress
    from firsttouch.engine.planned import Planned
    from firsttouch.engine.request import RunOptions
    from firsttouch.engine.runner import RunOutcome
    from firsttouch.engine.work import Work
    from firsttouch.records.schema import Record
    from firsttouch.report.conclusions import Conclusions


@dataclass(frozen=True)
class Measured:
    """A run that ended, and what its directory says."""

    outcome: RunOutcome
    conclusions: Conclusions

    def output(self) -> Output:
        from firsttouch.cli.schemas import AppOutput, RunOutput
        from firsttouch.records.text import count

        outcome, screen = self.outcome, self.conclusions.screen
        ends = ", ".join(f"{n} {status}" for status, n in outcome.counts.items())
        first = next((f" {number.head}: {number.text}." for number in screen.numbers), "")
        kind = AppOutput if outcome.summary else RunOutput
        return kind(
            summary=f"{count(sum(outcome.counts.values()), 'point')}: {ends}. {screen.title}.{first}",
            directory=str(outcome.directory),
            report=str(outcome.report) if outcome.report else None,
            counts=outcome.counts,
            unverified=outcome.unverified,
            suspect=outcome.suspect,
            disturbed=outcome.disturbed,
            seconds=outcome.seconds,
            title=screen.title,
            conditions=screen.conditions,
            measured_on=screen.measured_on,
            absent=screen.absent,
            predicted=screen.predicted_in_full,
            findings=self.conclusions.findings,
            **outcome.summary,
        )


def check_explained(devices: Sequence[str]) -> None:
    """Raises UsageError if predictions for these devices cannot be explained, because they are measured."""
    from firsttouch.machine.backends import is_modelled

    if not devices or not all(map(is_modelled, devices)):
        raise UsageError("--explain says what a prediction follows from; give --device model:PLATFORM, without others")


def _concluded(work: Work, outcome: RunOutcome, explain: bool) -> Measured:
    """What a run that ended says. explain: whether its predictions are explained first."""
    from firsttouch.report.conclusions import conclusions

    if explain:
        _explain(work, outcome)
    return Measured(outcome, conclusions(outcome.results))


def _explain(work: Work, outcome: RunOutcome) -> None:
    """Explains the predictions of a run in its summary, and writes a trace of them into its directory."""
    from firsttouch.harness.explaining import explain
    from firsttouch.profile.events.predicted_trace import write_predicted_trace
    from firsttouch.records.schema import Factors

    records = outcome.results.records
    outcome.summary["explanations"] = explain(
        records, lambda record: work.find(record.experiment, Factors(record.factors))
    )
    write_predicted_trace(outcome.directory, records)


class _Silent:
    """Shows no progress. Warnings become warnings of Python."""

    def warn(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)

    def note(self, text: str) -> None:
        pass

    def begin(self, directory: Path, todo: Sequence[Planned], held: int) -> None:
        pass

    def point(self, planned: Planned) -> None:
        pass

    def recorded(self, planned: Planned, record: Record) -> None:
        pass


def measure(work: Work, options: RunOptions, *, explain: bool = False) -> Measured:
    """Carries out a call of `import firsttouch`."""
    from firsttouch.engine.runner import run

    return _concluded(work, run(work, options, _Silent()), explain)


def measure_in_terminal(
    work: Work,
    options: RunOptions,
    as_json: bool,
    show: Callable[[RunOutcome], None] | None = None,
    *,
    explain: bool = False,
) -> int:
    """Carries out a call and returns the exit status. show: prints the outcome before the first screen, instead of
    the findings after it. explain: whether predictions are explained.
    """
    from firsttouch.cli.progress import RunProgress
    from firsttouch.engine.runner import run

    progress = RunProgress()
    try:
        with code_of_modules(options.modules, options.timeout):
            try:
                outcome = run(work, options, progress)
            finally:
                progress.end()
    except KeyboardInterrupt as error:
        status = error.status if isinstance(error, Terminated) else 130
        print_failure(f"interrupted{_kept(progress, work) or ' before the first point'}", status, as_json, work.name)
        return status
    except UsageError as error:
        if not (kept := _kept(progress, work)):
            raise
        print_failure(f"{error}{kept}", 1, as_json, work.name)
        return 1
    with code_of_modules(options.modules, options.timeout):
        found = _concluded(work, outcome, explain)
    if as_json:
        print_json(found.output())
    else:
        if show is not None:
            show(outcome)
            first_findings.show_first_screen(found.conclusions)
        else:
            first_findings.show(found.conclusions)
        first_findings.show_suspect(outcome.suspect)
        print_stdout(str(outcome.report or outcome.directory))
        print_stdout(f"Next: {next_command(work, found, options.modules)}")
    return outcome.exit_status


def _kept(progress: RunProgress, work: Work) -> str:
    """How many points a run that ended early has kept, and how to continue it; '' before its first point."""
    if progress.directory is None:
        return ""
    from firsttouch.records.text import count

    call = f"firsttouch {work.name} --resume --out {shlex.quote(str(progress.directory))}"
    return f"; {count(progress.kept, 'point')} kept. Continue with: {call}"


def show_list(work: Work, options: RunOptions, as_json: bool) -> None:
    """Prints the output of --list."""
    from firsttouch.engine.runner import list_work

    with code_of_modules(options.modules, options.timeout):
        listing = list_work(work, options)
    if as_json:
        print_json(listing.output)
        return
    if options.experiments:
        for line in listing.lines:
            print_stdout(line)
        return
    first = max(map(len, listing.titles), default=0) + 2
    for name, title in listing.titles.items():
        room = max(20, text_width() - first)
        print_stdout(f"{name:{first}}{textwrap.shorten(title, room, placeholder=' ...')}")
    print_stdout(listing.output.summary)
    print_stdout(f"firsttouch {work.name} NAME --list has the factors of one, and what --set accepts")


def next_command(work: Work, measured: Measured, modules: Sequence[str]) -> str:
    """The command that most runs are followed by: failed points again; else advice, if the results have what it needs;
    else a comparison.
    """
    from firsttouch.advice.findings import ESTIMATE
    from firsttouch.records.schema import FAILURES

    outcome, screen = measured.outcome, measured.conclusions.screen
    named = [word for module in modules for word in ("--module", module)]
    where = str(outcome.directory)
    if any(outcome.counts.get(status) for status in FAILURES):
        words = [work.name, "--resume", "--retry", "--out", where, *named]
    elif screen.predicted:
        words = ["compare", where, "OTHER"]
    elif any(advised.finding.claim.id == ESTIMATE for advised in screen.advice):
        words = ["advise", where]
    elif screen.advice and (app := _first_application(measured)):
        words = ["advise", where, "--app", app, *named]
    else:
        words = ["compare", where, "OTHER"]
    return shlex.join(["firsttouch", *words])


def _first_application(measured: Measured) -> str:
    """The application that was measured first; '' if there is none."""
    apps = (r.factors.get("app") for r in measured.outcome.results.records if r.experiment == "app")
    return next((str(app) for app in apps if app is not None), "")
