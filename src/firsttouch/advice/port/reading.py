"""The traced process of a profile that a view is about."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from firsttouch.advice.port.found import found
from firsttouch.advice.port.kernels import kernel_use
from firsttouch.advice.port.places import Places, line_of, lines_of
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.base.errors import UsageError
from firsttouch.base.files import write_atomically
from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.calls import CudaLaunch, CudaMove, TracedCalls
from firsttouch.profile.content import Profile
from firsttouch.profile.exact import FOLDER, read_exact
from firsttouch.profile.headline import LONGEST_COMMAND, short
from firsttouch.profile.reading import is_profile, profiles_in, read
from firsttouch.profile.touches import TouchIndex
from firsttouch.program.exact import match, told
from firsttouch.program.program import Program, encode
from firsttouch.program.trace import TracedRun, trace, traced_process
from firsttouch.program.traced import program_of_trace
from firsttouch.records.text import count

PROGRAM = "program.json"


def read_single(directory: Path) -> Profile:
    """The profile of a directory, without the times of copies and kernels.

    Raises:
        UsageError: there is none, or several, of ranks.
    """
    profiles = profiles_in([directory])
    if profiles != [directory]:
        raise UsageError(f"{directory} holds the profiles of {len(profiles)} ranks; name one, such as {profiles[0]}")
    return read(directory, with_activities=False)


def traced_run(profile: Profile, process: int | None = None) -> TracedRun:
    """What a process of a profile did. process: its number; None: the one that copied and launched most.

    Raises:
        UsageError: no process was traced, or not this one, or by a version that did not record what calls name.
    """
    directory = profile.directory
    if not any(journal.traced for journal in profile.journals):
        raise _untraced_error(profile)
    processes = [calls for calls in read_calls(directory, profile.callers) if _uses_memory(calls)]
    calls = traced_process(processes, process)
    if calls is None:
        raise _no_process_error(profile, processes, process)
    run = trace(calls, lambda site: lines_of(site, profile.callers))
    run.others = tuple(sorted({other.pid for other in processes if other is not calls}))
    exact = match(run, read_exact(directory))
    return told(run, exact) if exact else run


def findings_of(profile: Profile, run: TracedRun, unwritten: str = "") -> PortFindings:
    """The findings of a process of a profile. unwritten: why a file of it is not there."""
    findings = found(
        run,
        profile.callers,
        directory=str(profile.directory),
        command=_command(profile, run.pid),
        others=run.others,
        status=profile.end.status if profile.end else None,
        clock=profile.header.clock,
        touches=TouchIndex(profile, run.pid),
        kernels=kernel_use(profile, run),
    )
    # Of the layers that port asks for; without the third, --trace, there is no profile to read.
    missing = [state for state in profile.header.layers if state.layer in ("host", "faults") and not state.active]
    sentences = [f"{state.why}{f': {state.mend}' if state.mend else ''}" for state in missing]
    ended = (
        []
        if not findings.status
        else [f"the program ended with status {findings.status}: what it would have done else is not in the trace"]
    )
    return msgspec.structs.replace(
        findings, incomplete=[*filter(None, [unwritten]), *ended, *findings.incomplete, *sentences]
    )


def program_of(profile: Profile, run: TracedRun) -> Program:
    """The program of a process of a profile. Its blocks are called by the lines that allocate them."""
    places, touches = Places(profile.callers), TouchIndex(profile, run.pid)
    return program_of_trace(
        run,
        title=short(shlex.join(_command(profile, run.pid)), LONGEST_COMMAND),
        name=lambda block: block.name or line_of(places.of(block.site)),
        threads=lambda start, end: touches.of(start, end).threads,
        exact=run.exact,
        events=[event for journal in profile.journals if journal.pid == run.pid for event in journal.events],
    )


def _command(profile: Profile, pid: int) -> Sequence[str]:
    traced_process = next((process for process in profile.processes.values() if process.pid == pid), None)
    return traced_process.command if traced_process else profile.header.command


def _uses_memory(calls: TracedCalls) -> bool:
    return any(isinstance(call, CudaLaunch | CudaMove) for call in calls.calls)


def _untraced_error(profile: Profile) -> UsageError:
    parent = profile.directory.absolute().parent
    if profile.directory.name == FOLDER and is_profile(parent):
        return UsageError(f"{profile.directory} is the second run of {parent}; name that")
    trace_layer = next((state for state in profile.header.layers if state.layer == "trace"), None)
    if trace_layer is None:
        reason = "it was profiled without --trace; firsttouch port -- COMMAND traces a program"
    elif not trace_layer.active:
        reason = f"{trace_layer.why}{f': {trace_layer.mend}' if trace_layer.mend else ''}"
    else:
        left_out = sum(journal.left_out for journal in profile.journals)
        room = f"{count(left_out, 'record')} did not fit: the disk is full, or files may not be larger"
        notices = [notice.text for journal in profile.journals for notice in journal.notices if notice.layer == "trace"]
        if problems := [*([room] if left_out else []), *notices]:
            return UsageError(f"{profile.directory} has no trace: {problems[0]}")
        reason = "nothing in it used CUDA; name a program that does, as in port -- COMMAND"
    return UsageError(f"{profile.directory} has no trace: {reason}")


def _no_process_error(profile: Profile, processes: Sequence[TracedCalls], process: int | None) -> UsageError:
    directory = profile.directory
    if process is None:
        return UsageError(f"the program of {directory} copied nothing by CUDA and launched nothing")
    known_pids = ", ".join(map(str, sorted({calls.pid for calls in processes}))) or "none"
    return UsageError(f"process {process} of {directory} copied and launched nothing; those that did: {known_pids}")


def write_program(profile: Profile, run: TracedRun) -> str:
    """Writes the program of a process beside the profile. Returns why it cannot, or ''."""
    text = msgspec.json.format(encode(program_of(profile, run)), indent=1)
    try:
        write_atomically(profile.directory / PROGRAM, text + b"\n")
    except OSError as error:
        return f"{profile.directory / PROGRAM} can't be written: {error.strerror}"
    return ""
