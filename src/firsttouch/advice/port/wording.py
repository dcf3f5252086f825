"""The sentences of `port`, made of rows: its answer, findings, how far hazards were looked for, what is not seen."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from firsttouch.advice.port.places import counted, largest, named_places, summed
from firsttouch.advice.port.port_findings import (
    KeptBecause,
    NeededWait,
    OtherCopies,
    PortBlock,
    PortFinding,
    SavedBytes,
    SearchedHazard,
    ShadowLook,
    StepRecord,
)
from firsttouch.advice.port.rule import Coverage, FindingRow, FindingWords, Hazard
from firsttouch.advice.port.rules import all_rules
from firsttouch.base.units import format_size
from firsttouch.profile.headline import short
from firsttouch.profile.recorded import Runtime
from firsttouch.program.needless import WhyNotCompared
from firsttouch.records.text import join_names

PAGE = "docs/porting.md"
COPIES_OF: Mapping[str, str] = {
    "managed": "of managed memory",
    "sharing": "of buffers that share memory with the CPU",
    "array": "of arrays of the texture units",
    "static": "of static variables of the device",
    "stack": "of variables of the stack",
    "library": "of memory that a library allocates",
}


@dataclass(frozen=True)
class KeptWords:
    """Why a host array stays beside its buffer: `text`, unless `unless`; '' if that is seen."""

    text: str
    unless: str = ""


_NO_STALE_READ = "kernels only read the buffer"
KEPT: Mapping[KeptBecause, KeptWords] = {
    "differs": KeptWords("one side is used while the other has newer bytes"),
    "written": KeptWords("the CPU writes the host array while the buffer is still in use"),
    "overwritten": KeptWords("another buffer is copied into the host array while this one is still in use"),
    "changed": KeptWords(
        "the host array is written after the copy back, and the buffer is used again",
        "kernels overwrite the whole buffer after that, without reading it, or the array was freed before",
    ),
    "interleaved": KeptWords(
        "the CPU writes the host array and kernels may write the buffer, which is still in use, between two copies",
        "it writes before kernels that overwrite the whole buffer without reading it",
    ),
    "read": KeptWords(
        "the host array is read again after the copy, and kernels may write the buffer",
        f"it is read only before these kernels, or {_NO_STALE_READ}",
    ),
    "restores": KeptWords("parts of the host array bring back what the buffer had before kernels", _NO_STALE_READ),
    "prepared": KeptWords(
        "the buffer is written before the first copy from it", "the CPU fills the host array after that"
    ),
    "result": KeptWords(
        "the CPU writes the host array after the copy, and another array got the buffer's result",
        "it writes only after the kernels, and uses neither the old values nor that result after that",
    ),
    "rewritten": KeptWords(
        "the CPU writes the host array after the copy",
        "it does so only after the kernels, without reading the old values, or the array was freed before",
    ),
    "late": KeptWords("", "the CPU writes the host array before these kernels have ended, which was not seen"),
    "unseen": KeptWords("", "the CPU reads the host array again, which was not seen"),
    "turns": KeptWords("", "kernels use what the buffer had before, which the array that takes its turn does not have"),
    "reset": KeptWords("", "a kernel writes the buffer, whose old values this copy brings back"),
}
_ALLOCATORS = {
    "/libc10_cuda": "PYTORCH_NO_CUDA_MEMORY_CACHING=1 turns off the allocator of PyTorch",
    "/cupy": "cupy.cuda.set_allocator(None) turns off the allocator of CuPy",
    "/xla_": "XLA_PYTHON_CLIENT_ALLOCATOR=platform turns off the allocator of JAX",
}
"""How allocators are turned off, by what the path of a file that allocates contains."""

_NOT_COMPARED: Mapping[WhyNotCompared, str] = {
    "part": "use --check-copies",
    "no sample": "in a graph, or back without blocking, they are not compared",
    "launch": "a kernel ran in between of which it is not known what it accesses",
}


def headline(
    name: str,
    saved: SavedBytes,
    copies: int,
    copied: int,
    hazards: int,
    others: Sequence[OtherCopies] = (),
    waits: Sequence[NeededWait] = (),
    *,
    noted: Sequence[str] = (),
    needed: int = 0,
    perhaps: bool = False,
    partial: bool = False,
    status: int | None = None,
) -> str:
    """The answer in one sentence. name: of the program. copies, copied: between both sides; needed: how many of them a
    unified version needs too; perhaps: some of these perhaps not. hazards: the kinds of findings that have to be fixed;
    noted: the titles of others that are seen or likely. others: copies that are not among `copies`. waits: that it
    needs; only likely ones count. partial: whether the trace lacks records, so that all of it is of the rest. status:
    the program's exit status, None if unknown.
    """
    needed_waits = sum(wait.certainty == "likely" for wait in waits)
    but_waits = f"but {counted(needed_waits, 'explicit wait')} for the device" if needed_waits else ""
    first = "" if needed_waits else "nothing has to be fixed first" if noted else "no hazard was found"
    if partial:
        name, first = f"{name}, as far as its trace has records,", f"{first} in these" if first else ""
    if hazards:
        first = f"fix {counted(hazards, 'hazard')} first"
    last = [first, f"to note: {join_names(noted, 'and')}" if noted else ""]
    if not copies:
        what = "copies no buffer between host and device"
        if others:
            what = f"copies no buffer that the host could share, but makes {other_copies(others)}"
        subject = f"each of {name}" if name.startswith("the ") else name
        so = "so a unified version saves nothing"
        if status:
            so = f"and ended with exit status {status}, so what it would have copied is unknown"
        return "; ".join(filter(None, [f"{subject} {what}, {so}", *last])) + "."
    copied_words = f"{counted(copies, 'copy', 'copies')} ({format_size(copied, 3)})"
    less = f"at most {format_size(saved.bytes, 3)} of {format_size(saved.of, 3)} at the peak"
    without = "needs none of the" if copies > 1 else "does not need its"
    if needed:
        most = "up to " if perhaps else ""
        without = f"needs {most}{needed:,} of the" if copies > 1 else "may need its" if perhaps else "needs its"
    sentence = f"A unified version of {name} saves {less} and {without} {copied_words}"
    return "; ".join(filter(None, [", ".join(filter(None, [sentence, but_waits])), *last])) + "."


def likely_by_line(waits: Iterable[NeededWait]) -> list[NeededWait]:
    """A likely wait of each line, which functions made of the same template have in common."""
    by_line: dict[tuple[str, str, int, str], NeededWait] = {}
    for wait in waits:
        place = wait.copy if wait.before == "reads" or wait.stays else wait.work
        key = wait.before, place.source or place.file, place.line, "" if place.line else place.function
        if wait.certainty == "likely":
            by_line.setdefault(key, wait)
    return [*by_line.values()]


def noted_titles(findings: Iterable[PortFinding], hazards: Container[str]) -> list[str]:
    """The titles of what is seen or likely and none of the kinds that have to be fixed, `hazards`."""
    kinds = (row.kind for row in findings if row.certainty != "possible" and row.kind not in hazards)
    return [all_rules()[kind].title for kind in dict.fromkeys(kinds)]


def turns_words(block: PortBlock) -> str:
    """The host arrays that copies join with the same part of a block in turn, whole or in parts; '' without any."""
    windows = [partner for partner in block.partners if partner.window]
    if not windows:
        return ""
    size = format_size(sum(partner.bytes for partner in windows), 3)
    if len(windows) == 1:
        return f"parts of a host array of {size} in turn"
    at_least = "at least " if block.ranges > len(block.partners) else ""
    parts = "parts of " if any(partner.bytes > block.bytes for partner in windows) else ""
    return f"{parts}{at_least}{len(windows)} host arrays ({size}) in turn"


def wait_words(wait: NeededWait) -> str:
    """What a unified version has to wait for, and where."""
    kernel = f"{short(wait.kernel, 60)} may still run" if wait.kernel else "work of the device may still be under way"
    work, copies = named_places([*wait.earlier, wait.work]), named_places([wait.copy])
    if wait.stays:
        writes = ", before the CPU writes its array" if wait.before == "writes" else ""
        text = f"wait for the device after the copy at {copies}, which stays{writes}{_doubt(wait)}"
        return f"{text}: it no longer makes the CPU wait"
    if wait.before == "reads":
        launched = "launched" if wait.kernel else "asked for"
        text, reason = f"wait for the device in place of the copy at {copies}", f"{kernel} ({launched} at {work})"
    else:
        text, reason = f"wait for the device after {work}, before the CPU writes what is copied at {copies}", kernel
    return f"{text}{_doubt(wait)}: {reason}"


def _doubt(wait: NeededWait) -> str:
    """When a wait is not needed, with a comma before it; '' if that is not known of anything."""
    if wait.before == "writes" and not wait.stays:  # the order of a write and a launch between two copies is not seen
        return f", unless it wrote that before{', which is not known' if wait.certainty == 'possible' else ''}"
    if wait.certainty != "possible":
        return ""
    following = f" at {named_places([wait.following], wait.copy)}" if wait.following is not None else ""
    uses = "it does so" if wait.before == "writes" else "the CPU uses the data"
    seen = f", as was seen after {counted(wait.unread, 'copy', 'copies')} there" if wait.unread else ""
    return f", unless {uses} only after the program's next wait{following}{seen}"


def other_copies(rows: Sequence[OtherCopies]) -> str:
    """Such as '60 copies (2.5 GiB) of managed memory'."""
    return join_names(
        [f"{counted(row.copies, 'copy', 'copies')} ({format_size(row.bytes, 3)}) {COPIES_OF[row.of]}" for row in rows],
        "and",
    )


def worded_finding(
    row: FindingRow, record: Callable[[int], StepRecord], runtimes: Iterable[Runtime] = ()
) -> PortFinding:
    """A finding with its words. record: of a step, by its number. runtimes: that the program used, but for CUDA."""
    rule, words = row.rule, row.rule.words[row.variant]
    is_advised = row.certainty != "possible"
    return PortFinding(
        kind=rule.name,
        certainty=row.certainty,
        to_fix=row.to_fix,
        text=words.text.format_map(row.grounds),
        reading=words.unless if row.certainty == "likely" else "",
        strategy=f"{rule.strategy}{_xnack(words, runtimes)}" if is_advised else "",
        link=f"{PAGE}#{rule.chapter}" if is_advised else "",
        bytes=row.bytes,
        count=row.count,
        blocks=list(row.blocks),
        places=largest(summed(row.places)),
        records=[*map(record, row.steps)],
    )


def _xnack(words: FindingWords, runtimes: Iterable[Runtime]) -> str:
    """What an AMD GPU needs to reach the memory of a finding, and whether it had that, after a semicolon."""
    hip = next((runtime for runtime in runtimes if runtime.api == "HIP"), None)
    if hip is None or not words.memory:
        return ""
    features = hip.architecture.split(":")[1:]  # such as gfx90a:sramecc+:xnack-
    state = ", which was on" if "xnack+" in features else ", which was off" if "xnack-" in features else ""
    return f"; an AMD GPU reaches {words.memory} only with XNACK{state}"


def worded_search(hazard: Hazard) -> SearchedHazard:
    """Whether a hazard was looked for, and what that leaves out."""
    coverage = hazard.coverage()
    return SearchedHazard(
        kind=hazard.name, searched=coverage.searched, limit=coverage.limit, text=limit_words(hazard, coverage)
    )


def limit_words(hazard: Hazard | type[Hazard], coverage: Coverage) -> str:
    """What the search for a hazard left out, or ''."""
    return hazard.limits[coverage.limit].format_map(coverage.grounds) if coverage.limit else ""


def shadow_words(look: ShadowLook) -> str:
    """What a look at each call showed of arrays beside their blocks."""
    found = counted(look.differences, "difference") if look.differences else "no difference"
    some = f"; not everything was looked at of {look.partial:,}" if look.partial else ""
    return f"{found} from one memory in {counted(look.arrays, 'array')}{some}"


@dataclass(frozen=True)
class UnseenUse:
    """What a profile cannot tell, in numbers.

    pooled: blocks that an allocator of the program divides, in parts that are not known; parts: parts of others, which
    are assumed. named: blocks that launches name; unrecorded: launches that may use all of these; is_exact: a second
    run told of others, or cannot tell, as of programs without CUDA. unknown: launches of which no block is known, of
    `launches`. not_compared: repeated copies. unwatched: bytes that were copied back, of which it is not known whether
    the CPU used them; unwatched_inputs: that were copied to buffers which kernels may write, of which it is not known
    whether the CPU read them again. gpus: that the blocks are on. strange: launches that name memory which no recorded
    call allocated; outside: copies of such. unlooked: whether looks at the host were asked for, of which none was
    recorded although there are copies; '' else. pool_files: those from which pools are allocated. is_guessed: no launch
    tells what it names.
    """

    pooled: int
    parts: int
    named: int
    unrecorded: int
    is_exact: bool
    unknown: int
    launches: int
    not_compared: Mapping[WhyNotCompared, int]
    unwatched: int
    unwatched_inputs: int
    gpus: int
    strange: int
    outside: int
    unlooked: Literal["", "asked", "not asked"] = ""
    pool_files: frozenset[str] = frozenset()
    is_guessed: bool = False


def unseen_sentences(unseen: UnseenUse) -> Iterator[str]:
    hints = [hint for part, hint in _ALLOCATORS.items() if any(part in file for file in unseen.pool_files)]
    more = "".join(f"; {hint}" for hint in hints)
    if unseen.unlooked:
        hint = " (use --host)" if unseen.unlooked == "not asked" else ": no look at host memory was recorded"
        yield f"what the CPU accesses between copies{hint}"
    if unseen.pooled:
        yield (
            f"the single buffers in {counted(unseen.pooled, 'memory pool')}, "
            f"{'which is' if unseen.pooled == 1 else 'each of which is'} treated as one buffer{more}"
        )
    if unseen.parts:
        yield (
            f"where {counted(unseen.parts, 'part')} of memory pools {'begins' if unseen.parts == 1 else 'begin'} and "
            f"{'ends' if unseen.parts == 1 else 'end'}: assumed from the addresses that copies and kernels name"
            f"{'' if unseen.pooled else more}"
        )
    if unseen.is_guessed:
        yield "which of the mapped arrays some target regions use: unseen, so that they are taken to use all"
    elif unseen.named and unseen.unrecorded > 0:
        yield (
            f"which bytes of {counted(unseen.named, 'buffer')} the kernels of "
            f"{counted(unseen.unrecorded, 'launch', 'launches')} access{'' if unseen.is_exact else ' (use --exact)'}"
        )
    if unseen.unknown:
        yield f"which buffers {unseen.unknown:,} of {counted(unseen.launches, 'launch', 'launches')} access"
    for reason, number in unseen.not_compared.items():
        copies = counted(number, "repeated copy", "repeated copies")
        yield f"whether {copies} moved the same bytes again ({_NOT_COMPARED[reason]})"
    if unseen.unwatched:
        yield f"whether the CPU reads {format_size(unseen.unwatched, 3)} that were copied back"
    if unseen.unwatched_inputs:
        size = format_size(unseen.unwatched_inputs, 3)
        yield f"whether the CPU reads again {size} that were copied to buffers which kernels may write"
    if unseen.gpus > 1:
        yield f"which of {unseen.gpus} GPUs a unified buffer would be on: several GPUs are not modelled"
    if unseen.strange:
        launches = counted(unseen.strange, "launch", "launches")
        yield f"memory that is passed to {launches} and that no recorded call allocated (pools, VMM)"
    if unseen.outside:
        yield f"{counted(unseen.outside, 'copy', 'copies')} of memory that no recorded call allocated"
