"""The memory of a GPU over time: over what was used before, by the target together, and by process."""

from __future__ import annotations

from firsttouch.base.units import format_seconds, format_size
from firsttouch.machine.tree import parse_int
from firsttouch.profile import schema
from firsttouch.profile.content import Profile
from firsttouch.profile.curves import Curve


def rise_of(profile: Profile, gpu: schema.ProfiledGpu) -> Curve | None:
    """The memory of a GPU over the reading before the target was started, by all programs; where that is not known, by
    the target's processes alone. None if neither is.
    """
    of_all = rise_of_all(profile, gpu)
    return own_of(profile, gpu.name) if of_all is None else of_all


def rise_of_all(profile: Profile, gpu: schema.ProfiledGpu) -> Curve | None:
    """The rise by all programs: from used memory where the source states it, else from free memory."""
    for column, before, sign in (("used", gpu.before.used, 1), ("free", gpu.before.free, -1)):
        curve = profile.curve(gpu.name, column)
        if curve is not None and before is not None and len(curve):
            rise = Curve()
            for t, value in curve:
                rise.add(t, sign * (value - before))
            return rise
    return None


def own_of(profile: Profile, gpu: str) -> Curve | None:
    """The memory of the target's processes on a GPU together, as the driver tells it. None if it does not."""
    steps: list[tuple[float, int, float]] = []
    for key, curve in gpu_curves(profile, gpu).items():
        process = profile.processes.get(key)
        steps += [(t, key, value) for t, value in curve]
        if process is not None and process.ended is not None:
            steps.append((max(process.ended, curve.times[-1]), key, 0.0))
    if not steps:
        return None
    by_process: dict[int, float] = {}
    total, curve = 0.0, Curve()
    for t, key, value in sorted(steps, key=lambda step: step[0]):
        total += value - by_process.get(key, 0.0)
        by_process[key] = value
        if len(curve) and curve.times[-1] == t:
            curve.values[-1] = total
        else:
            curve.add(t, total)
    return curve


def gpu_curves(profile: Profile, gpu: str) -> dict[int, Curve]:
    """The memory of each process on a GPU, by its key."""
    start = f"{gpu}/process:"
    return {
        key: curve
        for (track, column), curve in profile.curves.items()
        if column == "used" and track.startswith(start) and len(curve)
        if (key := parse_int(track.removeprefix(start))) is not None
    }


def in_host_memory(profile: Profile, gpu: schema.ProfiledGpu) -> str:
    """What is known of the memory of a GPU that uses the host's and whose driver states none of it; '' for others."""
    if not gpu.shares_host_memory or rise_of_all(profile, gpu) is not None:
        return ""
    free = profile.curve("machine", "mem_available")
    text = f"{gpu.name} uses the host's memory, and its driver does not state how much"
    if free is None or len(free) < 2:
        return f"{text}."
    least = min(free.values)
    t = free.times[free.values.index(least)]
    return (
        f"{text}; of the host's, {format_size(free.values[0] - least, 3)} less was available to all programs at "
        f"{format_seconds(t)} than at the start."
    )


def why_not_added(gpu: schema.ProfiledGpu) -> str:
    """Why the memory of a GPU and that of the host must not be added, '' if they may."""
    if gpu.shares_host_memory:
        return f"{gpu.name} uses the host's memory, so that a page may be in both counts; they are not added."
    if gpu.node is not None:
        return (
            f"The memory of {gpu.name} is NUMA node {gpu.node}, so that a page on it may be in the resident memory of "
            "a process and in the GPU's count; they are not added."
        )
    return ""
