"""The sections of the page: what each shows of its records at once and on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING

from firsttouch.base.units import format_seconds
from firsttouch.experiments.contract.base import Experiment
from firsttouch.model.ranges import another_run
from firsttouch.profile.counters.tool import why_lacking
from firsttouch.profile.events.log import why_none
from firsttouch.records.equal_places import measured_on
from firsttouch.records.figures import Figure, Timeline
from firsttouch.records.findings import Finding
from firsttouch.records.plausibility import explain
from firsttouch.records.predicted import predicted_for
from firsttouch.records.schema import FAILURES, DeviceInfo, Record
from firsttouch.records.statements import Statement, paragraph
from firsttouch.records.statistics import measured, value, varying
from firsttouch.records.text import condition, count, distinguishing_factors, label, percent, quantity
from firsttouch.report.answers import AnsweredSection
from firsttouch.report.broken import cause, without_broken
from firsttouch.report.draw import draw, with_narrow
from firsttouch.report.drawing import Drawing, DrawingContext, DrawnFigure, DrawnStatements
from firsttouch.report.events import EventTable, event_table
from firsttouch.report.lead import usual
from firsttouch.report.message import messages
from firsttouch.report.palette import Palette
from firsttouch.report.permalinks import point_id
from firsttouch.report.points import matching, others_text
from firsttouch.report.processes import processes
from firsttouch.report.profiler import CounterTable, counter_table
from firsttouch.report.published import PublishedTable

if TYPE_CHECKING:
    from firsttouch.records.timeline import MemoryCourse, TransferTimeline


MOST_LISTED = 25
BRIEF = 260
"""The characters of an answer that are shown without a click, if its first sentence has fewer."""
FEWEST = 6
"""The least number of samples for an interval of the median. With fewer, it is their range; one sample has none."""


@dataclass
class MessageGroup:
    """Points with the same message, such as all points skipped for one reason."""

    text: str
    count: int
    which: str


@dataclass
class PageSection:
    """One section of the page: an experiment on one device or across several, or a part of it."""

    anchor: str
    experiment: str
    name: str
    devices: Sequence[str]
    device_title: str
    question: str
    statements: list[Statement]
    counted: str
    unit: str
    source: str
    tally: dict[str, int]
    records: list[Record]
    device_info: DeviceInfo | None
    figures: Sequence[Figure]
    findings: Sequence[Finding] = ()
    overview: bool = False
    """True if its records are listed and counted by other sections."""
    facts: list[str] = field(default_factory=list)
    drawings: list[DrawnFigure] = field(default_factory=list)
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
    without_events: list[MessageGroup] = field(default_factory=list)
    counters: CounterTable | None = None
    published: PublishedTable | None = None
    stated: DrawnStatements = field(default_factory=DrawnStatements)
    """What a paper states of the points, if the run repeats a part of it."""
    without_counters: list[MessageGroup] = field(default_factory=list)
    skipped: list[MessageGroup] = field(default_factory=list)
    failed: list[MessageGroup] = field(default_factory=list)
    wrong: list[MessageGroup] = field(default_factory=list)
    suspect: list[MessageGroup] = field(default_factory=list)
    unverified: list[MessageGroup] = field(default_factory=list)
    processes: list[MessageGroup] = field(default_factory=list)
    """Who carried out points together."""
    notes: Sequence[str] = ()
    """Sentences that follow the caption of each figure."""
    is_open: bool = False
    """True if its first figure is shown without a click."""
    is_usual: bool = False
    """True if its first figure shows the usual conditions alone, and a further one all of them."""

    @property
    def answer(self) -> str:
        return " ".join(paragraph(self.statements))

    @property
    def device(self) -> str:
        return ", ".join(self.devices)

    @property
    def predicted(self) -> str:
        """'predicted for gh200' if its points are predictions, or ''."""
        return predicted_for(self.devices)

    @property
    def measured_on(self) -> str:
        """What its points hold for besides its devices, or ''."""
        return measured_on(self.records)

    @property
    def brief(self) -> str:
        """The first sentences of the answer."""
        kept = self.statements[:1]
        for statement in self.statements[1:]:
            if len(" ".join(map(str, [*kept, statement]))) > BRIEF:
                break
            kept.append(statement)
        return " ".join(paragraph(kept))

    @property
    def more(self) -> str:
        """What the page shows of the section on demand, in a few words."""
        extra = len(self.drawings) - self.is_open
        kinds = ["all conditions"] if self.is_usual else []
        kinds += [count(extra, "further figure" if self.is_open else "figure")] if extra > 0 else []
        kinds += ["all findings"] if self.brief != self.answer else []
        kinds += ["published results"] if self.published else []
        points = len(self.rows) + self.left_out
        return ", ".join([*kinds, "method", *([count(points, "point")] if points else [])])


def section_of(
    part: AnsweredSection, experiment: Experiment | None, devices_by_name: Mapping[str, DeviceInfo], most_rows: int
) -> PageSection:
    shown = part.section
    records = list(shown.records)
    infos = [devices_by_name[name] for name in part.devices if name in devices_by_name]
    section = PageSection(
        anchor="",
        experiment=part.experiment,
        name=part.title,
        devices=part.devices,
        device_title=", ".join(dict.fromkeys(info.title for info in infos if info.title)),
        question=shown.question,
        statements=part.answer.statements,
        counted=shown.counted,
        unit=experiment.metric.unit if experiment else next((r.unit for r in records), ""),
        source=shown.source,
        tally=tally([] if shown.overview else records),
        records=records,
        device_info=infos[0] if len(infos) == len(part.devices) == 1 else None,
        figures=shown.figures,
        findings=part.answer.findings,
        overview=shown.overview,
    )
    if shown.overview:
        return section
    section.facts = _sampling_facts(measured(records))
    timed = [r for r in records if r.summary is not None]
    section.columns, section.rows = _table(_thinned(timed, most_rows))
    section.left_out = len(timed) - len(section.rows)
    section.events = event_table(records)
    section.without_events = _by_message(records, why_none)
    section.counters = counter_table(records)
    section.without_counters = _by_message(records, why_lacking)
    section.skipped = _by_message(records, lambda r: r.reason if r.status == "skipped" else None)
    section.failed = _list_each(records, lambda r: f"{r.status}: {r.reason}" if r.status in FAILURES else None)
    section.wrong = _list_each(records, lambda r: (r.verified_why or "the data were wrong") if _is_wrong(r) else None)
    section.suspect = _by_message(records, lambda r: explain(r.suspect) if _is_suspect(r) else None)
    section.unverified = _by_message(records, lambda r: r.verified_why if _is_unverified(r) else None)
    section.processes = _by_message(records, processes)
    return section


def _is_wrong(record: Record) -> bool:
    return record.verified is False


def _is_suspect(record: Record) -> bool:
    return record.status == "ok" and bool(record.suspect) and not _is_wrong(record)


def _is_unverified(record: Record) -> bool:
    return record.status == "ok" and record.verified is None and not record.suspect and record.modelled is None


def tally(records: Sequence[Record]) -> dict[str, int]:
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


def half_width(record: Record) -> float:
    s = record.summary
    return (s.ci_high - s.ci_low) / 2 / abs(s.median) if s and s.median else 0.0


def _sampling_facts(good: Sequence[Record]) -> list[str]:
    """How the points were sampled: spread, numbers of samples, and what ended the sampling."""
    if not good:
        return []
    widths, counts = sorted(map(half_width, good)), [r.summary.n for r in good if r.summary]
    stops = Counter(r.stopped_by for r in good if r.stopped_by)
    seconds = sum(r.seconds for r in good)
    if all(r.modelled for r in good):
        spread = f"±{percent(median(widths))} typically, ±{percent(widths[-1])} at most"
        return [f"predicted; the range that follows from the ranges of the platform's values is {spread}"]
    if min(counts) > 1:
        few = "" if min(counts) >= FEWEST else f", or the range of fewer than {FEWEST} samples"
        spread = f"±{percent(median(widths))} typically, ±{percent(widths[-1])} at most"
        facts = [f"95 % interval of the median of this run{few}: {spread}"]
    else:
        facts = ["one sample per point, so that its spread is unknown"]
    facts += [another_run()] if good[0].experiment == "app" else []
    facts += [
        f"samples per point: {min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"samples: {counts[0]}",
    ]
    if stops:
        facts.append("sampling ended by " + ", ".join(f"{stop_reason} ({n})" for stop_reason, n in stops.most_common()))
    if seconds:
        facts.append(f"measured in {format_seconds(seconds)}")
    return facts


def _by_message(records: Sequence[Record], text: Callable[[Record], str | None]) -> list[MessageGroup]:
    """Points grouped by their `text`, the largest group first. Points whose text is None are left out."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if (message := text(record)) is not None:
            groups.setdefault(message or "no reason recorded", []).append(record)
    same = [
        MessageGroup(message, len(group), distinguishing_factors(group, records)) for message, group in groups.items()
    ]
    return sorted(same, key=lambda points: -points.count)


