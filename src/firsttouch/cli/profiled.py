"""What `firsttouch profile` prints when the target has ended: at most 25 lines on stderr, the answer first."""

from __future__ import annotations

import re
import sys
import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

from firsttouch.advice.port.places import failed_words, unfinished_words, untimed_words, where
from firsttouch.base.units import format_seconds, format_size
from firsttouch.cli.output import text_width
from firsttouch.profile.headline import gpu_peak, headline, host_peak, how_ended, short, went_on
from firsttouch.profile.program_names import program_command
from firsttouch.profile.summary import BriefRow, GpuRow, PhaseRow, ProcessRow, ProfileSummary
from firsttouch.profile.trace import UnifiedMemory
from firsttouch.profile.traced import CallLocation, OfProcess
from firsttouch.records.text import percent
from firsttouch.report.line_words import line_texts
from firsttouch.report.profile_tables import named_touch, touched

MOST_LINES = 25
_MOST_PHASES, _MOST_PROCESSES, _MOST_UNSEEN, _MOST_NAMES, _MOST_TOUCHES = 6, 3, 3, 4, 5
_MOST_UNSEEN_LINES = 8
_HEAD = 10
"""The width of the first column."""
_LONGEST = 1000
_BREAKS = re.compile(r"[\t-\r\x1c-\x1e\x85\u2028\u2029]+")


def lines(summary: ProfileSummary, files: Sequence[str] = ()) -> list[str]:
    """The summary in words. files: the paths of what was written, named last.

    All ranks of an MPI launcher print to one terminal: those but the first one have one line.
    """
    if summary.rank not in ("", "0"):
        return [of_rank(summary), *(file for file in files if file.startswith("firsttouch: "))]
    sections = {
        "heading": _wrapped([of_rank(summary)]),
        "lines": _wrapped(_lines(summary)),
        "memory": _wrapped(_memory(summary)),
        "phases": _wrapped(_phases(summary)),
        "processes": _wrapped(_processes(summary)),
        "faults": _wrapped(_faults(summary)),
        "trace": _wrapped(_trace(summary)),
        "pages": _wrapped(_pages(summary)),
    }
    last = [*_cut(_wrapped(_unseen(summary)), _MOST_UNSEEN_LINES), *_flat(_wrapped(_cost(summary))), *files]
    return [*_fitted(sections, MOST_LINES - len(last)), *last]


_CUTS = (
    *(("pages", 0), ("faults", 2), ("phases", 3), ("processes", 2), ("trace", 3), ("memory", 2), ("lines", 9)),
    *(("faults", 0), ("phases", 0), ("processes", 0), ("memory", 1), ("trace", 1)),
)
"""The sections in the order in which they are cut, and how many lines of each then remain."""
_CUTS_WITH_LINES = (
    *(("pages", 0), ("phases", 0), ("trace", 2), ("faults", 1), ("processes", 2), ("memory", 2), ("lines", 12)),
    *(("faults", 0), ("processes", 0), ("memory", 1), ("trace", 1)),
)
"""The same where it is told what lines cost, which says more than phases and sums of copies."""


_Rows: TypeAlias = list[list[str]]
"""The lines of each row."""


def _flat(rows: _Rows) -> list[str]:
    return [line for row in rows for line in row]


def _first_rows(rows: _Rows, most: int) -> _Rows:
    """The rows that have room in so many lines, at least the beginning of the first."""
    ends = list(accumulate(map(len, rows)))
    whole = rows[: bisect_right(ends, most)]
    if whole or not rows or most < 1:
        return whole
    return [[*rows[0][: most - 1], f"{rows[0][most - 1]}\N{HORIZONTAL ELLIPSIS}"]]


def _fitted(rows_of: Mapping[str, _Rows], room: int) -> list[str]:
    """The lines of all sections, or as many as there is room for, and how many rows are left out of which."""
    sections, cut = {name: _flat(rows) for name, rows in rows_of.items()}, dict[str, int]()
    excess = sum(map(len, sections.values())) - room
    if excess > 0:
        excess += 1  # the line that says so
        for name, kept in _CUTS_WITH_LINES if sections["lines"] else _CUTS:
            removed = min(max(0, excess), max(0, len(sections[name]) - cut.get(name, 0) - kept))
            removed += name == "phases" and len(sections[name]) == removed + 1  # which has nothing but a heading then
            cut |= {name: cut.get(name, 0) + removed} if removed else {}
            excess -= removed
    shown = {name: _first_rows(rows, len(sections[name]) - cut.get(name, 0)) for name, rows in rows_of.items()}
    texts = [line for rows in shown.values() for line in _flat(rows)]
    if cut:
        left = sum(len(rows_of[name]) - len(shown[name]) for name in cut)
        texts.append(_row("", f"{_more(left)}: {', '.join(n for n in sections if n in cut)}"))
    return texts


