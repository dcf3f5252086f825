"""The tables and sentences of a profile's page, in words. All cells are plain text; the template escapes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firsttouch.advice.port.places import failed_words, unfinished_words, untimed_words
from firsttouch.base.units import format_number, format_seconds, format_size
from firsttouch.profile.faults import FaultRow
from firsttouch.profile.headline import gpu_peak, host_peak, how_ended
from firsttouch.profile.summary import GpuRow, MappedProcess, Peak, PhaseRow, ProfileSummary, Touches
from firsttouch.profile.trace import CopyTotals, Moves, UnifiedMemory
from firsttouch.profile.traced import Allocated, TraceSummary
from firsttouch.records.text import compact, count, join_names, percent
from firsttouch.report.profile_panels import plain, when

DASH = "\N{EN DASH}"
_MOST_FAULT_ROWS = 100
_FEW_SAMPLES = 50
MOST_GPUS_NAMED = 4
"""The most GPUs of which each has a sentence."""
_MANY = 24
"""From how many phases on those of one name are told together first."""


@dataclass
class ProfileTable:
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


def tables(summary: ProfileSummary) -> list[ProfileTable]:
    """The tables of one profile that have something to say."""
    candidates = [
        *phases(summary),
        processes(summary),
        *mappings(summary),
        pages(summary),
        nodes(summary),
        first_touches(summary),
        *(trace_tables(summary.trace) if summary.trace else ()),
        counters(summary),
    ]
    return [table for table in candidates if table.rows or table.notes]


def answer(summary: ProfileSummary) -> list[str]:
    """Sentences that complete the title."""
    sentences = []
    peak, pss = summary.host.peak, summary.host.pss
    if peak is not None:
        number = summary.host.processes
        in_processes = f" in {number} processes" if number is not None and number > 1 else ""
        sentence = f"At the peak {host_peak(summary.host)} were resident{in_processes}"
        if in_processes and pss is not None:
            beside = summary.host.pss_resident
            sentence += f"; by PSS, which counts shared pages once, at most {size(pss.bytes)} when it was read, at "
            sentence += when(pss.t) + ("" if beside is None else f" with {size(beside)} resident")
        if in_processes:
            sentence += f"; their sum, in which a page that they share counts for each of them, is {size(peak.bytes)}"
        sentences.append(f"{sentence}.")
    risen = [gpu for gpu in summary.gpus if any(peak and peak.bytes > 0 for peak in (gpu.told, gpu.rise))]
    sentences += [" ".join(_of_gpu(gpu)) for gpu in risen[:MOST_GPUS_NAMED]]
    if len(risen) > MOST_GPUS_NAMED:
        sentences.append(f"{join_names([gpu.name for gpu in risen[MOST_GPUS_NAMED:]])} rose as well.")
    if still := [gpu.name for gpu in summary.gpus if gpu.rise and gpu not in risen]:
        sentences.append(f"The memory of {join_names(still)} did not rise.")
    sentences += [gpu.shared for gpu in summary.gpus if gpu.shared]
    if summary.minor is not None:
        major = "" if summary.major is None else f" and {summary.major:,} major"
        sentences.append(f"{summary.minor:,} minor{major} page faults.")
    return sentences


def _within(phase: str) -> str:
    return f" (phase {plain(phase, 40)})" if phase else ""


def _of_gpu(gpu: GpuRow) -> Iterator[str]:
    """Whose memory it is comes first: others' memory on the GPU changes too."""
    if gpu.only_own and gpu.rise is not None:
        at = f"at {when(gpu.rise.t)}{_within(gpu.rise.phase)}"
        of_all = "the memory of all programs is not stated"
        yield f"The driver of {gpu.name} counts {size(gpu.rise.bytes)} for this program, {at}; {of_all}."
        return
    if gpu.told is not None and gpu.peak_of != "all programs":
        did, how = "had allocated at most", "without managed memory"
        if gpu.peak_of == "processes":
            did, how = "used at least", "of what the driver tells now and then"
        at = f"at {when(gpu.told.t)}{_within(gpu.told.phase)}"
        yield f"This program {did} {size(gpu.told.bytes)} on {gpu.name}, {at}, {how}."
    if gpu.rise is not None and gpu.rise.bytes > 0:
        over = f"the {size(gpu.before)} that were used before" if gpu.before is not None else "the reading before"
        at = f"at {when(gpu.rise.t)}{_within(gpu.rise.phase)}"
        yield f"With other programs, {gpu.name} rose by {size(gpu.rise.bytes)} over {over}, {at}."


