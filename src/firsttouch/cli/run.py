"""firsttouch run: runs experiments."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.base.errors import Terminated, UsageError
from firsttouch.cli import commands, first_findings
from firsttouch.cli.following import next_command
from firsttouch.cli.module_code import code_of_modules
from firsttouch.cli.options import (
    AllowOversubscriptionOption,
    AsJsonOption,
    DevicesOption,
    LauncherOption,
    OutOption,
    RanksOption,
    ResumeOption,
    RetryOption,
    SeedOption,
    TrustVerifiedOption,
    WaitOption,
    WhatIfOption,
    changed_devices,
    path,
    seconds,
)
from firsttouch.cli.output import print_failure, print_json, print_stdout, text_width

if TYPE_CHECKING:
    from firsttouch.cli.progress import RunProgress
    from firsttouch.engine.request import RunOptions
    from firsttouch.engine.runner import RunOutcome
    from firsttouch.engine.work import Work
    from firsttouch.records.schema import DeviceInfo


def command(
    experiments: Annotated[
        list[str] | None, typer.Argument(metavar="EXPERIMENT", help="Which experiments; default: all.")
    ] = None,
    device: DevicesOption = None,
    what_if: WhatIfOption = None,
    preset: Annotated[
        str | None, typer.Option(help="quick (default), standard or full: how many points, and how precise.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FACTOR=V1,V2", help="Values of a factor; --list says what each accepts. May be repeated."
        ),
    ] = None,
    module: Annotated[
        list[Path] | None, typer.Option("--module", parser=path, metavar="FILE", help="Experiments of your own.")
    ] = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    retry: RetryOption = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=seconds,
            metavar="SECONDS",
            help="Seconds that one point may take; default: 30 (allocation: 240), or 20 times its sampling time.",
        ),
    ] = None,
    seed: SeedOption = None,
    ranks: RanksOption = None,
    launcher: LauncherOption = "",
    events: Annotated[
        bool,
        typer.Option("--events", help="Also record unified-memory events, into events.json. Faults take longer then."),
    ] = False,
    counters: Annotated[
        bool,
        typer.Option(
            "--counters",
            help="Run points of latency, tlb, bandwidth and migration once more under the vendor's profiler (ncu, "
            "rocprofv3, perf), and add its counters.",
        ),
    ] = False,
    allow_oversubscription: AllowOversubscriptionOption = False,
    trust_verified: TrustVerifiedOption = None,
    wait: WaitOption = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List experiments with their factors and devices; measure nothing.")
    ] = False,
    as_json: AsJsonOption = False,
) -> None:
    """Measure this machine, print what was found, and write results.jsonl, machine.json and report.html.

    Without arguments: all experiments on all devices, with preset quick; of equal GPUs mostly the first is measured.

    Exit status: 0 all done; 1 some points failed, or the disk was full; 2 the call was wrong;
    3 some data were wrong; 130 and 143 ended by Ctrl-C or SIGTERM. What was measured is kept:
    --resume --out DIR continues the run.

    Example: firsttouch run latency --device cpu --set size=4KiB,1MiB --out first
    """
    from firsttouch.engine.request import RunOptions
    from firsttouch.engine.values import parse_sets
    from firsttouch.engine.work_kinds import RUN

    options = RunOptions(
        experiments=experiments or [],
        devices=changed_devices(device, what_if),
        preset=preset,
        set=parse_sets(sets or []),
        out=out,
        resume=resume,
        retry=retry,
        timeout=timeout,
        seed=seed,
        events=events,
        counters=counters,
        trust=trust_in(trust_verified),
        modules=[str(file.absolute()) for file in module or []],
        allow_oversubscription=allow_oversubscription,
        ranks=ranks,
        launcher=launcher,
        wait=wait,
    )
    if list_only:
        show_list(RUN, options, as_json)
    else:
        raise typer.Exit(measure(RUN, options, as_json))


def trust_in(directory: Path | None) -> Callable[[Sequence[DeviceInfo]], list[DeviceInfo]] | None:
    """The function that applies --trust-verified, or None. Raises UsageError if the directory holds no methods.json."""
    if directory is None:
        return None
    from firsttouch.engine.verified import read_verified_facts

    return read_verified_facts(directory).apply


def measure(
    work: Work,
    options: RunOptions,
    as_json: bool,
    show: Callable[[RunOutcome], None] | None = None,
    *,
    explain: bool = False,
) -> int:
    """Carries out a call and returns the exit status. show: prints the outcome before the first screen, instead of
    the findings after it. explain: whether predictions are explained.
    """
    from firsttouch.cli.progress import RunProgress
    from firsttouch.engine.runner import run

    progress = RunProgress()
    try:
        with code_of_modules(options.modules, options.timeout):
            try:
                outcome = run(work, options, progress)
            finally:
                progress.end()
    except KeyboardInterrupt as error:
        status = error.status if isinstance(error, Terminated) else 130
        print_failure(f"interrupted{_kept(progress, work) or ' before the first point'}", status, as_json, work.name)
        return status
    except UsageError as error:
        if not (kept := _kept(progress, work)):
            raise
        print_failure(f"{error}{kept}", 1, as_json, work.name)
        return 1
    with code_of_modules(options.modules, options.timeout):
        if explain:
            commands.explained(work, outcome)
        result = commands.measured(outcome)
    if as_json:
        print_json(result.output)
    else:
        if show is not None:
            show(outcome)
            first_findings.show_first_screen(result.value.conclusions)
        else:
            first_findings.show(result.value.conclusions)
        first_findings.show_suspect(outcome.suspect)
        print_stdout(str(outcome.report or outcome.directory))
        print_stdout(f"Next: {next_command(work, result.value, options.modules)}")
    return outcome.exit_status


def _kept(progress: RunProgress, work: Work) -> str:
    """How many points a run that ended early has kept, and how to continue it; '' before its first point."""
    if progress.directory is None:
        return ""
    from firsttouch.records.text import count

    call = f"firsttouch {work.name} --resume --out {shlex.quote(str(progress.directory))}"
    return f"; {count(progress.kept, 'point')} kept. Continue with: {call}"


def show_list(work: Work, options: RunOptions, as_json: bool) -> None:
    """Prints the output of --list."""
    with code_of_modules(options.modules, options.timeout):
        result = commands.listed(work, options)
    if as_json:
        print_json(result.output)
        return
    listing = result.value
    if options.experiments:
        for line in listing.lines:
            print_stdout(line)
        return
    first = max(map(len, listing.titles), default=0) + 2
    for name, title in listing.titles.items():
        room = max(20, text_width() - first)
        print_stdout(f"{name:{first}}{textwrap.shorten(title, room, placeholder=' ...')}")
    print_stdout(listing.output.summary)
    print_stdout(f"firsttouch {work.name} NAME --list has the factors of one, and what --set accepts")
