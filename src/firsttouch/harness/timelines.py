"""Memory over time: what a worker notes for a point whose memory is sampled from outside (engine/sampled.py)."""

from __future__ import annotations

from itertools import pairwise

from firsttouch.experiments.contract.base import Factor
from firsttouch.harness.measure import Run
from firsttouch.harness.outcomes.derive import EVENTS, ON, TIMELINE
from firsttouch.records.schema import Factors, Scalar
from firsttouch.records.timeline import NamedInterval

SETTING = Factor(TIMELINE, ("off", "on"), doc="sample host and device memory over time")
REST = 0.1
"""Seconds without work before each repetition, so that what is in use then is read."""
MOST_ITERATIONS = 200


def is_wanted(factors: Factors) -> bool:
    return factors.get(SETTING.name) == "on"


def takes_steps(factors: Factors) -> bool:
    """Whether the samples are followed by a run that waits after each iteration to read the memory in use. Where events
    are recorded, they are those of the samples.
    """
    return is_wanted(factors) and factors.get(EVENTS) != ON


def in_use_by_iteration(run: Run) -> dict[str, Scalar]:
    """The memory in use at the end of each iteration, of a run that waited for it."""
    return {
        f"memory_iteration_{i}_{side}_bytes": reading[side]
        for i, reading in enumerate(run.in_use)
        for side in ("host", "device")
        if side in reading
    }


def spans(run: Run) -> list[NamedInterval]:
    """The phases of a run from the first allocation to the end of readback, each followed by its iterations.

    Iterations are timed by the device's clock. They lie where they were over by the processor's.
    """
    spans: list[NamedInterval] = []
    for name, start, end in run.spans:
        if name == "free":
            continue
        spans.append((name, start, end))
        if name == "compute":
            spans += _iteration_intervals(run, start, end)
    return spans


def _iteration_intervals(run: Run, start: float, end: float) -> list[NamedInterval]:
    """The iterations; empty if there are many, if groups of them were timed, or if there is only one."""
    ends = run.iteration_ends
    if not 2 < len(ends) <= MOST_ITERATIONS + 1 or run.marked != len(ends) - 1:
        return []
    within = [min(max(t, start), end) for t in ends]
    return [(f"iteration {i}", a, b) for i, (a, b) in enumerate(pairwise(within)) if b > start]