# ------------------------------------------------------------------------------------------------------------ tables


def phases(summary: ProfileSummary) -> list[ProfileTable]:
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


def _about_phases(summary: ProfileSummary) -> str:
    if summary.phases_found:
        return "The target named no phases. These are spans in which its resident memory rose, stayed or fell."
    return "Memory and faults are those of all processes while the phase lasted; phases that overlap share them."


def _phases(anchor: str, title: str, summary: ProfileSummary, rows: Sequence[PhaseRow], left_out: int) -> ProfileTable:
    table = ProfileTable(anchor, title)
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


def processes(summary: ProfileSummary) -> ProfileTable:
    """The processes: their life, peaks and faults."""
    table = ProfileTable("processes", "Processes")
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


def mappings(summary: ProfileSummary) -> list[ProfileTable]:
    """What was mapped nearest to each peak."""
    tables = []
    for i, mapped in enumerate(summary.mappings):
        table = ProfileTable("mappings" if not i else f"mappings-{i + 1}", _mapped_title(mapped))
        table.heads = ["mapping", "number", "address space", "resident", "in huge pages"]
        rows = [*mapped.rows, *([mapped.others] if mapped.others else [])]
        for row in rows:
            name = "others" if row is mapped.others else plain(row.name, 120) or "(no name)"
            table.rows.append([name, whole(row.count), size(row.size), size(row.resident), size(row.huge)])
        peaks = join_names(
            [f"{when(peak.t)} ({place})" for place in mapped.of if (peak := _peak_of_place(summary, place))]
        )
        table.notes.append(f"Read at {when(mapped.t)}, the nearest reading to the peak at {peaks}.")
        table.short, table.folded = "" if i else "Mappings near the peaks", i > 1
        tables.append(table)
    return tables


def _mapped_title(mapped: MappedProcess) -> str:
    return (
        f"Mappings of {plain(mapped.name, 40) or 'process'} {mapped.pid} near the peak of {_places_in_words(mapped.of)}"
    )


def _places_in_words(places: Sequence[str]) -> str:
    return join_names(["the host" if place == "host" else place for place in places])


def _peak_of_place(summary: ProfileSummary, place: str) -> Peak | None:
    if place == "host":
        return summary.host.peak
    return next((gpu.told for gpu in summary.gpus if gpu.name == place), None)


def pages(summary: ProfileSummary) -> ProfileTable:
    """Page sizes, PSS and swap near the host's peak."""
    table, page = ProfileTable("pages", "Page sizes"), summary.pages
    if page is None:
        return table
    table.heads = ["pages", "bytes", "of resident"]
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


def nodes(summary: ProfileSummary) -> ProfileTable:
    """The NUMA nodes, if there are several."""
    table = ProfileTable("nodes", "NUMA nodes")
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


def first_touches(summary: ProfileSummary) -> ProfileTable:
    """Where pages were touched first."""
    touches = summary.touches
    if touches is None:
        return ProfileTable("first-touches", "")
    table = ProfileTable("first-touches", "Where pages were touched first")
    table.heads = ["function", "place", "faults", "%", "in the mappings"]
    for row in touches.rows[:_MOST_FAULT_ROWS]:
        place = f"{row.source}:{row.line}" if row.source else row.file
        mapped = ", ".join(f"{name} {number:,}" for name, number in row.mappings[:3])
        cells = [plain(named_touch(row), 100) or DASH, plain(place, 120) or DASH, whole(row.faults)]
        table.rows.append([*cells, format_number(row.percent, 3), plain(mapped, 160)])
    table.notes += touched(touches)
    if (left := max(0, len(touches.rows) - _MOST_FAULT_ROWS) + touches.rows_left_out) > 0:
        table.notes.append(f"{left:,} places with fewer faults are left out.")
    return table


def named_touch(row: FaultRow) -> str:
    """The function that touched pages, and through which function of the C library."""
    return f"{row.function or '?'}, by {row.through}" if row.through else row.function


def touched(touches: Touches) -> list[str]:
    """What was sampled of the page faults, and what could not be."""
    sentences = ["Every page fault was sampled."]
    if touches.every > 1:
        sentences = [f"One of {touches.every:,} page faults was sampled; numbers are samples times {touches.every:,}."]
    if sum(row.faults for row in touches.rows) < _FEW_SAMPLES * touches.every:
        sentences.append("There are few samples, so that percentages are rough.")
    if touches.share is not None:
        sentences.append(
            f"{format_number(100 * touches.share, 3)} % of all page faults were in user mode and could be sampled; "
            "those inside system calls are not seen."
        )
    if touches.of_python:
        sentences.append(
            f"{format_number(touches.of_python, 3)} % of the samples have a line of Python, which is read right after "
            f"the fault; {format_number(touches.sure, 3)} % of these threads were in that line before the fault too."
        )
    if touches.lost:
        sentences.append(f"There was no room for {touches.lost:,} samples.")
    return sentences


