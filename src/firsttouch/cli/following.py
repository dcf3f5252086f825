"""What to type after a run: the last line that it prints."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firsttouch.cli.commands import Measured
    from firsttouch.engine.work import Work


def next_command(work: Work, measured: Measured, modules: Sequence[str]) -> str:
    """The command that most runs are followed by: failed points again; else advice, if the results have what it needs;
    else a comparison.
    """
    from firsttouch.advice.sentences import ESTIMATE
    from firsttouch.records.schema import FAILURES

    outcome, screen = measured.outcome, measured.conclusions.screen
    named = [word for module in modules for word in ("--module", module)]
    where = str(outcome.directory)
    if any(outcome.counts.get(status) for status in FAILURES):
        words = [work.name, "--resume", "--retry", "--out", where, *named]
    elif screen.predicted:
        words = ["compare", where, "OTHER"]
    elif any(finding.claim.id == ESTIMATE for sentence in screen.advice for finding in sentence.findings):
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
