"""firsttouch app: runs applications under memory strategies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.cli.declaration import declare
from firsttouch.cli.measured import Measured, check_explained, measure, measure_in_terminal, show_list
from firsttouch.cli.options import (
    AllowOversubscriptionOption,
    LauncherOption,
    NoReportOption,
    OutOption,
    RanksOption,
    ResumeOption,
    RetryOption,
    SeedOption,
    TrustVerifiedOption,
    WaitingCommand,
    WaitOption,
    WhatIfOption,
    changed_devices,
    path,
    seconds,
)

if TYPE_CHECKING:
    from firsttouch.engine.request import RunOptions
    from firsttouch.engine.runner import RunOutcome


@declare(
    "app",
    "Run applications under memory strategies.",
    {"app": "cli.schemas:AppOutput", "app-list": "harness.experiment:ApplicationsOutput"},
    function="run_app",
    kind=WaitingCommand,
)
def command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Which applications.")] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option("--strategy", metavar="STRATEGY", help="Such as explicit or managed+prefetch; may be repeated."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="tiny, default, in-memory, oversubscribed, or bytes of all buffers, such as 4GiB."),
        "int | str",
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Device memory that an application may use, such as 8GiB."), "int | str"
    ] = None,
    oversubscribe: Annotated[
        str | None,
        typer.Option(metavar="R", help="Occupy device memory so that only 1/R of the application's buffers fits."),
        "float | str",
    ] = None,
    allow_oversubscription: AllowOversubscriptionOption = False,
    iterations: Annotated[
        str | None, typer.Option(help="Number of iterations; default: that of the size."), "int | str"
    ] = None,
    repeat: Annotated[str | None, typer.Option(help="Runs of each point; default: 3."), "int | str"] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FACTOR=V1,V2",
            help="pages=policy,base,huge; initialise=parallel,single; events=on; kernel_times=on; or "
            "a parameter of the application.",
        ),
    ] = None,
    relative_to: Annotated[
        str | None,
        typer.Option(
            "--relative-to",
            metavar="STRATEGY",
            help="The strategy that others are compared with; default: explicit. Works with --resume, "
            "without measuring again.",
        ),
    ] = None,
    timeline: Annotated[
        bool,
        typer.Option("--timeline", help="Sample host and device memory over time, with phases and iterations."),
    ] = False,
    placements: Annotated[
        bool,
        typer.Option(
            "--placements",
            help="Try other advice and prefetches for single buffers, and rank them beside the strategies.",
        ),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show where the predicted time goes, which values of the platform matter most, and "
            "when another strategy becomes the fastest.",
        ),
    ] = False,
    device: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="DEVICE", help="Such as cuda:0 or opencl:0; may be repeated."),
    ] = None,
    what_if: WhatIfOption = None,
    counters: Annotated[
        bool,
        typer.Option(
            "--counters",
            help="Run each point once more under the vendor's profiler (ncu, rocprofv3): bytes by iteration and tier.",
        ),
    ] = False,
    kernels: Annotated[
        str | None,
        typer.Option(
            "--kernels", metavar="DIR", help="Predict with kernel times from your own runs of explicit and pinned."
        ),
    ] = None,
    module: Annotated[
        list[Path] | None, typer.Option("--module", parser=path, metavar="FILE", help="Applications of your own.")
    ] = None,
    out: OutOption = None,
    no_report: NoReportOption = False,
    resume: ResumeOption = False,
    retry: RetryOption = False,
    timeout: Annotated[
        float | None,
        typer.Option(parser=seconds, metavar="SECONDS", help="Seconds that one point may take; default: 600."),
    ] = None,
    seed: SeedOption = None,
    ranks: RanksOption = None,
    launcher: LauncherOption = "",
    trust_verified: TrustVerifiedOption = None,
    wait: WaitOption = None,
) -> RunOptions:
    """Run applications under memory strategies, and report phases, memory, migrations and whether the result is right.

    Every point runs in its own process and is verified. The summary and the report compare the time and memory of each
    strategy with those of `explicit`, or of the strategy of --relative-to.

    Exit status: 0 all done; 1 some points failed, or the disk was full; 2 the call was wrong;
    3 some results were wrong; 130 and 143 ended by Ctrl-C or SIGTERM. What was measured is
    kept: --resume --out DIR continues the run.

    Example: firsttouch app hotspot --size tiny --out first
    """
    from firsttouch.base.errors import UsageError
    from firsttouch.cli.run import trust_in
    from firsttouch.engine.request import RunOptions
    from firsttouch.engine.values import parse_sets

    single = {
        "size": size,
        "budget": budget,
        "oversubscribe": oversubscribe,
        "iterations": iterations,
        "repeat": repeat,
    }
    options_given = [*(("strategy", name) for name in strategy or []), *single.items()]
    words = [*options_given, ("relative-to", relative_to)]
    if blank := [name for name, value in words if value is not None and not value.strip()]:
        raise UsageError(f"--{blank[0]} is empty; give it a value or leave it out")
    named = [f"{name}={value}" for name, value in options_given if value is not None]
    named += ["timeline=on"] if timeline else []
    chosen = parse_sets([*named, *(sets or [])])
    if placements:
        from firsttouch.harness.placements import with_search

        chosen = with_search(chosen)
    return RunOptions(
        experiments=names or [],
        devices=changed_devices(device, what_if, kernels),
        set=chosen,
        out=out,
        report=not no_report,
        resume=resume,
        retry=retry,
        counters=counters,
        timeout=timeout,
        seed=seed,
        trust=trust_in(trust_verified),
        modules=[str(file.absolute()) for file in module or []],
        allow_oversubscription=allow_oversubscription,
        relative_to=relative_to or "",
        ranks=ranks,
        launcher=launcher,
        wait=wait,
    )


@command.in_terminal
def _in_terminal(
    options: RunOptions,
    as_json: bool,
    explain: bool,
    every: Annotated[bool, typer.Option("--all", help="All applications.")] = False,
    list_only: Annotated[bool, typer.Option("--list", help="List applications; run none.")] = False,
) -> int:
    from firsttouch.engine.work_kinds import APP

    options = replace(options, all_names=every)
    if list_only:
        show_list(APP, options, as_json)
        return 0
    if explain:
        check_explained(options.devices)
    return measure_in_terminal(APP, options, as_json, _show_explained if explain else _show, explain=explain)


@command.in_python
def _in_python(options: RunOptions, explain: bool) -> Measured:
    """Without names, all applications."""
    from firsttouch.engine.work_kinds import APP

    if explain:
        check_explained(options.devices)
    return measure(APP, replace(options, all_names=not options.experiments), explain=explain)


def _show_explained(outcome: RunOutcome) -> None:
    from firsttouch.cli.explained import show

    _show(outcome)
    show(outcome.summary["explanations"])


def _show(outcome: RunOutcome) -> None:
    from firsttouch.cli import iterations
    from firsttouch.cli.summary import show, show_placements

    show(outcome.summary["applications"])
    iterations.show(outcome.summary["applications"])
    show_placements(outcome.summary["placements"])
