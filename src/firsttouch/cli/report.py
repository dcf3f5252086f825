"""firsttouch report."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(str, Enum):
    html = "html"
    png = "png"
    svg = "svg"
    csv = "csv"


def command(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Results of `firsttouch run`.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The HTML file, or the folder for other formats. Default: in DIR."),
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", help="html: one page. png, svg: figures. csv: all points.")
    ] = Format.html,
    as_json: Annotated[bool, typer.Option("--json", help="Print the paths written as JSON, and nothing else.")] = False,
) -> None:
    """One self-contained HTML page over one or several results directories; or figures, or a table.

    Example: firsttouch report results/gh200 --format svg -o figures
    """
    if form is Format.html:
        from firsttouch.report.page import write_report

        paths = [write_report(directories, output)]
    else:
        from firsttouch.report.export import export

        paths = export(directories, form.value, output)
    if as_json:
        import json

        names = [str(path) for path in paths]
        print(json.dumps({"report": names[0]} if form is Format.html else {"files": names}))
        return
    for path in paths:
        print(path)
