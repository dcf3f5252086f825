"""The rows of a summary about phases: what memory did in each range of the target, and in all of one name."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from firsttouch.profile.content import Profile
from firsttouch.profile.curves import Curve
from firsttouch.profile.phases import TargetPhase
from firsttouch.profile.readings import integer, whole
from firsttouch.profile.segments import found_phases
from firsttouch.profile.summary import PhaseGpu, PhaseRow

MOST_PHASES = 200


def phases_of(profile: Profile) -> tuple[list[TargetPhase], bool]:
    """The ranges of the target; if it named none, those found in its memory, and True."""
    if profile.phases:
        return profile.phases, False
    curve = profile.curve("total", "resident")
    if curve is None or not len(curve):
        return [], False
    ticks = profile.cost.ticks if profile.cost else 0
    tick = max(profile.header.interval, profile.seconds / ticks if ticks else 0.0)
    return found_phases(curve, 0.0, profile.seconds, tick), True


def phase_rows(profile: Profile, phases: Sequence[TargetPhase], rises: Sequence[Curve | None]) -> list[PhaseRow]:
    """A row for each range. rises: of the GPUs, as in the header."""
    totals = {c: _Largest(v) for c, v in profile.columns("total").items() if len(v)}
    of_gpus = [(gpu.name, _Largest(rise)) for gpu, rise in zip(profile.header.gpus, rises, strict=True) if rise]
    return [_phase_row(number, phase, totals, of_gpus) for number, phase in enumerate(phases)]


def longest(rows: Sequence[PhaseRow]) -> list[PhaseRow]:
    """At most MOST_PHASES rows, those of the longest ranges, in their order."""
    kept = sorted(rows, key=lambda row: -row.seconds)[:MOST_PHASES]
    return sorted(kept, key=lambda row: row.number or 0)


def by_name(rows: Sequence[PhaseRow]) -> list[PhaseRow]:
    groups: dict[tuple[str, str, str], list[PhaseRow]] = {}
    for row in rows:
        groups.setdefault((row.name, row.source, row.domain), []).append(row)
    return sorted(map(_join_ranges, groups.values()), key=lambda row: -row.seconds)


class _Largest:
    """The largest value of a curve in spans of time, by the maxima of blocks of readings."""

    def __init__(self, curve: Curve) -> None:
        self._curve, size = curve, 256
        self._size = size
        self._blocks = [max(curve.values[i : i + size]) for i in range(0, len(curve), size)]

    def within(self, start: float, end: float) -> float | None:
        """The largest value from `start` to `end`, with that which held at `start`. None if nothing was read."""
        times, values, size = self._curve.times, self._curve.values, self._size
        first, last = max(0, bisect_right(times, start) - 1), bisect_right(times, end)
        if first >= last:
            return None
        first_block, last_block = -(-first // size), last // size
        if first_block >= last_block:
            return max(values[first:last])
        return max(
            *values[first : first_block * size],
            *self._blocks[first_block:last_block],
            *values[last_block * size : last],
        )

    def growth(self, start: float, end: float) -> float | None:
        """The value at `end` less that at `start`, or less the first one after it."""
        times, values = self._curve.times, self._curve.values
        first, last = max(0, bisect_right(times, start) - 1), bisect_right(times, end) - 1
        return values[last] - values[first] if last >= first else None


def _phase_row(
    number: int, phase: TargetPhase, totals: dict[str, _Largest], rises: Sequence[tuple[str, _Largest]]
) -> PhaseRow:
    def value_of(column: str, measure: Callable[[_Largest], float | None]) -> int | None:
        return whole(measure(totals[column])) if column in totals else None

    start, end = phase.start, phase.end
    faults = {c: value_of(c, lambda curve: curve.growth(start, end)) for c in ("minor", "major")}
    return PhaseRow(
        name=phase.name,
        source=phase.source,
        domain=phase.domain,
        pid=phase.pid,
        thread=phase.thread,
        depth=phase.depth,
        number=number,
        start=start,
        end=end,
        seconds=round(phase.seconds, 9),
        open=phase.open,
        peak=value_of("resident", lambda curve: curve.within(start, end)),
        growth=value_of("resident", lambda curve: curve.growth(start, end)),
        gpus=[
            PhaseGpu(name=name, peak=whole(rise.within(start, end)), growth=whole(rise.growth(start, end)))
            for name, rise in rises
        ],
        minor=None if faults["minor"] is None else max(0, faults["minor"]),
        major=None if faults["major"] is None else max(0, faults["major"]),
    )


def _join_ranges(rows: Sequence[PhaseRow]) -> PhaseRow:
    """The ranges of one name as one row."""

    def total(values: Iterable[int | None]) -> int | None:
        stated = [value for value in values if value is not None]
        return integer(sum(stated)) if stated else None

    def most(values: Iterable[int | None]) -> int | None:
        return max((value for value in values if value is not None), default=None)

    is_one_thread = len({(row.pid, row.thread) for row in rows}) == 1
    return PhaseRow(
        name=rows[0].name,
        source=rows[0].source,
        domain=rows[0].domain,
        pid=rows[0].pid if is_one_thread else 0,
        thread=rows[0].thread if is_one_thread else 0,
        depth=min(row.depth for row in rows),
        count=len(rows),
        start=rows[0].start,
        end=max(row.end for row in rows),
        seconds=sum(row.seconds for row in rows),
        open=any(row.open for row in rows),
        peak=most(row.peak for row in rows),
        growth=total(row.growth for row in rows),
        gpus=[
            PhaseGpu(
                name=gpu_phases[0].name,
                peak=most(g.peak for g in gpu_phases),
                growth=total(g.growth for g in gpu_phases),
            )
            for gpu_phases in zip(*(row.gpus for row in rows), strict=True)
        ],
        minor=total(row.minor for row in rows),
        major=total(row.major for row in rows),
    )
