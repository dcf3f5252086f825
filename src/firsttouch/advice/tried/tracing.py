"""What a strategy moves and holds, from the profile of a run of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from firsttouch.advice.tried.findings import PeakSource, TracedMemory, TriedStrategy
from firsttouch.advice.tried.recorded import RunCounts
from firsttouch.profile.content import Profile
from firsttouch.profile.summarise import summarise
from firsttouch.profile.summary import ProfileSummary
from firsttouch.profile.trace import most_allocated, unified_memory
from firsttouch.profile.traced import device_numbers
from firsttouch.profile.untraced import trace_layer, why_untraced

_SYSTEM = "CUPTI does not say which pages of malloc's memory move"


def traced_memory(
    profile: Profile, strategy: TriedStrategy, device: int, counts: RunCounts | None, within: Path
) -> TracedMemory:
    """device: the number of the GPU. counts: what the library counted in a timed run. within: the directory of all."""
    summary = summarise(profile, None)
    peak, source = _device_peak(profile, summary, device, counts)
    unknown = [*_why_no_pages(profile, strategy)]
    sums = None if unknown else unified_memory(event for journal in profile.journals for event in journal.events)
    return TracedMemory(
        directory=str(profile.directory.absolute().relative_to(within.absolute())),
        device_peak=peak,
        device_source=source,
        pages_in=sums.h2d.bytes if sums else None,
        pages_back=sums.d2h.bytes if sums else None,
        gpu_faults=sums.gpu_faults if sums else None,
        cpu_faults=sums.cpu_faults if sums else None,
        unseen=[*unknown, *_missing(summary)],
    )


def _device_peak(
    profile: Profile, summary: ProfileSummary, device: int, counts: RunCounts | None
) -> tuple[int | None, PeakSource | None]:
    """The first that is known: what the device holds more than before, the program's own, what it has allocated."""
    names = [name for name, number in device_numbers(profile.header).items() if number == device]
    for row in (row for row in summary.gpus if row.name in names or len(summary.gpus) == 1):
        if row.rise is not None:
            return row.rise.bytes, "processes" if row.only_own else "device"
        if row.own is not None:
            return row.own.bytes, "processes"
    recorded = most_allocated([journal for journal in profile.journals if journal.traced], device)
    counted = counts.device_peak + counts.managed_peak if counts else 0
    if not recorded and not counts:
        return None, None
    return max(counted, recorded[1] if recorded else 0), "allocations"


def _why_no_pages(profile: Profile, strategy: TriedStrategy) -> Iterator[str]:
    """Why the pages that moved are not known."""
    layer = trace_layer(profile)
    journals = [journal for journal in profile.journals if journal.traced]
    if not journals:
        yield layer.why if layer is not None and not layer.active else why_untraced(profile)
        return
    apis = [runtime.api for journal in journals for runtime in journal.runtimes]
    if apis:
        yield f"{apis[0]} does not say which pages move"
    elif strategy == "system":
        yield _SYSTEM
    yield from (notice.text for journal in journals for notice in journal.notices if notice.layer == "trace")


def _missing(summary: ProfileSummary) -> Iterator[str]:
    trace = summary.trace
    if trace is not None and (lost := trace.lost + trace.left_out):
        yield f"{lost:,} records are missing, so that more may have moved"
    elif trace is not None and trace.missing:
        yield f"at least {trace.missing:,} B more have moved, for which there is no record"
