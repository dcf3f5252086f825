"""Takes the calls of `firsttouch mark` out of a profile: they are no part of what they mark, and each has the memory of
a Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from firsttouch.profile.curves import Curve

if TYPE_CHECKING:
    from firsttouch.profile.content import Profile, ProfiledProcess

SOURCE = "mark"
_NAME = "firsttouch"
"""The kernel's name of a process of the command."""
_CLEARLY = 1.5
"""The kernel's peak of one process is that of another process if it exceeds the memory of each call this many times."""
_LEVELS = ("resident", "pss", "processes")
"""Columns of the total that have no part of a process that has ended. Page faults stay counted."""


def leave_out(profile: Profile) -> None:
    """Removes the processes that made marks by `firsttouch mark`, and their part of the sums."""
    marks = [mark for mark in profile.marks if mark.source == SOURCE]
    by_pid: dict[int, list[ProfiledProcess]] = {}
    for process in profile.processes.values():
        by_pid.setdefault(process.pid, []).append(process)
    calls = {p.key: p for m in marks for p in by_pid.get(m.pid, []) if p is not profile.first and _ran_at(p, m.t)}
    unread = sum(not any(_ran_at(p, m.t) for p in by_pid.get(m.pid, [])) for m in marks)
    for line in profile.brief:
        removed = min(unread, line.names.get(_NAME, 0), line.count)
        unread, line.count = unread - removed, line.count - removed
        line.names = {**line.names, _NAME: line.names.get(_NAME, 0) - removed} if removed else line.names
    profile.brief = [line for line in profile.brief if line.count]
    if not calls:
        return
    for column, curve in profile.columns("total").items():
        profile.curves["total", column] = _without(profile, column, curve, calls)
    faults = {column: sum(_faults(profile, call, column) for call in calls.values()) for column in ("minor", "major")}
    if (first := profile.first) is not None:  # what the kernel states of it includes the processes that it waited for
        first.minor, first.major = (_subtract(getattr(first, c), faults[c]) for c in ("minor", "major"))
    if profile.largest is not None and profile.largest <= _CLEARLY * max(p.peak or 0 for p in calls.values()):
        profile.largest = None
    profile.mappings = [line for line in profile.mappings if line.key not in calls]
    for sampled in profile.faults:
        sampled.rows = [row for row in sampled.rows if row[1] not in calls]
        sampled.counted = _subtract(sampled.counted, sum(faults.values()))
    for key in calls:
        del profile.processes[key]
    profile.curves = {
        (track, column): curve for (track, column), curve in profile.curves.items() if _key(track) not in calls
    }


def _ran_at(process: ProfiledProcess, t: float) -> bool:
    return process.started <= t and (process.ended is None or t <= process.ended)


def _key(track: str) -> int | None:
    number = track.rpartition("process:")[2] if "process:" in track else ""
    return int(number) if number.isdecimal() else None


def _subtract(value: int | None, part: int) -> int | None:
    return None if value is None else max(0, value - part)


def _faults(profile: Profile, call: ProfiledProcess, column: str) -> int:
    """The page faults of a call, as the kernel stated them at its end or as they were read last."""
    curve = profile.curve(f"process:{call.key}", column)
    stated: int | None = getattr(call, column)
    return stated if stated is not None else int(curve.values[-1]) if curve is not None and len(curve) else 0


def _without(profile: Profile, column: str, total: Curve, calls: dict[int, ProfiledProcess]) -> Curve:
    """A sum over processes without those of `calls`, which are read at the same times as it."""
    steps = sorted(step for call in calls.values() for step in _steps(profile, column, call))
    result, place, part = Curve(), 0, 0.0
    for t, value in total:
        while place < len(steps) and steps[place][0] <= t:
            part += steps[place][1]
            place += 1
        result.add(t, max(0.0, value - part))
    return result


def _steps(profile: Profile, column: str, call: ProfiledProcess) -> Iterator[tuple[float, float]]:
    """By how much the part of a call in a sum changes, and when."""
    curve = profile.curve(f"process:{call.key}", "resident" if column == "processes" else column)
    before = 0.0
    for t, value in curve or ():
        value = 1.0 if column == "processes" else value
        yield t, value - before
        before = value
    if column in _LEVELS and call.ended is not None and curve is not None and len(curve):
        yield max(call.ended, curve.times[-1]), -before
