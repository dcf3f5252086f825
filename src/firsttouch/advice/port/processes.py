"""One answer over all processes of a traced program, such as ranks and workers, each of which is named."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from firsttouch.advice.port.dropped import are_perhaps_needed, needed_copies
from firsttouch.advice.port.found import found
from firsttouch.advice.port.places import lines_of
from firsttouch.advice.port.port_findings import PortFindings, ProcessAnswer
from firsttouch.advice.port.wording import headline, likely_by_line, noted_titles
from firsttouch.profile.calls import MoveCall, TracedCalls
from firsttouch.profile.content import Profile
from firsttouch.profile.program_names import program_name
from firsttouch.profile.touches import TouchIndex
from firsttouch.program.trace import trace, traced_process

MOST_PROCESSES = 16
"""The most processes that are searched, the busiest ones. Of others, copies are counted."""


def command_of(profile: Profile, pid: int) -> Sequence[str]:
    """What a process executed; its name alone if it ended before its command was read."""
    process = next((process for process in profile.processes.values() if process.pid == pid), None)
    if process is None:
        return profile.header.command
    return process.command or [*filter(None, [process.name])]


def is_watched(profile: Profile) -> bool:
    """Whether the host's memory was to be watched (--host)."""
    return any(state.layer == "host" for state in profile.header.layers)


def over_all(profile: Profile, shown: PortFindings, processes: Sequence[TracedCalls]) -> PortFindings:
    """The findings of a process, `shown`, with the answers of all of them, over which its summary adds up."""
    own, left = traced_process(processes, shown.pid), [*processes]
    of_each, answers = list[PortFindings](), list[ProcessAnswer]()
    while (calls := traced_process(left)) is not None:
        left = [other for other in left if other is not calls]
        if calls is not own and len(answers) >= MOST_PROCESSES:
            answers.append(_counted(profile, calls))
            continue
        findings = shown if calls is own else _found(profile, calls)
        of_each.append(findings)
        answers.append(_answer(profile, findings))
    return _over(shown, of_each, answers)


def over_ranks(ranks: Sequence[tuple[Profile, PortFindings]]) -> PortFindings:
    """The findings of the rank that copies most, with an answer over all ranks of a program and their processes."""
    answers = [
        replace(row, rank=profile.header.rank)
        for profile, findings in ranks
        for row in findings.processes or [_answer(profile, findings)]
    ]
    every = [findings for _, findings in ranks]
    shown = max(every, key=lambda findings: (findings.copied, findings.copies))
    return _over(shown, every, sorted(answers, key=lambda row: -row.copied))


def _over(shown: PortFindings, of_each: Sequence[PortFindings], answers: Sequence[ProcessAnswer]) -> PortFindings:
    """The findings `shown` with the answers of all processes. of_each: the findings of all that were searched."""
    searched = [row for row in answers if row.saved is not None]
    hazards = {kind for row in searched for kind in row.hazards or ()}
    name = program_name(shown.command) or "the program"
    summary = headline(
        f"the {len(answers)} processes of {name}",
        replace(shown.saved, bytes=sum(row.saved or 0 for row in searched), of=sum(row.of or 0 for row in searched)),
        sum(row.copies for row in searched),
        sum(row.copied for row in searched),
        len(hazards),
        [row for findings in of_each for row in findings.other_copies],
        [row for findings in of_each for row in likely_by_line(findings.waits)],
        noted=noted_titles((row for findings in of_each for row in findings.findings), hazards),
        needed=sum(needed_copies(findings.copy_calls) for findings in of_each),
        perhaps=any(are_perhaps_needed(findings.copy_calls) for findings in of_each),
        partial=any(findings.partial for findings in of_each) or len(searched) < len(answers),
        status=shown.status,
    )
    return replace(shown, summary=summary, processes=answers)


def _found(profile: Profile, calls: TracedCalls) -> PortFindings:
    run = trace(calls, lambda site: lines_of(site, profile.callers), profile.callers)
    touches = TouchIndex(profile, calls.pid)
    return found(
        run, profile.callers, command=command_of(profile, calls.pid), touches=touches, watched=is_watched(profile)
    )


def _answer(profile: Profile, findings: PortFindings) -> ProcessAnswer:
    return ProcessAnswer(
        pid=findings.pid,
        command=[*command_of(profile, findings.pid)],
        copies=findings.copies,
        copied=findings.copied,
        saved=findings.saved.bytes,
        of=findings.saved.of,
        hazards=sorted(findings.hazards),
    )


def _counted(profile: Profile, calls: TracedCalls) -> ProcessAnswer:
    copies = [
        call
        for call in calls.calls
        if isinstance(call, MoveCall) and call.what == "copy" and call.direction in ("h2d", "d2h", "unknown")
    ]
    size = sum(copy.bytes * copy.rows for copy in copies)
    command = [*command_of(profile, calls.pid)]
    return ProcessAnswer(pid=calls.pid, command=command, copies=len(copies), copied=size)
