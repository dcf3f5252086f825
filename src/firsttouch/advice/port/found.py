"""What stands between a traced program and unified memory: `found` makes all findings of a traced run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import get_args

from firsttouch.advice.port.blocks import block_use, port_blocks
from firsttouch.advice.port.dropped import (
    CopiesByFate,
    are_perhaps_needed,
    copies_by_fate,
    copy_calls,
    filled_first,
    kept_ranges,
    needed_copies,
)
from firsttouch.advice.port.places import Places
from firsttouch.advice.port.port_findings import (
    CopyCalls,
    FindingCertainty,
    KernelUse,
    PortBlock,
    PortFindings,
    SavedBytes,
    StepRecord,
)
from firsttouch.advice.port.repeated import RepeatedBytes
from firsttouch.advice.port.rule import FindingRow, FindingRows, Hazard, ProgramState
from firsttouch.advice.port.rules import all_rules
from firsttouch.advice.port.savings import most_saved
from firsttouch.advice.port.shadowed import shadow_run
from firsttouch.advice.port.touched import touched_ranges
from firsttouch.advice.port.waits import needed_waits, only_waits
from firsttouch.advice.port.wording import (
    UnseenUse,
    headline,
    likely_by_line,
    noted_titles,
    unseen_sentences,
    worded_finding,
    worded_search,
)
from firsttouch.profile.call_journal import is_of_vendor
from firsttouch.profile.calls import WaitCall
from firsttouch.profile.program_names import program_name
from firsttouch.profile.touches import TouchIndex
from firsttouch.profile.traced import CallerTable, failed_rows
from firsttouch.program.partners import Partners, partners
from firsttouch.program.trace import (
    STATIC_KINDS,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedRun,
    TracedStep,
    time_of,
)
from firsttouch.program.watched import has_looks


def found(
    run: TracedRun,
    names: CallerTable,
    *,
    directory: str = "",
    command: Sequence[str] = (),
    others: Sequence[int] = (),
    status: int | None = None,
    clock: float = 0.0,
    touches: TouchIndex | None = None,
    kernels: KernelUse | None = None,
    watched: bool = False,
    fates: CopiesByFate | None = None,
) -> PortFindings:
    """All findings of a process.

    names: of the places of calls. directory, command, others, status: of the profile. clock: the time 0 of its results,
    as a reading of CLOCK_MONOTONIC. touches: who touched memory first, if that was sampled. kernels: what a second run
    told of them, if there was one. watched: whether the host's memory was to be watched (--host). fates: of the
    copies, if it is not to be found which ones a unified version does without.
    """
    state = program_state(run, names, touches, watched=watched)
    use, joined, repeated = state.use, state.all_partners, state.repeated
    rows, hazards = search(state)
    if fates is None:
        fates = copies_by_fate(run, joined, {repeat.copy for repeat in repeated.restoring()}, repeated.doubtful_steps())
    blocks = port_blocks(run, joined, use, state.places, state.touched or (), kept_ranges(run, fates))

    def record(number: int) -> StepRecord:
        return StepRecord(step=run.place(number), t=round(max(0.0, time_of(run.steps[number]) - clock), 6))

    saved, others_copied = _saved(run, joined, clock), [*use.others(state.places)]
    waits = needed_waits(run, joined, fates, state.places, record)
    name = program_name(command) or "program"
    findings = [worded_finding(row, record, run.runtimes) for row in rows]
    hazard_kinds = {row.rule.name for row in rows if row.to_fix}
    calls = copy_calls(run, fates, state.places)
    return PortFindings(
        summary=headline(
            name,
            saved,
            use.copies,
            use.copied,
            len(hazard_kinds),
            others_copied,
            likely_by_line(waits),
            noted=noted_titles(findings, hazard_kinds),
            needed=needed_copies(calls),
            perhaps=are_perhaps_needed(calls),
            partial=run.is_partial,
            status=status,
        ),
        directory=directory,
        command=list(command),
        pid=run.pid,
        others=list(others),
        processes=[],
        status=status,
        saved=saved,
        copies=use.copies,
        copied=use.copied,
        other_copies=others_copied,
        blocks=blocks,
        copy_calls=calls,
        fills=filled_first(run, fates, state.places),
        waits=waits,
        needless=repeated.needless(record, only_waits(run, joined, repeated.needless_steps())),
        findings=findings,
        searched=[*map(worded_search, hazards)],
        unseen=[*unseen_sentences(unseen_use(state, blocks, kernels.told if kernels else 0, calls))],
        incomplete=list(run.incomplete),
        partial=run.is_partial,
        failed=failed_rows(run.failed, names),
        kernels=kernels,
        shadow=shadow.look if (shadow := run.once(shadow_run)) is not None else None,
    )


def program_state(
    run: TracedRun, names: CallerTable, touches: TouchIndex | None = None, *, watched: bool = False
) -> ProgramState:
    """What rules know of a run before its first step."""
    places, joined, use = Places(names), run.once(partners), block_use(run)
    touched = touched_ranges(run, joined, touches) if touches is not None and touches.sampled else None
    return ProgramState(run, joined, places, use, touched, RepeatedBytes(run, use, places), watched=watched)


def search(state: ProgramState) -> tuple[list[FindingRow], list[Hazard]]:
    """The findings of all rules, seen ones first, and the hazards, each after its search."""
    rows: FindingRows = {}
    apis = {"", *state.run.apis}
    rules = [rule(state, rows) for rule in all_rules().values() if getattr(rule, "api", "") in apis]
    takers: dict[type, list[Callable[[int, TracedStep], None]]] = defaultdict(list)
    for rule in sorted(rules, key=lambda rule: WaitCall in rule.steps):  # a copy that blocks ends with a wait
        for kind in rule.steps:
            takers[kind].append(rule.take)
    for number, step in enumerate(state.run.steps):
        state.arrive(number)
        if (takes := takers.get(type(step))) and not _is_of_vendor_memory(state.run, step):
            for take in takes:
                take(number, step)
        state.advance(number, step)
    for rule in rules:
        rule.finish()
    certainties = get_args(FindingCertainty)
    ordered = sorted(rows.values(), key=lambda row: (certainties.index(row.certainty), issubclass(row.rule, Hazard)))
    return ordered, sorted((rule for rule in rules if isinstance(rule, Hazard)), key=lambda hazard: hazard.order)


def _saved(run: TracedRun, joined: Partners, clock: float) -> SavedBytes:
    most = most_saved(run, joined)
    return SavedBytes(
        bytes=most.saved,
        of=most.device + most.host,
        device=most.device,
        host=most.host,
        t=round(max(0.0, most.t - clock), 6),
    )


def _is_of_vendor_memory(run: TracedRun, step: TracedStep) -> bool:
    """Whether a step copies or fills what a library of the vendor allocates, or a static variable for it."""
    if not (type(step) is TracedCopy or type(step) is TracedFill):
        return False
    block = run.blocks[step.target.block if isinstance(step, TracedFill) else step.device.block]
    return is_of_vendor(step.call.site) if block.kind in STATIC_KINDS else block.is_of_vendor


def unseen_use(
    state: ProgramState, blocks: Sequence[PortBlock], told: int, calls: Sequence[CopyCalls] = ()
) -> UnseenUse:
    """How much the profile cannot tell. told: launches of which a second run told what they use. calls: of copies."""
    run = state.run
    return UnseenUse(
        pooled=sum(block.in_pool == "whole" for block in run.blocks),
        parts=sum(block.in_pool == "part" for block in run.blocks),
        named=sum(bool(block.launches) and not _stays_static(block) for block in blocks),
        unrecorded=run.launches - run.unknown - told,
        is_exact=told > 0 or "CUDA" not in state.run.apis,
        unknown=run.unknown,
        launches=run.launches,
        not_compared=state.repeated.not_compared,
        unwatched=sum(block.unwatched or 0 for block in blocks),
        unwatched_inputs=sum(row.bytes for row in calls if row.reason == "unseen"),
        gpus=len({block.device for block in run.blocks if not block.on_host}),
        strange=run.count(
            number for number, step in enumerate(run.steps) if type(step) is TracedLaunch and step.strangers
        ),
        outside=run.outside,
        unlooked="" if has_looks(run) or not state.use.copies else "asked" if state.watched else "not asked",
        is_guessed=run.guesses_arguments,
        pool_files=frozenset(frame.file for block in run.blocks if block.in_pool for frame in block.site),
    )


def _stays_static(block: PortBlock) -> bool:
    """Whether it is a variable of the device that nothing copies, such as the empty objects of CUDA's C++ library."""
    return block.kind in STATIC_KINDS and not block.into.copies and not block.out.copies
