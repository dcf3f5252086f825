"""firsttouch platforms: the machines that files describe, and what each of their values rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from firsttouch.base.errors import UsageError
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import WhatIfOption
from firsttouch.cli.output import print_stdout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firsttouch.model.listing import (
        KnownValue,
        KnownValuesOutput,
        PlatformDescription,
        PlatformEntry,
        PlatformsOutput,
    )


@declare(
    "platforms",
    "The machines that can be modelled, and their values.",
    {"platforms": "model.listing:PlatformsOutput", "platform-values": "model.listing:KnownValuesOutput"},
)
def command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A platform, or the path of a file of your own.")
    ] = None,
    what_if: WhatIfOption = None,
    values: Annotated[
        bool, typer.Option("--values", help="List all values that a platform file may have, with units and meanings.")
    ] = False,
) -> PlatformsOutput | KnownValuesOutput:
    """List the machines that can be modelled; with NAME, every value of one, with its range and its source.

    A value is stated (by a vendor, a study or the machine), measured, derived from others, fitted to published numbers,
    or assumed. To predict for a machine, give `firsttouch app` or `firsttouch run` its name as --device model:NAME.
    A file of your own can extend a platform and state only what differs.

    Example: firsttouch platforms gh200
    """
    from firsttouch.model.listing import known_values, platforms
    from firsttouch.model.what_if import single_changes

    if values:
        if name or what_if:
            raise UsageError("--values lists what any file may have; leave out the platform and --what-if")
        return known_values()
    return platforms(name, single_changes(name, what_if or []))


@command.shown
def _show(found: Any, name: str | None, values: bool) -> None:
    if values:
        _show_known(found.values)
    elif name is None:
        _show_all(found.platforms)
    else:
        _show_platform(found.platforms[0])


def _show_known(values: Sequence[KnownValue]) -> None:
    from rich.table import Table

    from firsttouch.cli.console import Console

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("value", overflow="fold", max_width=40)
    table.add_column("kind", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for value in values:
        table.add_row(value.name, value.kind, value.about)
    console = Console()
    console.print(table)
    print_stdout("")
    kinds = {value.kind: value.takes for value in values if value.kind != "word"}
    for kind, takes in kinds.items():
        console.print(f"{kind}: {takes}")
    print_stdout("The words in angle brackets stand for one of several, such as an allocator.")


def _show_all(platforms: Sequence[PlatformDescription]) -> None:
    from rich.table import Table

    from firsttouch.cli.console import Console

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("platform", no_wrap=True)
    table.add_column("machine", overflow="fold")
    for way in platforms[0].ways:
        table.add_column(way, justify="right")
    for each in platforms:
        table.add_row(each.name, each.title, *(str(n or "") for n in each.ways.values()))
    Console().print(table)
    print_stdout("")
    print_stdout("The numbers say how many values are stated, measured, derived, fitted or assumed.")
    print_stdout("firsttouch platforms NAME lists them; --device model:NAME predicts for the machine.")


def _show_platform(platform: PlatformDescription) -> None:
    from firsttouch.cli.console import Console
    from firsttouch.records.text import join_names

    console = Console()
    console.print(f"{platform.name}: {platform.title}", style="bold")
    count_words = f"{platform.devices} of " if platform.devices > 1 else ""
    print_stdout(f"Device: {count_words}{platform.device}. Host: {platform.host}.")
    if platform.extends:
        print_stdout(f"Based on {join_names(platform.extends)}.")
    for note in platform.notes:
        print_stdout(note)
    for statement in platform.sources:
        print_stdout(f"From published rows: {statement.says} ({statement.source})")
    for change in platform.changes:
        print_stdout(f"Changed by this call: {change}")
    print_stdout("")
    console.print(_table(platform.values))
    for part in platform.conditions:
        print_stdout("")
        conditions = join_names([f"{name} is {text}" for name, text in part.when.items()])
        differs = " the devices differ, and" if part.devices and part.values else " the devices differ"
        print_stdout(f"If {conditions},{differs if part.devices else ''}{' it has:' if part.values else '.'}")
        if part.absent:
            print_stdout(f"It then has no {join_names(part.absent, 'and no')}.")
        if part.values:
            console.print(_table(part.values))


def _table(values: Sequence[PlatformEntry]) -> object:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("value", no_wrap=True)
    table.add_column("", max_width=20)
    table.add_column("how", no_wrap=True)
    table.add_column("from", overflow="fold", ratio=1)
    for value in values:
        table.add_row(value.name, value.text, value.how, "\n".join([value.source, *value.rows]))
    return table