def _list_each(records: Sequence[Record], text: Callable[[Record], str | None]) -> list[MessageGroup]:
    """One block per point, up to MOST_LISTED, then one for the rest."""
    names = varying(records)
    messages = [(message, r) for r in records if (message := text(r)) is not None]
    each = [MessageGroup(message, 1, condition(r, names)) for message, r in messages[:MOST_LISTED]]
    if rest := messages[MOST_LISTED:]:
        each.append(MessageGroup("more points like these, all in the table", len(rest), ""))
    return each


def _table(records: Sequence[Record]) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
    """The headings, and one row with its CSS class and id for every measured point: varying factors, summary, marks."""
    shown = [r for r in records if r.summary is not None]
    names = varying(shown)
    rows = []
    for r in shown:
        s = r.summary
        assert s is not None
        spread = f"{quantity(s.ci_low, r.unit)} … {quantity(s.ci_high, r.unit)}" if r.has_interval else "–"  # noqa: RUF001
        ends = f"{quantity(s.p5, r.unit)} … {quantity(s.p95, r.unit)}"
        marks = [*(["WRONG DATA"] if _is_wrong(r) else []), *([f"suspect: {r.suspect}"] if _is_suspect(r) else [])]
        marks += ["unverified"] if _is_unverified(r) else []
        marks += ["predicted"] if r.modelled else []
        marks += ["throttled"] if r.throttled else []
        marks += [others_text(r)] if r.is_disturbed else []
        cells = [label(n, value(r, n)) for n in names]
        rows.append(
            (
                "wrong" if _is_wrong(r) else "warned" if marks and marks != ["predicted"] else "",
                point_id(r),
                [*cells, quantity(s.median, r.unit), spread, ends, str(s.n), r.stopped_by, ", ".join(marks)],
            )
        )
    heads = [n.replace("_", " ") for n in names]
    interval = "range" if shown and all(r.modelled for r in shown) else "95 % interval"
    return [*heads, "median", interval, "5th … 95th percentile", "samples", "ended by", "marks"], rows


