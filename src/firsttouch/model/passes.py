"""What passes over one buffer of managed memory move, step by step, as the experiment migration makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firsttouch.model.managed import ManagedMemory, PageMoves
from firsttouch.model.pages import IN_ORDER, PARALLEL, Counts, Kind, shares

if TYPE_CHECKING:
    from firsttouch.program.declarations import Agent

WORD = 8
"""Bytes of the words in which the CPU's threads share the buffer (base/kernels/migration.c)."""


@dataclass(frozen=True)
class BufferPasses:
    """BufferPasses of a kernel over a buffer, and what comes before and after them.

    stride: bytes of which one page is touched, if there are as many left. in_order: by one thread. advice: given when
    the pages are there. prefetch: none, whole, iteration or back, as of the experiment. threads: of the CPU.
    """

    nbytes: int
    stride: int
    in_order: bool
    writes: bool
    advice: Sequence[str]
    prefetch: str
    starts_on: Agent
    iterations: int
    threads: int


def moves_by_step(passes: BufferPasses, kind: Kind) -> dict[str, PageMoves]:
    """What moves in each step of a repetition, by its name in the records of migration."""
    memory, parts = ManagedMemory(kind), shares(passes.nbytes, passes.threads, WORD)
    touched = passes.nbytes // passes.stride * passes.stride if passes.stride else passes.nbytes
    order = IN_ORDER if passes.in_order else PARALLEL
    moves: dict[str, PageMoves] = {}

    def step(name: str) -> PageMoves:
        return moves.setdefault(name, PageMoves(kind.page))

    memory.allocate(0, passes.nbytes)
    if passes.starts_on == "cpu":
        memory.touch(0, "cpu", parts, step("initialise"), step("evict"), writes=True)
    else:
        memory.touch(0, "gpu", [(0, passes.nbytes)], step("initialise"), step("evict"), writes=True, order=PARALLEL)
    for hint in passes.advice:
        memory.advise(0, hint, step("advise"))
    if passes.prefetch == "whole":
        memory.prefetch(0, "gpu", step("prefetch"), step("evict"))
    for number in range(passes.iterations):
        name = f"iteration_{number}"
        if passes.prefetch == "iteration":
            memory.prefetch(0, "gpu", step(name + "_prefetch"), step("evict"))
        memory.touch(
            0,
            "gpu",
            [(0, touched)],
            step(name),
            step("evict"),
            writes=passes.writes,
            order=order,
            stride=passes.stride,
        )
    if passes.prefetch == "back":
        memory.prefetch(0, "cpu", step("prefetch_back"), step("evict"))
    memory.touch(0, "cpu", parts, step("cpu_read"), step("evict"), writes=False)
    return moves


def event_counters(moves: dict[str, PageMoves]) -> dict[str, int]:
    """The counters that migration has of a repetition's events, but for the times (profile/events/steps.py)."""
    counters: dict[str, int] = {}
    compute = Counts()
    for name, each in moves.items():
        called = "prefetch" in name
        counts = each.counts._replace(faulted_to_gpu=0, faulted_to_cpu=0) if called else each.counts
        if name.startswith("iteration_"):
            compute = compute.plus(counts)
            if not called:
                counters[f"{name}_gpu_fault_groups"] = counts.services
            continue
        counters |= _of(name, counts, each.page)
    page = next(iter(moves.values())).page
    return counters | _of("compute", compute, page)


def _of(step: str, counts: Counts, page: int) -> dict[str, int]:
    by_cpu = step in ("initialise", "cpu_read") and counts.services and not counts.new_gpu
    return {
        f"{step}_h2d_migrations": counts.copies_to_gpu,
        f"{step}_h2d_bytes": counts.to_gpu * page,
        f"{step}_h2d_fault_bytes": counts.faulted_to_gpu * page,
        f"{step}_d2h_migrations": counts.copies_to_cpu,
        f"{step}_d2h_bytes": counts.to_cpu * page,
        f"{step}_d2h_fault_bytes": counts.faulted_to_cpu * page,
        f"{step}_cpu_faults": counts.services if by_cpu else 0,
        f"{step}_gpu_fault_groups": counts.services if counts.faults and not by_cpu else 0,
    }
