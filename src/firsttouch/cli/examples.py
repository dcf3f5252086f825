"""firsttouch examples: copies the scripts and results that the docs use."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from firsttouch.base.examples import DIRECTORY
from firsttouch.cli import commands
from firsttouch.cli.options import AsJsonOption, path
from firsttouch.cli.output import print_json, print_stdout


def command(
    directory: Annotated[
        Path | None, typer.Argument(parser=path, metavar="DIR", help="Where to; default: firsttouch-examples.")
    ] = None,
    as_json: AsJsonOption = False,
) -> None:
    """Copy the scripts and results that the docs use, so that their commands run without a clone of the repository.

    Commands that name docs/examples or results/... run in the directory they are copied to. Nothing is overwritten.

    Example: firsttouch examples && cd firsttouch-examples && firsttouch claims results/h200-standard
    """
    directory = directory or Path(DIRECTORY)
    result = commands.examples(directory)
    if as_json:
        print_json(result.output)
        return
    copied = result.value
    first = max(len(example.path) for example in copied) + 2
    print_stdout(f"In {directory}:")
    for example in copied:
        print_stdout(f"{example.path:{first}}{example.about}")
    print_stdout(
        f"Next: cd {shlex.quote(str(directory))} && firsttouch advise results/h200-standard --app fdtd3d --size 2GiB"
    )
