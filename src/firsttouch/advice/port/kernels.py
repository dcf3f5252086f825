"""Which bytes of each block the kernels of a program use, as a second run told (program/exact.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from firsttouch.advice.port.places import Places
from firsttouch.advice.port.port_findings import KernelBytes, KernelUse
from firsttouch.base.errors import UsageError
from firsttouch.profile.content import Profile
from firsttouch.profile.exact import FOLDER
from firsttouch.profile.reading import read
from firsttouch.profile.symbols.names import kernel_name
from firsttouch.program.exact_run import ExactRun
from firsttouch.program.trace import TracedLaunch, TracedRun


def kernel_use(profile: Profile, run: TracedRun) -> KernelUse | None:
    """What the second run of a profile told; None if there was none."""
    exact = run.exact
    if exact is None:
        return None
    return KernelUse(
        launches=exact.launches,
        matched=exact.matched,
        recorded=exact.recorded,
        alike=exact.alike,
        varying=exact.varying,
        outside=exact.outside,
        elsewhere=exact.elsewhere,
        opaque=exact.opaque,
        graphs=exact.graphs,
        slowdown=_slowdown(profile),
        ended=exact.ended,
        notices=exact.notices,
        kernels=kernel_bytes(run, exact, Places(profile.callers)),
    )


def _slowdown(profile: Profile) -> float | None:
    with suppress(UsageError):
        second = read(profile.directory / FOLDER)
        if profile.end and second.end and profile.end.t > 0:
            return round(second.end.t / profile.end.t, 2)
    return None


def kernel_bytes(run: TracedRun, exact: ExactRun, places: Places) -> Sequence[KernelBytes]:
    """What each kernel used of each block, by how much; those that left most out first."""
    counts = Counter[tuple[str, int, int, int, int]]()
    for number, blocks in exact.uses.items():
        step = run.steps[number]
        if not isinstance(step, TracedLaunch):
            continue
        for used in (used for used in blocks if not used.assumed):
            counts[step.kernel, used.block, used.used, used.read, used.written] += 1
    rows = [
        KernelBytes(
            kernel=kernel_name(kernel),
            block=number,
            place=places.of(run.blocks[number].site),
            bytes=run.blocks[number].nbytes,
            launches=launches,
            used=used,
            read=read_bytes,
            written=written,
        )
        for (kernel, number, used, read_bytes, written), launches in counts.items()
    ]
    return sorted(rows, key=lambda row: (row.used - row.bytes, row.block))
