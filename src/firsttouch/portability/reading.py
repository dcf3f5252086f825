"""The traced process of a profile that a view is about."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch.errors import UsageError
from firsttouch.portability.findings import PortFindings
from firsttouch.portability.found import found
from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.calls import CudaLaunch, CudaMove, TracedCalls
from firsttouch.profile.reading import Profile
from firsttouch.profile.touches import TouchIndex
from firsttouch.workload.trace import TracedRun, trace, traced_process


def traced_run(profile: Profile, process: int | None = None) -> TracedRun:
    """What a process of a profile did. process: its number; None: the one that copied and launched most.

    Raises:
        UsageError: no process was traced, or not this one, or by a version that did not record what calls name.
    """
    directory = profile.directory
    if not any(journal.traced for journal in profile.journals):
        raise UsageError(
            f"{directory} has no trace: nothing in it used CUDA, or it was profiled without --trace; "
            "firsttouch port -- COMMAND traces a program"
        )
    processes = [calls for calls in read_calls(directory) if _uses_memory(calls)]
    calls = traced_process(processes, process)
    if calls is None:
        raise _none(profile, processes, process)
    return trace(calls)


def port_findings(profile: Profile, process: int | None = None) -> PortFindings:
    """The findings of a profile. Raises UsageError as `traced_run` does."""
    return findings_of(profile, traced_run(profile, process))


def findings_of(profile: Profile, run: TracedRun) -> PortFindings:
    """The findings of a process of a profile."""
    known = next((p for p in profile.processes.values() if p.pid == run.pid), None)
    return found(
        run,
        profile.callers,
        directory=str(profile.directory),
        command=known.command if known else profile.header.command,
        status=profile.end.status if profile.end else None,
        clock=profile.header.clock,
        touches=TouchIndex(profile, run.pid),
    )


def _uses_memory(calls: TracedCalls) -> bool:
    return any(isinstance(call, CudaLaunch | CudaMove) for call in calls.calls)


def _none(profile: Profile, processes: Sequence[TracedCalls], process: int | None) -> UsageError:
    directory = profile.directory
    if process is None:
        return UsageError(f"the program of {directory} copied nothing by CUDA and launched nothing")
    known = ", ".join(str(calls.pid) for calls in processes) or "none"
    return UsageError(f"process {process} of {directory} copied and launched nothing; those that did: {known}")
