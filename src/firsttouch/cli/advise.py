"""firsttouch advise: which memory strategy to take, from the records of a run."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.base.errors import NOT_JUDGED
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import path
from firsttouch.cli.output import print_error, print_stdout, text_width

if TYPE_CHECKING:
    from rich.table import Table

    from firsttouch.advice.answer import Advice
    from firsttouch.base.outputs import Output


_RANGE, _FURTHER, _PART = 60, 76, 100
"""The columns of the terminal from which on a table has ranges, times by iteration, and the largest part."""


@dataclass(frozen=True)
class Advised:
    """page: of advice about a traced program, if one was asked for and could be drawn. not_drawn: why not."""

    advice: Advice
    page: Path | None
    not_drawn: str

    def output(self) -> Output:
        from firsttouch.advice.output import output

        return output(self.advice)


@declare("advise", "Which memory strategy to use, and what each costs.", {"advise": "advice.output:AdviceOutput"})
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
        str | None,
        typer.Option(help="Total size of the buffers, such as 4GiB; for an application also tiny or default."),
        "int | str",
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            metavar="PATTERN",
            help="Access pattern, instead of --app: stream, iterate, read-many, feed, alternate, sparse or generate.",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Parameters of --pattern: kernels (their number), passes (of each over its data), in (input bytes), "
            "out (bytes that the CPU reads), initialises (cpu or gpu). Or a condition of a platform, such as xnack=1. "
            "May be repeated.",
        ),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="How often the program repeats its work on the same buffers; default: once, and the number from which "
            "on another strategy is better.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            parser=path, metavar="DIR", help="Give advice about the program of this profile, made with --trace."
        ),
    ] = None,
    process: Annotated[
        int | None,
        typer.Option(
            metavar="PID", help="The process of the profile; default: the one with the most copies and launches."
        ),
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
) -> Advised:
    """Recommend a memory strategy, and estimate the time that each one adds, from the results of a run.

    Nothing is run. The estimates combine the measured costs of copies, faults, first touches and allocations with the
    accesses that the application declares. If the results contain runs of the application itself, these decide.

    With --device model:PLATFORM, the costs come from a platform file, and no results are needed.

    With --profile, the advice is about a program that `firsttouch profile --trace` recorded: the program unchanged,
    and under each strategy. Where it is not known which bytes kernels access, times have bounds.

    Exit status: 0 there is an answer; 1 the page could not be drawn; 2 the call was wrong; 4 there is no answer without
    further measurements, which the first sentence names.

    Example: firsttouch advise results/h200-standard --app hotspot --size 2GiB
    Example: firsttouch advise results/h200-standard --profile port-1
    """
    from firsttouch.engine.reporting import advice_page
    from firsttouch.engine.values import parse_sets
    from firsttouch.records.predicted import is_predicted

    if device is not None and is_predicted(device) and app is None and profile is None and len(directories or []) == 1:
        app, directories = str(directories[0]) if directories else None, []
    directories, modules = directories or [], [str(file.absolute()) for file in module or []]
    asked_sets = parse_sets(sets or [])
    if profile is not None or process is not None:
        from firsttouch.advice.profiled import advise_profile

        other = {"--app": app, "--size": size, "--pattern": pattern, "--module": modules}
        other |= {"--iterations": str(iterations or "")}
        advice = advise_profile(profile, directories, device=device, process=process, sets=asked_sets, other=other)
    else:
        from firsttouch.advice.advisor import advise

        apps = None
        if modules or app is not None:
            from firsttouch.apps import apps_with, only_app

            apps = apps_with(modules)
            app = only_app(modules, apps) if app is None else app
        advice = advise(
            directories,
            device=device,
            app=app,
            size=size,
            pattern=pattern,
            sets=asked_sets,
            iterations=iterations,
            apps=apps,
        )
    return Advised(advice, *advice_page(directories, out, profile, device, process))


@command.shown
def _show(found: Advised) -> None:
    if found.advice.traced is None:
        show(found.advice)
        return
    from firsttouch.cli.advised_trace import lines

    for line in lines(found.advice):
        print_stdout(line)
    if found.page is not None:
        print_stdout(str(found.page))


@command.finished
def _finish(found: Advised) -> int:
    if found.not_drawn:
        print_error(f"the page was not drawn: {found.not_drawn}")
    if found.not_drawn:
        return 1
    return NOT_JUDGED if found.advice.verdict.kind == "not known" else 0


def show(advice: Advice) -> None:
    """Prints the answer in at most three sentences, the strategies, and what else follows from the records."""
    from firsttouch.advice.output import answer
    from firsttouch.cli.console import Console
    from firsttouch.records.text import caption

    console = Console()
    for statement in answer(advice):
        print_stdout(textwrap.fill(str(statement), text_width(), break_long_words=False, break_on_hyphens=False))
    print_stdout("")
    console.print(_table(advice, console.width))
    print_stdout(f"Times {advice.predicted and 'predicted '}on {advice.title}: {advice.scale}.")
    if advice.level and console.width >= _RANGE:
        best = advice.strategies[0].strategy
        print_stdout(
            f"From, to: in {advice.level} such estimates the time is in this range, if that of {best} is as estimated."
        )
    for line in absent_lines(advice):
        print_stdout(line)
    print_stdout("")
    if advice.settings.named():
        text = "this platform" if advice.predicted else "these results"
        print_stdout(f"General advice from {text}:")
    for setting in advice.settings.named().values():
        print_stdout(f"- {caption(setting.text)}.")
    for assumption in advice.assumptions:
        print_stdout(f"- Assumed: {assumption}.")


def _table(advice: Advice, width: int) -> Table:
    """The strategies; in few columns, without what there is no room for."""
    from rich.table import Table

    from firsttouch.advice.wording import alike_names, parts_of
    from firsttouch.records.text import quantity

    rows = [row for row in advice.strategies if not row.same_as]
    with_iterations = any(row.further_ms is not None for row in rows)
    heads = ["time", *(["from", "to"] if width >= _RANGE else [])]
    heads += ["further"] if with_iterations and width >= _FURTHER else []
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("strategy", overflow="fold", min_width=max(len(row.strategy) for row in rows))
    for heading in heads:
        table.add_column(heading, justify="right", no_wrap=True)
    if width >= _PART:
        table.add_column("", no_wrap=True)
        table.add_column("largest part", overflow="fold")
    for row in rows:
        part, part_ms = next(iter(parts_of(row).items()), ("", 0.0))
        kind = "measured" if row.measured else "predicted" if advice.predicted else "estimated"
        if row.estimated_ms is not None:
            kind = f"measured (estimate {quantity(row.estimated_ms, 'ms')})"
        is_reference = not row.measured and row.low == row.high
        values = {
            "time": row.ms,
            "from": None if is_reference else row.low,
            "to": None if is_reference else row.high,
            "further": row.further_ms,
        }
        cells = ["" if (ms := values[head]) is None else quantity(ms, "ms") if ms else "0" for head in heads]
        about = [kind, f"{part}, {quantity(part_ms, 'ms')}" if part_ms else ""] if width >= _PART else []
        table.add_row(alike_names(row, advice.strategies), *cells, *about)
    return table


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
