"""The report: the first screen, then one section for each question, then the machine.

A question shows one answer with one figure; its other figures and devices, its method and its points are opened on
demand. This module turns results into sections. page.html.j2 lays them out and escapes every string.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from firsttouch.analysis.statistics import group_by, measured, value, varying
from firsttouch.counters.tool import why_none as why_not_counted
from firsttouch.errors import UsageError
from firsttouch.events.log import why_none
from firsttouch.experiments.base import Experiment
from firsttouch.experiments.headlines import is_own_processor
from firsttouch.figures import Figure, Timeline
from firsttouch.files import write_atomically, write_output
from firsttouch.records.plausibility import explain
from firsttouch.records.schema import FAILURES, DeviceInfo, Record
from firsttouch.report.answers import Answered, answered
from firsttouch.report.draw import draw
from firsttouch.report.drawing import Context, Drawing
from firsttouch.report.events import EventTable, event_table, have_moves
from firsttouch.report.first_screen import FirstScreen, first_screen
from firsttouch.report.interfaces import Shown, pictures, shown
from firsttouch.report.lead import usual
from firsttouch.report.palette import Palette
from firsttouch.report.permalinks import point_id, section_id
from firsttouch.report.points import matching
from firsttouch.report.processes import processes
from firsttouch.report.profiler import CounterTable, counter_table
from firsttouch.report.published import PublishedTable, published_tables
from firsttouch.report.svg import to_svgs
from firsttouch.text import condition, count, distinguishing_factors, fact_title, label, quantity
from firsttouch.units import format_seconds

if TYPE_CHECKING:
    from jinja2 import Environment

    from firsttouch.records.reading import Results
    from firsttouch.records.timeline import MemoryCourse, TransferTimeline

NOISY = 0.10
"""A point is noisy if half the width of its 95 % interval is more than this fraction of the median."""
MOST_LISTED = 25
BRIEF = 260
"""The characters of an answer that are shown without a click, if its first sentence has fewer."""
MOST_ROWS_OF_ALL = 8000
"""The points of a results directory that the page's tables hold. Of more, each section has its part, evenly."""
FEWEST_ROWS = 8
"""The points that the table of a section holds in any case."""
MOST_FIGURES = 150
"""The most figures of a page, but for those that questions show at first."""
FEWEST = 6
"""The least number of samples for an interval of the median. With fewer, it is their range; one sample has none."""
_AMOUNT = re.compile(r"[-\N{MINUS SIGN}+]?[0-9][0-9.,e+-]*( [^ ,;:]+)?|\N{EN DASH}|")

_POINT_LINK = re.compile(r'(?<= data-p=")p-[0-9a-f]+')

HEADLINES: Mapping[str, Sequence[str]] = {
    "cpu": ["cores_usable", "sockets", "l1_bytes", "l2_bytes", "l3_bytes", "infinity_cache_bytes"],
    "memory": ["total_bytes", "cgroup_limit_bytes", "swap_total_bytes"],
    "numa": ["nodes", "balancing"],
    "huge_pages": ["thp_enabled"],
    "kernel": ["release", "virtualisation"],
    "nvidia": ["driver", "cuda"],
    "links": ["gpu0_pcie_generation", "gpu0_pcie_width", "gpu0_nvlinks_active"],
}
"""The most important facts about a machine, by topic."""


@dataclass
class Block:
    """Points with the same message, such as all points skipped for one reason."""

    text: str
    count: int
    which: str


