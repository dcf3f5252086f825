"""Entry point: collects the commands, turns UsageError into one sentence and exit status 2."""

from __future__ import annotations

import sys

import typer

from firsttouch import __version__
from firsttouch.cli import app as app_command
from firsttouch.cli import machine, methods, report, run
from firsttouch.errors import UsageError

app = typer.Typer(
    name="firsttouch",
    help="Measure how CPU-GPU memory management behaves on this machine.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("machine")(machine.command)
app.command("methods")(methods.command)
app.command("run")(run.command)
app.command("app")(app_command.command)
app.command("report")(report.command)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"firsttouch {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> None:
    try:
        app()
    except UsageError as error:
        print(f"firsttouch: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
