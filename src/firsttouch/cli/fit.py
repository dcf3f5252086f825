"""firsttouch fit: a platform file from what runs measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.cli.declaration import declare
from firsttouch.cli.output import print_stdout

if TYPE_CHECKING:
    from firsttouch.cli.schemas import FitOutput


@declare("fit", "Make a platform file of what runs measured.", {"fit": "cli.schemas:FitOutput"}, function=None)
def command(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Results of `firsttouch run`; several directories if the machines have the same devices.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The platform file to write, such as mine.json.")],
    device: Annotated[str | None, typer.Option("--device", metavar="DEVICE", help="Such as cuda:0.")] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="A name for the machine.")] = "",
    extends: Annotated[
        str, typer.Option(metavar="NAME", help="The platform to take values from that these runs have not measured.")
    ] = "",
) -> FitOutput:
    """Make a platform file of what runs measured, to predict with it in place of the machine.

    The file has each price of copies, faults, first touches, allocations and calls with its range,
    and the experiment that it comes from. Applications are not read. Of several machines, a price
    is the median, and its range where that of another is in two of three cases. The file can be
    copied and changed.

    Example: firsttouch fit results/h200-standard --out mine.json
    Then: firsttouch app lud --device model:./mine.json
    """
    from firsttouch.advice.advisor import choose_device
    from firsttouch.base.files import write_output
    from firsttouch.cli.schemas import FitOutput
    from firsttouch.model.fit import file_text, fitted_platform
    from firsttouch.records.reading import load_results
    from firsttouch.records.text import count, join_names

    runs = {str(directory): load_results(directory) for directory in directories}
    content = fitted_platform(runs, choose_device([*runs.values()], device), title, extends)
    write_output(out, file_text(content).encode())
    values = len(content["parameters"])
    summary = f"{out}: {count(values, 'value')} of {content['title']}, from {join_names([*runs])}."
    return FitOutput(summary=summary, platform=str(out), runs=[*runs], values=values)


@command.shown
def _show(found: FitOutput) -> None:
    print_stdout(found.summary)
