"""Waits for the device of which a trace has no record, such as for a function that CUDA calls when work has ended.

A copy to the host that does not block, into bytes that are then the source of a copy to the device, tells of one: the
CPU cannot have prepared other bytes there before the first copy had ended, or that would have overwritten them. If the
time was too short for the work that the copy comes after, the program did not wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import TypeAlias

from firsttouch.program.partners import joined
from firsttouch.program.range_map import RangeMap
from firsttouch.program.trace import TracedCopy, TracedLaunch, TracedRun, TracedStep, beside_launches, is_wait

UnrecordedWaits: TypeAlias = Mapping[int, int]
"""By the steps before which the CPU has waited: the last step for whose work it has."""


def unrecorded_waits(run: TracedRun) -> UnrecordedWaits:
    """Take it with `run.once`."""
    if not (reused := _reused_targets(run)):
        return {}
    ends = _earliest_ends(run, {*reused.values()})
    return {number: last for number, last in reused.items() if ends[last] <= _began(run.steps[number])}


def are_told_by_times(run: TracedRun) -> bool:
    """Whether there may be such waits, of which only the times of each copy tell."""
    return bool(_reused_targets(run))


def _reused_targets(run: TracedRun) -> dict[int, int]:
    """By copies to the device of bytes that changed: the copy to the host that filled these bytes, without blocking and
    without a wait since then; the first one of several.
    """
    reused: dict[int, int] = {}
    filling: RangeMap[int] = RangeMap()
    samples: dict[tuple[int, int, int], int] = {}
    for number, step in run.once(beside_launches):
        if is_wait(step):
            filling.clear()
        if not isinstance(step, TracedCopy) or step.way not in ("h2d", "d2h") or step.call.captured:
            continue
        if step.way == "d2h":
            for start, end, host in joined(step) if not step.call.blocking else ():
                filling.assign(host, host + end - start, number)
            continue
        key, now = (step.call.source, step.device.nbytes, step.device.rows), step.call.sample
        before = samples.get(key)
        if now is None:
            continue
        samples[key] = now
        filled = [
            (min(last, host + end - start) - max(first, host), copy)
            for start, end, host in joined(step)
            for first, last, copy in filling.overlapping(host, host + end - start)
        ]
        if sum(size for size, _ in filled) < step.device.total or before == now:
            continue
        first = min(copy for _, copy in filled)
        if before is not None or _stream(run, first) != step.call.stream:  # else what came to the host may go back
            reused[number] = first
    return reused


def _earliest_ends(run: TracedRun, copies: Collection[int]) -> dict[int, float]:
    """When some copies can have ended at the earliest: work that names a block follows earlier work that does."""
    ends: dict[int, float] = {}
    busy: dict[int, float] = {}
    """Until when, by block."""
    for number, step in enumerate(run.steps):
        if is_wait(step):
            busy.clear()
        if not isinstance(step, TracedLaunch | TracedCopy) or step.call.captured:
            continue
        seconds, blocks = run.seconds(step), _blocks(step)
        end = max([_began(step), *(busy[block] for block in blocks if block in busy)]) + (seconds or 0.0)
        busy.update(dict.fromkeys(blocks, end))
        if number in copies:
            ends[number] = end if seconds is not None else inf
    return ends


def _blocks(step: TracedLaunch | TracedCopy) -> list[int]:
    """The blocks of the device that a step names."""
    if isinstance(step, TracedLaunch):
        return [use.block for use in step.uses]
    return [step.source.block, step.target.block] if step.way == "d2d" else [step.device.block]


def _began(step: TracedStep) -> float:
    assert isinstance(step, TracedLaunch | TracedCopy)
    return step.call.t if isinstance(step, TracedLaunch) or step.call.began is None else step.call.began


def _stream(run: TracedRun, number: int) -> int:
    step = run.steps[number]
    assert isinstance(step, TracedCopy)
    return step.call.stream
