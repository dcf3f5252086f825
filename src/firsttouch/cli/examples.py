"""firsttouch examples: copies the scripts and results that the docs use."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.base.examples import DIRECTORY
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import path
from firsttouch.cli.output import print_stdout

if TYPE_CHECKING:
    from firsttouch.cli.schemas import ExamplesOutput


@declare(
    "examples",
    "Copy the scripts and results that the docs use.",
    {"examples": "cli.schemas:ExamplesOutput"},
    function=None,
)
def command(
    directory: Annotated[
        Path | None, typer.Argument(parser=path, metavar="DIR", help="Where to; default: firsttouch-examples.")
    ] = None,
) -> ExamplesOutput:
    """Copy the scripts and results that the docs use, so that their commands run without a clone of the repository.

    Commands that name docs/examples or results/... run in the directory they are copied to. Nothing is overwritten.

    Example: firsttouch examples && cd firsttouch-examples && firsttouch claims results/h200-standard
    """
    from firsttouch.base.examples import copy_examples
    from firsttouch.cli.schemas import ExamplesOutput
    from firsttouch.records.text import count

    directory = directory or Path(DIRECTORY)
    copied = copy_examples(directory)
    summary = f"{count(len(copied), 'example')} copied to {directory}."
    return ExamplesOutput(summary=summary, directory=str(directory), examples=copied)


@command.shown
def _show(found: ExamplesOutput) -> None:
    first = max(len(example.path) for example in found.examples) + 2
    print_stdout(f"In {found.directory}:")
    for example in found.examples:
        print_stdout(f"{example.path:{first}}{example.about}")
    print_stdout(
        f"Next: cd {shlex.quote(found.directory)} && firsttouch advise results/h200-standard --app fdtd3d --size 2GiB"
    )
