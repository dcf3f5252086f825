"""The findings of each section of the report, or one sentence that says why there are none.

Results files from others are treated as untrusted: if an experiment fails on its records, its section says so, and the
report is still written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

from firsttouch.experiments.contract.base import Experiment, ReportSection
from firsttouch.records.conditions import is_ambiguous, under_conditions
from firsttouch.records.equal_places import with_headlines_alone
from firsttouch.records.findings import Finding
from firsttouch.records.predicted import predicted_for
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.records.statements import Statement
from firsttouch.records.statistics import measured
from firsttouch.report.broken import cause, without_broken
from firsttouch.report.sentences import sentences, statements

BESIDE = "Each of these GPUs is beside its equals on the first screen; the rest was measured on one for all."


@dataclass(frozen=True)
class SectionAnswer:
    """The findings of one section. problem: a sentence that says why there are none. left_out: names the points on
    which the experiment fails; '' if it fails on none.
    """

    findings: Sequence[Finding] = ()
    problem: str = ""
    left_out: str = ""

    @property
    def statements(self) -> list[Statement]:
        return [
            *(statements(self.findings) or [Statement(self.problem)]),
            *([Statement(self.left_out)] if self.left_out else []),
        ]


@dataclass(frozen=True)
class AnsweredSection:
    """One section of results with its answer. experiment: its name in the records. title: its title in the report."""

    experiment: str
    title: str
    devices: Sequence[str]
    """One device, except for an experiment that is shown across devices, or was skipped on several for one reason."""
    answer: SectionAnswer
    section: ReportSection = field(repr=False)


def answered(
    records: Sequence[Record], devices: Sequence[DeviceInfo], experiments: Mapping[str, Experiment]
) -> Iterator[AnsweredSection]:
    """Every section of a results directory in the order of the report: by experiment, then by device. Equal devices of
    which only their headlines were measured share one.
    """
    devices_by_name = {d.name: d for d in devices}
    names = [*experiments, *(r.experiment for r in records)]
    across_devices = {name for name, experiment in experiments.items() if experiment.across_devices}
    groups: dict[tuple[str, str], list[Record]] = {}
    headlines, first = with_headlines_alone(records), dict[str, str]()
    for record in records:
        device = "" if record.experiment in across_devices else record.device
        if device and (record.experiment, device) in headlines:
            device = first.setdefault(record.experiment, device)
        groups.setdefault((record.experiment, device), []).append(record)
    groups = _with_unplanned_together(groups)
    order = sorted(groups, key=lambda key: (names.index(key[0]), [*devices_by_name, key[1]].index(key[1])))
    for experiment, keys_of_experiment in groupby(order, key=lambda key: key[0]):
        parts = [
            _answered_sections(experiment, groups[experiment, device], experiments.get(experiment), devices_by_name)
            for _, device in keys_of_experiment
        ]
        yield from sorted(chain(*parts), key=lambda part: (not part.section.overview, part.title.casefold()))


def _with_unplanned_together(groups: Mapping[tuple[str, str], list[Record]]) -> dict[tuple[str, str], list[Record]]:
    """The groups, of which one stands for all devices on which an experiment was skipped as a whole for one reason."""
    together: dict[tuple[str, str], list[Record]] = {}
    first: dict[tuple[str, frozenset[str]], tuple[str, str]] = {}
    for key, rows in groups.items():
        if all(map(_is_unplanned, rows)):
            key = first.setdefault((key[0], frozenset(r.reason for r in rows)), key)
        together[key] = [*together.get(key, []), *rows]
    return together


def _is_unplanned(record: Record) -> bool:
    """True if the experiment was skipped as a whole on the device."""
    return record.status == "skipped" and not record.factors


def _answered_sections(
    name: str, records: Sequence[Record], experiment: Experiment | None, devices_by_name: Mapping[str, DeviceInfo]
) -> list[AnsweredSection]:
    """The sections of one experiment on one device or across devices; a single one if the experiment fails on the
    records.
    """
    names = list(dict.fromkeys(r.device for r in records))
    devices = sorted(names, key=[*devices_by_name, *names].index)
    alike = len(devices) > 1 and not all(map(_is_unplanned, records))
    if alike and experiment is not None and not experiment.across_devices:
        section = experiment.section(records, figures=())
        return [AnsweredSection(name, name, devices, SectionAnswer(problem=BESIDE), section)]
    info = devices_by_name.get(devices[0]) if not (experiment and experiment.across_devices) else None
    sections, problem, left_out = _divided_sections(name, records, experiment, info)
    answers = [
        SectionAnswer(problem=problem) if problem else _answer_section(part, experiment, info) for part in sections
    ]
    if left_out:
        answers[0] = replace(answers[0], left_out=" ".join(filter(None, (left_out, answers[0].left_out))))
    titles = [f"{name}: {section.title}" if section.title else name for section in sections]
    return [
        AnsweredSection(name, title, devices, answer, section)
        for title, answer, section in zip(titles, answers, sections, strict=True)
    ]


def _divided_sections(
    name: str, records: Sequence[Record], experiment: Experiment | None, info: DeviceInfo | None
) -> tuple[list[ReportSection], str, str]:
    """The sections, a sentence that says what failed, and one that names the records that were left out; or ''."""
    if experiment is None:
        return [ReportSection(f"Results of '{name}', an experiment unknown to this version", records, ())], "", ""
    whole = experiment.section(records)

    def divide(part: Sequence[Record]) -> list[ReportSection]:
        derived = experiment.derive(part)
        if not (isinstance(derived, list) and all(isinstance(record, Record) for record in derived)):
            raise TypeError("derive() must return a list of records")
        sections = list(experiment.sections(derived, info))
        if not all(isinstance(section, ReportSection) for section in sections):
            raise TypeError("sections() must return ReportSections")
        return sections

    unplanned = [r for r in records if _is_unplanned(r)]
    planned = [r for r in records if not _is_unplanned(r)]
    if not planned:
        return [replace(whole, figures=())], "", ""
    try:
        divided = without_broken(planned, divide)
    except (Exception, SystemExit) as error:
        reason = f"These points could not be divided into sections ({cause(error)}); they are in the table."
        return [replace(whole, figures=())], reason, ""
    sections = divided.value or [whole]
    # The table still has the broken ones, and those of devices on which the experiment was skipped as a whole.
    left_out_records = [*(record for record, _ in divided.broken), *unplanned]
    sections[0] = (
        replace(sections[0], records=[*sections[0].records, *left_out_records]) if left_out_records else sections[0]
    )
    return sections, "", divided.sentence


def _answer_section(section: ReportSection, experiment: Experiment | None, info: DeviceInfo | None) -> SectionAnswer:
    good = measured(section.records)
    if not good:
        reasons, points = Counter((r.status, _why_not_used(r)) for r in section.records), len(section.records)
        ((_, reason), most), *_ = [*reasons.most_common(1), (("", ""), 0)]
        share = f" ({most} of {points} points)" if len(reasons) > 1 else ""
        reason_text = f": {reason}{share}" if 2 * most > points else ""
        done = "predicted" if predicted_for(r.device for r in section.records) else "measured"
        return SectionAnswer(problem=f"Nothing was {done}{reason_text}.")
    if experiment is None:
        return SectionAnswer(
            problem="This version of firsttouch has no experiment of that name; its points are in the table. If it is "
            "your own, name its file with --module."
        )

    find_in = section.findings or experiment.findings

    def worded(part: Sequence[Record]) -> Sequence[Finding]:
        findings = find_in(part, info)
        sentences(f for f in findings if not is_ambiguous(f))  # fails if a claim names something that a finding lacks
        return findings

    def find(part: Sequence[Record]) -> tuple[list[Finding], list[str]]:
        findings = under_conditions(worded, part, _known(experiment))
        return findings, sentences(findings)

    try:
        outcome = without_broken(good, find)
    except (Exception, SystemExit) as error:
        return SectionAnswer(
            problem=f"Nothing could be derived from these points ({cause(error)}); they are in the table."
        )
    findings, texts = outcome.value
    problem = "" if texts else "These points support no finding; they are in the table."
    return SectionAnswer(findings if texts else (), problem, outcome.sentence)


def _why_not_used(record: Record) -> str:
    """Why a point is in no finding."""
    return record.reason or ("the data were wrong" if record.verified is False else "")


def _known(experiment: Experiment) -> Collection[str]:
    """The factors that its findings know of; none if these may be any."""
    return () if experiment.codebook.open else experiment.codebook.factors
