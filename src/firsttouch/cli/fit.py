"""firsttouch fit: a platform file from what runs measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firsttouch.cli import commands
from firsttouch.cli.options import AsJsonOption
from firsttouch.cli.output import print_json, print_stdout


def command(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR", help="Results of `firsttouch run`; several of machines with the same devices."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The platform file to write, such as mine.json.")],
    device: Annotated[str | None, typer.Option("--device", metavar="DEVICE", help="Such as cuda:0.")] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What the machine is called.")] = "",
    extends: Annotated[
        str, typer.Option(metavar="NAME", help="The platform that has what these runs have not measured.")
    ] = "",
    as_json: AsJsonOption = False,
) -> None:
    """Write what runs measured as a platform file, which can take the place of the machine.

    The file has each price of copies, faults, first touches, allocations and calls with its range,
    and the experiment that it comes from. Applications are not read. Of several machines, a price
    is the median, and its range where that of another is in two of three cases. The file can be
    copied and changed.

    Example: firsttouch fit results/h200-standard --out mine.json
    Then: firsttouch app lud --device model:./mine.json
    """
    result = commands.fit(directories, out=out, device=device, title=title, extends=extends)
    if as_json:
        print_json(result.output)
    else:
        print_stdout(result.value.summary)
