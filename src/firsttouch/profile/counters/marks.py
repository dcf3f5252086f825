"""Which launches belong to which iteration: kernels that do nothing mark their bounds in the list of launches.

A profiler lists launches in their order, with the names of their kernels. While an application is counted, its phase
compute and its iterations begin and end with a launch of one of these kernels (harness/counting.py). So launches need
no number that is known before: a library call, or a list of launches that the core replays, may have any.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from firsttouch.profile.counters.tool import (
    KERNEL_TIME,
    KERNELS,
    OF_ITERATION,
    PREFIX,
    KernelCounts,
    RefusedError,
    add_up,
    evaluate,
)
from firsttouch.records.schema import Scalar

PHASE_MARK, ITERATION_MARK = "firsttouch_mark_phase", "firsttouch_mark_iteration"
"""The beginnings of the names of the kernels that mark both ends of the phase, and the ends of iterations. Some tools
append signatures or ".kd" to names.
"""
ITERATIONS = "hw_iterations"
"""The counter that holds how many iterations were marked, several of them together if there are many."""


def in_phase(launches: Sequence[KernelCounts]) -> Sequence[KernelCounts]:
    """The launches between the marks of the phase. Raises RefusedError if they are not there."""
    at = [place for place, launch in enumerate(launches) if launch.kernel.startswith(PHASE_MARK)]
    if len(at) != 2:
        raise RefusedError(
            f"the profiler counted {len(at)} of the 2 marks around the phase compute, so its launches are not known"
        )
    return launches[at[0] + 1 : at[1]]


def by_iteration(phase: Sequence[KernelCounts], groups: int) -> list[Sequence[KernelCounts]]:
    """The launches of each of the last `groups` iterations of a phase, or groups of them that were marked together."""
    at = [place for place, launch in enumerate(phase) if launch.kernel.startswith(ITERATION_MARK)]
    if not groups:
        return []
    if len(at) <= groups:
        raise RefusedError(
            f"the profiler counted {len(at)} marks for {groups} iterations, so their launches are not known"
        )
    return [phase[a + 1 : b] for a, b in pairwise(at[-groups - 1 :])]


def counters(
    forms: Mapping[str, Mapping[str, float]], launches: Sequence[KernelCounts], groups: int, iterations: int
) -> dict[str, Scalar]:
    """The counters of an application: sums over the kernels of its phase compute, and those of each iteration, as
    hw_iteration_N_l2_bytes. Of iterations that were marked together they are means.
    """
    phase = in_phase(launches)
    sums = _sums(forms, phase)
    each = math.ceil(iterations / groups) if groups else 1
    for i, group in enumerate(by_iteration(phase, groups)):
        share = min(each, iterations - i * each)
        group_sums = _sums(forms, group)
        for name, value in (group_sums if group_sums[KERNELS] else dict.fromkeys(sums, 0)).items():
            if name != KERNELS and isinstance(value, int | float):
                sums[f"{OF_ITERATION}{i}_{name.removeprefix(PREFIX)}"] = value if share == 1 else value / share
    return sums


def _sums(forms: Mapping[str, Mapping[str, float]], launches: Sequence[KernelCounts]) -> dict[str, Scalar]:
    reading = add_up([launch for launch in launches if not launch.kernel.startswith((PHASE_MARK, ITERATION_MARK))])
    time = {} if reading.ms is None else {KERNEL_TIME: reading.ms}
    return {KERNELS: reading.kernels or 0, **time, **evaluate(forms, reading)}
