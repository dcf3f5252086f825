"""firsttouch port: what stands between a program, as it is, and unified memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from firsttouch.base.errors import UsageError
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import AsJsonOption, ProgramCommand, path, process_of, program_of
from firsttouch.cli.output import print_json, print_stderr, print_stdout
from firsttouch.cli.profile import (
    ProfileCommand,
    carry_out,
    every,
    interval,
    launched_gpus,
    signals_for_this_thread,
    write_views,
)
from firsttouch.profile.programs import help_text

if TYPE_CHECKING:
    from firsttouch.advice.port.port_findings import PortFindings
    from firsttouch.engine.reporting import ProfilePage
    from firsttouch.profile.gpu_sampler import GpuSampler
    from firsttouch.profile.profiler import ProfileCall, ProfileOutcome

EVERY = 8
"""Of how many page faults one is sampled: enough to tell who touched each buffer first."""


class PortCommand(ProgramCommand, ProfileCommand):
    """Tells a command, behind '--', from the directory of a profile."""

    faults_every = EVERY


ProcessOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--process",
        parser=process_of("--process"),
        metavar="PID",
        help="The process to analyse; default: the busiest one.",
    ),
]


@declare(
    "port",
    "What to change in a program for unified memory.",
    {"port": "advice.port.port_findings:PortFindings"},
    kind=PortCommand,
)
def command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A profile with a trace.")],
    process: ProcessOption = None,
) -> PortFindings:
    """Show from a profile what a program's buffers and copies would become in unified memory, and what to fix first."""
    return findings_in(directory, process)


def findings_in(directory: Path, process: int | None = None, *, keep: bool = False) -> PortFindings:
    """keep: the program is written beside the profile."""
    from firsttouch.advice.port.reading import findings_of_ranks, port_findings, read_single, traced_run, write_program
    from firsttouch.base.collection import without_collection
    from firsttouch.profile.reading import profiles_in

    with without_collection():
        if len(ranks := profiles_in([directory])) > 1:
            return findings_of_ranks(ranks, process)
        profile = read_single(directory)
        unwritten = write_program(profile, traced_run(profile, process)) if keep else ""
        return port_findings(profile, process, unwritten)


def _with_kinds(function: Callable[..., None]) -> Callable[..., None]:
    """Adds what is seen of programs, by what they are written with, to the text of --help."""
    table = f"What is seen, by what a program is written with (docs/porting.md has more):\n\n\b\n{help_text()}"
    function.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("Exit status:", f"{table}\n\nExit status:")
    return function


@command.carried_out
@_with_kinds
def _command_line(
    context: typer.Context,
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR | -- COMMAND [ARG]...", help="A profile with a trace, or a program.")
    ] = None,
    chosen: ProcessOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=path, metavar="DIR", help="Directory of the profile that is made."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue until every process has ended, not only the first one.")
    ] = False,
    tick: Annotated[
        float | None,
        typer.Option("--interval", parser=interval, metavar="TIME", help="Time between two readings; default: 10ms."),
    ] = None,
    faults: Annotated[
        int | None,
        typer.Option("--faults", parser=every, metavar="[=N]", help="Sample every N-th page fault; default: 8th."),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Run the program a second time, slowly, to record which bytes its kernels access."
        ),
    ] = False,
    check_copies: Annotated[
        bool, typer.Option("--check-copies", help="Compare all bytes of repeated copies, not just a part.")
    ] = False,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow", help="Look for what differs if arrays and buffers are one memory, at every call; slow."
        ),
    ] = False,
    program: Annotated[
        bool,
        typer.Option(
            "--program", help="With DIR: print the sequence of accesses and copies that `advise --profile` uses."
        ),
    ] = False,
    as_json: AsJsonOption = False,
) -> None:
    """Show what a program's buffers and copies would become in unified memory, and what to fix first.

    The program runs unchanged, and is profiled with --trace, --faults and --host. From its copies follow which
    buffers are copies of each other, how many bytes a unified version saves at most, which copies are redundant, and
    which hazards stand in the way. With DIR, nothing is run.

    Exit status: that of the program; with DIR, 0; 2 the call was wrong.

    Example: firsttouch port --out port-1 -- ./app arg

    Example: firsttouch port port-1
    """
    words = program_of(context)
    if bool(words) == (directory is not None):
        wrong = "a directory and a command were given" if words else "there is nothing to port"
        raise UsageError(f"{wrong}; name a command, as in firsttouch port -- ./app, or the directory of a profile")
    if directory is not None:
        if unused_options := [name for name, value in (("--out", out), ("--follow", follow), ("--interval", tick),
                                              ("--faults", faults), ("--exact", exact),
                                              ("--check-copies", check_copies),
                                              ("--shadow", shadow)) if value]:  # fmt: skip
            raise UsageError(f"with a directory nothing is profiled; leave out {', '.join(unused_options)}")
        if program:
            _show_program(directory, chosen, as_json)
        else:
            _show(findings_in(directory, chosen), as_json, [], print_stdout)
        return
    if program:
        raise UsageError("--program shows a profile; give the directory of one, and no command")
    gpus = launched_gpus(tick)
    with signals_for_this_thread():
        from firsttouch.profile.profiler import ProfileCall

    call = ProfileCall(
        command=words,
        follow=follow,
        interval=gpus.interval,
        out=out,
        faults=faults or EVERY,
        trace=True,
        host=True,
        shadow=shadow,
        check_copies=check_copies,
        exact=exact,
        to_stderr=as_json,
    )
    raise typer.Exit(_profile(call, gpus, chosen, as_json))


def _profile(call: ProfileCall, gpus: GpuSampler, chosen: int | None, as_json: bool) -> int:
    """Profiles a program, and shows the findings. Returns its exit status."""

    def show(outcome: ProfileOutcome, page: ProfilePage, as_json: bool) -> None:
        findings: list[PortFindings] = []

        def find() -> None:
            findings.append(findings_in(outcome.directory, chosen, keep=True))

        summary, files = write_views(outcome, page, find)
        _show(findings[0], as_json, files[-1:], print_stderr, summary.rank)

    return carry_out(call, gpus, show, as_json, "port")


def _show(
    findings: PortFindings, as_json: bool, files: Sequence[str], print_text: Callable[[str], None], rank: str = ""
) -> None:
    from firsttouch.cli.ported import lines

    if as_json:
        print_json(findings)
    else:
        shown = lines(findings, files)
        print_text("\n".join(shown if rank in ("", "0") else [f"rank {rank}: {findings.summary}"]))


def _show_program(directory: Path, chosen: int | None, as_json: bool) -> None:
    from firsttouch.advice.port.reading import program_of, read_single, traced_run
    from firsttouch.program.program_text import program_lines

    profile = read_single(directory)
    program = program_of(profile, traced_run(profile, chosen))
    if as_json:
        print_json(program)
    else:
        print_stdout("\n".join(program_lines(program)))
