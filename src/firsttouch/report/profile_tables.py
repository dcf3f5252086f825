"""The tables and sentences of a profile's page, in words. All cells are plain text; the template escapes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from firsttouch.profile.summary import MappedProcess, Peak, PhaseRow, Summary, how_ended
from firsttouch.report.memory import plain, when
from firsttouch.text import compact, count, join_names
from firsttouch.units import format_number, format_seconds, format_size

DASH = "\N{EN DASH}"
FaultRow: TypeAlias = tuple[str, str, int, int, float, str]
"""Function, file, line (0 if unknown), sampled faults, percent, and the mappings that they fell in."""
_MOST_FAULT_ROWS = 100
MOST_TOLD = 4
"""The most GPUs of which each has a sentence."""
_MANY = 24
"""From how many phases on those of one name are told together first."""


@dataclass
class Table:
    """A part of the page: its table and sentences around it. ids: of the rows, '' for none."""

    anchor: str
    title: str
    heads: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    folded: bool = False
    short: str | None = None
    """The title in the table of contents; '' if it is not there."""

    @property
    def entry(self) -> str:
        return self.title if self.short is None else self.short


def size(value: int | None) -> str:
    return DASH if value is None else format_size(value, 3)


def growth(value: int | None) -> str:
    return DASH if value is None else compact(value, "B")


def whole(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"


def tables(summary: Summary, faults: Sequence[FaultRow] = ()) -> list[Table]:
    """The tables of one profile that have something to say."""
    found = [
        *phases(summary),
        processes(summary),
        *mappings(summary),
        pages(summary),
        nodes(summary),
        first_touches(faults),
        counters(summary),
    ]
    return [table for table in found if table.rows or table.notes]


def answer(summary: Summary) -> list[str]:
    """Sentences that complete the title."""
    found = []
    peak, pss = summary.host.peak, summary.host.pss
    if peak is not None:
        number = summary.host.processes
        of = f" in {number} processes" if number is not None and number > 1 else ""
        sentence = f"At the peak {size(peak.bytes)} were resident{of}"
        if of and pss is not None:
            beside = summary.host.pss_resident
            sentence += f"; by PSS, which counts shared pages once, at most {size(pss.bytes)} when it was read, at "
            sentence += when(pss.t) + ("" if beside is None else f" with {size(beside)} resident")
        elif of:
            sentence += ", in which a page that they share counts for each of them"
        found.append(f"{sentence}.")
    risen = [gpu for gpu in summary.gpus if gpu.rise and gpu.rise.bytes > 0]
    found += [_of_gpu(gpu.name, gpu.rise, gpu.before, gpu.own) for gpu in risen[:MOST_TOLD] if gpu.rise]
    if len(risen) > MOST_TOLD:
        found.append(f"{join_names([gpu.name for gpu in risen[MOST_TOLD:]])} rose as well.")
    if still := [gpu.name for gpu in summary.gpus if gpu.rise and gpu.rise.bytes <= 0]:
        found.append(f"The memory of {join_names(still)} did not rise.")
    found += [gpu.shared for gpu in summary.gpus if gpu.shared]
    if summary.minor is not None:
        major = "" if summary.major is None else f" and {summary.major:,} major"
        found.append(f"{summary.minor:,} minor{major} page faults.")
    return found


def _of_gpu(name: str, rise: Peak, before: int | None, own: Peak | None) -> str:
    over = f" over the {size(before)} that were used before" if before is not None else " over the reading before"
    inside = f" in {plain(rise.phase, 40)}" if rise.phase else ""
    mine = f"; the driver counts {size(own.bytes)} for this program" if own else ""
    return f"{name} rose by {size(rise.bytes)}{over}, at {when(rise.t)}{inside}{mine}."


# ------------------------------------------------------------------------------------------------------------ tables


def phases(summary: Summary) -> list[Table]:
    """What memory did in the phases. If names repeat, those of one name are one row of a first table."""
    if not summary.phases:
        return []
    if len(summary.phases) < _MANY or 2 * len(summary.phases_by_name) > len(summary.phases):
        table = _phases("phases", "Phases", summary, summary.phases, summary.phases_left_out)
        table.notes.insert(0, _about_phases(summary))
        return [table]
    joined = _phases("phases", "Phases", summary, summary.phases_by_name, summary.names_left_out)
    each = _phases("phases-each", "Phases one by one", summary, summary.phases, summary.phases_left_out)
    joined.notes.insert(
        0, f"{_about_phases(summary)} A row has the largest peak of its phases and the sum of the rest."
    )
    each.folded = True
    return [joined, each]


def _about_phases(summary: Summary) -> str:
    if summary.phases_found:
        return "The target named no phases. These are spans in which its resident memory rose, stayed or fell."
    return "Memory and faults are those of all processes while the phase lasted; phases that overlap share them."


def _phases(anchor: str, title: str, summary: Summary, rows: Sequence[PhaseRow], left_out: int) -> Table:
    table = Table(anchor, title)
    gpus = list(dict.fromkeys(gpu.name for row in rows for gpu in row.gpus))
    mixed = len({_named_by(row) for row in rows}) > 1
    repeated = any(row.count > 1 for row in rows)
    table.heads = [
        *("phase", *(["named by"] if mixed else []), *(["times"] if repeated else []), "start", "duration"),
        *("host peak", "growth", *(text for name in gpus for text in (f"{name} peak", "growth"))),
        *("minor faults", "major"),
    ]
    for row in rows:
        table.rows.append(_phase(row, gpus, mixed=mixed, repeated=repeated))
        table.ids.append("" if row.number is None else f"phase-{row.number}")
    if not mixed and rows and not summary.phases_found:
        table.notes.append(f"Named by {_named_by(rows[0])}.")
    if left_out:
        table.notes.append(f"{left_out:,} more with shorter durations are left out.")
    return table


def _named_by(row: PhaseRow) -> str:
    return f"{row.source} {plain(row.domain, 40)}".strip() + (", end not seen" if row.open else "")


def _phase(row: PhaseRow, gpus: Sequence[str], *, mixed: bool, repeated: bool) -> list[str]:
    by_name = {gpu.name: gpu for gpu in row.gpus}
    memory = [
        text
        for name in gpus
        for text in (size(by_name[name].peak), growth(by_name[name].growth))
    ]  # fmt: skip
    return [
        "\N{NO-BREAK SPACE}" * 3 * (0 if row.number is None else min(row.depth, 8))
        + (plain(row.name, 80) or "(no name)"),
        *([_named_by(row)] if mixed else []),
        *([whole(row.count)] if repeated else []),
        when(row.start),
        format_seconds(row.seconds),
        size(row.peak),
        growth(row.growth),
        *memory,
        whole(row.minor),
        whole(row.major),
    ]


def processes(summary: Summary) -> Table:
    """The processes: their life, peaks and faults."""
    table = Table("processes", "Processes")
    table.heads = ["pid", "name", "command", "start", "duration", "peak", "minor faults", "major", "end"]
    for row in summary.processes:
        ended = summary.seconds if row.ended is None else row.ended
        table.rows.append(
            [
                str(row.pid),
                plain(row.name, 40),
                plain(" ".join(row.command), 120),
                when(row.started),
                when(max(0.0, ended - row.started)),
                size(row.peak),
                whole(row.minor),
                whole(row.major),
                how_ended(row).replace(" ", "\N{NO-BREAK SPACE}"),
            ]
        )
    if summary.processes_left_out:
        table.notes.append(f"{summary.processes_left_out:,} processes with smaller peaks are left out.")
    if summary.brief.count:
        most = sorted(summary.brief.names.items(), key=lambda pair: -pair[1])[:6]
        names = join_names([f"{plain(name, 30)} ({times:,})" for name, times in most])
        number = summary.brief.count
        which = "One further process" if number == 1 else f"{number:,} further processes"
        listed = f": {names}" if names else ""
        table.notes.append(f"{which} started and ended between two ticks, and no memory was read{listed}.")
    return table


def mappings(summary: Summary) -> list[Table]:
    """What was mapped nearest to each peak."""
    found = []
    for i, mapped in enumerate(summary.mappings):
        table = Table("mappings" if not i else f"mappings-{i + 1}", _mapped_title(mapped))
        table.heads = ["mapping", "number", "address space", "resident", "in huge pages"]
        rows = [*mapped.rows, *([mapped.others] if mapped.others else [])]
        for row in rows:
            name = "others" if row is mapped.others else plain(row.name, 120) or "(no name)"
            table.rows.append([name, whole(row.count), size(row.size), size(row.resident), size(row.huge)])
        peaks = join_names([f"{when(peak.t)} ({of})" for of in mapped.of if (peak := _peak(summary, of))])
        table.notes.append(f"Read at {when(mapped.t)}, the nearest reading to the peak at {peaks}.")
        table.short, table.folded = "" if i else "Mappings near the peaks", i > 1
        found.append(table)
    return found


def _mapped_title(mapped: MappedProcess) -> str:
    return f"Mappings of {plain(mapped.name, 40) or 'process'} {mapped.pid} near the peak of {_places(mapped.of)}"


def _places(of: Sequence[str]) -> str:
    return join_names(["the host" if place == "host" else place for place in of])


def _peak(summary: Summary, of: str) -> Peak | None:
    if of == "host":
        return summary.host.peak
    return next((gpu.rise for gpu in summary.gpus if gpu.name == of), None)


def pages(summary: Summary) -> Table:
    """Page sizes, PSS and swap near the host's peak."""
    table, page = Table("pages", "Page sizes"), summary.pages
    if page is None:
        return table
    table.heads = ["", "bytes", "of resident"]
    names = (("huge", "in huge pages"), ("anonymous", "anonymous"), ("pss", "PSS"), ("swap", "swapped out"))
    if page.resident is not None:
        table.rows.append(["resident", size(page.resident), ""])
    for name, words in names:
        value = getattr(page, name)
        if value is not None:
            part = f"{100 * value / page.resident:.0f} %" if page.resident and name != "swap" else ""
            table.rows.append([words, size(value), part])
    table.notes.append(f"The readings nearest to the host's peak, that of the largest process at {when(page.t)}.")
    return table


