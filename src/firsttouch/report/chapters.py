"""A results directory as a chapter of the page: its first screen, and its sections by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from firsttouch.experiments.contract.base import Experiment
from firsttouch.machine.conditions import disturbed, first_touch_note, rests_on_first_touch
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.records.statistics import group_by, measured
from firsttouch.records.text import caption, count, join_names
from firsttouch.report.answers import answered
from firsttouch.report.drawing import DrawnFigure, DrawnStatements
from firsttouch.report.first_screen import FirstScreen, first_screen
from firsttouch.report.interface_answers import InterfacesSection, interfaces_section
from firsttouch.report.machines import MachinesTable
from firsttouch.report.permalinks import section_id
from firsttouch.report.published import published_tables
from firsttouch.report.sections import PageSection, half_width, section_of, tally
from firsttouch.report.stated import RepeatedPart, repeated_part, stated_values

if TYPE_CHECKING:
    from firsttouch.records.reading import Results
    from firsttouch.records.timeline import TransferTimeline


NOISY = 0.10
"""A point is noisy if half the width of its 95 % interval is more than this fraction of the median."""
MOST_NAMED = 3
"""The most experiments, or applications, that a title names."""
MOST_ROWS_OF_ALL = 8000
"""The points of a results directory that the page's tables hold. Of more, each section has its part, evenly."""
FEWEST_ROWS = 8
"""The points that the table of a section holds in any case."""


@dataclass
class PageQuestion:
    """The sections that answer one question. The first is shown; the others are opened on demand."""

    anchor: str
    name: str
    title: str
    sections: list[PageSection]
    collapsed: bool
    """True if all of it is opened on demand: its kernels ran on the host's processor, and those of others did not."""
    is_above: bool = False
    """True if the first screen shows its answer and its figure, so that all the rest is opened on demand."""

    @property
    def lead(self) -> PageSection:
        return self.sections[0]


@dataclass
class Chapter:
    """One results directory."""

    anchor: str
    title: str
    results: Results
    warnings: list[str]
    sections: list[PageSection]
    questions: list[PageQuestion]
    screen: FirstScreen
    picture: list[DrawnFigure] = field(default_factory=list)
    """The picture of the first screen, if there is one."""
    interfaces: InterfacesSection | None = None
    """By which interface data move fastest, if that was measured."""
    machines: MachinesTable | None = None
    """The same points on several modelled machines."""
    repeated: RepeatedPart | None = None
    """The part of a paper that the run repeats."""
    stated: DrawnStatements = field(default_factory=DrawnStatements)
    """What the paper states of the points, if the run repeats a part of it."""
    of_figures: list[str] = field(default_factory=list)
    """Sentences that hold for several figures of the page; the first chapter has them."""

    @property
    def done(self) -> str:
        """What became of its points: 'measured' or 'predicted'."""
        return "predicted" if self.screen.predicted else "measured"

    @property
    def interfaces_last(self) -> bool:
        """Whether the matrices of several GPUs come before the interfaces."""
        return bool(self.screen.gpus)

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
        return [kind for kind in tally([]) if kind != "ok" and any(s.tally[kind] for s in self.sections)]

    @property
    def about(self) -> str:
        """What was measured, in a few words; '' if nothing was."""
        shown = [r for r in self.results.records if r.status != "skipped"]
        apps, strategies = (
            [*dict.fromkeys(str(r.factors[name]) for r in shown if name in r.factors)] for name in ("app", "strategy")
        )
        others = [*dict.fromkeys(r.experiment for r in shown if "app" not in r.factors)]
        texts = [_named(others, "experiment"), _named(apps, "application")]
        under = f" under {count(len(strategies), 'strategy', 'strategies')}" if len(strategies) > 1 else ""
        return join_names([text for text in texts if text]) + (under if apps else "")

    @property
    def absent(self) -> list[str]:
        """The kinds of outcome that do not occur."""
        return [kind for kind in tally([]) if kind != "ok" and kind not in self.occurring]


def _named(names: Sequence[str], noun: str) -> str:
    """A few names, or how many there are."""
    return join_names(names) if len(names) <= MOST_NAMED else count(len(names), noun)


