"""Options that several commands share, and parsers for their values. An invalid value raises UsageError with a message
that says what is accepted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from firsttouch.errors import UsageError


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
        raise UsageError(
            "a path is empty; give one to --out, --output, --module or --trust-verified, or leave the option out"
        )
    return Path(text)


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
ResumeOption: TypeAlias = Annotated[
    bool,
    typer.Option("--resume", help="Continue the run in --out; points that crashed or timed out are tried once more."),
]
RetryOption: TypeAlias = Annotated[
    bool, typer.Option("--retry", help="With --resume: try all points again that crashed, timed out or failed.")
]
RanksOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        parser=ranks,
        metavar="N",
        help="Let up to N processes carry out points together, where an experiment has such points. Needs mpi4py.",
    ),
]
LauncherOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help='Start these processes with this command, such as "srun -n {ranks}"; default: the mpirun beside mpi4py.',
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
        help="Use the methods.json that `methods --verify --out DIR` wrote for what drivers do not state.",
    ),
]
AllowOversubscriptionOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--allow-oversubscription",
        help="Let managed memory exceed the free memory of the device, which may hang the device.",
    ),
]
AsJsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, and nothing else there.")
]
