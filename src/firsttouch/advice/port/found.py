"""What stands between a traced program and unified memory: `found` makes all findings of a traced run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from firsttouch.advice.port.blocks import ProgramUse, block_use, port_blocks
from firsttouch.advice.port.concurrent import ConcurrentAccess
from firsttouch.advice.port.cpu_use import watched_ranges
from firsttouch.advice.port.hazards import Findings, ProgramState, RecordOf
from firsttouch.advice.port.hidden import TouchedRange, find_hidden, touched_ranges
from firsttouch.advice.port.places import Places, counted
from firsttouch.advice.port.port_findings import (
    HAZARDS,
    HazardKind,
    KernelUse,
    PortBlock,
    PortFinding,
    PortFindings,
    SavedBytes,
    SearchedHazard,
    StepRecord,
)
from firsttouch.advice.port.repeated import RepeatedBytes
from firsttouch.advice.port.rules import FreeMemory, PartialTransfer, StackVariable, StaticVariable
from firsttouch.advice.port.savings import most_saved
from firsttouch.base.units import format_size
from firsttouch.profile.call_journal import is_of_vendor
from firsttouch.profile.calls import CudaQuery, CudaWait, HostUse
from firsttouch.profile.touches import TouchIndex
from firsttouch.profile.traced import CallerTable
from firsttouch.program.partners import Partners, partners
from firsttouch.program.trace import STATIC_KINDS, TracedCopy, TracedFill, TracedLaunch, TracedRun, TracedStep

_ORDER = ("seen", "likely", "possible")


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
) -> PortFindings:
    """All findings of a process.

    names: of the places of calls. directory, command, others, status: of the profile. clock: the time 0 of its results,
    as a reading of CLOCK_MONOTONIC. touches: who touched memory first, if that was sampled. kernels: what a second run
    told of them, if there was one.
    """
    places, joined, use = Places(names), partners(run), block_use(run)
    touched = touched_ranges(run, joined, touches) if touches else []
    blocks = port_blocks(run, joined, use, places, touched)
    pooled = [number for number, block_use_ in use.blocks.items() if block_use_.is_pooled]
    repeated = RepeatedBytes(run, use, places)

    def record(number: int) -> StepRecord:
        return StepRecord(step=number, t=round(max(0.0, time_of(run.steps[number]) - clock), 6))

    findings = sorted(
        [*repeated.restoring(record), *_hazard_findings(run, joined, places, pooled, touched, record)],
        key=lambda finding: (_ORDER.index(finding.certainty), finding.kind != "restoring"),
    )
    most = most_saved(run, joined)
    saved = SavedBytes(
        bytes=most.saved,
        of=most.device + most.host,
        device=most.device,
        host=most.host,
        t=round(max(0.0, most.t - clock), 6),
    )
    return PortFindings(
        summary=headline(Path(command[0]).name if command else "program", saved, use, findings),
        directory=directory,
        command=list(command),
        pid=run.pid,
        others=list(others),
        status=status,
        saved=saved,
        copies=use.copies,
        copied=use.copied,
        blocks=blocks,
        needless=repeated.needless(record),
        findings=findings,
        searched=_searched_hazards(run, joined, touched),
        unseen=list(_unseen_sentences(run, blocks, pooled, repeated.not_compared, kernels.told if kernels else 0)),
        incomplete=list(run.incomplete),
        kernels=kernels,
    )


def time_of(step: TracedStep) -> float:
    """When a step's call returned, as a reading of CLOCK_MONOTONIC."""
    return step.t if isinstance(step, CudaWait | CudaQuery | HostUse) else step.call.t


def headline(name: str, saved: SavedBytes, use: ProgramUse, findings: Sequence[PortFinding]) -> str:
    """The answer in one sentence."""
    number = len({finding.kind for finding in findings if finding.certainty != "possible"})
    first = f"solve {counted(number, 'thing')} first" if number else "nothing that stands in the way was found"
    if not use.copies:
        return f"{name} copies no buffer between host and device, so that a unified version saves nothing; {first}."
    copied = f"{counted(use.copies, 'copy', 'copies')} ({format_size(use.copied, 3)})"
    less = f"at most {format_size(saved.bytes, 3)} less of {format_size(saved.of, 3)}"
    without = "needs none of" if use.copies > 1 else "does without its"
    return f"A unified {name} holds {less} and {without} {copied}; {first}."