def chapters(results: Mapping[str, Results], experiments: Mapping[str, Experiment]) -> list[Chapter]:
    """Everything in the report except the drawn figures. The keys of `results` name the directories."""
    made = []
    for i, (name, loaded) in enumerate(results.items(), 1):
        devices = {d.name: d for d in loaded.machine.devices}
        parts = list(answered(loaded.records, loaded.machine.devices, experiments))
        many = len(loaded.records) > MOST_ROWS_OF_ALL
        most = max(FEWEST_ROWS, MOST_ROWS_OF_ALL // max(1, len(parts))) if many else MOST_ROWS_OF_ALL
        sections = [section_of(part, experiments.get(part.experiment), devices, most) for part in parts]
        _add_published(sections, loaded)
        stated = stated_values(loaded)
        touch = first_touch_note(loaded.machine)
        for section in sections:
            section.memory, section.stated = loaded.memory, stated
            section.notes = [caption(f"{touch}.")] if touch and rests_on_first_touch(section.experiment) else []
        for (experiment, device), timelines in loaded.timelines.items():
            if candidates := [s for s in sections if s.experiment == experiment and device in s.devices]:
                for timeline in timelines:
                    _best_section(timeline, candidates).timelines.append(timeline)
        screen = first_screen(loaded, parts)
        anchor = "answer" if i == 1 else f"answer-{i}"
        questions = _questions(sections, devices, experiments, "" if i == 1 else f"-{i}")
        title = screen.title if len(results) == 1 else f"{screen.title} ({name})"
        warnings = [*loaded.machine.warnings, *loaded.warnings, *_point_warnings(loaded.records)]
        by_interface = interfaces_section(loaded.records)
        beside = screen.machines
        made.append(
            Chapter(
                anchor,
                title,
                loaded,
                warnings,
                sections,
                questions,
                screen,
                interfaces=by_interface,
                machines=beside,
                repeated=repeated_part(loaded),
                stated=stated,
            )
        )
    return made


def _add_published(sections: Sequence[PageSection], results: Results) -> None:
    """Adds what papers state for other machines to the first section of each experiment on each device, and of each
    application.
    """
    tables = published_tables(results.records, results.machine.devices)
    for section in sections:
        if not section.overview and len(section.devices) == 1:
            application = next((r.factors.get("app") for r in section.records), None)
            section.published = tables.pop((section.experiment, section.devices[0], application), None)


def _questions(
    sections: Sequence[PageSection],
    devices: Mapping[str, DeviceInfo],
    experiments: Mapping[str, Experiment],
    suffix: str,
) -> list[PageQuestion]:
    """The sections by experiment. GPUs come first, and then the host; last come questions
    that only kernels on the host's processor answer. Anchors consist of names, so that a later run has the same.
    """

    def rank(section: PageSection) -> tuple[bool, int]:
        infos = [devices[name] for name in section.devices if name in devices]
        ranks = [("gpu", "host", "processor").index(d.role) for d in infos]
        return not section.rows and not section.overview, min(ranks, default=0)

    taken: set[str] = set()
    groups: dict[str, list[PageSection]] = {}
    for section in sections:
        groups.setdefault(section.experiment, []).append(section)
    questions = []
    for name, group in groups.items():
        group.sort(key=rank)
        experiment = experiments.get(name)
        is_one = group[0].overview or len({section.question for section in group}) == 1
        title = group[0].question if experiment is None or is_one else experiment.question
        question = PageQuestion(section_id([name], suffix, taken), name, title, group, rank(group[0])[1] == 2)
        for section in group:
            section.anchor = section_id([section.name, section.device], suffix, taken)
        questions.append(question)
    if all(question.collapsed for question in questions):
        questions = [replace(question, collapsed=False) for question in questions]
    return sorted(questions, key=lambda q: (q.collapsed, not q.lead.rows and not q.lead.overview))


def _best_section(timeline: TransferTimeline, sections: Sequence[PageSection]) -> PageSection:
    """The section with a point whose factors match those of the timeline best."""

    def matches(section: PageSection) -> tuple[bool, int]:
        equal = (sum(r.factors.get(n) == v for n, v in timeline.factors.items()) for r in section.records)
        return not section.overview, max(equal, default=0)

    return max(sections, key=matches)


def _point_warnings(records: Sequence[Record]) -> list[str]:
    """Warnings that follow from the points: throttling and noise."""
    good = measured(records)
    throttled, noisy = [r for r in records if r.throttled], [r for r in good if half_width(r) > NOISY]
    causes = sorted({t for r in throttled for c in (r.clocks_before, r.clocks_after) if c for t in c.throttle})
    warnings = []
    if sentence := disturbed(records):
        warnings.append(f"{sentence}, which may have changed the values. `--wait` waits until the machine is idle.")
    if throttled:
        because = f" ({', '.join(causes)})" if causes else ""
        warnings.append(f"{count(len(throttled), 'point')} taken while the device was throttled{because}.")
    if noisy and not any(r.modelled for r in noisy):
        groups = sorted(group_by(noisy, "device").items(), key=lambda group: -len(group[1]))
        places = "; ".join(
            f"{d}: {', '.join(dict.fromkeys(r.experiment for r in noisy_records))}" for (d,), noisy_records in groups
        )
        warnings.append(
            f"{count(len(noisy), 'noisy point')}, with a 95 % interval wider than ±{100 * NOISY:.0f} % ({places})."
        )
    return warnings
