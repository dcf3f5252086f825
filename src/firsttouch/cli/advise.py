"""firsttouch advise: which memory strategy to take, from the records of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.cli import commands
from firsttouch.cli.module_code import code_of_modules
from firsttouch.cli.options import AsJsonOption, path
from firsttouch.cli.output import print_error, print_json, print_stdout

if TYPE_CHECKING:
    from firsttouch.advice.answer import Advice


def command(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR", help="Results of `firsttouch run` or `app`; default: the newest in firsttouch-results."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", metavar="DEVICE", help="Such as cuda:0 or opencl:0.")
    ] = None,
    app: Annotated[
        str | None, typer.Option(metavar="NAME", help="An application; see `firsttouch app --list`.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Bytes of all buffers, such as 4GiB; or tiny or default for an application.")
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", metavar="PATTERN", help="stream, iterate, read-many, feed, alternate, sparse or generate."
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Of the pattern: kernels, passes (of each over its bytes), in (bytes before the kernels), out (bytes "
            "that the CPU uses), initialises (cpu or gpu). May be repeated.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            parser=path, metavar="DIR", help="A profile with --trace: advice about the program that was traced."
        ),
    ] = None,
    process: Annotated[
        int | None, typer.Option(metavar="PID", help="Of the profile; default: the one that copies and launches most.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", parser=path, metavar="PATH", help="With --profile, write a page: an HTML file, or a folder."
        ),
    ] = None,
    module: Annotated[
        list[Path] | None, typer.Option("--module", parser=path, metavar="FILE", help="Applications of your own.")
    ] = None,
    as_json: AsJsonOption = False,
) -> None:
    """Say which memory strategy to take, and what each would add, from what a run measured.

    Nothing is run: the estimate comes from the prices of copies, faults, first touches and
    allocations in the results, and from what the application declares that it accesses. If the
    application was measured there, the measured times are shown and decide.

    With --device model:PLATFORM, the prices are those of a platform file, and an application is named alone.

    With --profile, it is about a program that `firsttouch profile --trace` ran: as it is, and under each strategy, with
    bounds by what its kernels may use.

    Example: firsttouch advise results/h200-standard --app hotspot --size 2GiB
    Example: firsttouch advise results/h200-standard --profile port-1
    """
    from firsttouch.engine.reporting import advice_page
    from firsttouch.engine.values import parse_sets
    from firsttouch.records.predicted import is_predicted

    if device is not None and is_predicted(device) and app is None and profile is None and len(directories or []) == 1:
        app, directories = str(directories[0]) if directories else None, []
    files = [str(file.absolute()) for file in module or []]
    with code_of_modules(files):
        result = commands.advise(
            directories or [],
            device=device,
            app=app,
            size=size,
            pattern=pattern,
            modules=files,
            sets=parse_sets(sets or []),
            profile=profile,
            process=process,
        )
    page, not_drawn = advice_page(directories or [], out, profile, device, process)
    if not_drawn:
        print_error(f"the page was not drawn: {not_drawn}")
    if as_json:
        print_json(result.output)
    elif result.value.traced is not None:
        from firsttouch.cli.advised_trace import lines

        for line in lines(result.value):
            print_stdout(line)
        if page is not None:
            print_stdout(str(page))
    else:
        show(result.value)
    if not_drawn:
        raise typer.Exit(1)


def show(advice: Advice) -> None:
    """Prints the answer in at most three sentences, the strategies, and what else follows from the records."""
    from rich.table import Table

    from firsttouch.advice.wording import parts_of
    from firsttouch.cli.console import Console
    from firsttouch.records.text import caption, quantity

    for sentence in advice.sentences:
        print_stdout(sentence)
    print_stdout("")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("strategy", no_wrap=True)
    for heading in ("time", "from", "to"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("largest part", overflow="fold")
    for row in advice.strategies:
        part, ms = next(iter(parts_of(row).items()), ("", 0.0))
        kind = "measured" if row.measured else "predicted" if advice.predicted else "estimated"
        if row.estimated_ms is not None:
            kind = f"measured (estimate {quantity(row.estimated_ms, 'ms')})"
        text = f"{part}, {quantity(ms, 'ms')}" if ms else ""
        table.add_row(row.strategy, *(quantity(v, "ms") for v in (row.ms, row.low, row.high)), kind, text)
    console = Console()
    console.print(table)
    print_stdout(f"Times {advice.predicted and 'predicted '}on {advice.title}: {advice.scale}.")
    for line in absent_lines(advice):
        print_stdout(line)
    print_stdout("")
    if advice.settings.named():
        text = "this platform says" if advice.predicted else "these records say"
        print_stdout(f"What {text} in general:")
    for setting in advice.settings.named().values():
        print_stdout(f"- {caption(setting.text)}.")
    for assumption in advice.assumptions:
        print_stdout(f"- Assumed: {assumption}.")


def absent_lines(advice: Advice) -> list[str]:
    """One line for all strategies without a time for the same reason, with one command for all of them."""
    from firsttouch.records.text import quantity

    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for absent in advice.unavailable:
        command, option, name = absent.run.partition(" --strategy ")
        least = f" (at least {quantity(absent.least_ms, 'ms')})" if absent.least_ms is not None else ""
        groups.setdefault((absent.reason, command), []).append((f"{absent.strategy}{least}", f"{option}{name}"))
    lines = []
    for (reason, command), strategies in groups.items():
        run = f"; run: {command}{''.join(option for _, option in strategies)}" if command else ""
        lines.append(f"{', '.join(name for name, _ in strategies)}: {reason}{run}")
    return lines
