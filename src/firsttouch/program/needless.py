"""Copies whose bytes the other side holds already, and those that restore what one buffer would have lost.

The pages of a copy are compared by a hash of them (`MoveCall.sample`) with those of the copy that last joined exactly
these bytes of host and device. Copies of other bytes between the two, or of parts of them, end the comparison. A block
that is freed and allocated at the same call again would have kept its bytes if it had lived on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from firsttouch.profile.calls import PAGE_LOCKED, HostUse
from firsttouch.program.partners import joined, may_pair
from firsttouch.program.range_map import RangeMap
from firsttouch.program.trace import (
    NO_BLOCK,
    TracedAllocation,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedMapping,
    TracedRange,
    TracedRun,
    TracedUse,
    beside_launches,
)
from firsttouch.program.watched import PAGE_BYTES, HostHistory

NEVER = -1
WhyNotCompared: TypeAlias = Literal["part", "no sample", "launch"]
"""part: the CPU was seen to write pages of it, which were not all compared; no sample: of one of the two, as of what a
graph copies and of what comes back without a wait; launch: one of which nothing is known was in between.
"""


class RepeatedCopy(msgspec.Struct, frozen=True, gc=False):
    """A copy, the step `copy`, of the bytes that step `since` brought to the other side.

    why: 'needless' if the other side holds them still. 'restoring' if it was overwritten in between: the device by step
    `writer`, surely if `surely`, for a launch that names the block may; or, of a copy to the host, the host by the CPU.
    unwritten: whether the watch told that the CPU wrote none of the host's bytes between the two, so that they are the
    same even if only a part was compared. life: how often the block was freed before this copy, if it was between the
    two, so that the device would have the bytes had it lived on; 0: it did.
    """

    why: Literal["needless", "restoring"]
    copy: int
    since: int
    writer: int = NEVER
    surely: bool = False
    unwritten: bool = False
    life: int = 0


@dataclass
class _HeldBytes:
    """Bytes that host and device both had after the copy of step `since`, in a life of the block. overwritten: the step
    that did it surely.
    """

    start: int
    end: int
    host: int
    sample: int | None
    since: int
    life: int
    overwritten: int = NEVER


@dataclass
class _BlockBytes:
    """What is known of the bytes of a block. written: the last launch that may have written it, for it names it. life:
    how often it was freed.
    """

    held: RangeMap[_HeldBytes] = field(default_factory=RangeMap)
    written: int = NEVER
    life: int = 0


@dataclass
class RepeatedCopies:
    """copies: in program order. not_compared: how many copies join the same bytes as the one before, and may be equal,
    by the reason why that is not known.
    """

    copies: list[RepeatedCopy] = field(default_factory=list)
    not_compared: Counter[WhyNotCompared] = field(default_factory=Counter)


def repeated_copies(run: TracedRun) -> RepeatedCopies:
    """All copies of bytes that were copied before and have not changed on the side that they come from."""
    result, blocks = RepeatedCopies(), defaultdict[int, _BlockBytes](_BlockBytes)
    host_writes: RangeMap[int] = RangeMap()
    """The last steps that tell of pages of the host that the CPU wrote."""
    is_watched = any(type(step) is HostUse for _, step in run.once(beside_launches))
    history, unknown = HostHistory() if is_watched else None, NEVER
    latest: dict[int, tuple[tuple[TracedUse, ...], int]] = {}
    """The last launch that names some blocks, since a block's copies or lives were looked at."""

    def settle() -> None:
        for uses, last in latest.values():
            for use in uses:
                if use.may_write:
                    blocks[use.block].written = max(blocks[use.block].written, last)
        latest.clear()

    for number, step in enumerate(run.steps):
        if type(step) is TracedLaunch:
            if step.call.captured:
                continue
            if step.call.arguments is None:
                unknown = number
            latest[id(step.uses)] = step.uses, number
        elif type(step) is TracedCopy:
            if step.way == "d2d":
                _mark_overwritten(blocks[step.target.block], step.target, number)
            elif step.way != "h2h" and step.device.block != NO_BLOCK:
                settle()
                _compare_copy(
                    run, blocks[step.device.block], step, number, unknown, _seen_writes(host_writes, step), result,
                    history,
                )  # fmt: skip
                if history is not None:
                    history.copied(step, number)
        elif type(step) is TracedFill:
            _mark_overwritten(blocks[step.target.block], step.target, number)
        elif type(step) is TracedAllocation:
            settle()
            blocks[step.block].life += not step.begins
        elif type(step) is TracedMapping:
            blocks[step.block].held.remove(step.start, step.end)
        elif type(step) is HostUse and history is not None:
            history.watched(step)
            for start, end in step.writes:
                host_writes.assign(start, end, number)
    return result


