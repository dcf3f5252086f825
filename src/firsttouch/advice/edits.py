"""What a strategy changes in the source of a traced program, by line."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from firsttouch.advice.apis import ApiMemory, ApiWords, words_of
from firsttouch.advice.edit import Edit
from firsttouch.advice.port.host_arrays import largest_lives, pageable_bytes
from firsttouch.advice.port.places import Places, line_of
from firsttouch.advice.port.port_findings import (
    CopyCalls,
    CopyFate,
    FilledFirst,
    NeededWait,
    PortBlock,
    PortFindings,
    TooEarly,
    WaitCertainty,
)
from firsttouch.advice.port.wording import KEPT
from firsttouch.machine.allocators.properties import is_plain_host
from firsttouch.profile.calls import PAGE_LOCKED
from firsttouch.profile.traced import CallLocation
from firsttouch.program.ahead import compute_begins
from firsttouch.program.partners import partners
from firsttouch.program.strategies import Strategy
from firsttouch.program.trace import TracedAllocation, TracedCopy, TracedLaunch, TracedRun
from firsttouch.program.watched import has_looks
from firsttouch.records.text import count


def joined_lines(lines: Iterable[str], before: str = "") -> tuple[str, str]:
    """'a.cu:168-172, 235, b.cu:7', without repeating the name of a file, and the last file. before: one that was named
    just before.
    """
    files: dict[str, list[int]] = {}
    unnumbered: list[str] = []
    for line in dict.fromkeys(lines):
        file, colon, number = line.rpartition(":")
        if colon and number.isdecimal():
            files.setdefault(file, []).append(int(number))
        else:
            unnumbered.append(line)
    texts = [
        f"{'' if file == before else file}:{_format_spans(sorted(set(numbers)))}" for file, numbers in files.items()
    ]
    return ", ".join([*texts, *unnumbered]), before if not files or unnumbered else [*files][-1]


def _format_spans(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def edits(run: TracedRun, found: PortFindings, places: Places, strategy: Strategy) -> list[Edit]:
    """The changes that a strategy needs, in the order in which they are made."""
    paired = [block for block in found.blocks if block.partners]
    if not paired:
        return []
    copies, api = _copies(run, {block.number for block in paired}, places), words_of(run.apis)
    if strategy.duplicated:
        if is_plain_host(strategy.host_arrays):
            return _edits_of_needless_copies(found, api) or _edits_of_fewer_copies(copies)
        lives = [life for life in largest_lives(run, run.once(partners)) if life.block in {b.number for b in paired}]
        return _edits_locking(paired, pageable_bytes(lives), strategy.host_arrays, api.lock, copies)
    joined = {number for row in found.copy_calls if row.fate == "dropped" for number in row.blocks}
    paired = [block for block in paired if block.number in joined]
    numbers, memory = {block.number for block in paired}, api.memory(strategy)
    changes = [
        *_edits_allocating(paired, memory),
        *_edits_passing(run, numbers, memory, places),
        *_edits_of_copies(
            found.copy_calls, "map" if memory.mapped else "drop", "dropped",
            "map and unmap the buffers in place of {}" if memory.mapped else memory.drops, "copy", "copies"
        ),
        *([] if has_looks(run) else _edits_checking(found.copy_calls)),
        *_edits_of_fills(found.fills),
        *_edits_waiting(found.waits, api, memory),
        *_edits_freeing(run, numbers, memory, places),
        *_edits_of_copies(
            found.copy_calls, "keep", "restoring", "keep {}, from a separate buffer", "restoring copy",
            "restoring copies"
        ),
        *_edits_of_copies(
            found.copy_calls, "keep", "shared", "keep {} of a host array that is now another buffer", "copy", "copies"
        ),
        *_edits_of_copies(found.copy_calls, "keep", "kept", "keep {} and both arrays", "copy", "copies"),
    ]  # fmt: skip
    begin = compute_begins(run)
    if begin >= 0 and isinstance(launch := run.steps[begin], TracedLaunch) and (strategy.prefetch or strategy.advise):
        words = [*(["advise"] if strategy.advise else ()), *(["prefetch"] if strategy.prefetch else ())]
        size = sum(block.bytes for block in paired)
        text, line = f"{' and '.join(words)} before the kernels that use them", places.in_program(launch.call.site)
        changes.append(Edit(words[-1], text, _lines([line]), len(paired), size))
    return changes


def _edits_of_fewer_copies(copies: Sequence[tuple[TracedCopy, CallLocation]]) -> list[Edit]:
    """Copies remain, of what the other side uses."""
    size = sum(copy.device.total for copy, _ in copies)
    text = f"of {count(len(copies), 'copy', 'copies')}, keep only those whose bytes the other side uses"
    return [Edit("omit", text, _lines(place for _, place in copies), len(copies), size)]


def _edits_of_needless_copies(found: PortFindings, api: ApiWords) -> list[Edit]:
    """Copies that are left out where host arrays and device arrays remain."""
    rows = [row for row in found.needless if row.certainty != "possible"]
    changes = []
    for text, alike in (
        ("drop {} whose bytes the other side already has", [row for row in rows if not row.renewed]),
        (api.again, [row for row in rows if row.renewed]),
    ):
        if alike:
            number = sum(row.copies for row in alike)
            lines, size = _lines(row.place for row in alike), sum(row.bytes for row in alike)
            changes.append(Edit("omit", text.format(count(number, "copy", "copies")), lines, number, size))
    if waiting := [row for row in rows if row.only_wait]:
        lines, copies = _lines(row.place for row in waiting), sum(row.copies for row in waiting)
        changes.append(Edit("wait", f"{api.wait} there, as these copies did", lines, copies, 0))
    return changes


def _lines(places: Iterable[CallLocation]) -> list[str]:
    return [*dict.fromkeys(map(line_of, places))]


def _edits_allocating(blocks: Sequence[PortBlock], memory: ApiMemory) -> Iterator[Edit]:
    """The blocks are allocated as memory of both sides."""
    in_turn = [block for block in blocks if any(partner.window and not partner.kept for partner in block.partners)]
    if whole := [block for block in blocks if block not in in_turn]:
        replaced = len({partner.array for block in whole for partner in block.partners if not partner.kept})
        text = memory.make.format(buffers=count(len(whole), "buffer"), arrays=count(replaced, "host array"))
        text += f" (needs {memory.needs})" if memory.needs else ""
        yield _edit_of_blocks("allocate", text, whole)
    if in_turn:
        buffers = count(len(in_turn), "buffer")
        text = f"in place of {buffers}, give kernels the host arrays that take turns, as memory of both sides"
        yield _edit_of_blocks("pass", text, in_turn)


def _edit_of_blocks(what: str, text: str, blocks: Sequence[PortBlock]) -> Edit:
    size = sum(block.bytes for block in blocks)
    return Edit(what, text, _lines(block.helper or block.place for block in blocks), len(blocks), size)


def _edits_passing(run: TracedRun, blocks: Container[int], memory: ApiMemory, places: Places) -> Iterator[Edit]:
    """Kernels get the blocks by another call."""
    launches = [s for s in run.steps if isinstance(s, TracedLaunch) and any(use.block in blocks for use in s.uses)]
    if memory.sets and launches:
        lines = _lines(places.in_program(launch.call.site) for launch in launches)
        yield Edit("pass", f"pass them by {memory.sets} to the kernels that use them", lines, len(launches), 0)


def _copies(run: TracedRun, blocks: Container[int], places: Places) -> list[tuple[TracedCopy, CallLocation]]:
    """The copies between the host and blocks, with their places."""
    copies = (s for s in run.steps if isinstance(s, TracedCopy) and s.way in ("h2d", "d2h"))
    return [(copy, places.in_program(copy.call.site)) for copy in copies if copy.device.block in blocks]


def _edits_of_copies(
    calls: Sequence[CopyCalls], what: str, fate: CopyFate, text: str, noun: str, several: str
) -> Iterator[Edit]:
    """What becomes of the copies of a fate, by why it does. text: with their number in its braces."""
    by_reason: dict[str, list[CopyCalls]] = {}
    for row in calls:
        if row.fate == fate:
            by_reason.setdefault(row.reason, []).append(row)
    for rows in by_reason.values():
        number, first = sum(row.copies for row in rows), rows[0]
        why = KEPT[first.reason].text if first.reason else ""
        parts = [f"{text.format(count(number, noun, several))}{f': {why}' if why else ''}"]
        parts += [f"unless {first.unless}"] if first.unless else []
        also = " (then drop these, and wait for the device there)" if first.unless and fate == "kept" else ""
        lines = _lines(row.place for row in rows)
        yield Edit(what, ", ".join(parts) + also, lines, number, sum(row.bytes for row in rows))


def _edits_checking(calls: Sequence[CopyCalls]) -> Iterator[Edit]:
    """What has to be found out where nothing is known of the CPU's use of the arrays."""
    if rows := [row for row in calls if row.fate == "dropped"]:
        text = "check how the CPU uses the host arrays between these copies, of which no look was recorded"
        size, copies = sum(row.bytes for row in rows), sum(row.copies for row in rows)
        yield Edit("check", text, _lines(row.place for row in rows), copies, size)


