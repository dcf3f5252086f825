"""Spans in which memory rises, falls or stays level, for targets that name no phases.

Method: the curve is resampled to at most 1,024 equal steps of time, and if it has few ticks, to these, since steps that
repeat a reading would be stairs. The piecewise linear function with the least
squared error is found for each number of segments up to 12, by dynamic programming over all places of the change
points (optimal partitioning; Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE
Signal Processing Letters 12, 2005). The number of segments is the one with the least error plus a penalty for each
segment, as in Schwarz's criterion. The noise is that of second differences, or what 12 segments leave unexplained,
so that the teeth of an allocator are not taken for change points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from firsttouch.profile.curves import Curve
from firsttouch.profile.phases import TargetPhase
from firsttouch.records.timeline import NamedInterval

if TYPE_CHECKING:
    import numpy as np

    Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

SOURCE = "found"
RISING, FLAT, FALLING = "rising", "flat", "falling"
MOST_SPANS = 12
MOST_STEPS, FEWEST_STEPS = 1024, 256
FEWEST_OF_TICKS = 4
"""A curve of so many ticks, but fewer than FEWEST_STEPS, has a step for each tick."""
_NEAR = 0.6
"""Ticks around a change point in which a jump is looked for."""
LEAST_OF_RANGE, LEAST_OF_PEAK = 0.05, 0.02
"""The least change of a span that is not called flat, as a part of the curve's range and of its largest value."""
_PENALTY = 4.0
"""By how many variances times the logarithm of the number of steps a further segment must reduce the squared error."""
_ERRORS = 4.0
"""A span is flat unless its change is at least this many standard errors."""
_DOUBT = 4.0
"""The penalty is this many times as large if MOST_SPANS segments leave more than as many variances of noise
unexplained.
"""
_FLOOR = 0.1
"""The least noise that is assumed, as a part of the least change."""


_SURE = 6.0
"""A difference of two readings is a change if it is at least this many standard deviations of noise."""


@dataclass(frozen=True)
class _CurveSpan:
    """A span of time, and the values at its ends. error: the standard error of their difference."""

    start: float
    end: float
    first: float
    last: float
    error: float = 0.0

    @property
    def change(self) -> float:
        return self.last - self.first

    def name(self, least: float) -> str:
        if abs(self.change) < max(least, _ERRORS * self.error):
            return FLAT
        return RISING if self.change > 0 else FALLING


def found_phases(curve: Curve, start: float, end: float, tick: float = 0.0) -> list[TargetPhase]:
    """The spans of a curve from `start` to `end`, at most MOST_SPANS, without gaps between them. Neighbours have
    different names. A curve without significant change is one flat span; without readings it has none.

    tick: seconds between two readings, of which those that equal the one before may be absent.
    """
    readings = list(curve.within(start, end))
    if not readings or end <= start:
        return []
    begin, values = readings[0][0], [value for _, value in readings]
    least = max(
        LEAST_OF_RANGE * (max(values) - min(values)),
        LEAST_OF_PEAK * max(map(abs, values)),
    )
    if max(values) - min(values) <= least or end <= begin:
        return [TargetPhase(FLAT, begin, end, source=SOURCE)]
    few = math.ceil((end - begin) / tick) if tick > 0 else FEWEST_STEPS
    if FEWEST_OF_TICKS <= few < FEWEST_STEPS:
        y, repeated = _by_tick(curve, begin, tick, few), 1.0
        noise, near = _noise(y), _NEAR * tick
    else:
        steps = min(MOST_STEPS, max(FEWEST_STEPS, len(readings)))
        y, repeated = _resampled(readings, begin, end, steps), max(1.0, steps / len(readings))
        noise, near = _noise(_resampled(readings, begin, end, FEWEST_STEPS)), 4 * (end - begin) / MOST_STEPS
    spans = _joined(list(_with_jumps(_segments(y, begin, end, least, repeated), least)), least)
    while len(spans) > MOST_SPANS:
        spans = _joined(_join_least(spans), least)
    sure = max(2 * least, _SURE * noise)
    return _as_phases(_corrected_spans(curve, spans, least, sure, (end - begin) / MOST_STEPS, near))