def nodes(summary: Summary) -> Table:
    """The NUMA nodes, if there are several."""
    table = Table("nodes", "NUMA nodes")
    if len(summary.nodes) < 2:
        return table
    table.heads = ["node", "memory of", "size", "used by the target", "read at", "least free"]
    for node in summary.nodes:
        owner = node.gpu or ("processors" if node.processors else "no processor; whose is unknown")
        read = DASH if node.t is None else when(node.t)
        table.rows.append(
            [str(node.node), owner, size(node.total), size(node.used), read, size(node.least_free)],
        )
    table.notes.append("The pages of the target nearest to the host's peak; free memory is that of the whole machine.")
    return table


def first_touches(faults: Sequence[FaultRow]) -> Table:
    """Where pages were touched first."""
    table = Table("first-touches", "Where pages were touched first")
    table.heads = ["function", "file", "line", "sampled faults", "%", "in the mappings"]
    for function, file, line, number, percent, mapped in faults[:_MOST_FAULT_ROWS]:
        place = str(line) if line else DASH
        cells = [plain(function, 100) or DASH, plain(file, 120) or DASH, place, whole(number)]
        table.rows.append([*cells, format_number(percent, 3), plain(mapped, 120)])
    if len(faults) > _MOST_FAULT_ROWS:
        table.notes.append(f"{len(faults) - _MOST_FAULT_ROWS:,} places with fewer faults are left out.")
    return table if faults else Table("first-touches", "")