def _hazard_findings(
    run: TracedRun,
    joined: Partners,
    places: Places,
    pooled: Sequence[int],
    touched: Sequence[TouchedRange],
    record: RecordOf,
) -> list[PortFinding]:
    state, findings = ProgramState(run, joined, places, pooled), Findings(record)
    stack = StackVariable(state, findings)
    rules = [kind(state, findings) for kind in (ConcurrentAccess, FreeMemory, PartialTransfer, StaticVariable)]
    takers: dict[type, list[Callable[[int, TracedStep], None]]] = defaultdict(list)
    for rule in (*rules, stack):
        for kind in rule.kinds:
            takers[kind].append(rule.take)
    for number, step in enumerate(run.steps):
        if (takes := takers.get(type(step))) and not _is_of_vendor_memory(run, step):
            for take in takes:
                take(number, step)
        state.advance(step)
    stack.finish()
    find_hidden(run, touched, places, findings)
    return findings.all()


def _is_of_vendor_memory(run: TracedRun, step: TracedStep) -> bool:
    """Whether a step copies or fills what a library of the vendor allocates, or a static variable for it."""
    if not isinstance(step, TracedCopy | TracedFill):
        return False
    block = run.blocks[step.target.block if isinstance(step, TracedFill) else step.device.block]
    return is_of_vendor(step.call.site if block.kind in STATIC_KINDS else block.site)


def _searched_hazards(run: TracedRun, joined: Partners, touched: Sequence[TouchedRange]) -> list[SearchedHazard]:
    """What was looked for, and what that leaves out."""
    concurrent = "as far as copies tell, without --host"
    if any(isinstance(step, HostUse) for step in run.steps):
        watched, ranges = watched_ranges(run, joined)
        concurrent = f"{watched} of {counted(ranges, 'range')} of the host were watched while kernels ran"
        if not watched:
            concurrent = "as far as copies tell, since no range of the host was watched while kernels ran"
        concurrent = concurrent if watched < ranges and run.launches else ""
    unknown = sum(not touched_range.touches.samples for touched_range in touched)
    hidden = f"{unknown} of {counted(len(touched), 'range')} of the host have no sampled first touch"
    if not touched or unknown == len(touched):
        hidden = "no first touches of the copied buffers were sampled (--faults)"
    searches: dict[HazardKind, tuple[bool, str]] = {
        "concurrent": (True, concurrent),
        "hidden": (unknown < len(touched), hidden if unknown or not touched else ""),
    }
    return [SearchedHazard(kind=kind, searched=searched, text=text)
            for kind, (searched, text) in ((kind, searches.get(kind, (True, ""))) for kind in HAZARDS)]  # fmt: skip


# ---------------------------------------------------------------------------------------------------- what is not seen


def _stays_static(block: PortBlock) -> bool:
    """Whether it is a variable of the device that nothing copies, such as the empty objects of CUDA's C++ library."""
    return block.kind in STATIC_KINDS and not block.into.copies and not block.out.copies


def _unseen_sentences(
    run: TracedRun, blocks: Sequence[PortBlock], pooled: Sequence[int], not_compared: int, told: int
) -> Iterator[str]:
    if pooled:
        yield (
            f"the buffers within {counted(len(pooled), 'block')} that an allocator of the program divides, so that "
            "what is said of blocks is said of all of them; PYTORCH_NO_CUDA_MEMORY_CACHING=1 turns off that of PyTorch"
        )
    named = [block for block in blocks if block.launches and not _stays_static(block)]
    untold = run.launches - run.unknown - told
    if named and untold > 0:
        yield (
            f"what kernels use within {counted(len(named), 'block')} that "
            f"{counted(untold, 'launch', 'launches')} may use as a whole{'' if told else ' (--exact tells)'}"
        )
    if run.unknown:
        yield f"which blocks {run.unknown:,} of {counted(run.launches, 'launch', 'launches')} use"
    if not_compared:
        yield f"whether {counted(not_compared, 'repeated copy', 'repeated copies')} moved the same bytes again"
    devices = {block.device for block in run.blocks if not block.on_host}
    if len(devices) > 1:
        yield f"which of {len(devices)} GPUs takes a unified buffer: several GPUs are not modelled"
    strangers = sum(isinstance(step, TracedLaunch) and step.strangers > 0 for step in run.steps)
    if strangers:
        yield f"memory that {counted(strangers, 'launch', 'launches')} name and no recorded call allocated (pools, VMM)"
    if run.outside:
        yield f"{counted(run.outside, 'copy', 'copies')} of memory that no recorded call allocated"
