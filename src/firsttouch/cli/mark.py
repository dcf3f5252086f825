"""firsttouch mark: names what a script does from now on, in the profile that is being made of it."""

from __future__ import annotations

from typing import Annotated

import typer

from firsttouch.base.errors import UsageError
from firsttouch.cli.declaration import declare


@declare("mark", "Name a phase of a script that is profiled.", {}, function=None, prints=True)
def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the phase that begins.")] = "",
    end: Annotated[bool, typer.Option("--end", help="End the phase without beginning another.")] = False,
) -> None:
    """Begin a phase of a script that runs under `firsttouch profile`. It lasts until the next mark.

    Outside a profile, nothing is done. In Python: with firsttouch.phase("solve"):

    Example: firsttouch mark solve
    """
    from firsttouch.profile.marks import write

    if bool(name.strip()) == end:
        raise UsageError("firsttouch mark needs the name of a phase, or --end")
    write("end" if end else "begin", name, "mark")