def _seen_writes(host_writes: RangeMap[int], copy: TracedCopy) -> int:
    """The last step that tells of whole pages of a copy to the device that the CPU wrote, if not all were compared."""
    if not host_writes or copy.way != "h2d" or copy.call.sampled_bytes >= copy.device.total:
        return NEVER
    last = NEVER
    for start, end, host in joined(copy):
        low, high = -(-host // PAGE_BYTES) * PAGE_BYTES, (host + end - start) // PAGE_BYTES * PAGE_BYTES
        last = max([last, *(number for _, _, number in host_writes.overlapping(low, high))] if low < high else [last])
    return last


def _mark_overwritten(block: _BlockBytes, target: TracedRange, number: int) -> None:
    for start, end in target.pieces:
        for _, _, held_bytes in block.held.overlapping(start, end):
            held_bytes.overwritten = number


def _compare_copy(
    run: TracedRun, block: _BlockBytes, copy: TracedCopy, number: int, unknown: int, seen: int, result: RepeatedCopies,
    history: HostHistory | None,
) -> None:  # fmt: skip
    """Compares a copy with what its bytes were, and notes what they are now. unknown: the last launch of which nothing
    is known; seen: the last step that tells of pages that the CPU wrote. history: None if nothing was watched.
    """
    parts, times = joined(copy), run.times.get(number, 1)
    only = parts[0] if len(parts) == 1 and may_pair(run.blocks[copy.device.block], copy) else None
    if only is not None and (held_bytes := _held_exactly(block, *only)) is not None:
        if held_bytes.sample is None or copy.call.sample is None:
            result.not_compared["no sample"] += times
        elif unknown > held_bytes.since:
            result.not_compared["launch"] += times
        elif seen > held_bytes.since:
            result.not_compared["part"] += times
        else:
            is_unwritten = (
                history is not None
                and copy.call.host not in PAGE_LOCKED
                and history.is_unwritten(  # by the CPU: kernels write these
                    only.host, only.host + only.end - only.start, held_bytes.since
                )
            )
            result.copies += _repeated_copy(block, held_bytes, copy, number, is_unwritten)
        held_bytes.sample, held_bytes.since, held_bytes.overwritten = copy.call.sample, number, NEVER
        held_bytes.life = block.life
        return
    for start, end, _ in parts:
        block.held.remove(start, end)
    if only is not None:
        block.held.assign(only.start, only.end, _HeldBytes(*only, copy.call.sample, number, block.life))


def _held_exactly(block: _BlockBytes, start: int, end: int, host: int) -> _HeldBytes | None:
    """What is held of exactly these bytes, if no other copy has joined any of them with anything since."""
    held = block.held.exactly(start, end)
    return held if held is not None and (held.start, held.end, held.host) == (start, end, host) else None


def _repeated_copy(
    block: _BlockBytes, held_bytes: _HeldBytes, copy: TracedCopy, number: int, is_unwritten: bool
) -> Iterator[RepeatedCopy]:
    if copy.call.sample != held_bytes.sample:
        return
    writer = max(held_bytes.overwritten, block.written if block.written > held_bytes.since else NEVER)
    surely, is_alive = held_bytes.overwritten != NEVER, held_bytes.life == block.life
    if copy.way == "h2d":
        kind: Literal["needless", "restoring"] = "needless" if writer == NEVER else "restoring"
        life = 0 if is_alive else block.life
        yield RepeatedCopy(kind, number, held_bytes.since, writer, surely, is_unwritten, life)
    elif writer == NEVER and copy.call.before is not None and is_alive:
        kind = "needless" if copy.call.before == copy.call.sample else "restoring"
        yield RepeatedCopy(kind, number, held_bytes.since, surely=True, unwritten=is_unwritten)