def _cut(rows: _Rows, most: int) -> list[str]:
    if sum(map(len, rows)) <= most:
        return _flat(rows)
    first = _first_rows(rows, most - 1)
    return [*_flat(first), _row("", _more(len(rows) - len(first)))]


def _more(rows: int) -> str:
    """rows: that are left out; 0: only the end of one is."""
    return f"{rows} more in the report" if rows else "more in the report"


def of_rank(summary: ProfileSummary) -> str:
    """The answer in one line, with the number of the rank and how it ended if it did not end well."""
    ended = f"; exit status {summary.status}" if summary.rank and summary.status else ""
    return f"{f'rank {summary.rank}: ' if summary.rank else ''}{headline(summary)}{ended}"


def _wrapped(rows: Iterable[str]) -> _Rows:
    """The rows, each without line breaks, and long ones on several lines."""
    width = text_width(sys.stderr)
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=" " * _HEAD, replace_whitespace=False, break_long_words=False, break_on_hyphens=False
    )
    plain = [_BREAKS.sub(" ", row)[:_LONGEST] for row in rows]
    return [wrapper.wrap(row) if len(row) > width else [row] for row in plain]


def _row(head: str, text: str) -> str:
    return f"{head:<{_HEAD}}{text}"


def _memory(summary: ProfileSummary) -> Iterator[str]:
    host = summary.host
    if host.peak is not None:
        text = f"{host_peak(host)} resident at {format_seconds(host.peak.t)}"
        text += "; more pages were faulted in after that, so that the peak is unknown" if host.may_be_more else ""
        if (host.processes or 1) > 1:
            text += (
                f" in {host.processes} processes, in sum {format_size(host.peak.bytes, 3)} with shared pages counted "
            )
            text += "more than once"
        if host.stated is not None:
            text += f"; the kernel states {format_size(host.stated, 3)} for one process, between two readings"
        if host.at_end is not None and not host.may_be_more:
            text += f"; {format_size(host.at_end, 3)} at the end"
        yield _row("host", text)
        pss, beside = host.pss, host.pss_resident
        # PSS is read rarely. A reading at a time with little memory says nothing about the peak.
        if (host.processes or 1) > 1 and pss is not None and beside is not None and 2 * beside >= host.peak.bytes:
            text = f"{format_size(pss.bytes, 3)} of {format_size(beside, 3)} at {format_seconds(pss.t)}"
            yield _row("", f"with shared pages counted once (PSS) {text}")
    for gpu in summary.gpus:
        about = f"({', '.join(word for word in (gpu.model, gpu.source) if word)})"
        yield _row(gpu.name, f"{'; '.join(_of_gpu(gpu)) or 'unknown'} {about}")
        if gpu.shared:
            yield _row("", gpu.shared)


def _of_gpu(gpu: GpuRow) -> Iterator[str]:
    """The memory of the target on a GPU, as far as it is known, and that of all programs."""
    whose = {
        "processes": "of the target's processes",
        "allocations": "(without managed memory)",
    }
    if gpu.told is not None and gpu.peak_of in whose:
        at = f"{format_seconds(gpu.told.t)}{_within(gpu.told.phase)}"
        yield f"{gpu_peak(gpu)} {whose[gpu.peak_of]} at {at}"
    if gpu.rise is None or gpu.only_own:
        return
    if not gpu.rise.bytes:
        yield f"of the device, others included, no more than the {_size(gpu.before)} that were in use before"
        return
    text = f"of the device, others included, +{format_size(gpu.rise.bytes, 3)} at {format_seconds(gpu.rise.t)}"
    text += _within(gpu.rise.phase)
    yield text + (f" over {format_size(gpu.before, 3)} before" if gpu.before is not None else "")


def _lines(summary: ProfileSummary) -> Iterator[str]:
    """What the program's lines cost."""
    for number, text in enumerate(line_texts(summary.by_line)):
        yield _row("" if number else "lines", text)


def _within(phase: str) -> str:
    return f" (phase {short(phase, 40)})" if phase else ""