def _noise(y: Numbers) -> float:
    """The standard deviation of noise on a curve that is smooth otherwise, by its second differences."""
    import numpy as np

    return float(np.median(np.abs(np.diff(y, 2)))) / 0.6745 / math.sqrt(6)


def _corrected_spans(
    curve: Curve, spans: list[_CurveSpan], least: float, sure: float, step: float, around: float
) -> Iterator[NamedInterval]:
    """The names and the ends of spans. An end within `around` of a jump is moved to the reading after it, so that one
    span has all of the jump. What was read at the ends overrules the fitted line where it is sure, or where the signs
    differ.
    """
    ends = [spans[0].start, *(span.end for span in spans)]
    for k in range(1, len(spans)):
        near = curve.within(ends[k] - around, ends[k] + around)
        jumps = [(abs(value - last), t) for (_, last), (t, value) in pairwise(near)]
        if jumps and max(jumps)[0] >= sure / 4:
            ends[k] = max(jumps)[1]
    for k in range(1, len(ends)):
        if ends[k] <= ends[k - 1]:
            ends[k - 1] = max(ends[k - 2] if k > 1 else ends[0], ends[k] - step)
    for span, (first, last) in zip(spans, pairwise(ends), strict=True):
        if last <= first:
            continue
        name, change = span.name(least), (curve.at(last) or 0.0) - (curve.at(first) or 0.0)
        if abs(change) >= sure and len(spans) > 1:
            name = RISING if change > 0 else FALLING
        elif change * span.change <= 0:
            name = FLAT
        yield name, first, last


def _as_phases(spans: Iterable[NamedInterval]) -> list[TargetPhase]:
    """The spans as phases, neighbours of one name as one."""
    phases: list[TargetPhase] = []
    for name, start, end in spans:
        if phases and phases[-1].name == name:
            phases[-1] = replace(phases[-1], end=end)
        else:
            phases.append(TargetPhase(name, start, end, source=SOURCE))
    return phases


