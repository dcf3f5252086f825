"""firsttouch app: run applications under memory strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Which applications.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All applications.")] = False,
    strategy: Annotated[
        list[str] | None,
        typer.Option("--strategy", metavar="STRATEGY", help="Such as explicit or managed+prefetch; may be repeated."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="tiny, default, in-memory, oversubscribed, or bytes of all buffers such as 4GiB."),
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Device memory that an application may use, such as 8GiB.")] = None,
    oversubscribe: Annotated[
        str | None,
        typer.Option(metavar="R", help="A ballast leaves the device 1/R of the application's peak."),
    ] = None,
    allow_oversubscription: Annotated[
        bool, typer.Option("--allow-oversubscription", help="Managed memory may exceed the device's; it may hang.")
    ] = False,
    iterations: Annotated[str | None, typer.Option(help="Instead of the size's own number.")] = None,
    repeat: Annotated[str | None, typer.Option(help="Runs of each point; 3 without it.")] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FACTOR=V1,V2", help="pages, host, initialise, events, or a parameter."),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="DEVICE", help="Such as cuda:0 or opencl:0; may be repeated."),
    ] = None,
    module: Annotated[
        list[Path] | None, typer.Option("--module", metavar="FILE", help="Applications of your own.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory; firsttouch-results/HOST-DATE without it.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    timeout: Annotated[float | None, typer.Option(help="Seconds that one point may take; 600 without it.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all random data; 1 without it.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List applications; run none.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, and nothing else there.")] = False,
) -> None:
    """Run applications under memory strategies: phases, memory, migrations, and whether the result is right.

    Every point runs in a process of its own and is verified. What is printed at the end, and the
    report, compare each strategy with `explicit`, in time and in memory.

    Exit status: 0 all done; 1 some points failed; 2 the call was wrong; 3 some results were wrong.

    Example: firsttouch app hotspot --size tiny --out first
    """
    from firsttouch.cli.run import measure
    from firsttouch.errors import UsageError
    from firsttouch.run.plan import parse_sets
    from firsttouch.run.runner import Wish

    modules = [str(path.resolve()) for path in module or []]
    if list_only:
        _list(names or [], modules, as_json)
        return
    single = {
        "size": size,
        "budget": budget,
        "oversubscribe": oversubscribe,
        "iterations": iterations,
        "repeat": repeat,
    }
    given = [*(("strategy", one) for one in strategy or []), *single.items()]
    if blank := [name for name, value in given if value is not None and not value.strip()]:
        raise UsageError(f"--{blank[0]} is empty; give it a value or leave it out")
    options = [f"{name}={value}" for name, value in given if value is not None]
    wish = Wish(
        experiments=names or [],
        devices=device or [],
        set=parse_sets([*options, *(sets or [])]),
        out=out,
        resume=resume,
        timeout=timeout,
        seed=seed,
        kind="app",
        modules=modules,
        allow_oversubscription=allow_oversubscription,
        every=every,
    )
    raise typer.Exit(measure(wish, as_json))


def _list(names: list[str], modules: list[str], as_json: bool) -> None:
    import msgspec

    from firsttouch.apps import all_apps
    from firsttouch.apps.experiment import list_application
    from firsttouch.run import catalogue
    from firsttouch.run.plan import choose
    from firsttouch.units import format_size

    catalogue.show_modules(modules)
    known = all_apps()
    entries = [list_application(known[name]) for name in choose("application", names, known)]
    if as_json:
        typer.echo(msgspec.json.encode({"applications": entries}).decode())
        return
    for entry in entries:
        parameters = ", ".join(f"{name} {value}" for name, value in entry.default.items())
        typer.echo(f"{entry.name}: {entry.what}")
        typer.echo(f"  {entry.pattern}; default {parameters} ({format_size(entry.footprint_bytes)}). {entry.source}")