def _thinned(records: list[Record], most: int) -> list[Record]:
    """At most about `most` records for a table: flawed ones first, and of the others every n-th."""
    step = -(-len(records) // most) if records else 1
    if step == 1:
        return records
    kept = [r for i, r in enumerate(records) if i % step == 0 or _is_wrong(r) or _is_suspect(r)]
    return kept[: 2 * most]


def drawings(section: PageSection, palette: Palette, *, is_lead: bool = False) -> list[Drawing]:
    """The figures of one section that are not empty. They do not show skipped and failed points. is_lead: the first of
    them is shown at once, on phones too.
    """
    ok = [r for r in section.records if r.status == "ok" and r.summary is not None]
    context = _context(section, palette)
    figures = [*section.figures]
    if not any(isinstance(figure, Timeline) for figure in figures):
        figures.append(Timeline())
    drawn: list[Drawing] = []
    for figure in figures:
        one = with_narrow(_drawn, figure, ok, context) if is_lead and not drawn else _drawn(figure, ok, context)
        drawn += [one] if one is not None else []
    for drawing in drawn:
        drawing.notes.extend(section.notes)
    return [replace(d, message=text) for d, text in zip(drawn, messages(drawn, section.findings), strict=True)]


def _drawn(figure: Figure, records: Sequence[Record], context: DrawingContext) -> Drawing | None:
    """A figure without the records that cannot be drawn, which it names; or what tells why it is not drawn at all."""
    try:
        spared = without_broken(records, lambda some: draw(figure, some, context))
    except (Exception, SystemExit) as error:
        return Drawing(f"A figure could not be drawn ({cause(error)})")
    if spared.value and spared.sentence:
        spared.value.notes.append(spared.sentence)
    return spared.value


def _context(section: PageSection, palette: Palette) -> DrawingContext:
    return DrawingContext(section.device_info, palette, section.timelines, section.memory, section.stated)


def lead_drawings(section: PageSection, palette: Palette, picture: Figure | None) -> list[Drawing]:
    """The figures of the section that a question shows: first the usual conditions of the first figure. picture: the
    figure of the first screen, which is not drawn again.
    """
    if any(figure is picture for figure in section.figures):
        other_figures = [figure for figure in section.figures if figure is not picture]
        return drawings(replace(section, figures=other_figures or section.figures), palette, is_lead=True)
    if not section.figures:
        return drawings(section, palette, is_lead=True)
    ok = [r for r in section.records if r.status == "ok" and r.summary is not None]
    try:
        usual_ok = without_broken(ok, lambda records: usual(section.figures[0], records)).value
    except (Exception, SystemExit):
        return drawings(section, palette, is_lead=True)
    if len(usual_ok) == len(matching(section.figures[0], ok)):
        return drawings(section, palette, is_lead=True)
    first = with_narrow(_drawn, section.figures[0], usual_ok, _context(section, palette))
    every = drawings(section, palette, is_lead=first is None)
    if first is None or not every:
        return every
    first.notes.extend(section.notes)
    section.is_usual = True
    return [replace(first, message=messages([first], section.findings)[0]), *every]