def trace_tables(trace: TraceSummary) -> list[ProfileTable]:
    """What CUDA did: as a whole, in each phase, by allocation and by kernel, and what was alive."""
    moved = ProfileTable("moves", "What the driver moved")
    moved.heads = ["direction", "moves", "bytes", "by cause", "smallest", "largest", "time"]
    for name, title in (("h2d", "host to device"), ("d2h", "device to host"), ("d2d", "device to device")):
        moves: Moves = getattr(trace.unified, name)
        if moves.records:
            cells = [title, whole(moves.records), size(moves.bytes), causes(moves)]
            moved.rows.append([*cells, size(moves.smallest), size(moves.largest), format_seconds(moves.seconds)])
    unified = trace.unified
    moved.notes.append(
        f"{unified.gpu_fault_groups:,} groups of GPU faults, {unified.cpu_faults:,} page faults of the CPU in managed "
        f"memory; memory moved to and fro {count(unified.thrashing, 'time')}. Times are sums, and moves may overlap."
    )
    copies = ProfileTable("copies", "Copies that the program asked for, and kernels")
    copies.heads = ["direction", "copies", "bytes", "smallest", "largest", "time"]
    for copies_of_direction in trace.copies:
        cells = [
            copies_of_direction.direction,
            whole(copies_of_direction.records),
            size(copies_of_direction.bytes),
            size(copies_of_direction.smallest),
            size(copies_of_direction.largest),
        ]
        seconds = copies_of_direction.seconds
        copies.rows.append([*cells, DASH if seconds is None else format_seconds(seconds)])
    spent = "" if trace.kernel_seconds is None else f" for {format_seconds(trace.kernel_seconds)} altogether"
    copies.notes.append(f"{count(trace.kernels, 'kernel')} ran{spent}.")
    words = untimed_words(trace.untimed), failed_words(trace.failed), unfinished_words(trace.unfinished)
    copies.notes += [f"{plain(text, 300)}." for text in words if text]
    is_told = not trace.untimed or trace.unified != UnifiedMemory()
    driver = [moved, *_moves_by_part(trace)] if is_told else []
    return [*driver[:1], copies, _copies_by_process(trace), *driver[1:], *_alive_tables(trace)]


def _copies_by_process(trace: TraceSummary) -> ProfileTable:
    table = ProfileTable("copies-by-process", "Copies and kernels of each traced process")
    table.heads = ["pid", "direction", "copies", "bytes", "kernels", "allocations"]
    for row in trace.by_process if len(trace.by_process) > 1 else ():
        for copies in row.copies or [CopyTotals("")]:
            cells = [str(row.pid), copies.direction or DASH, whole(copies.records), size(copies.bytes)]
            table.rows.append([*cells, whole(row.kernels), whole(row.allocations)])
    return table


def _moves_by_part(trace: TraceSummary) -> Iterator[ProfileTable]:
    heads = ["to device", "to host", "groups of GPU faults", "CPU faults", "by cause"]
    phases = ProfileTable("moves-by-phase", "What the driver moved in each phase", ["phase", "copied", *heads])
    for phase in trace.phases:
        copied = size(sum(copies.bytes for copies in phase.copies))
        phases.rows.append([plain(phase.name, 60), copied, *_moved(phase.unified)])
    sites = ProfileTable("moves-by-allocation", "What the driver moved, by the call that allocated the memory")
    sites.heads = ["allocated by", "kind", "bytes", *heads]
    for row in trace.sites:
        if row.unified is not None:
            sites.rows.append([_allocated(row), row.kind, size(row.bytes), *_moved(row.unified)])
    kernels = ProfileTable("moves-by-kernel", "What the driver moved while kernels ran", ["kernel", "launches", *heads])
    kernels.notes.append("By overlap in time: no record says which kernel caused a move.")
    for kernel in trace.by_kernel:
        name = {"ambiguous": "ambiguous: kernels overlapped", "none": "no kernel ran"}.get(kernel.overlap, kernel.name)
        kernels.rows.append([plain(name, 80), whole(kernel.launches), *_moved(kernel.unified)])
    yield from (table for table in (phases, sites, kernels) if table.rows)


