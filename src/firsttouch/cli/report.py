"""firsttouch report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firsttouch.cli.options import path
from firsttouch.cli.output import say, say_json, tell

FORMATS = ("html", "png", "svg", "csv")


def _format(text: str) -> str:
    from firsttouch.engine.plan import unknown

    if text not in FORMATS:
        raise unknown("format", text, FORMATS)
    return text


def command(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR", help="Results of `firsttouch run` or `app`.")],
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
            "--format", parser=_format, metavar="FORMAT", help="html: one page. png, svg: figures. csv: all points."
        ),
    ] = "html",
    as_json: Annotated[bool, typer.Option("--json", help="Print the paths written as JSON, and nothing else.")] = False,
) -> None:
    """Write one self-contained HTML page for one or several results directories; or figures, or a table.

    Example: firsttouch report results/h200-quick --format svg -o figures
    """
    from firsttouch.engine.reporting import NotDrawn, draw

    try:
        paths = draw(directories, form, output)
    except NotDrawn as error:
        tell(f"firsttouch: the report was not drawn: {error}")
        raise typer.Exit(1) from None
    if as_json:
        names = [str(one) for one in paths]
        say_json({"report": names[0]} if form == "html" else {"files": names})
        return
    for one in paths:
        say(str(one))