@dataclass
class Section:
    """One section of the page: an experiment on one device or across several, or a part of it."""

    anchor: str
    experiment: str
    name: str
    devices: Sequence[str]
    device_title: str
    question: str
    sentences: list[str]
    counted: str
    unit: str
    source: str
    tally: dict[str, int]
    records: list[Record]
    device_info: DeviceInfo | None
    figures: Sequence[Figure]
    overview: bool = False
    """True if its records are listed and counted by other sections."""
    facts: list[str] = field(default_factory=list)
    drawings: list[tuple[Drawing, str]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[tuple[str, str, list[str]]] = field(default_factory=list)
    """The CSS class, the id and the cells of each row of the table of points. The id is '' if the page has it already.
    """
    undrawn: bool = False
    """True if its figures are left out, since the page has too many."""
    left_out: int = 0
    """The number of measured points that the table leaves out."""
    timelines: list[TransferTimeline] = field(default_factory=list)
    memory: Mapping[str, MemoryCourse] = field(default_factory=dict)
    events: EventTable | None = None
    without_events: list[Block] = field(default_factory=list)
    counters: CounterTable | None = None
    published: PublishedTable | None = None
    without_counters: list[Block] = field(default_factory=list)
    skipped: list[Block] = field(default_factory=list)
    failed: list[Block] = field(default_factory=list)
    wrong: list[Block] = field(default_factory=list)
    suspect: list[Block] = field(default_factory=list)
    unverified: list[Block] = field(default_factory=list)
    processes: list[Block] = field(default_factory=list)
    """Who carried out points together."""

    @property
    def answer(self) -> str:
        return " ".join(self.sentences)

    @property
    def device(self) -> str:
        return ", ".join(self.devices)

    @property
    def brief(self) -> str:
        """The first sentences of the answer."""
        kept = self.sentences[:1]
        for sentence in self.sentences[1:]:
            if len(" ".join([*kept, sentence])) > BRIEF:
                break
            kept.append(sentence)
        return " ".join(kept)

    @property
    def more(self) -> str:
        """What the page shows of the section on demand, in a few words."""
        extra = len(self.drawings) - 1
        kinds = [count(extra, "further figure")] if extra > 0 else []
        kinds += ["all findings"] if self.brief != self.answer else []
        kinds += ["published results"] if self.published else []
        points = len(self.rows) + self.left_out
        return ", ".join([*kinds, "method", *([count(points, "point")] if points else [])])


@dataclass
class Question:
    """The sections that answer one question. The first is shown; the others are opened on demand."""

    anchor: str
    name: str
    title: str
    sections: list[Section]
    collapsed: bool
    """True if all of it is opened on demand: its kernels ran on the host's processor, and those of others did not."""

    @property
    def lead(self) -> Section:
        return self.sections[0]


@dataclass
class Chapter:
    """One results directory."""

    anchor: str
    title: str
    results: Results
    warnings: list[str]
    sections: list[Section]
    questions: list[Question]
    screen: FirstScreen
    picture: list[tuple[Drawing, str]] = field(default_factory=list)
    """The picture of the first screen, if there is one."""
    interfaces: Shown | None = None
    """By which interface data move fastest, if that was measured."""

    @property
    def thinned(self) -> str:
        """A sentence on what the page leaves out to stay small, or ''."""
        points, undrawn = sum(s.left_out for s in self.sections), sum(s.undrawn for s in self.sections)
        parts = [f"{points:,} of {len(self.results.records):,} points are in no table"] if points else []
        parts += [f"the figures of {count(undrawn, 'section')} are not drawn"] if undrawn else []
        if not parts:
            return ""
        return f"This page is thinned: {' and '.join(parts)}. firsttouch report --format csv or svg writes all of them."

    @property
    def occurring(self) -> list[str]:
        """The kinds of outcome besides ok that occur, which are the columns of the summary."""
        return [kind for kind in _tally([]) if kind != "ok" and any(s.tally[kind] for s in self.sections)]

    @property
    def absent(self) -> list[str]:
        """The kinds of outcome that do not occur."""
        return [kind for kind in _tally([]) if kind != "ok" and kind not in self.occurring]


def chapters(results: Mapping[str, Results], experiments: Mapping[str, Experiment]) -> list[Chapter]:
    """Everything in the report except the drawn figures. The keys of `results` name the directories."""
    found = []
    for i, (name, loaded) in enumerate(results.items(), 1):
        devices = {d.name: d for d in loaded.machine.devices}
        parts = list(answered(loaded.records, loaded.machine.devices, experiments))
        many = len(loaded.records) > MOST_ROWS_OF_ALL
        most = max(FEWEST_ROWS, MOST_ROWS_OF_ALL // max(1, len(parts))) if many else MOST_ROWS_OF_ALL
        sections = [_section(part, experiments.get(part.experiment), devices, most) for part in parts]
        _add_published(sections, loaded)
        for section in sections:
            section.memory = loaded.memory
        for (experiment, device), timelines in loaded.timelines.items():
            if candidates := [s for s in sections if s.experiment == experiment and device in s.devices]:
                for timeline in timelines:
                    _section_of(timeline, candidates).timelines.append(timeline)
        screen = first_screen(loaded, parts)
        anchor = "answer" if i == 1 else f"answer-{i}"
        questions = _questions(sections, devices, experiments, "" if i == 1 else f"-{i}")
        title = screen.title if len(results) == 1 else f"{screen.title} ({name})"
        warnings = [*loaded.machine.warnings, *loaded.warnings, *_point_warnings(loaded.records)]
        by_interface = shown(loaded.records)
        found.append(Chapter(anchor, title, loaded, warnings, sections, questions, screen, interfaces=by_interface))
    return found


def _add_published(sections: Sequence[Section], results: Results) -> None:
    """Adds what papers state for other machines to the first section of each experiment on each device."""
    tables = published_tables(results.records, results.machine.devices)
    for section in sections:
        if not section.overview and len(section.devices) == 1:
            section.published = tables.pop((section.experiment, section.devices[0]), None)


def _questions(
    sections: Sequence[Section],
    devices: Mapping[str, DeviceInfo],
    experiments: Mapping[str, Experiment],
    suffix: str,
) -> list[Question]:
    """The sections by experiment. Devices with their own processor come first, and then the host; last come questions
    that only kernels on the host's processor answer. Anchors consist of names, so that a later run has the same.
    """

    def rank(section: Section) -> tuple[bool, int]:
        infos = [devices[name] for name in section.devices if name in devices]
        ranks = [0 if is_own_processor(d) else 2 if d.capabilities.runs_kernels else 1 for d in infos]
        return not section.rows and not section.overview, min(ranks, default=0)

    taken: set[str] = set()
    groups: dict[str, list[Section]] = {}
    for section in sections:
        groups.setdefault(section.experiment, []).append(section)
    found = []
    for name, group in groups.items():
        group.sort(key=rank)
        experiment = experiments.get(name)
        is_one = group[0].overview or len({section.question for section in group}) == 1
        title = group[0].question if experiment is None or is_one else experiment.question
        question = Question(section_id([name], suffix, taken), name, title, group, rank(group[0])[1] == 2)
        for section in group:
            section.anchor = section_id([section.name, section.device], suffix, taken)
        found.append(question)
    if all(question.collapsed for question in found):
        found = [replace(question, collapsed=False) for question in found]
    return sorted(found, key=lambda q: (q.collapsed, not q.lead.rows and not q.lead.overview))


def _section_of(timeline: TransferTimeline, sections: Sequence[Section]) -> Section:
    """The section with a point whose factors match those of the timeline best."""

    def matches(section: Section) -> tuple[bool, int]:
        equal = (sum(r.factors.get(n) == v for n, v in timeline.factors.items()) for r in section.records)
        return not section.overview, max(equal, default=0)

    return max(sections, key=matches)


def _section(part: Answered, experiment: Experiment | None, known: Mapping[str, DeviceInfo], most_rows: int) -> Section:
    shown = part.section
    records = list(shown.records)
    infos = [known[name] for name in part.devices if name in known]
    section = Section(
        anchor="",
        experiment=part.experiment,
        name=part.title,
        devices=part.devices,
        device_title=", ".join(dict.fromkeys(info.title for info in infos if info.title)),
        question=shown.question,
        sentences=part.answer.sentences,
        counted=shown.counted,
        unit=experiment.metric.unit if experiment else next((r.unit for r in records), ""),
        source=shown.source,
        tally=_tally([] if shown.overview else records),
        records=records,
        device_info=infos[0] if len(infos) == len(part.devices) == 1 else None,
        figures=shown.figures,
        overview=shown.overview,
    )
    if shown.overview:
        return section
    section.facts = _facts(measured(records))
    timed = [r for r in records if r.summary is not None]
    section.columns, section.rows = _table(_thinned(timed, most_rows))
    section.left_out = len(timed) - len(section.rows)
    section.events = event_table(records)
    section.without_events = _blocks(records, why_none)
    section.counters = counter_table(records)
    section.without_counters = _blocks(records, why_not_counted)
    section.skipped = _blocks(records, lambda r: r.reason if r.status == "skipped" else None)
    section.failed = _each(records, lambda r: f"{r.status}: {r.reason}" if r.status in FAILURES else None)
    section.wrong = _each(records, lambda r: (r.verified_why or "the data were wrong") if _is_wrong(r) else None)
    section.suspect = _blocks(records, lambda r: explain(r.suspect) if _is_suspect(r) else None)
    section.unverified = _blocks(records, lambda r: r.verified_why if _is_unverified(r) else None)
    section.processes = _blocks(records, processes)
    return section


def _is_wrong(record: Record) -> bool:
    return record.verified is False


def _is_suspect(record: Record) -> bool:
    return record.status == "ok" and bool(record.suspect) and not _is_wrong(record)


def _is_unverified(record: Record) -> bool:
    return record.status == "ok" and record.verified is None and not record.suspect


def _tally(records: Sequence[Record]) -> dict[str, int]:
    """The columns of the summary table."""
    return {
        "ok": sum(r.status == "ok" and not (_is_wrong(r) or r.suspect) for r in records),
        "wrong": sum(map(_is_wrong, records)),
        "suspect": sum(map(_is_suspect, records)),
        "failed": sum(r.status in FAILURES and not _is_wrong(r) for r in records),
        "skipped": sum(r.status == "skipped" for r in records),
        "unverified": sum(map(_is_unverified, records)),
        "throttled": sum(bool(r.throttled) for r in records),
    }


def _half_width(record: Record) -> float:
    s = record.summary
    return (s.ci_high - s.ci_low) / 2 / abs(s.median) if s and s.median else 0.0


def _point_warnings(records: Sequence[Record]) -> list[str]:
    """Warnings that follow from the points: throttling and noise."""
    good = measured(records)
    throttled, noisy = [r for r in records if r.throttled], [r for r in good if _half_width(r) > NOISY]
    causes = sorted({t for r in throttled for c in (r.clocks_before, r.clocks_after) if c for t in c.throttle})
    found = []
    if throttled:
        because = f" ({', '.join(causes)})" if causes else ""
        found.append(f"{count(len(throttled), 'point')} taken while the device was throttled{because}.")
    if noisy:
        groups = sorted(group_by(noisy, "device").items(), key=lambda group: -len(group[1]))
        where = "; ".join(f"{d}: {', '.join(dict.fromkeys(r.experiment for r in some))}" for (d,), some in groups)
        found.append(
            f"{count(len(noisy), 'noisy point')}, with a 95 % interval wider than ±{100 * NOISY:.0f} % ({where})."
        )
    return found


def _facts(good: Sequence[Record]) -> list[str]:
    """How the points were sampled: spread, numbers of samples, and what ended the sampling."""
    if not good:
        return []
    widths, counts = sorted(map(_half_width, good)), [r.summary.n for r in good if r.summary]
    stops = Counter(r.stopped_by for r in good if r.stopped_by)
    seconds = sum(r.seconds for r in good)
    if min(counts) > 1:
        few = "" if min(counts) >= FEWEST else f", or the range of fewer than {FEWEST} samples"
        spread = f"±{100 * median(widths):.2g} % typically, ±{100 * widths[-1]:.2g} % at most"
        facts = [f"95 % interval of the median{few}: {spread}"]
    else:
        facts = ["one sample per point, so the spread between runs is unknown"]
    facts += [
        f"samples per point: {min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"samples: {counts[0]}",
    ]
    if stops:
        facts.append("sampling ended by " + ", ".join(f"{why} ({n})" for why, n in stops.most_common()))
    if seconds:
        facts.append(f"measured in {format_seconds(seconds)}")
    return facts


def _blocks(records: Sequence[Record], text: Callable[[Record], str | None]) -> list[Block]:
    """Points grouped by their `text`, the largest group first. Points whose text is None are left out."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if (message := text(record)) is not None:
            groups.setdefault(message or "no reason recorded", []).append(record)
    blocks = [Block(message, len(group), distinguishing_factors(group, records)) for message, group in groups.items()]
    return sorted(blocks, key=lambda b: -b.count)


def _each(records: Sequence[Record], text: Callable[[Record], str | None]) -> list[Block]:
    """One block per point, up to MOST_LISTED, then one for the rest."""
    names = varying(records)
    found = [(message, r) for r in records if (message := text(r)) is not None]
    blocks = [Block(message, 1, condition(r, names)) for message, r in found[:MOST_LISTED]]
    if rest := found[MOST_LISTED:]:
        blocks.append(Block("more points like these, all in the table", len(rest), ""))
    return blocks


def _table(records: Sequence[Record]) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
    """The headings, and one row with its CSS class and id for every measured point: varying factors, summary, marks."""
    shown = [r for r in records if r.summary is not None]
    names = varying(shown)
    rows = []
    for r in shown:
        s = r.summary
        assert s is not None
        spread = f"{quantity(s.ci_low, r.unit)} … {quantity(s.ci_high, r.unit)}" if s.n > 1 else "–"  # noqa: RUF001
        ends = f"{quantity(s.p5, r.unit)} … {quantity(s.p95, r.unit)}"
        marks = [*(["WRONG DATA"] if _is_wrong(r) else []), *([f"suspect: {r.suspect}"] if _is_suspect(r) else [])]
        marks += ["unverified"] if _is_unverified(r) else []
        marks += ["throttled"] if r.throttled else []
        cells = [label(n, value(r, n)) for n in names]
        rows.append(
            (
                "wrong" if _is_wrong(r) else "warned" if marks else "",
                point_id(r),
                [*cells, quantity(s.median, r.unit), spread, ends, str(s.n), r.stopped_by, ", ".join(marks)],
            )
        )
    heads = [n.replace("_", " ") for n in names]
    return [*heads, "median", "95 % interval", "5th … 95th percentile", "samples", "ended by", "marks"], rows


def _thinned(records: list[Record], most: int) -> list[Record]:
    """At most about `most` records for a table: flawed ones first, and of the others every n-th."""
    step = -(-len(records) // most) if records else 1
    if step == 1:
        return records
    kept = [r for i, r in enumerate(records) if i % step == 0 or _is_wrong(r) or _is_suspect(r)]
    return kept[: 2 * most]


def numeric(rows: Sequence[Sequence[str]]) -> list[bool]:
    """For each column of a table, whether it holds only amounts, such as '1.5 ms', '12' or a dash."""
    return [any(column) and all(map(_AMOUNT.fullmatch, column)) for column in zip(*rows, strict=True)]


def drawings(section: Section, palette: Palette) -> list[Drawing]:
    """The figures of one section that are not empty. They do not show skipped and failed points."""
    ok = [r for r in section.records if r.status == "ok" and r.summary is not None]
    context = _context(section, palette)
    figures = [*section.figures]
    if not any(isinstance(figure, Timeline) for figure in figures):
        figures.append(Timeline())
    drawn = (draw(figure, ok, context) for figure in figures)
    return [d for d in drawn if d is not None]


def _context(section: Section, palette: Palette) -> Context:
    return Context(section.device_info, palette, section.timelines, section.memory)


def _lead_drawings(section: Section, palette: Palette, picture: Figure | None) -> list[Drawing]:
    """The figures of the section that a question shows: first the usual conditions of the first figure. picture: the
    figure of the first screen, which is not drawn again.
    """
    if any(figure is picture for figure in section.figures):
        others = [figure for figure in section.figures if figure is not picture]
        return drawings(replace(section, figures=others or section.figures), palette)
    every = drawings(section, palette)
    if not section.figures:
        return every
    ok = [r for r in section.records if r.status == "ok" and r.summary is not None]
    usual_ok = usual(section.figures[0], ok)
    first = draw(section.figures[0], usual_ok, _context(section, palette))
    if first is None or not every:
        return every
    if len(usual_ok) == len(matching(section.figures[0], ok)):
        return every
    first.notes.append("The usual conditions; all of them are under More.")
    return [first, *every]


def render(results: Mapping[str, Results], experiments: Mapping[str, Experiment]) -> str:
    """The report as one self-contained HTML page."""
    parts = chapters(results, experiments)
    _draw(parts)
    _set_row_ids(parts)
    wrong = sum(s.tally["wrong"] for c in parts for s in c.sections)
    return environment().from_string(packaged("page.html.j2")).render(chapters=parts, wrong=wrong, **assets())


def _draw(parts: Sequence[Chapter]) -> None:
    """Draws all figures: the pictures first, then those that questions show, then the others."""
    palette = Palette()
    found: list[tuple[list[tuple[Drawing, str]], Drawing]] = []
    for chapter in parts:
        found += [(chapter.picture, drawing) for drawing in filter(None, [_picture(chapter, palette)])]
        if chapter.interfaces:
            found += [(chapter.interfaces.drawings, drawing) for drawing in pictures(chapter.interfaces, palette)]
        leads = {id(q.lead) for q in chapter.questions if not q.collapsed}
        for section in sorted(chapter.sections, key=lambda s: id(s) not in leads):
            section.undrawn = id(section) not in leads and len(found) >= MOST_FIGURES
            if not section.undrawn:
                is_lead, picture = id(section) in leads, chapter.screen.figure
                drawn = _lead_drawings(section, palette, picture) if is_lead else drawings(section, palette)
                found += [(section.drawings, drawing) for drawing in drawn]
    for (place, drawing), image in zip(found, to_svgs([drawing.spec for _, drawing in found]), strict=True):
        place.append((drawing, image))


def _set_row_ids(parts: Sequence[Chapter]) -> None:
    """Makes the ids of rows unique. Those of a further directory, and the links of its figures, get its number."""
    taken: set[str] = set()
    for i, chapter in enumerate(parts, 1):
        suffix = "" if i == 1 else f".{i}"
        for section in chapter.sections:
            rows = []
            for kind, name, cells in section.rows:
                one = f"{name}{suffix}"
                rows.append((kind, "" if one in taken else one, cells))
                taken.add(one)
            section.rows = rows
        places = [section.drawings for section in chapter.sections]
        places += [chapter.interfaces.drawings] if chapter.interfaces else []
        for place in places if suffix else ():
            place[:] = [(d, _POINT_LINK.sub(rf"\g<0>{suffix}", svg)) for d, svg in place]


def environment() -> Environment:
    """The environment of the templates: every value is escaped, and a name without a value is an error."""
    import jinja2

    env = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    env.globals.update(label=label, count=count, spelled=fact_title, numeric=numeric, headlines=HEADLINES)
    return env


def packaged(name: str) -> str:
    return files("firsttouch.report").joinpath(name).read_text(encoding="utf-8")


def assets() -> dict[str, str]:
    """The style and the script that the page contains, and the hash by which its policy allows this script alone."""
    script = packaged("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"style": packaged("page.css"), "script": script, "script_hash": f"sha256-{digest}"}


def _picture(chapter: Chapter, palette: Palette) -> Drawing | None:
    """The picture of the first screen."""
    screen = chapter.screen
    return draw(screen.figure, screen.shown, Context(None, palette)) if screen.figure else None


def load(directories: Sequence[Path]) -> dict[str, Results]:
    """Results by directory, in the order given. Raises UsageError if one holds no results."""
    return {str(d): _load(d) for d in directories}


def _load(directory: Path) -> Results:
    """The results of a directory with what happened over time. If files of that are missing or invalid, there are only
    warnings.
    """
    from firsttouch.events.trace import TRACE, read_timelines
    from firsttouch.profile.timelines import read_courses
    from firsttouch.records.reading import load_results

    results = load_results(directory)
    try:
        results.timelines = read_timelines(directory)
    except UsageError as error:
        results.warnings.append(str(error))
    results.memory, problems = read_courses(directory, results.records, results.machine.devices)
    results.warnings += problems
    if have_moves(results.records) and not (directory / TRACE).exists():
        results.warnings.append(
            f"{directory} has no {TRACE}, so the figures of bytes over time are missing; copy it from where the run "
            "wrote it, and draw the report again"
        )
    return results


def write_report(directories: Sequence[Path], output: Path | None = None) -> Path:
    """Writes the report of one or several results directories, by default to DIR/report.html. Returns its path.

    Raises:
        UsageError: a directory holds no results, or the file cannot be written.
    """
    from firsttouch.work import reportable_experiments

    if output is None and len(directories) > 1:
        raise UsageError("several directories make one report; name the output file with -o FILE")
    path = output or directories[0] / "report.html"
    if path.is_dir():
        raise UsageError(f"{path} is a directory; give -o a file name such as {path / 'report.html'}")
    page = render(load(directories), reportable_experiments())
    try:
        (write_output if output else write_atomically)(path, page.encode())
    except OSError as error:
        raise UsageError(f"cannot write the report to {path}: {error.strerror}") from None
    return path