def _alive_tables(trace: TraceSummary) -> Iterator[ProfileTable]:
    for at_peak in trace.alive:
        table = ProfileTable(f"alive-{at_peak.device}", f"What was allocated at the peak of {plain(at_peak.gpu)}")
        table.heads = ["allocated by", "kind", "allocations", "bytes"]
        for row in at_peak.rows:
            table.rows.append([_allocated(row), row.kind, whole(row.allocations), size(row.bytes)])
        table.notes.append(
            f"At {when(at_peak.t)}, through device {at_peak.device} of the program. How much of managed memory "
            "was on the GPU is "
            "not known."
        )
        if table.rows:
            yield table


def _moved(unified: UnifiedMemory) -> list[str]:
    moved = [size(unified.h2d.bytes), size(unified.d2h.bytes)]
    faults = [whole(unified.gpu_fault_groups), whole(unified.cpu_faults)]
    return [*moved, *faults, causes(unified.h2d, unified.d2h)]


def causes(*moves: Moves) -> str:
    """Bytes by cause, the most first."""
    sums: Counter[str] = Counter()
    for some_moves in moves:
        sums.update(some_moves.by_cause)
    return ", ".join(f"{cause or 'unknown'} {size(number)}" for cause, number in sums.most_common()) or DASH


def _allocated(row: Allocated) -> str:
    place = row.place
    where = f"{place.source}:{place.line}" if place.source else place.file
    return plain(" ".join(filter(None, [row.name, place.function, where])), 160) or "unknown"


def counters(summary: ProfileSummary) -> ProfileTable:
    """Counters of the machine, by all programs."""
    table = ProfileTable("counters", "Counters of the machine, all programs", folded=True)
    if not summary.counters:
        return table
    table.heads = ["counter", "first", "last", "least", "most"]
    for counter in summary.counters:
        in_bytes = counter.name in ("cgroup", "mem_available") or counter.name.endswith("_free")
        values = (counter.first, counter.last, counter.least, counter.most)
        texts = [size(int(v)) if in_bytes else whole(int(v)) for v in values]
        table.rows.append([plain(counter.name, 60), *texts])
    return table


def unseen(summary: ProfileSummary) -> list[tuple[str, str]]:
    """What could not be seen: sentences, each with the line to type, or ''."""
    return [
        ((f"{part.layer}: " if part.layer else "") + plain(part.why, 400), plain(part.mend, 300))
        for part in summary.unseen
    ]


def cost(summary: ProfileSummary) -> str:
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


# ---------------------------------------------------------------------------------------------------------- overlays


def peaks(summaries: Mapping[str, ProfileSummary]) -> ProfileTable:
    """The peaks of several profiles."""
    table = ProfileTable("peaks", "Peaks")
    names = list(dict.fromkeys(gpu.name for summary in summaries.values() for gpu in summary.gpus if gpu.told))[:16]
    table.heads = ["profile", "host peak", "at", "in", *names, "duration", "minor faults", "major faults", "end"]
    if not any(s.host.peak and s.host.peak.phase for s in summaries.values()):
        table.heads.remove("in")
    for name, summary in summaries.items():
        peak = summary.host.peak
        of_gpus = {gpu.name: gpu_peak(gpu) for gpu in summary.gpus if gpu.told}
        table.rows.append(
            [
                plain(name, 80),
                ("at least " if summary.host.may_be_more else "") + size(peak.bytes if peak else None),
                when(peak.t) if peak else DASH,
                *([plain(peak.phase, 40) if peak else DASH] if "in" in table.heads else []),
                *(of_gpus.get(gpu, DASH) for gpu in names),
                format_seconds(summary.seconds),
                whole(summary.minor),
                whole(summary.major),
                describe_end(summary).replace(" ", "\N{NO-BREAK SPACE}"),
            ]
        )
    table.notes.append(
        "The peak of a GPU is that of the target's processes, where the driver tells it; else what their recorded "
        "calls had allocated, without managed memory; else, with +, the use by all programs beyond that before."
    )
    table.notes += dict.fromkeys(gpu.shared for s in summaries.values() for gpu in s.gpus if gpu.shared)
    return table


def describe_end(summary: ProfileSummary) -> str:
    """How the target ended."""
    if not summary.ended:
        return "the profiler was killed"
    return plain(summary.ended, 60) if summary.status is None else f"exit status {summary.status}"
