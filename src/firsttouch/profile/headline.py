"""The first line of a profile's summary, and other words about it."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Sequence

from firsttouch.base.units import format_seconds, format_size
from firsttouch.profile.program_names import program_command
from firsttouch.profile.schema import TARGET_ENDED
from firsttouch.profile.summary import GpuRow, HostRow, ProcessRow, ProfileSummary

MOST_NAMED = 3
"""The most GPUs that the headline names, those with the largest rises."""
LONGEST_COMMAND, _LONGEST_RETYPED = 60, 160


def headline(summary: ProfileSummary) -> str:
    """The answer in one line: './app: peak 1.2 GiB on the host at 3.1 s in solve, 500 MiB on gpu:0'."""
    parts = []
    if summary.host.stated is not None:
        parts.append(f"peak {format_size(summary.host.stated, 3)} on the host, between two readings")
    elif peak := summary.host.peak:
        inside = f" (phase {short(peak.phase, 40)})" if peak.phase else ""
        unknown = "unknown, " if summary.host.may_be_more else ""
        parts.append(f"peak {unknown}{host_peak(summary.host)} on the host at {format_seconds(peak.t)}{inside}")
    peaks = sorted(((gpu.told.bytes, gpu.name) for gpu in summary.gpus if gpu.told), reverse=True)
    named = {name for size, name in peaks[:MOST_NAMED] if size} or {name for _, name in peaks[:1]}
    told = [gpu for gpu in summary.gpus if gpu.told and gpu.name in named]
    parts += [f"{gpu_peak(gpu)} on {short(gpu.name, 20)}" for gpu in told]
    if any(gpu.peak_of == "all programs" for gpu in told):
        parts[-1] += " by all programs"
    if further := sum(size > 0 for size, name in peaks if name not in named):
        parts.append(f"less on {further} more")
    outlived = f"; {text}" if (text := went_on(summary)) else ""
    failed = f" (exit status {summary.status})" if summary.status else ""
    return f"{title(summary)}{failed}: {', '.join(parts) if parts else 'no memory was read'}{outlived}"


_NEAR, _ALIKE = 0.9, 1.02
"""PSS tells of the peak if it was read with at least this part of the memory; bounds are one value if so near."""


def pss_at_peak(host: HostRow) -> int | None:
    """What was resident at the peak, with shared pages counted once, if it was read near to the peak; else None."""
    if host.pss is None or host.pss_resident is None or host.peak is None:
        return None
    is_near = host.pss_resident >= _NEAR * host.peak.bytes
    return min(max(host.pss.bytes, host.least or 0), host.most or host.peak.bytes) if is_near else None


def known_peak(host: HostRow) -> int | None:
    """The peak in bytes, if it is known and it does not matter which pages the processes share."""
    if host.peak is None or host.may_be_more:
        return None
    if host.least is None or host.most is None:
        return host.peak.bytes if (host.processes or 1) <= 1 else None
    return host.most if host.most <= _ALIKE * host.least else None


def host_peak(host: HostRow) -> str:
    """The peak in words, in which pages that processes share count once."""
    if host.may_be_more and host.peak is not None:
        return f"at least {format_size(host.peak.bytes, 3)}"
    if (known := known_peak(host)) is not None:
        return format_size(known, 3)
    if (once := pss_at_peak(host)) is not None:
        return f"about {format_size(once, 3)}"
    least = f"at least {format_size(host.least, 3)} and " if host.least is not None else ""
    most = host.most if host.most is not None else host.peak.bytes if host.peak is not None else 0
    return f"{least}at most {format_size(most, 3)}"


def gpu_peak(gpu: GpuRow) -> str:
    """The peak of a GPU that is told: of the target's processes, what they allocated or, with +, of all programs. The
    driver tells of processes so rarely that they may have used more in between, if the GPU's memory rose by more.
    """
    may_be_more = gpu.rise is not None and gpu.told is not None and gpu.rise.bytes > _ALIKE * gpu.told.bytes
    of_processes = "at least {}" if may_be_more and not gpu.only_own else "{}"
    words = {"processes": of_processes, "allocations": "{} allocated", "all programs": "+{}"}
    return words[gpu.peak_of].format(format_size(gpu.told.bytes, 3)) if gpu.told and gpu.peak_of else "?"


def went_on(summary: ProfileSummary) -> str:
    """How many processes outlived the first one, with which the profile ended; '' if none did."""
    running = summary.still_running if summary.ended == TARGET_ENDED else 0
    if not running:
        return ""
    are = (
        "process that it started was still running" if running == 1 else "processes that it started were still running"
    )
    return f"{running:,} {are} when it ended"


def title(summary: ProfileSummary) -> str:
    """What was profiled: its command line, or the process that was attached to."""
    if summary.command:
        return short(shlex.join(program_command(summary.command)), LONGEST_COMMAND)
    name = next((p.name for p in summary.processes if p.pid == summary.pid), "")
    return f"process {summary.pid}{f' ({short(name, 40)})' if name else ''}"


def retyped(command: Sequence[str]) -> str:
    """A command as it is typed again; COMMAND if it is unknown or too long to be shown."""
    text = shlex.join(command)
    return text if 0 < len(text) <= _LONGEST_RETYPED and text.isprintable() else "COMMAND"


def how_long(summary: ProfileSummary) -> str:
    """For how long the target was seen."""
    return f"{'attached for' if summary.attached else 'ran for'} {format_seconds(summary.seconds)}"


def short(text: str, most: int) -> str:
    """A text on one line, of at most `most` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def how_ended(row: ProcessRow) -> str:
    """How a process ended, in a few words."""
    if row.ended is None:
        return "running at the end"
    if row.status is None:
        return "ended"
    if row.status < 0:
        name = next((s.name for s in signal.Signals if s == -row.status), f"signal {-row.status}")
        return f"killed by {name}"
    return f"exit status {row.status}"
