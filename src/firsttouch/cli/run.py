"""firsttouch run: runs experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.cli.declaration import declare
from firsttouch.cli.measured import Measured, measure, measure_in_terminal, show_list
from firsttouch.cli.options import (
    AllowOversubscriptionOption,
    DevicesOption,
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
    from firsttouch.records.schema import DeviceInfo


@declare(
    "run",
    "Measure this machine, and write a report.",
    {"run": "cli.schemas:RunOutput", "run-list": "engine.plan:ExperimentsOutput"},
    kind=WaitingCommand,
)
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
    no_report: NoReportOption = False,
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
) -> RunOptions:
    """Measure this machine, print what was found, and write results.jsonl, machine.json and report.html.

    Without arguments: all experiments on all devices, with preset quick; of equal GPUs mostly the first is measured.

    Exit status: 0 all done; 1 some points failed, or the disk was full; 2 the call was wrong;
    3 some data were wrong; 130 and 143 ended by Ctrl-C or SIGTERM. What was measured is kept:
    --resume --out DIR continues the run.

    Example: firsttouch run latency --device cpu --set size=4KiB,1MiB --out first
    """
    from firsttouch.engine.request import RunOptions
    from firsttouch.engine.values import parse_sets

    return RunOptions(
        experiments=experiments or [],
        devices=changed_devices(device, what_if),
        preset=preset,
        set=parse_sets(sets or []),
        out=out,
        report=not no_report,
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


@command.in_terminal
def _in_terminal(
    options: RunOptions,
    as_json: bool,
    list_only: Annotated[
        bool, typer.Option("--list", help="List experiments with their factors and devices; measure nothing.")
    ] = False,
) -> int:
    from firsttouch.engine.work_kinds import RUN

    if list_only:
        show_list(RUN, options, as_json)
        return 0
    return measure_in_terminal(RUN, options, as_json)


@command.in_python
def _in_python(options: RunOptions) -> Measured:
    from firsttouch.engine.work_kinds import RUN

    return measure(RUN, options)


def trust_in(directory: Path | None) -> Callable[[Sequence[DeviceInfo]], list[DeviceInfo]] | None:
    """The function that applies --trust-verified, or None. Raises UsageError if the directory holds no methods.json."""
    if directory is None:
        return None
    from firsttouch.engine.verified import read_verified_facts

    return read_verified_facts(directory).apply
