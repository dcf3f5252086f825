"""firsttouch run: measure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from firsttouch.run.runner import Wish

_MOST_LISTED = 8


def command(
    experiments: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="Which; all of them without any.")
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="DEVICE", help="Such as cpu, cuda:0 or hip:0; may be repeated."),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="quick (default), standard or full.")] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", metavar="FACTOR=V1,V2", help="Values of a factor; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory; firsttouch-results/HOST-DATE without it.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    timeout: Annotated[float | None, typer.Option(help="Seconds that one point may take.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all random data and orders; 1 without it.")] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Record unified-memory events too, into events.json; faults take longer.")
    ] = False,
    list_only: Annotated[
        bool, typer.Option("--list", help="List experiments with their factors and devices; measure none.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, and nothing else there.")] = False,
) -> None:
    """Measure this machine, and write results.jsonl, machine.json and report.html.

    Without arguments: all experiments on all devices, preset quick: half a minute on
    two cores, two and a half with a GPU.

    Exit status: 0 all done; 1 some points failed; 2 the call was wrong; 3 some data were wrong.

    Example: firsttouch run latency --device cpu --set size=4KiB,1MiB --out first
    """
    from firsttouch.run.plan import parse_sets
    from firsttouch.run.runner import Wish

    wish = Wish(experiments or [], device or [], preset, parse_sets(sets or []), out, resume, timeout, seed, events)
    if list_only:
        _list(wish, as_json)
    else:
        raise typer.Exit(measure(wish, as_json))


def measure(wish: Wish, as_json: bool) -> int:
    """Carry out a wish with progress on stderr; the exit status."""
    from firsttouch.cli.progress import RunProgress
    from firsttouch.run.runner import run

    progress = RunProgress()
    try:
        outcome = run(wish, progress)
    except KeyboardInterrupt:
        progress.end()
        typer.echo(_interrupted(progress.directory, progress.kept, wish.kind), err=True)
        return 130
    finally:
        progress.end()
    if as_json:
        _print_json(outcome.as_dict())
    else:
        if outcome.applications:
            from firsttouch.cli.summary import show

            show(outcome.applications)
        typer.echo(outcome.report)
    return outcome.exit_status


def _interrupted(directory: Path | None, kept: int, kind: str) -> str:
    if directory is None:
        return "interrupted before the first point"
    return f"interrupted; {kept} points are kept. Go on with: firsttouch {kind} --resume --out {directory}"


def _list(wish: Wish, as_json: bool) -> None:
    from firsttouch.run.runner import list_experiments

    entries = list_experiments(wish)
    if as_json:
        _print_json({"experiments": entries})
        return
    for entry in entries:
        typer.echo(f"{entry['name']}: {entry['question']}")
        for device, factors in entry["devices"].items():
            words = "; ".join(f"{name} {_some(values)}" for name, values in factors.items())
            typer.echo(f"  {device}: {words or 'no factors'}")
        for device, reason in entry["not_on"].items():
            typer.echo(f"  not on {device}: {reason}")


def _some(values: Sequence[str]) -> str:
    """The values as a reader wants them: a long row by its ends."""
    if len(values) <= _MOST_LISTED:
        return ", ".join(values)
    return f"{values[0]}, {values[1]}, ..., {values[-1]} ({len(values)} values)"


def _print_json(value: object) -> None:
    import msgspec

    typer.echo(msgspec.json.encode(value).decode())
