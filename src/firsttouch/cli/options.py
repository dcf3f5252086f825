"""Options that several commands share, and parsers for their values. An invalid value raises UsageError with a message
that says what is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand

from firsttouch.base.errors import UsageError


def seconds(text: str) -> float:
    """Parses the value of --timeout."""
    from firsttouch.records.schema import LONGEST_TIMEOUT

    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= LONGEST_TIMEOUT:
        raise UsageError(f"--timeout '{text}' is not a number of seconds, more than 0 and at most {LONGEST_TIMEOUT:g}")
    return value


def seed(text: str) -> int:
    """Parses the value of --seed."""
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
    if not 0 <= value < 2**63:
        raise UsageError(f"--seed '{text}' is not a whole number from 0 to 2^63 - 1")
    return value


def ranks(text: str) -> int:
    """Parses the value of --ranks."""
    from firsttouch.records.schema import MOST_RANKS

    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    if not 1 <= value <= MOST_RANKS:
        raise UsageError(f"--ranks '{text:.40}' is not a whole number of processes from 1 to {MOST_RANKS}")
    return value


def path(text: str) -> Path:
    """Parses the value of --out, --output, --module or --trust-verified."""
    if not text.strip():
        raise UsageError("a path is empty; give one, or leave its option out")
    return Path(text)


def process_of(option: str) -> Callable[[str], int]:
    """A parser for the value of an option that is the number of a process."""

    def process(text: str) -> int:
        value = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
        if value < 1:
            raise UsageError(f"{option} '{text:.40}' is not the number of a process")
        return value

    return process


def minutes(text: str) -> float:
    """Parses the value of --wait."""
    from firsttouch.engine.quiet import MOST_MINUTES

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= MOST_MINUTES:
        raise UsageError(f"--wait '{text:.40}' is not a number of minutes from 0 to {MOST_MINUTES:g}")
    return value


def changed_devices(devices: list[str] | None, what_if: list[str] | None, kernels: str | None = None) -> list[str]:
    """The devices of a call, with those that --what-if adds, and with --kernels."""
    if not what_if and kernels is None:
        return devices or []
    from firsttouch.model.what_if import with_changes, with_kernels

    return with_kernels(with_changes(devices or [], what_if or []), kernels)


class WaitingCommand(TyperCommand):
    """Lets --wait stand without a value: the next word is one only if it is a number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from firsttouch.engine.quiet import MINUTES

        last = args.index("--") if "--" in args else len(args)
        for place in [place for place in range(last) if args[place] == "--wait"]:
            following = args[place + 1 : place + 2]
            if not (following and re.fullmatch(r"[0-9.]+", following[0])):
                args[place] = f"--wait={MINUTES:g}"
        return super().parse_args(ctx, args)


_PROGRAM = "firsttouch.program"


class ProgramCommand(TyperCommand):
    """Keeps what comes behind '--' apart, as the command line of a program: `program_of` has it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[_PROGRAM] = args[place + 1 :]
        return super().parse_args(ctx, args[:place])


def program_of(context: typer.Context) -> list[str]:
    """The command line behind '--', in a call of a `ProgramCommand`."""
    command: list[str] = context.meta.get(_PROGRAM, [])
    return command


DevicesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--device", metavar="DEVICE", help="Such as cpu, opencl:0, cuda:0 or hip:0; may be repeated."),
]
OutOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--out", parser=path, metavar="DIR", help="Directory of the results; default: firsttouch-results/HOST-DATE."
    ),
]
NoReportOption: TypeAlias = Annotated[
    bool, typer.Option("--no-report", help="Write no report.html; `firsttouch report DIR` writes it later.")
]
ResumeOption: TypeAlias = Annotated[
    bool,
    typer.Option("--resume", help="Continue the run in --out; points that crashed or timed out are tried once more."),
]
RetryOption: TypeAlias = Annotated[
    bool,
    typer.Option("--retry", help="With --resume: also try all points again that crashed, timed out or failed before."),
]
RanksOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        parser=ranks,
        metavar="N",
        help="Run points that need several processes with up to N of them. Needs mpi4py.",
    ),
]
LauncherOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help='Command that starts these processes, such as "srun -n {ranks}"; default: the mpirun of mpi4py.',
    ),
]
SeedOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--seed", parser=seed, metavar="N", help="Seed of all random data and orders; default: 1."),
]
TrustVerifiedOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--trust-verified",
        parser=path,
        metavar="DIR",
        help="Where drivers do not report a property, use what `methods --verify --out DIR` found.",
    ),
]
WaitOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--wait",
        parser=minutes,
        metavar="[=MINUTES]",
        help="First wait until other programs use less than a tenth of the CPU, for at most 10 minutes or this many.",
    ),
]
AllowOversubscriptionOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--allow-oversubscription",
        help="Let managed memory exceed the free memory of the device, which may hang the device.",
    ),
]
WhatIfOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="NAME=V1,V2",
        help="Change a value of a modelled machine; each value makes a separate machine. May be repeated.",
    ),
]
AsJsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, and nothing else there.")
]
