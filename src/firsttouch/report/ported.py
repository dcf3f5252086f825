"""The part of a profile's page on what the traced program becomes in unified memory. All cells are plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from firsttouch.advice.apis import words_of
from firsttouch.advice.edit import Edit
from firsttouch.advice.edits import edits, joined_lines
from firsttouch.advice.port.places import Places, named_places, where, where_allocated
from firsttouch.advice.port.port_findings import (
    CopyCount,
    HostPartner,
    PortBlock,
    PortFinding,
    PortFindings,
    StepRecord,
)
from firsttouch.advice.port.reading import port_findings, program_of, traced_run
from firsttouch.advice.port.rules import all_rules
from firsttouch.advice.port.rules.both_sides import BothSides
from firsttouch.advice.port.savings import SavingMoment, moments
from firsttouch.advice.port.wording import COPIES_OF, shadow_words, wait_words
from firsttouch.base.errors import UsageError
from firsttouch.base.units import format_number
from firsttouch.profile.content import Profile
from firsttouch.profile.traced import CallLocation
from firsttouch.program.partners import partners
from firsttouch.program.program_text import program_lines
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import TracedRun
from firsttouch.records.text import count
from firsttouch.report.palette import COLOURS
from firsttouch.report.profile_panels import MOST_READINGS, Panel, Series, plain, thinned, when
from firsttouch.report.profile_tables import DASH, ProfileTable, size

MOST_ROWS = 100
_MOST_TIMES = 8


@dataclass(frozen=True)
class PortedPage:
    """What a page shows of a traced program. answer: in a sentence. panel: what it holds over time; None if it holds
    nothing.
    """

    answer: str
    tables: Sequence[ProfileTable]
    panel: Panel | None
    unseen: Sequence[str]


def ported_page(profile: Profile, *, is_advised: bool = False) -> PortedPage | None:
    """What the page of a profile shows of the program; None if it was not traced, or not by what calls name.

    is_advised: whether there is a page of advice.
    """
    try:
        run = traced_run(profile)
    except UsageError:
        return None
    port = port_findings(profile)
    program = program_lines(program_of(profile, run))
    course = list(moments(run, run.once(partners)))
    candidates = [
        _edit_table(run, port, Places(profile.callers), "" if is_advised else port.directory),
        _process_table(port),
        _waits(port),
        _block_table(port),
        _other_copies(port),
        _findings(port),
        _notes(port),
        _needless(port),
        _searched(port),
        _kernel_table(port),
        _program(program),
    ]
    shown = [table for table in candidates if table.rows or table.notes]
    return PortedPage(
        plain(port.summary, 400), shown, _savings_panel(course, profile.header.clock), [*port.lacking, *port.unseen]
    )


def _savings_panel(course: Sequence[SavingMoment], clock: float) -> Panel | None:
    if not course:
        return None
    most = max(course, key=lambda moment: (moment.saved, moment.device + moment.host))
    lines = (
        ("device buffers", [(m.t - clock, float(m.device)) for m in course], COLOURS[1]),
        ("their host buffers", [(m.t - clock, float(m.host)) for m in course], COLOURS[0]),
    )
    series = [Series(name, thinned(readings, MOST_READINGS), colour) for name, readings, colour in lines]
    saved = [(m.t - clock, float(m.saved)) for m in course]
    peak = (most.t - clock, float(most.saved)) if most.saved else None
    about = ["what a unified version does not allocate", *([f"at {when(peak[0])}"] if peak else [])]
    series.append(Series("saved at most", thinned(saved, MOST_READINGS), COLOURS[2], width=2.0, peak=peak, about=about))
    return Panel("unified", "Program: device buffers, and the host buffers copied to or from them", series)


def edit_rows(changes: Sequence[Edit]) -> list[list[str]]:
    """Cells of a table: the change, its lines, calls and bytes."""
    return [[e.text, joined_lines(e.lines)[0], f"{e.count:,}", size(e.bytes)] for e in changes]


EDIT_HEADS = ["change", "lines", "calls", "bytes"]


def _edit_table(run: TracedRun, port: PortFindings, places: Places, directory: str) -> ProfileTable:
    """The changes of one strategy; others need much the same. directory: of the profile, for the command that gives
    advice; '' if that was given.
    """
    words = words_of(run.apis)
    note = "Lines, calls and bytes are exact."
    if directory:
        note += (
            " What each strategy would add, and what to change for the best one: firsttouch advise RUN --profile "
            f"{directory} --out {directory}"
        )
    rows = [
        [plain(cell, 300) for cell in cells] for cells in edit_rows(edits(run, port, places, STRATEGIES[words.first]))
    ]
    title = f"What to change for {words.named(words.first)}"
    return ProfileTable("edits", title, EDIT_HEADS, rows, notes=[plain(note, 400)] if rows else [])


def _process_table(port: PortFindings) -> ProfileTable:
    """The traced processes, if there are several."""
    table = ProfileTable("port-processes", "Traced processes")
    table.heads = ["rank", "pid", "command", "copies", "bytes", "saved at most", "hazards"]
    titles = all_rules()
    for row in port.processes[:MOST_ROWS]:
        hazards = DASH if row.hazards is None else ", ".join(titles[kind].title for kind in row.hazards) or "none"
        command = plain(" ".join(row.command), 120)
        cells = [plain(row.rank, 20) or DASH, str(row.pid), command, f"{row.copies:,}", size(row.copied)]
        table.rows.append([*cells, size(row.saved), hazards])
    if table.rows:
        table.notes.append(f"The tables below are of process {port.pid}.")
    return table


def _other_copies(port: PortFindings) -> ProfileTable:
    table = ProfileTable("other-copies", "Copies that a unified version makes too, or that are none between buffers")
    table.heads = ["copies", "where", "number", "bytes"]
    for row in port.other_copies:
        places = plain(named_places(row.places), 300)
        table.rows.append([COPIES_OF[row.of], places, f"{row.copies:,}", size(row.bytes)])
    return table


def _block_table(port: PortFindings) -> ProfileTable:
    saved = port.saved
    notes = []
    if saved.bytes:
        notes.append(
            f"The largest saving is at {when(saved.t)}: at most {size(saved.bytes)} of {size(saved.device)} in device "
            f"buffers and {size(saved.host)} in host buffers that are copied to or from them. Bytes and counts are "
            "exact; that a unified version needs only one buffer of each pair is assumed."
        )
    heads = ["device buffer", "size", "copied in", "copied back", "host buffer", "saves at most", "note"]
    alike: list[tuple[list[str], list[PortBlock]]] = []
    for block in port.blocks:
        row = _block(block)
        if alike and alike[-1][0] == row:
            alike[-1][1].append(block)
        else:
            alike.append((row, [block]))
    rows = [
        [row[0] + (f", {len(alike_blocks):,} of these" if len(alike_blocks) > 1 else ""), *row[1:]]
        for row, alike_blocks in alike[:MOST_ROWS]
    ]
    if len(alike) > MOST_ROWS:
        listed = sum(len(alike_blocks) for _, alike_blocks in alike[:MOST_ROWS])
        notes.append(f"The {listed:,} of {count(len(port.blocks), 'buffer')} that save most are listed.")
    table = ProfileTable("unified-memory", "In unified memory", heads, rows, notes=notes)
    table.ids = [f"block-{alike_blocks[0].number}" for _, alike_blocks in alike[:MOST_ROWS]]
    return table


def _block(block: PortBlock) -> list[str]:
    partners = [
        f"{size(partner.bytes)}{', in turn' if partner.window else ''}{_touched(partner)}"
        for partner in block.partners[:4]
    ]
    more = block.ranges - 4
    times = f", {block.allocations:,} times" if block.allocations > 1 else ""
    return [
        plain(block.name or where_allocated(block.place, block.helper), 80) + times,
        size(block.bytes),
        _copied(block.into, block.place),
        _copied(block.out, block.place),
        plain("; ".join([*partners, *([f"{more} more"] if more > 0 else [])]), 300) or DASH,
        size(block.saves) if block.saves else DASH,
        "; ".join([*(["part of a memory pool, assumed"] if block.in_pool == "part" else []), *block.unused]) or DASH,
    ]


def _copied(copies: CopyCount, allocated: CallLocation) -> str:
    if not copies.copies:
        return DASH
    return plain(f"{copies.copies:,} x, {size(copies.bytes)} at {named_places(copies.places, allocated)}", 200)


def _touched(partner: HostPartner) -> str:
    if partner.touched is None:
        return ""
    sampled = ", as far as was sampled" if partner.may_miss_touches else ""
    threads = f", {partner.threads} threads" if partner.threads > 1 else ""
    return f", first touched by {where(partner.touched)}{sampled}{threads}"


def _findings(port: PortFindings) -> ProfileTable:
    findings = [finding for finding in port.findings if finding.to_fix]
    return _finding_table("solve-first", "What to fix first", findings)


def _notes(port: PortFindings) -> ProfileTable:
    findings = [finding for finding in port.findings if not finding.to_fix]
    return _finding_table("notes", "What to note: nothing to fix, or only possible", findings)


def _finding_table(anchor: str, title: str, findings: Sequence[PortFinding]) -> ProfileTable:
    heads = ["certainty", "what", "where", "times", "bytes", "what happens", "unless", "what to do", "at"]
    rows = [_finding_cells(finding) for finding in findings[:MOST_ROWS]]
    more = len(findings) - MOST_ROWS
    notes = [f"{count(more, 'more finding')} in the JSON."] if more > 0 else []
    return ProfileTable(anchor, title, heads, rows, notes=notes)


def _finding_cells(finding: PortFinding) -> list[str]:
    return [
        finding.certainty,
        all_rules()[finding.kind].title,
        plain(named_places(finding.places), 200),
        f"{finding.count:,}",
        size(finding.bytes) if finding.bytes else DASH,
        plain(finding.text, 300),
        finding.reading or DASH,
        f"{finding.strategy} ({finding.link})" if finding.strategy else DASH,
        _times(finding.records, finding.count),
    ]


def _times(records: Sequence[StepRecord], number: int) -> str:
    shown = ", ".join(when(record.t) for record in records[:_MOST_TIMES])
    return f"{shown}, ..." if number > min(len(records), _MOST_TIMES) else shown


def _waits(port: PortFindings) -> ProfileTable:
    heads = ["what to wait for, and where", "copies", "at"]
    rows = [
        [plain(wait_words(wait), 400), f"{wait.copies:,}", _times(wait.records, wait.copies)]
        for wait in port.waits[:MOST_ROWS]
    ]
    note = "Assumed, from what kernels may write: copies that a unified version does without were the only waits there."
    return ProfileTable("waits", "Waits that a unified version needs", heads, rows, notes=[note] if rows else [])


def _needless(port: PortFindings) -> ProfileTable:
    heads = [
        *("certainty", "direction", "where", "copies", "bytes", "same bytes as", "freed in between", "compared"),
        *("unless", "at"),
    ]
    rows = [
        [
            row.certainty,
            row.direction,
            plain(where(row.place), 120),
            f"{row.copies:,}",
            size(row.bytes),
            plain(where(row.since, row.place), 120),
            f"{row.renewed:,}x" if row.renewed else DASH,
            f"{size(row.compared)} of {size(row.each)}",
            row.reading or DASH,
            _times(row.records, row.copies),
        ]
        for row in port.needless[:MOST_ROWS]
    ]
    return ProfileTable("needless-copies", "Redundant copies: the other side already has the bytes", heads, rows)


def _searched(port: PortFindings) -> ProfileTable:
    number = Counter(finding.kind for finding in port.counted)

    def found(kind: str, *, searched: bool) -> str:
        return f"found {number[kind]:,}" if number[kind] else "none" if searched else "unseen"

    rows = [
        [
            all_rules()[row.kind].title,
            found(row.kind, searched=row.searched),
            row.text or DASH,
        ]
        for row in port.searched
    ]
    if port.shadow is not None:
        rows.append([BothSides.title, found(BothSides.name, searched=True), shadow_words(port.shadow)])
    return ProfileTable("hazards", "Hazards", ["hazard", "", "limits of the search"], rows)


def _kernel_table(port: PortFindings) -> ProfileTable:
    """What the second run told of kernels."""
    kernel_use, heads = port.kernels, ["kernel", "buffer", "size", "launches", "accesses", "", "reads", "writes"]
    table = ProfileTable("kernels", "What the kernels access", heads, [])
    if kernel_use is None:
        return table
    slower = f", {kernel_use.slowdown:.1f} times as long" if kernel_use.slowdown else ""
    notes = [
        f"Exact, in granules of 64 KiB: {kernel_use.recorded:,} of {count(kernel_use.launches, 'launch', 'launches')} "
        f"were recorded in a second run{slower}; {kernel_use.alike:,} others are assumed to access the same bytes as "
        f"recorded launches of the same kernel, which never varied. {count(kernel_use.outside, 'access', 'accesses')} "
        "outside all buffers."
    ]
    if kernel_use.varying:
        notes.append(f"Unseen: {count(kernel_use.varying, 'launch', 'launches')} of kernels whose accesses vary.")
    if kernel_use.opaque:
        notes.append(f"Unseen: {count(kernel_use.opaque, 'launch', 'launches')} that copy through tensor maps.")
    if kernel_use.graphs:
        notes.append(f"Unseen: {count(kernel_use.graphs, 'launch', 'launches')} in graphs of several kernels.")
    table.notes = [*notes, *(plain(text, 300) for text in (kernel_use.ended, *kernel_use.notices) if text)]
    table.rows = [
        [plain(row.kernel, 120), plain(where(row.place), 80), size(row.bytes), f"{row.launches:,}", size(row.used),
         f"{format_number(100 * row.used / row.bytes)} %", size(row.read) if row.read else DASH,
         size(row.written) if row.written else DASH]
        for row in kernel_use.kernels[:MOST_ROWS]
    ]  # fmt: skip
    return table


def _program(lines: Sequence[str]) -> ProfileTable:
    table = ProfileTable("program", "What the program does with memory", ["step"], [[plain(t, 300)] for t in lines])
    table.folded = True
    return table
