"""firsttouch report: writes the report, figures or a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from firsttouch.cli import findings
from firsttouch.cli.findings import Read
from firsttouch.cli.options import path
from firsttouch.cli.output import code_of_modules, print_json, print_stderr, print_stdout

FORMATS = ("html", "png", "svg", "csv")


def _format(text: str) -> str:
    from firsttouch.engine.plan import unknown

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
            help="html: one page. png, svg: figures. csv: all points or curves.",
        ),
    ] = "html",
    as_json: Annotated[bool, typer.Option("--json", help="Print the paths written as JSON, and nothing else.")] = False,
) -> None:
    """Write one self-contained HTML page for one or several directories of results or of profiles; or figures, or a
    table.

    Example: firsttouch report results/h200-quick --format svg -o figures
    """
    from firsttouch.engine.reporting import NotDrawn, draw
    from firsttouch.profile.reading import is_profile, profiles_in

    named, directories = directories, profiles_in(directories)
    if output is None and form == "html" and len(named) == 1 and directories != named:
        output = named[0] / "report.html"  # beside the folders of the ranks
    try:
        paths = draw(directories, form, output)
    except NotDrawn as error:
        print_stderr(f"firsttouch: the report was not drawn: {error}")
        raise typer.Exit(1) from None
    if form == "html" and is_profile(directories[0]):
        _show_profiles(str(paths[0]), directories, as_json=as_json)
        return
    if form == "html":
        with code_of_modules():
            found = [findings.read(directory) for directory in directories]
    if as_json:
        names = list(map(str, paths))
        print_json(_written(names[0], directories, found) if form == "html" else {"files": names})
        return
    if form == "html":
        for one in found:
            findings.show_first_screen(one)
    for written in paths:
        print_stdout(str(written))


def _show_profiles(written: str, directories: Sequence[Path], *, as_json: bool) -> None:
    """The peaks of profiles, and the path of their page."""
    import msgspec

    from firsttouch.cli.profiled import of_rank
    from firsttouch.profile.reading import read
    from firsttouch.profile.summary import summarise

    summaries = [summarise(read(directory)) for directory in directories]
    if as_json:
        print_json({"report": written, "summaries": [msgspec.to_builtins(summary) for summary in summaries]})
        return
    for summary in summaries:
        print_stdout(of_rank(summary))
    print_stdout(written)


def _written(name: str, directories: Sequence[Path], read: Sequence[Read]) -> dict[str, Any]:
    """The path of the page, and the findings of all directories, each with its directory."""
    entries = [
        {"directory": str(directory)} | entry
        for directory, one in zip(directories, read, strict=True)
        for entry in findings.plain(one)["findings"]
    ]
    return {"report": name, "titles": [one.screen.title for one in read], "findings": entries}
