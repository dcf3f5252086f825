"""firsttouch report: writes the report, figures or a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.cli import commands, first_findings
from firsttouch.cli.module_code import code_of_modules
from firsttouch.cli.options import path
from firsttouch.cli.output import print_failure, print_json, print_stdout

if TYPE_CHECKING:
    from firsttouch.cli.commands import Report

FORMATS = ("html", "png", "svg", "csv", "parquet", "openmetrics")


def _format(text: str) -> str:
    from firsttouch.base.errors import unknown

    if text not in FORMATS:
        raise unknown("format", text, FORMATS)
    return text


def command(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Results of `run` or `app`, or profiles of `profile`.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=path,
            metavar="PATH",
            help="The HTML file, or the folder for other formats; default: in DIR.",
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            parser=_format,
            metavar="FORMAT",
            help="html: one page. png, svg: figures. csv, parquet: all points or curves. openmetrics: the headlines.",
        ),
    ] = "html",
    module: Annotated[
        list[Path] | None,
        typer.Option("--module", parser=path, metavar="FILE", help="Experiments or applications of your own."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, and nothing else there.")] = False,
) -> None:
    """Write one self-contained HTML page for one or several directories of results or of profiles; or figures, or a
    table.

    Example: firsttouch report results/h200-quick --format svg -o figures
    """
    from firsttouch.cli.progress import Waiting
    from firsttouch.engine.reporting import NotDrawn

    try:
        modules = [str(file.absolute()) for file in module or []]
        with code_of_modules(modules), Waiting("drawing the report"):
            result = commands.report(directories, form, output, modules)
    except NotDrawn as error:
        print_failure(f"the report was not drawn: {error}", 1, as_json, "report")
        raise typer.Exit(1) from None
    if as_json:
        print_json(result.output)
    else:
        _show(result.value)


def _show(report: Report) -> None:
    """What the page begins with, and the paths of what was written."""
    from firsttouch.cli.profiled import of_rank

    for conclusions in report.conclusions:
        show = first_findings.show_first_screen if conclusions.screen.numbers else first_findings.show
        show(conclusions)
    for summary in report.profiles:
        print_stdout(of_rank(summary))
    for written in report.paths:
        print_stdout(str(written))
