"""firsttouch schema: the JSON Schemas of what --json prints, and of the files of a results directory."""

from __future__ import annotations

from typing import Annotated

import typer

from firsttouch.cli import commands
from firsttouch.cli.options import AsJsonOption
from firsttouch.cli.output import print_json, print_stdout


def command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of a command or a file; without it, all are listed.")
    ] = "",
    as_json: AsJsonOption = False,
) -> None:
    """Print the JSON Schema of what a command prints with --json, or of a file of a results directory.

    Example: firsttouch schema results.jsonl
    """
    if name:
        print_json(commands.schema(name), indent=2)
        return
    result = commands.schemas()
    if as_json:
        print_json(result.output)
        return
    for title in result.value.schemas:
        print_stdout(f"{title.name:20}{title.of}")
