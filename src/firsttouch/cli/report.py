"""firsttouch report: writes the report, figures or a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.base.errors import Failure
from firsttouch.cli import first_findings
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import path
from firsttouch.cli.output import print_stdout

if TYPE_CHECKING:
    from firsttouch.advice.tried.findings import TryFindings
    from firsttouch.base.outputs import Output
    from firsttouch.profile.summary import ProfileSummary
    from firsttouch.report.conclusions import Conclusions

FORMATS = ("html", "png", "svg", "csv", "parquet", "openmetrics")


def _format(text: str) -> str:
    from firsttouch.base.errors import unknown

    if text not in FORMATS:
        raise unknown("format", text, FORMATS)
    return text


@dataclass(frozen=True)
class Report:
    """What was written. conclusions, profiles, tried: what the page of these directories begins with."""

    paths: Sequence[Path]
    directories: Sequence[Path]
    conclusions: Sequence[Conclusions] = ()
    profiles: Sequence[ProfileSummary] = ()
    tried: Sequence[TryFindings] = ()

    def output(self) -> Output:
        from msgspec.structs import asdict

        from firsttouch.cli.schemas import ReportedDirectory, ReportedFinding, ReportOutput
        from firsttouch.records.text import count

        names = list(map(str, self.paths))
        conclusions = list(zip(map(str, self.directories), self.conclusions, strict=bool(self.conclusions)))
        titles = [conclusion.screen.title for conclusion in self.conclusions]
        titles += [found.summary for found in (*self.profiles, *self.tried)]
        return ReportOutput(
            summary="; ".join(titles) or f"{count(len(names), 'file')} written.",
            report=names[0] if titles else None,
            files=names,
            directories=[ReportedDirectory(directory=name, title=found.screen.title) for name, found in conclusions],
            findings=[
                ReportedFinding(directory=name, **asdict(f)) for name, found in conclusions for f in found.findings
            ],
            summaries=self.profiles,
            tried=self.tried,
        )


@declare(
    "report",
    "Write results or profiles as a page, figures or a table.",
    {"report": "cli.schemas:ReportOutput"},
    function=None,
)
def command(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR", help="Results of `run` or `app`, profiles of `profile`, or one of `try`."),
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
            help="html: one page. png, svg: figures. csv, parquet: all points or curves. openmetrics: "
            "the main numbers.",
        ),
    ] = "html",
    module: Annotated[
        list[Path] | None,
        typer.Option("--module", parser=path, metavar="FILE", help="Experiments or applications of your own."),
    ] = None,
) -> Report:
    """Write one self-contained HTML page for one or several directories of results or of profiles; or figures, or a
    table.

    Example: firsttouch report results/h200-quick --format svg -o figures
    """
    from firsttouch.cli.progress import Waiting
    from firsttouch.engine.reporting import NotDrawn

    try:
        with Waiting("drawing the report"):
            return _written(directories, form, output, [str(file.absolute()) for file in module or []])
    except NotDrawn as error:
        raise Failure(f"the report was not drawn: {error}") from None


def _written(named: Sequence[Path], form: str, output: Path | None, modules: Sequence[str]) -> Report:
    """Writes the report. Raises NotDrawn if the process that draws failed."""
    from firsttouch.advice.link import summary_of
    from firsttouch.advice.tried.stored import is_tried, read_findings
    from firsttouch.engine.reporting import draw
    from firsttouch.profile.reading import is_profile, profiles_in, read
    from firsttouch.records.reading import load_results
    from firsttouch.report.conclusions import conclusions

    if modules:
        from firsttouch.engine.work_kinds import add_any_modules

        add_any_modules(modules)
    if any(map(is_tried, named)):
        return Report(draw(named, form, output), named, tried=[*map(read_findings, named)])
    directories = profiles_in(named)
    if output is None and form == "html" and len(named) == 1 and directories != named:
        output = named[0] / "report.html"  # in the directory that holds the folders of the ranks
    paths = draw(directories, form, output)
    if form != "html":
        return Report(paths, directories)
    if is_profile(directories[0]):
        summaries = [summary_of(read(directory)) for directory in directories]
        return Report(paths, directories, profiles=summaries)
    results = [conclusions(load_results(directory)) for directory in directories]
    return Report(paths, directories, results)


@command.shown
def _show(report: Report) -> None:
    """What the page begins with, and the paths of what was written."""
    from firsttouch.cli.profiled import of_rank
    from firsttouch.cli.tried import lines

    for conclusions in report.conclusions:
        show = first_findings.show_first_screen if conclusions.screen.numbers else first_findings.show
        show(conclusions)
    for summary in report.profiles:
        print_stdout(of_rank(summary))
    for findings in report.tried:
        print_stdout("\n".join(lines(findings)))
    for written in report.paths:
        print_stdout(str(written))
