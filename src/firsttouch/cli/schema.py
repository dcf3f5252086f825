"""firsttouch schema: the JSON Schemas of what --json prints, and of the files of a results directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firsttouch.cli.declaration import declare
from firsttouch.cli.output import print_json, print_stdout

if TYPE_CHECKING:
    from firsttouch.cli.schemas import SchemasOutput


@declare("schema", "The JSON Schemas of outputs and of files.", {"schema": "cli.schemas:SchemasOutput"}, function=None)
def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A command or a file; without it, all are listed.")] = "",
) -> SchemasOutput | dict[str, Any]:
    """Print the JSON Schema of what a command prints with --json, or of a file of a results directory.

    Example: firsttouch schema results.jsonl
    """
    from firsttouch.cli.schemas import json_schema, schemas_output

    return json_schema(name) if name else schemas_output()


@command.shown
def _show(found: SchemasOutput | dict[str, Any]) -> None:
    if isinstance(found, dict):
        print_json(found, indent=2)
        return
    for title in found.schemas:
        print_stdout(f"{title.name:20}{title.of}")
