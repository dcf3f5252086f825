"""Values of curves as a summary states them: whole numbers of 64 bits, at a peak, near a time, or at the end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from firsttouch.profile.content import Profile
from firsttouch.profile.curves import Curve
from firsttouch.profile.phases import TargetPhase
from firsttouch.profile.summary import Peak

_LARGEST = float(1 << 62)
"""More than any memory. A profile from elsewhere may hold larger numbers, which JSON has no integers for."""


def integer(value: float) -> int:
    """A whole number of 64 bits."""
    return int(max(-_LARGEST, min(value, _LARGEST)))


def whole(value: float | None) -> int | None:
    return None if value is None else integer(value)


def last(curve: Curve | None) -> int | None:
    return integer(curve.values[-1]) if curve is not None and len(curve) else None


def peak_of(profile: Profile, curve: Curve | None) -> Peak | None:
    if curve is None or not len(curve):
        return None
    t, value = curve.peak
    return Peak(bytes=integer(value), t=t, phase=phase_at(profile.phases, t))


def phase_at(phases: Iterable[TargetPhase], t: float) -> str:
    """The name of the innermost range at a time: of those around it, the one that began last. '' if there is none."""
    around = [p for p in phases if p.start <= t < p.end or (p.start <= t == p.end)]
    inside = [p for p in around if t < p.end] or around
    return max(inside, key=lambda p: (p.start, p.depth)).name if inside else ""


def around(curve: Curve, t: float) -> Iterable[float]:
    """The readings before and after a time: between them, the memory of the processes was read one by one."""
    place = bisect_right(curve.times, t)
    return curve.values[max(0, place - 1) : place + 1]


def _reading_near(curve: Curve, t: float) -> tuple[float, int]:
    """The reading nearest to a time. Raises ValueError without readings."""
    place = bisect_right(curve.times, t)
    near = range(max(0, place - 1), min(place + 1, len(curve)))
    i = min(near, key=lambda i: abs(curve.times[i] - t))
    return curve.times[i], integer(curve.values[i])


def near(profile: Profile, column: str, t: float) -> dict[int, tuple[float, int]]:
    """For each process that was there at a time, its reading of `column` nearest to it."""
    readings = {}
    for process in profile.processes.values():
        curve = profile.curve(f"process:{process.key}", column)
        was_running = process.started <= t and (process.ended is None or t < process.ended)
        if curve is not None and len(curve) and was_running:
            readings[process.key] = _reading_near(curve, t)
    return readings