def _segments(y: Numbers, start: float, end: float, least: float, repeated: float) -> list[_CurveSpan]:
    """The segments of the best piecewise linear function, with its values at their ends. repeated: how many steps of y
    hold one reading, and so tell nothing new.
    """
    import numpy as np

    steps = len(y)
    scale = float(np.abs(y).max()) or 1.0
    costs = _costs(y / scale)
    most = min(MOST_SPANS, steps // 4)
    errors, choices = _best(costs, most)
    noise = _noise(y / scale)
    variance = max(noise**2, (_FLOOR * least / scale) ** 2)
    unexplained = errors[-1] / steps
    doubt = _DOUBT if unexplained > _DOUBT * variance else 1.0
    penalty = _PENALTY * math.log(steps) * max(variance, unexplained) * repeated * doubt
    number = min(range(most), key=lambda k: errors[k] + k * penalty)
    bounds = [steps]
    for k in range(number, 0, -1):
        bounds.append(int(choices[k][bounds[-1]]))
    bounds.append(0)
    bounds.reverse()
    width, residual = (end - start) / steps, math.sqrt(errors[number] / steps) * scale
    segments = []
    for first, last in pairwise(bounds):
        slope, level = (
            np.polyfit(np.arange(last - first), y[first:last], 1) if last - first > 1 else (0.0, float(y[first]))
        )
        ends = float(level), float(level + slope * (last - first - 1))
        until = end if last == steps else start + last * width
        segments.append(
            _CurveSpan(start + first * width, until, *ends, residual * math.sqrt(12 * repeated / (last - first)))
        )
    return segments


def _by_tick(curve: Curve, start: float, tick: float, steps: int) -> Numbers:
    """The reading of each tick: that which holds in the middle of it, since a reading may be somewhat late."""
    import numpy as np

    return np.array([curve.at(start + (k + 0.5) * tick) for k in range(steps)], dtype=float)


def _resampled(readings: list[tuple[float, float]], start: float, end: float, steps: int) -> Numbers:
    """The mean of the readings in each of `steps` equal spans of time; the last value before those that have none."""
    import numpy as np

    times, values = (np.array(column) for column in zip(*readings, strict=True))
    place = np.minimum(((times - start) / (end - start) * steps).astype(int), steps - 1)
    number = np.bincount(place, minlength=steps)
    mean = np.bincount(place, values, steps) / np.maximum(number, 1)
    last = np.searchsorted(place, np.arange(steps), "right") - 1
    filled: Numbers = np.where(number > 0, mean, values[np.maximum(last, 0)])
    return filled


def _costs(y: Numbers) -> Numbers:
    """costs[i, j]: the squared error of the best straight line through y[i:j]; infinite for j <= i."""
    import numpy as np

    n = len(y)
    x = np.arange(n) - n / 2
    y = y - y.mean()
    sums = [np.concatenate([[0.0], np.cumsum(part)]) for part in (np.ones(n), x, x * x, y, x * y, y * y)]
    count, sx, sxx, sy, sxy, syy = (part[None, :] - part[:, None] for part in sums)
    size = np.maximum(count, 1)
    spread = np.maximum(sxx - sx * sx / size, 1e-12)
    slope = sxy - sx * sy / size
    error = np.maximum(syy - sy * sy / size - slope * slope / spread, 0.0)
    error[count <= 2] = 0.0
    error[count <= 0] = np.inf
    result: Numbers = error
    return result


def _best(costs: Numbers, most: int) -> tuple[list[float], list[Numbers]]:
    """The least squared error with 1, 2, ... segments, and where the last of them begins, for each end."""
    import numpy as np

    by_end, ends = np.ascontiguousarray(costs.T), np.arange(costs.shape[1])
    least, errors, choices = costs[0], [float(costs[0, -1])], [np.zeros(costs.shape[1])]
    for _ in range(most - 1):
        total = least + by_end
        choices.append(total.argmin(axis=1))
        least = total[ends, choices[-1]]
        errors.append(float(least[-1]))
    return errors, choices


def _with_jumps(segments: list[_CurveSpan], least: float) -> Iterator[_CurveSpan]:
    """The segments, and between two that do not meet, the step of time in which the value jumps."""
    for before, after in zip(segments, [*segments[1:], None], strict=True):
        if after is None or abs(after.first - before.last) < least:
            yield before
        else:
            step = min((before.end - before.start), (after.end - after.start)) / 4
            step = min(step, (segments[-1].end - segments[0].start) / MOST_STEPS)
            yield replace(before, end=before.end - step)
            yield _CurveSpan(before.end - step, after.start, before.last, after.first)


def _merged(first: _CurveSpan, second: _CurveSpan) -> _CurveSpan:
    return replace(first, end=second.end, last=second.last, error=max(first.error, second.error))


def _joined(spans: list[_CurveSpan], least: float) -> list[_CurveSpan]:
    """The spans, neighbours of one name as one."""
    while True:
        joined = spans[:1]
        for span in islice(spans, 1, None):
            if joined[-1].name(least) == span.name(least):
                joined[-1] = _merged(joined[-1], span)
            else:
                joined.append(span)
        if len(joined) == len(spans):
            return joined
        spans = joined  # two flat spans may be a rising one together


def _join_least(spans: list[_CurveSpan]) -> list[_CurveSpan]:
    """The spans, with the one of least change joined to its smaller neighbour; the longest one stays."""
    longest = max(range(len(spans)), key=lambda i: spans[i].end - spans[i].start)
    others = [i for i in range(len(spans)) if i != longest]
    place = min(others, key=lambda i: (abs(spans[i].change), spans[i].end - spans[i].start))
    near = [i for i in (place - 1, place + 1) if 0 <= i < len(spans)]
    first = min(place, min(near, key=lambda i: abs(spans[i].change)))
    return [*spans[:first], _merged(*spans[first : first + 2]), *spans[first + 2 :]]
