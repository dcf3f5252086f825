"""Phases: the ranges that a target names, by the order in which they begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firsttouch.profile import schema


@dataclass(frozen=True)
class TargetPhase:
    """A range of time with a name. depth: how many ranges of the same thread (or, of ranges that are not nested by
    thread, of the same process) it lies in. source: 'python', 'mark', 'nvtx' or 'app', or 'found' for a span in which
    memory rises, falls or stays level. open: its end was not seen.
    """

    name: str
    start: float
    end: float
    depth: int = 0
    pid: int = 0
    thread: int = 0
    source: str = ""
    domain: str = ""
    open: bool = False

    @property
    def seconds(self) -> float:
        return self.end - self.start


LIBRARY_DOMAINS: Mapping[str, str] = {
    "TSL": "XLA (JAX, TensorFlow)",
    "NCCL": "NCCL",
    "CCCL": "CCCL (Thrust, CUB)",
    "libcudf": "cuDF",
    "cuBLAS": "cuBLAS",
    "cuBLASLt": "cuBLAS",
    "cuDNN": "cuDNN",
    "cuSOLVER": "cuSOLVER",
    "cuSPARSE": "cuSPARSE",
    "cuTENSOR": "cuTENSOR",
    "TensorRT": "TensorRT",
    "NVSHMEM": "NVSHMEM",
}
"""Domains in which libraries name ranges of their own, and the libraries. XLA alone has hundreds, one for each pass of
its compiler. Source: the libraries' calls of nvtxDomainCreateA.
"""


def is_of_a_library(phase: TargetPhase) -> bool:
    return phase.source == "nvtx" and phase.domain in LIBRARY_DOMAINS


def ranges(marks: Iterable[schema.Mark], until: float) -> list[TargetPhase]:
    """The ranges of marks in the order of time. Those that did not end last until `until`; ends without a begin are
    ignored. A new mark of `firsttouch mark` ends the one before.
    """
    stacks: dict[tuple[object, ...], list[schema.Mark]] = {}
    single: dict[tuple[object, ...], schema.Mark] = {}
    phases: list[TargetPhase] = []

    def close(mark: schema.Mark, end: float, depth: int, *, is_open: bool = False) -> None:
        phases.append(
            TargetPhase(
                mark.name, mark.t, max(end, mark.t), depth, mark.pid, mark.thread, mark.source, mark.domain, is_open
            )
        )

    for mark in marks:
        if mark.kind == "instant":
            continue
        if mark.source == "mark":
            if before := single.pop(("mark",), None):
                close(before, mark.t, 0)
            if mark.kind == "begin":
                single["mark",] = mark
        elif mark.range >= 0:
            key = (mark.source, mark.domain, mark.pid, mark.range)
            if mark.kind == "begin":
                single[key] = mark
            elif begun := single.pop(key, None):
                close(begun, mark.t, 0)
        else:
            stack = stacks.setdefault((mark.source, mark.domain, mark.pid, mark.thread), [])
            if mark.kind == "begin":
                stack.append(mark)
            elif stack:
                close(stack.pop(), mark.t, len(stack))
    for stack in stacks.values():
        for depth, mark in enumerate(stack):
            close(mark, until, depth, is_open=True)
    for mark in single.values():
        close(mark, until, 0, is_open=True)
    return sorted(phases, key=lambda phase: (phase.start, phase.depth))