def _phases(summary: ProfileSummary) -> Iterator[str]:
    every = summary.phases
    if len(every) > _MOST_PHASES and not summary.phases_found:
        every = summary.phases_by_name
    importance = _growth if summary.phases_found else _seconds
    longest = max(every, key=_seconds, default=None)
    ranked = sorted(every, key=lambda row: (row is longest, importance(row)), reverse=True)
    rows = sorted(ranked[:_MOST_PHASES], key=lambda row: row.start)
    if not rows or (summary.phases_found and len(rows) == 1):
        return
    names = [_name(row) for row in rows]
    gpus = [gpu.name for gpu in summary.gpus if gpu.rise is not None][:3]
    of_several = (summary.host.processes or 1) > 1  # so that shared pages count more than once
    heads = ["time", "sum" if of_several else "peak", "growth", *gpus, "faults"]
    cells = [[_time(row), _size(row.peak), _sign(row.growth), *_gpus(row, gpus), _faults_of(row)] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    first = max(map(len, names))
    left = len(every) - len(rows)
    title = "found in the curve" if summary.phases_found else f"{left} more in the report" if left else ""
    for name, line, head in zip(["", *names], [heads, *cells], ["phases", *[""] * len(rows)], strict=True):
        shown = "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        yield _row(head, f"{name:<{first}}  {shown}{f'   {title}' if head and title else ''}".rstrip())


def _growth(row: PhaseRow) -> float:
    return abs(row.growth or 0)


def _seconds(row: PhaseRow) -> float:
    return row.seconds


def _name(row: PhaseRow) -> str:
    name = f"{row.name} ({row.domain})" if row.domain else row.name
    indent = "" if row.count > 1 else "  " * min(row.depth, 4)
    return f"{indent}{short(name, 30)}{f' x {row.count}' if row.count > 1 else ''}"


def _time(row: PhaseRow) -> str:
    return format_seconds(row.seconds)


def _size(value: int | None) -> str:
    return "?" if value is None else format_size(value, 3)


def _sign(value: int | None) -> str:
    return "?" if value is None else f"{'+' if value > 0 else ''}{format_size(value, 3)}"


def _gpus(row: PhaseRow, names: Sequence[str]) -> list[str]:
    growth = {gpu.name: gpu.growth for gpu in row.gpus}
    return [_sign(growth.get(name)) for name in names]


def _faults_of(row: PhaseRow) -> str:
    return "?" if row.minor is None else f"{row.minor:,}"


def _processes(summary: ProfileSummary) -> Iterator[str]:
    rows = summary.processes
    process_count = len(rows) + summary.processes_left_out
    if process_count == 1 and not summary.brief.count:
        yield _row("process", f"{how_ended(rows[0])}, after {format_seconds(summary.seconds)}")
        return
    yield _row(
        "processes", f"{process_count}{_brief(summary.brief)}; the first: {how_ended(rows[0])}" if rows else "none"
    )
    if went_on(summary):
        yield _row(
            "", f"what the {summary.still_running:,} still running did after that is not in this profile (--follow)"
        )
    largest = sorted(rows, key=lambda row: -(row.peak or 0))[:_MOST_PROCESSES]
    for row in largest if process_count > 1 else []:
        yield _row("", f"{_size(row.peak):>9}  {row.pid}  {short(_command(row), 60)}")


def _command(row: ProcessRow) -> str:
    return " ".join(program_command(row.command)) or row.name


def _brief(brief: BriefRow) -> str:
    if not brief.count:
        return ""
    names = sorted(brief.names.items(), key=lambda item: -item[1])
    named = ", ".join(f"{short(name, 20) or '?'} {number}" for name, number in names[:_MOST_NAMES])
    more = ", ..." if len(names) > _MOST_NAMES else ""
    return f", and {brief.count:,} that ended between two readings ({named}{more})"


def _faults(summary: ProfileSummary) -> Iterator[str]:
    if summary.minor is not None:
        yield _row("faults", f"{summary.minor:,} minor, {summary.major or 0:,} major")
    touches = summary.touches
    if touches is None or not touches.rows:
        return
    for row in touches.rows[:_MOST_TOUCHES]:
        place = f"{row.source}:{row.line}" if row.source else row.file
        mapped = f" in {short(row.mappings[0][0], 30)}" if row.mappings else ""
        yield _row("", f"{row.percent:>5.1f} %  {short(named_touch(row), 40) or '?'}  {_end(place, 50)}{mapped}")
    yield _row("", " ".join(touched(touches)))


def _trace(summary: ProfileSummary) -> Iterator[str]:
    """What CUDA did, and what was alive at the peak of each GPU."""
    trace = summary.trace
    if trace is None:
        return
    unified = trace.unified
    head = "trace"
    for name, moves in (("h2d", unified.h2d), ("d2h", unified.d2h)):
        if moves.records:
            causes = ", ".join(f"{cause or 'unknown'} {_size(size)}" for cause, size in _largest(moves.by_cause))
            span = f"{_size(moves.smallest)} to {_size(moves.largest)}"
            time = format_seconds(moves.seconds)
            yield _row(head, f"{name} {moves.records:,} moves, {_size(moves.bytes)} ({causes}), {span}, {time}")
            head = ""
    if unified.gpu_fault_groups or unified.cpu_faults or unified.thrashing:
        groups = f"{unified.gpu_fault_groups:,} groups of GPU faults ({format_seconds(unified.gpu_fault_seconds)})"
        yield _row(
            head,
            f"{groups}, {unified.cpu_faults:,} CPU faults, thrashing {unified.thrashing:,} times{_remote(unified)}",
        )
        head = ""
    copies = [
        f"{of.direction} {of.records:,} x, {_size(of.bytes)}{f' in {format_seconds(of.seconds)}' if of.seconds else ''}"
        for of in trace.copies
    ]
    spent = f", {format_seconds(trace.kernel_seconds)}" if trace.kernel_seconds else ""
    kernels = f"{trace.kernels:,} kernels{spent}" if trace.kernels else "no kernels"
    together = f"{trace.processes} processes together: " if trace.processes > 1 else ""
    none = f"none before it ended with exit status {summary.status}" if summary.status else "none"
    at_least = "(at least) " if trace.lost or trace.left_out or trace.unfinished or trace.damaged else ""
    done = f"{together}copies {at_least}{'; '.join(copies[:3]) or none}; {kernels}; {trace.allocations:,} allocations"
    yield _row(head, done)
    of_each = trace.by_process if len(trace.by_process) > 1 else []
    for of_process in of_each[:_MOST_PROCESSES]:
        yield _row("", _of_process(summary, of_process))
    if len(of_each) > _MOST_PROCESSES:
        yield _row("", f"{len(of_each) - _MOST_PROCESSES:,} more traced processes, in the report")
    for of in trace.alive:
        rows = [f"{_size(row.bytes)} {row.kind} by {_place(row.place)}" for row in of.rows[:2]]
        if rows:
            yield _row("", f"alive at the peak of {of.gpu}: {'; '.join(rows)}")
    lost = trace.lost + trace.left_out
    lost_words = f"{lost:,} records were lost, for lack of room" if lost else ""
    notes = untimed_words(trace.untimed), failed_words(trace.failed), unfinished_words(trace.unfinished), lost_words
    for text in filter(None, notes):
        yield _row("", text)


def _of_process(summary: ProfileSummary, row: OfProcess) -> str:
    process = next((process for process in summary.processes if process.pid == row.pid), None)
    name = f" {short(_command(process), 40)}" if process else ""
    copies = "; ".join(f"{of.direction} {of.records:,} x, {_size(of.bytes)}" for of in row.copies[:2])
    return f"{row.pid}{name}: copies {copies or 'none'}; {row.kernels:,} kernels"


def _remote(unified: UnifiedMemory) -> str:
    if not unified.remote_maps:
        return ""
    return f", {_size(unified.remote_map_bytes)} mapped instead of moved ({unified.remote_maps:,} times)"


def _largest(by_cause: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(by_cause.items(), key=lambda item: -item[1])


def _place(place: CallLocation) -> str:
    return short(where(place), 80)


def _end(path: str, most: int) -> str:
    """The end of a path of at most `most` characters."""
    return path if len(path) <= most else f"...{path[3 - most :]}"


def _pages(summary: ProfileSummary) -> Iterator[str]:
    pages = summary.pages
    if pages is not None and pages.huge is not None and pages.resident:
        text = f"{format_size(pages.huge, 3)} of {format_size(pages.resident, 3)} in huge pages"
        if pages.swap:
            text += f", {format_size(pages.swap, 3)} swapped out"
        yield _row("pages", f"{text}, read at {format_seconds(pages.t)}")
    used = [f"node {node.node} {format_size(node.used, 3)}" for node in summary.nodes if node.used is not None]
    if len(used) > 1:
        yield _row("nodes", ", ".join(used))


def _unseen(summary: ProfileSummary) -> Iterator[str]:
    unseen_rows = [row for row in summary.unseen if row.layer != "mappings"]  # this text lists no mappings
    rows = list({(row.why, row.mend): row for row in unseen_rows}.values())  # two layers may be missing for one reason
    for number, row in enumerate(rows[:_MOST_UNSEEN]):
        mend = f" ({row.mend})" if row.mend else ""
        more = f"; {len(rows) - _MOST_UNSEEN} more in the report" if number == _MOST_UNSEEN - 1 < len(rows) - 1 else ""
        yield _row("not seen" if not number else "", f"{row.why}{mend}{more}")


def _cost(summary: ProfileSummary) -> Iterator[str]:
    cost = summary.cost
    if cost is None:
        return
    busy = cost.cpu + cost.helper_cpu
    text = f"of this profile: {format_seconds(busy)} of a processor"
    if cost.busy is not None and cost.locked is not None:
        text += f" ({percent(cost.busy)}), {format_seconds(cost.lock) if cost.lock else '0 s'} under the target's "
        text += f"memory lock ({percent(cost.locked)})"
    late = f", {cost.late:,} late" if cost.late else ""
    yield _row("cost", f"{text}; {cost.ticks:,} readings every {format_seconds(summary.interval)}{late}")
