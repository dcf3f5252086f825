"""What the driver moved in each iteration of an application, from the events of a run one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from firsttouch.profile.events.log import Window
from firsttouch.profile.events.sums import EventKind

_BOTH_WAYS: tuple[EventKind, ...] = ("h2d", "d2h")


def moved_by_iteration(window: Window, ends: Sequence[float], numbers: Sequence[int]) -> dict[str, float]:
    """The counters um_iteration_N_h2d_bytes and um_iteration_N_d2h_bytes. An event is in the iteration in which it
    begins.

    Empty if there are more events than a window lists, or if the driver does not record moves.

    Args:
        ends: Where iterations begin and end, in seconds of time.monotonic(): one more than there are.
        numbers: How many iterations each is that were timed together. Their bytes are means.
    """
    if window.unlisted or len(ends) < 2 or not set(_BOTH_WAYS) <= set(window.kinds):
        return {}
    sums = {way: [0] * len(numbers) for way in _BOTH_WAYS}
    for event in window.events:
        at = bisect_right(ends, event.start) - 1
        if event.kind in sums and 0 <= at < len(numbers):
            sums[event.kind][at] += event.bytes
    return {
        f"um_iteration_{i}_{way}_bytes": total if number == 1 else total / number
        for way, totals in sums.items()
        for i, (total, number) in enumerate(zip(totals, numbers, strict=True))
    }
