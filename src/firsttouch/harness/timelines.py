"""Memory over time: what a worker notes for a point whose memory is sampled from outside (engine/sampled.py)."""

from __future__ import annotations

from itertools import accumulate

from firsttouch.experiment.base import Factor
from firsttouch.harness.measure import Run
from firsttouch.outcomes.derive import TIMELINE
from firsttouch.records.schema import Factors
from firsttouch.records.timeline import NamedInterval

SETTING = Factor(TIMELINE, ("off", "on"), doc="sample host and device memory over time")
REST = 0.1
"""Seconds without work before each repetition, so that what is in use then is read."""
MOST_ITERATIONS = 200
_TWO_CLOCKS = 0.01
"""By how much the sum of all iterations may differ from their total if each was timed by itself."""


def is_wanted(factors: Factors) -> bool:
    return factors.get(SETTING.name) == "on"


def spans(run: Run) -> list[NamedInterval]:
    """The phases of a run from the first allocation to the end of readback, each followed by its iterations.

    Iterations are timed by the device's clock, which says how long they took but not when. They are placed one after
    another, so that the last one ends with the phase compute.
    """
    spans: list[NamedInterval] = []
    for name, start, end in run.spans:
        if name == "free":
            continue
        spans.append((name, start, end))
        if name == "compute":
            spans += _iterations(run, start, end)
    return spans


def _iterations(run: Run, start: float, end: float) -> list[NamedInterval]:
    """None if there are many, if groups of them were timed, or if there is a single one."""
    each = run.iterations
    if not 1 < len(each) <= MOST_ITERATIONS or abs(sum(each) - run.iterations_total) > _TWO_CLOCKS * sum(each):
        return []
    ends = [*accumulate(each, initial=end - sum(each))]
    return [
        (f"iteration {i}", max(start, ends[i]), min(end, ends[i + 1])) for i in range(len(each)) if ends[i + 1] > start
    ]
