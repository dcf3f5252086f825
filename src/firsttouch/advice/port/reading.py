"""The traced process of a profile that a view is about."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from firsttouch.advice.port.dropped import CopiesByFate
from firsttouch.advice.port.found import found
from firsttouch.advice.port.kernels import kernel_use
from firsttouch.advice.port.places import Places, blocks_told_apart, line_of, lines_of
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.advice.port.processes import command_of, is_watched, over_all, over_ranks
from firsttouch.base.errors import UsageError
from firsttouch.base.files import write_atomically
from firsttouch.profile.call_journal import calls_of
from firsttouch.profile.calls import LaunchCall, MoveCall, TracedCalls
from firsttouch.profile.content import Profile
from firsttouch.profile.exact import FOLDER, read_exact
from firsttouch.profile.fronts import TRACED
from firsttouch.profile.headline import LONGEST_COMMAND, retyped, short
from firsttouch.profile.program_names import program_command
from firsttouch.profile.reading import is_profile, profiles_in, read
from firsttouch.profile.touches import TouchIndex
from firsttouch.profile.untraced import how_failed, trace_layer, why_untraced
from firsttouch.program.exact import match, told
from firsttouch.program.program import Program, encode
from firsttouch.program.trace import TracedRun, trace, traced_process
from firsttouch.program.traced import program_of_trace
from firsttouch.records.text import count, join_names

PROGRAM = "program.json"


def read_single(directory: Path) -> Profile:
    """The profile of a directory, without the times of copies and kernels.

    Raises:
        UsageError: there is none, or several, of ranks.
    """
    profiles = profiles_in([directory])
    if len(profiles) > 1:
        raise UsageError(f"{directory} holds the profiles of {len(profiles)} ranks; name one, such as {profiles[0]}")
    return read(profiles[0], with_activities=False)


def traced_run(profile: Profile, process: int | None = None) -> TracedRun:
    """What a process of a profile did. process: its number; None: the one that copied and launched most.

    Raises:
        UsageError: no process was traced, or not this one, or by a version that did not record what calls name.
    """
    directory = profile.directory
    if not any(journal.traced for journal in profile.journals):
        raise _untraced_error(profile)
    processes = _processes(profile)
    calls = traced_process(processes, process)
    if calls is None:
        raise _no_process_error(profile, processes, process)
    run = trace(calls, lambda site: lines_of(site, profile.callers), profile.callers)
    run.others = tuple(sorted({other.pid for other in processes if other is not calls}))
    exact = match(run, read_exact(directory))
    return told(run, exact) if exact else run


def findings_of_ranks(directories: Sequence[Path], process: int | None = None) -> PortFindings:
    """The findings over the profiles of several ranks. process: its number, in one of them.

    Raises:
        UsageError: No process of any was traced, or not this one.
    """
    found_ranks: list[tuple[Profile, PortFindings]] = []
    errors: list[UsageError] = []
    for directory in directories:
        profile = read_single(directory)
        try:
            found_ranks.append((profile, findings_of(profile, traced_run(profile, process))))
        except UsageError as error:  # a rank without CUDA
            errors.append(error)
    if not found_ranks:
        raise errors[0]
    return found_ranks[0][1] if len(found_ranks) == 1 else over_ranks(found_ranks)


def findings_of(
    profile: Profile, run: TracedRun, unwritten: str = "", fates: CopiesByFate | None = None
) -> PortFindings:
    """The findings of a process of a profile. unwritten: why a file of it is not there. fates: of the copies, if it is
    not to be found which ones a unified version does without.
    """
    findings = found(
        run,
        profile.callers,
        directory=str(profile.directory),
        command=command_of(profile, run.pid),
        others=run.others,
        status=profile.end.status if profile.end else None,
        clock=profile.header.clock,
        touches=TouchIndex(profile, run.pid),
        kernels=kernel_use(profile, run),
        watched=is_watched(profile),
        fates=fates,
    )
    if run.others:
        findings = over_all(profile, findings, _processes(profile))
    # Of the layers that port asks for; without the third, --trace, there is no profile to read.
    missing = [state for state in profile.header.layers if state.layer in ("host", "faults") and not state.active]
    missing += [state for state in [trace_layer(profile)] if state is not None and state.active and state.why]
    sentences = [f"{state.why}{f': {state.mend}' if state.mend else ''}" for state in missing]
    ended = (
        []
        if not findings.status
        else [f"the program ended with status {findings.status}: what it would have done else is not in the trace"]
    )
    unknown = [notice.text for journal in profile.journals if not journal.pid for notice in journal.notices]
    return msgspec.structs.replace(
        findings, incomplete=[*filter(None, [unwritten]), *unknown, *ended, *findings.incomplete, *sentences]
    )


def program_of(profile: Profile, run: TracedRun) -> Program:
    """The program of a process of a profile. Its blocks are called by the lines that allocate them."""
    places, touches = Places(profile.callers), TouchIndex(profile, run.pid)
    apart = blocks_told_apart(run.blocks, places.names)
    return program_of_trace(
        run,
        title=short(shlex.join(program_command(command_of(profile, run.pid))), LONGEST_COMMAND),
        name=lambda block: block.name or line_of(places.of(apart.get(block.site, block.site))),
        threads=lambda start, end: touches.of(start, end).threads,
        exact=run.exact,
        events=[event for journal in profile.journals if journal.pid == run.pid for event in journal.events],
    )


def _processes(profile: Profile) -> list[TracedCalls]:
    """The calls of the processes that copied or launched anything."""
    return [calls for calls in calls_of(profile) if _uses_memory(calls)]


def _uses_memory(calls: TracedCalls) -> bool:
    return any(isinstance(call, LaunchCall | MoveCall) for call in calls.calls)


def _untraced_error(profile: Profile) -> UsageError:
    parent = profile.directory.absolute().parent
    if profile.directory.name == FOLDER and is_profile(parent):
        return UsageError(f"{profile.directory} is the second run of {parent}; name that")
    layer = trace_layer(profile)
    if profile.header.attached and not profile.header.command:
        reason = "a process that runs already is not traced, and this profile tells of its memory alone: "
        reason += f"firsttouch port -- {retyped(profile.first.command if profile.first else [])}"
    elif layer is None:
        reason = "it was profiled without --trace; firsttouch port -- COMMAND traces a program"
    elif not layer.active:
        reason = f"{layer.why}{f': {layer.mend}' if layer.mend else ''}"
    else:
        left_out = sum(journal.left_out for journal in profile.journals)
        room = f"{count(left_out, 'record')} did not fit: the disk is full, or files may not be larger"
        notices = [notice.text for journal in profile.journals for notice in journal.notices if notice.layer == "trace"]
        if problems := [*([room] if left_out else []), *notices]:
            return UsageError(f"{profile.directory} has no trace: {problems[0]}")
        reason = why_untraced(profile)
        gpus = [state.why for state in profile.header.layers if state.layer == "gpus" and not state.active]
        reason += "".join(f" ({why})" for why in gpus)
    return UsageError(f"{profile.directory} has no trace: {reason}")


def _no_process_error(profile: Profile, processes: Sequence[TracedCalls], process: int | None) -> UsageError:
    directory = profile.directory
    if process is None:
        apis = join_names([front.api for front in TRACED], "or")
        failed = how_failed(profile)
        return UsageError(f"the program of {directory} copied nothing by {apis} and launched nothing{failed}")
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