def _edits_waiting(waits: Sequence[NeededWait], api: ApiWords, memory: ApiMemory) -> Iterator[Edit]:
    """The calls by which the program then waits for the device, as a mapping does if it blocks."""
    alike: dict[tuple[TooEarly, WaitCertainty, bool], list[NeededWait]] = {}
    for wait in waits:
        alike.setdefault((wait.before, wait.certainty, wait.stays), []).append(wait)
    for (before, certainty, stays), rows in alike.items():
        copies, _ = joined_lines(_lines(wait.copy for wait in rows))
        to_wait = "map by a call that blocks" if memory.mapped and not stays else api.wait
        if before == "reads" or stays:
            places = [wait.copy for wait in rows]
            text = f"{to_wait} in place of these copies, before the CPU reads"
            if stays:
                what = "uses the data" if before == "reads" else "writes their arrays"
                text = f"{to_wait} after these copies, which stay, before the CPU {what}"
            does = "reads" if before == "reads" else "does so"
            text += f", unless it {does} only after the program's next wait" if certainty == "possible" else ""
        else:
            places = [wait.work for wait in rows]
            text = f"{to_wait} after these kernels, before the CPU writes what was copied at {copies}, unless it wrote "
            text += "that before"
        yield Edit("wait", text, _lines(places), sum(wait.copies for wait in rows), 0)


