"""What each section of results answers: its findings, or one sentence on why there are none.

Results files from others are treated as untrusted: an experiment that cannot make anything of its records says so and
ends nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

from firsttouch.analysis.findings import Finding
from firsttouch.analysis.statistics import measured
from firsttouch.experiments.base import Experiment, ReportSection
from firsttouch.modules import describe_error, error_location
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.report.sentences import sentences


@dataclass(frozen=True)
class Answer:
    """The findings of one section. problem: why there are none, a sentence."""

    findings: Sequence[Finding] = ()
    problem: str = ""

    @property
    def sentences(self) -> list[str]:
        return sentences(self.findings) or [self.problem]


@dataclass(frozen=True)
class Answered:
    """One section of results with its answer. experiment: its name in the records; title: as the report has it."""

    experiment: str
    title: str
    devices: Sequence[str]
    """One, but for an experiment that is shown across devices."""
    answer: Answer
    section: ReportSection = field(repr=False)


def answered(
    records: Sequence[Record], devices: Sequence[DeviceInfo], experiments: Mapping[str, Experiment]
) -> Iterator[Answered]:
    """Every section of a results directory in the order of the report: experiments, then devices."""
    known = {d.name: d for d in devices}
    names = [*experiments, *(r.experiment for r in records)]
    together = {name for name, one in experiments.items() if one.across_devices}
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        device = "" if record.experiment in together else record.device
        groups.setdefault((record.experiment, device), []).append(record)
    order = sorted(groups, key=lambda key: (names.index(key[0]), [*known, key[1]].index(key[1])))
    for experiment, same in groupby(order, key=lambda key: key[0]):
        made = [
            _of_devices(experiment, groups[experiment, device], experiments.get(experiment), known)
            for _, device in same
        ]
        yield from sorted(chain(*made), key=lambda one: (not one.section.overview, one.title.casefold()))


def _of_devices(
    name: str, records: Sequence[Record], experiment: Experiment | None, known: Mapping[str, DeviceInfo]
) -> list[Answered]:
    """The sections of one experiment on one device, or across devices; just one where it can't make anything of the
    records.
    """
    named = list(dict.fromkeys(r.device for r in records))
    devices = sorted(named, key=[*known, *named].index)
    info = known.get(devices[0]) if not (experiment and experiment.across_devices) else None
    sections, problem = _sections(name, records, experiment, info)
    return [
        Answered(
            name,
            f"{name}: {section.title}" if section.title else name,
            devices,
            Answer(problem=problem) if problem else _answer(section, experiment, info),
            section,
        )
        for section in sections
    ]


def _sections(
    name: str, records: Sequence[Record], experiment: Experiment | None, info: DeviceInfo | None
) -> tuple[list[ReportSection], str]:
    """What the sections show, and what went wrong in making them."""
    if experiment is None:
        return [ReportSection(f"Results of '{name}', an experiment unknown to this version", records, ())], ""
    whole = ReportSection(
        experiment.question, records, experiment.figures, counted=experiment.counted, source=experiment.source
    )
    try:
        derived = experiment.derive(records)
        if not (isinstance(derived, list) and all(isinstance(one, Record) for one in derived)):
            raise TypeError("derive() must return a list of records")
        sections = list(experiment.sections(derived, info))
        if not all(isinstance(one, ReportSection) for one in sections):
            raise TypeError("sections() must return ReportSections")
        return sections or [whole], ""
    except (Exception, SystemExit) as error:
        why = f"These points could not be divided into sections ({_cause(error)}); they are in the table."
        return [replace(whole, figures=())], why


def _answer(section: ReportSection, experiment: Experiment | None, info: DeviceInfo | None) -> Answer:
    good = measured(section.records)
    if not good:
        reasons = {(r.status, r.reason) for r in section.records}
        why = f": {reasons.pop()[1]}" if len(reasons) == 1 else ""
        return Answer(problem=f"Nothing was measured{why}.")
    if experiment is None:
        return Answer(problem="This version of firsttouch has no experiment of that name; its points are in the table.")
    try:
        find = section.findings or experiment.findings
        found = find(good, info)
        said = sentences(found)  # a claim may name what a finding lacks
    except (Exception, SystemExit) as error:
        return Answer(problem=f"Nothing could be derived from these points ({_cause(error)}); they are in the table.")
    return Answer(found) if said else Answer(problem="These points support no finding; they are in the table.")


def _cause(error: BaseException) -> str:
    """What went wrong, in a module with its message and place."""
    return describe_error(error) if error_location(error) else type(error).__name__