def counters(summary: Summary) -> Table:
    """Counters of the machine, by all programs."""
    table = Table("counters", "Counters of the machine, all programs", folded=True)
    if not summary.counters:
        return table
    table.heads = ["counter", "first", "last", "least", "most"]
    for counter in summary.counters:
        in_bytes = not counter.name.startswith("numa_") and "pages" not in counter.name
        values = (counter.first, counter.last, counter.least, counter.most)
        texts = [size(int(v)) if in_bytes else whole(int(v)) for v in values]
        table.rows.append([plain(counter.name, 60), *texts])
    return table


def unseen(summary: Summary) -> list[tuple[str, str]]:
    """What could not be seen: sentences, each with the line to type, or ''."""
    return [
        ((f"{part.layer}: " if part.layer else "") + plain(part.why, 400), plain(part.mend, 300))
        for part in summary.unseen
    ]


def cost(summary: Summary) -> str:
    """What profiling cost, in a sentence."""
    spent = summary.cost
    if spent is None:
        return "The profile does not say what profiling cost."
    helper = f" and {format_seconds(spent.helper_cpu)} of the process that asks the GPUs" if spent.helper_cpu else ""
    busy = "" if spent.busy is None else f", {percent(spent.busy)} of one core"
    locked = "" if spent.locked is None else f" ({percent(spent.locked)} of the time)"
    late = f", {spent.late:,} of them late" if spent.late else ""
    return (
        f"{format_seconds(spent.cpu)} of processor time{helper}{busy}; {format_seconds(spent.lock)} in reads that hold "
        f"the target's memory lock{locked}; {count(spent.ticks, 'tick')}{late}."
    )


def percent(part: float) -> str:
    return f"{format_number(100 * part, 2)} %"


# ---------------------------------------------------------------------------------------------------------- overlays


def peaks(summaries: Mapping[str, Summary]) -> Table:
    """The peaks of several profiles."""
    table = Table("peaks", "Peaks")
    names = list(dict.fromkeys(gpu.name for summary in summaries.values() for gpu in summary.gpus if gpu.rise))[:16]
    table.heads = ["profile", "host peak", "at", "in", *names, "duration", "minor faults", "major faults", "end"]
    if not any(s.host.peak and s.host.peak.phase for s in summaries.values()):
        table.heads.remove("in")
    for name, summary in summaries.items():
        peak = summary.host.peak
        rises = {gpu.name: gpu.rise for gpu in summary.gpus}
        table.rows.append(
            [
                plain(name, 80),
                size(peak.bytes if peak else None),
                when(peak.t) if peak else DASH,
                *([plain(peak.phase, 40) if peak else DASH] if "in" in table.heads else []),
                *(size(rise.bytes if (rise := rises.get(gpu)) else None) for gpu in names),
                format_seconds(summary.seconds),
                whole(summary.minor),
                whole(summary.major),
                ended(summary).replace(" ", "\N{NO-BREAK SPACE}"),
            ]
        )
    table.notes.append("Peaks of GPUs are rises over the reading before the target was started, by all programs.")
    table.notes += dict.fromkeys(gpu.shared for s in summaries.values() for gpu in s.gpus if gpu.shared)
    return table


def ended(summary: Summary) -> str:
    """How the target ended."""
    if not summary.ended:
        return "the profiler was killed"
    return plain(summary.ended, 60) if summary.status is None else f"exit status {summary.status}"