def _edits_of_fills(fills: Sequence[FilledFirst]) -> Iterator[Edit]:
    """Fills that would destroy what the CPU has prepared for copies that are dropped."""
    for is_needless in (True, False):
        if rows := [row for row in fills if row.is_needless == is_needless]:
            number = sum(row.fills for row in rows)
            fills_named, buffers = count(number, "fill"), "the buffer" if number == 1 else "the buffers"
            copies, _ = joined_lines(_lines(place for row in rows for place in row.copies))
            text = f"drop {fills_named} of {buffers}, which the CPU's data at {copies} replace"
            if not is_needless:
                text = f"move {fills_named} of {buffers} to before the CPU prepares what was copied at {copies}"
            yield Edit("omit", text, _lines(row.place for row in rows), number, sum(row.bytes for row in rows))


def _edits_freeing(run: TracedRun, blocks: Container[int], memory: ApiMemory, places: Places) -> Iterator[Edit]:
    """The buffers live as long as the host arrays that they replace."""
    ends = [s for s in run.steps if isinstance(s, TracedAllocation) and not s.begins and s.block in blocks]
    lines = _lines(places.in_program(end.call.site) for end in ends if end.call.site)
    if lines and memory.ends:
        buffers = count(len({end.block for end in ends}), "buffer")
        text = f"{memory.ends.format(buffers)} only after the CPU's last use"
        yield Edit("free", text, lines, len(ends), 0)


def _edits_locking(
    blocks: Sequence[PortBlock], size: int, allocator: str, lock: str, copies: Sequence[tuple[TracedCopy, CallLocation]]
) -> list[Edit]:
    """The host arrays become page-locked, bytes of which `size` are not yet. Their lines are known if page faults were
    sampled; else those of copies are named. lock: what to do with them, in words.
    """
    plain = [partner for block in blocks for partner in block.partners if partner.place not in PAGE_LOCKED]
    touched = [partner for partner in plain if partner.touched is not None]
    if not plain:
        return []
    arrays = len({partner.array for partner in plain})
    text = lock.format(arrays=count(arrays, "host array"), allocator=allocator)
    if len(touched) == len(plain):
        sampled = ", as far as was sampled" if any(partner.may_miss_touches for partner in touched) else ""
        lines = _lines(partner.touched for partner in touched if partner.touched)
        return [Edit("lock", f"{text}, first touched there{sampled}", lines, arrays, size)]
    lines = _lines(place for copy, place in copies if copy.call.host not in PAGE_LOCKED)
    return [Edit("lock", f"{text}, which the copies use", lines, arrays, size)]
