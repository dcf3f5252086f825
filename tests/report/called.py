"""`firsttouch report` in the process of a test."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from firsttouch.cli import report


def called(*arguments):
    """The outcome of a call. Errors that end it with a message are raised."""
    app = typer.Typer()
    app.command()(report.command)
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
