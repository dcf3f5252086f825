"""What repeats a figure of a paper: the calls of its lines on some device, and what the paper states beside them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev

from firsttouch.base.errors import UsageError
from firsttouch.base.outputs import Output
from firsttouch.comparison.papers.beside import Beside, beside, factor_beyond
from firsttouch.comparison.papers.evaluate import ClaimOutcome, noiseless_verdict, of_results
from firsttouch.comparison.papers.predicted_points import with_kernels
from firsttouch.comparison.validation.origins import Origins
from firsttouch.engine.discover import find_devices
from firsttouch.engine.fitting import fitted
from firsttouch.machine.backends import is_modelled
from firsttouch.machine.switches import SWITCHES
from firsttouch.model.platform import platform_of
from firsttouch.records.papers.claims import all_claims
from firsttouch.records.papers.files import MEDIAN
from firsttouch.records.papers.rows import PaperRow, all_rows, authors, stated_value
from firsttouch.records.papers.studies import (
    PAPERS,
    Conditions,
    StudyLine,
    models_of,
    named_part,
    parts_in,
    study_of,
)
from firsttouch.records.reading import Results, identities, key_of
from firsttouch.records.reproduced import Reproduced
from firsttouch.records.schema import Record, Struct, as_number
from firsttouch.records.statistics import measured
from firsttouch.records.text import count

ALIKE = 1.10
"""A value is like what a paper states within this factor of it, as for claims of equality."""
PLANNED = ("run", "app")
"""The commands whose points can be predicted, and whose results hold what a paper states."""
_GPU = re.compile(r"\b(?:hip|cuda|opencl):(\d+)")
_AT_MOST, _AT_LEAST = ("below", "less-than", "up-to"), ("more-than", "at-least")


class ListedPart(Struct, kw_only=True):
    """A figure, a table or a section of a paper, how it was measured, and the lines that repeat it."""

    paper: str
    id: str
    shows: str
    conditions: Conditions
    common: Conditions
    lines: list[StudyLine]


class ReproduceList(Output, frozen=True, kw_only=True, tag="firsttouch-reproduce-list/1"):
    """What `firsttouch reproduce --list --json` prints."""

    parts: list[ListedPart]


class ReproducedLine(Struct, kw_only=True):
    """A call that was carried out. exit_status: None if it was not. counts: its points by what became of them. differs:
    in what the call differs from the paper, and why. left_out: values of the line that the device does not have. why:
    why it was not carried out, or how it failed.
    """

    what: str
    call: str
    machine: str
    predicted: bool
    exit_status: int | None = None
    counts: dict[str, int] = {}
    differs: dict[str, str] = {}
    left_out: list[str] = []
    why: str = ""


class ReproducedValue(Struct, kw_only=True):
    """A number that the paper states, and the same here. stated: the ends of its range. factor: from the nearer end to
    the value here; 1 within the range. differs: whether that is more than 1.1, or less than 1/1.1. not_independent: of
    a prediction, why it does not judge the model: the platform's file or a rule came from the row. mean, deviation: of
    the samples, beside their median, as papers state them; None of ratios, counters and fewer than two samples.
    """

    row: str
    says: str
    section: str
    device: str
    conditions: str
    value: float
    unit: str
    stated: tuple[float, float]
    qualifier: str
    factor: float
    differs: bool
    predicted: bool
    mean: float | None = None
    deviation: float | None = None
    not_independent: str = ""
    assumed: str = ""
    note: str = ""


class ReproducedClaim(Struct, kw_only=True):
    """An order or a trend that the paper states, and whether it holds here."""

    id: str
    text: str
    verdict: ClaimOutcome
    why: str
    predicted: bool
    not_independent: str = ""


class Reproduction(Output, frozen=True, kw_only=True, tag="firsttouch-reproduce/1"):
    """What `firsttouch reproduce --json` prints. absent: rows of the figure with no value here, in sentences."""

    paper: str
    part: str
    shows: str
    directory: str | None
    report: str | None
    lines: list[ReproducedLine]
    values: list[ReproducedValue]
    claims: list[ReproducedClaim]
    absent: list[str]


@dataclass(frozen=True)
class LineCall:
    """The call of a line on a device. words: after `firsttouch`. why_not: why it cannot be carried out, or ''.
    left_out: factors and values that the device does not have.
    """

    line: StudyLine
    words: Sequence[str]
    machine: str
    predicted: bool
    why_not: str = ""
    left_out: Sequence[str] = ()


def listed(paper: str | None, part: str | None) -> list[ListedPart]:
    """The parts of a paper that have lines, or one of them. Raises UsageError for unknown names."""
    parts = []
    for name in [paper] if paper else PAPERS:
        study = study_of(name)
        for wanted in [named_part(name, part)] if part else study.names:
            found = study.part(wanted)
            parts.append(
                ListedPart(
                    paper=name,
                    id=wanted,
                    shows=found.shows if found else "",
                    conditions=found.conditions if found else Conditions(),
                    common=study.common,
                    lines=study.lines_of(wanted),
                )
            )
    return parts


def calls(paper: str, part: str, device: str | None, available: Collection[str]) -> list[LineCall]:
    """The calls that repeat a part of a paper.

    device: on which; None for the devices that the lines name if all are available, and else for models of the paper's
    machines. available: the devices of this machine.
    """
    lines = study_of(paper).lines_of(part)
    named = {match[0] for line in lines for match in _GPU.finditer(line.command)}
    here = device is None and named <= {*available}
    return [call for line in lines for call in _calls(paper, line, device, here=here)]


def _calls(paper: str, line: StudyLine, device: str | None, *, here: bool) -> Iterator[LineCall]:
    """The calls of a line. here: whether on the devices that it names."""
    machines = ", ".join(line.machines)
    if not line.command:
        yield LineCall(line, (), machines, predicted=False, why_not=f"no call: {line.no_command}")
    elif (words := line.words)[0] not in PLANNED:
        yield LineCall(line, words, machines, predicted=False, why_not=_why_not_carried_out(words[0]))
    elif here:
        yield LineCall(line, words, "this machine", predicted=False)
    else:
        for name in [device] if device else [f"model:{model}" for model in models_of(paper, line)]:
            yield LineCall(line, on_device(words, name), name, predicted=is_modelled(name))


def _why_not_carried_out(command: str) -> str:
    if command == "profile":
        return "it needs a program of yours"
    return f"`{command}` has no points; call it by itself"


def as_the_device_has_it(call: LineCall) -> LineCall:
    """A call without what its devices do not have. One that names a device which is not here stays as it is."""
    named = [value for word, value in pairwise(call.words) if word == "--device"]
    devices = [] if call.why_not else [d for d in find_devices(named) if d.name in named and d.available]
    if not devices:
        return call
    try:
        words, left_out = fitted(call.words, devices)
    except UsageError as error:
        return replace(call, words=(), why_not=str(error))
    return replace(call, words=words, left_out=left_out)


def on_device(words: Sequence[str], device: str) -> list[str]:
    """A call on another device than those that it names, which are the first, and its peers by their numbers."""
    if is_modelled(device):
        words = [word for word in words if word != "--counters"]  # nothing of a profiler is predicted
    if "--device" not in words:
        return [*words, "--device", device]
    previous = dict(zip(words[1:], words, strict=False))
    return [_other(word, device) if previous.get(word) == "--device" or "peer=" in word else word for word in words]


def _other(word: str, device: str) -> str:
    if word == "cpu":
        return f"{device}:cpu" if is_modelled(device) else word
    base = device if is_modelled(device) else device.partition(":")[0]

    return _GPU.sub(lambda match: device if match[1] == "0" else f"{base}:{match[1]}", word)


def in_directory(words: Sequence[str], directory: Path, *, resume: bool) -> list[str]:
    """A call of `run` or `app` whose results come into a directory."""
    kept = [*words]
    if "--out" in kept:
        place = kept.index("--out")
        del kept[place : place + 2]
    return [*kept, "--out", str(directory), "--no-report", *(["--resume"] if resume else [])]


def rows_of(paper: str, part: str) -> list[PaperRow]:
    """What a paper states of a part: rows that name it, or if they name no figure, a section of its lines."""
    near = {name for line in study_of(paper).lines_of(part) for name in line.where}
    return [row for row in all_rows() if row.paper == paper and not row.cited and _is_of(row, part, near)]


def _is_of(row: PaperRow, part: str, near: Collection[str]) -> bool:
    named = parts_in(row.section)
    figures = [name for name in named if not name.startswith("Sec.")]
    return part in figures if figures else bool({*named} & {*near})


def beside_part(results: Results, reproduced: Reproduced) -> list[tuple[PaperRow, Beside]]:
    """The values that a paper states of a part, beside those of a run."""
    rows = {(row.says, row.section): row for row in rows_of(reproduced.paper, reproduced.part)}
    records = {key_of(record): record for record in results.records}
    found = []
    for entry in beside(results.records, results.machine.devices):
        row = rows.get((entry.says, entry.section))
        if row is not None and row.here is not None and entry.paper == reproduced.paper:
            record = records[entry.point]
            if not entry.predicted or with_kernels(record, row.here.metric).is_measured:
                found.append((row, entry))
    return found


def points_of(row: PaperRow, entry: Beside, records: Iterable[Record]) -> list[Record]:
    """The points of which a value is stated: those like the one beside it but for names and switches that the
    statement leaves open.
    """
    assert row.here is not None
    fixed = {n: v for n, v in entry.factors.items() if n not in SWITCHES and as_number(v) is not None}
    return [
        record
        for record in measured(records)
        if (record.experiment, record.device) == (entry.experiment, entry.device)
        and row.here.matches(record.factors)
        and all(record.factors.get(name) == value for name, value in fixed.items())
        and record.factors.get("app") == entry.factors.get("app")
    ]


def values_of_part(results: Results, reproduced: Reproduced) -> list[ReproducedValue]:
    """The values that a paper states of a part, each judged by those of a run."""
    origins = _origins(results)
    records = {key_of(record): record for record in results.records}
    return [
        _value(row, entry, records[entry.point], origins.get(entry.device))
        for row, entry in beside_part(results, reproduced)
    ]


def _origins(results: Results) -> dict[str, Origins]:
    """What predictions for the modelled devices of a run came from."""
    models = {d.name: d.modelled.device_name for d in results.machine.devices if d.modelled}
    platforms = {name: platform_of(name.removeprefix("model:")) for name in {*models.values()}}
    return {device: Origins(platforms[name]) for device, name in models.items()}


def _mean_and_deviation(row: PaperRow, entry: Beside, record: Record) -> tuple[float | None, float | None]:
    """The mean and the standard deviation of the samples whose median a value is, in its unit."""
    assert row.here is not None
    summary, samples = record.summary, record.samples
    if row.here.metric != MEDIAN or row.here.relative_to or summary is None or not summary.median or len(samples) < 2:
        return None, None
    scale = entry.value / summary.median
    return fmean(samples) * scale, stdev(samples) * abs(scale)


def _value(row: PaperRow, entry: Beside, record: Record, origins: Origins | None) -> ReproducedValue:
    factor = factor_of(entry)
    unit = "ratio" if entry.unit == "times" else entry.unit
    role, reason = origins.role([row], unit, identities([entry.point])) if origins else ("held", "")
    mean, deviation = _mean_and_deviation(row, entry, record)
    return ReproducedValue(
        row=row.name,
        says=row.says,
        section=row.section,
        device=entry.device,
        conditions=entry.conditions,
        value=entry.value,
        unit=entry.unit,
        stated=entry.stated,
        qualifier=entry.qualifier,
        factor=factor,
        differs=not 1 / ALIKE <= factor <= ALIKE,
        predicted=entry.predicted,
        mean=mean,
        deviation=deviation,
        not_independent="" if role == "held" else reason,
        assumed=entry.assumed,
        note=entry.note,
    )


def factor_of(entry: Beside) -> float:
    """By what factor a value here is beyond what is stated: 1 within the range, or on the right side of a bound."""
    low = float("-inf") if entry.qualifier in _AT_MOST else entry.stated[0]
    high = float("inf") if entry.qualifier in _AT_LEAST else entry.stated[1]
    return factor_beyond(entry.value, low, high)


def claims_of_part(results: Results, reproduced: Reproduced) -> list[ReproducedClaim]:
    """The claims about a part that a run can test. A prediction has no noise, so that it decides each."""
    rows = {row.name: row for row in rows_of(reproduced.paper, reproduced.part)}
    found, origins = [], _origins(results)
    for claim in all_claims():
        if not rows.keys() & {*claim.rows}:
            continue
        verdict = noiseless_verdict(results, claim)[0] if origins else of_results(results, [claim]).claims[0]
        if verdict.verdict != "not testable":
            stating = [rows[name] for name in claim.rows if name in rows]
            role, reason = origins[verdict.device].role(stating) if verdict.device in origins else ("held", "")
            found.append(
                ReproducedClaim(
                    id=claim.id,
                    text=claim.text,
                    verdict=verdict.verdict,
                    why=verdict.why,
                    predicted=bool(origins),
                    not_independent="" if role == "held" else reason,
                )
            )
    return found


def numbers_of(reproduced: Reproduced) -> list[PaperRow]:
    """The numbers that a paper states of a part."""
    rows = rows_of(reproduced.paper, reproduced.part)
    return [row for row in rows if row.kind in ("measured", "derived") and stated_value(row) is not None]


def summary(reproduced: Reproduced, values: Sequence[ReproducedValue], claims: Sequence[ReproducedClaim]) -> str:
    """What a reproduction found, in a sentence or two."""
    name = f"{reproduced.part} of {authors(reproduced.paper)}"
    if not values and not claims:
        return f"{name}: nothing that the paper states of it has a value here."
    numbers = [value for value in values if not value.not_independent]
    orders = [claim for claim in claims if not claim.not_independent]
    parts = []
    if numbers:
        differing = sum(value.differs for value in numbers)
        parts.append(f"{differing} of {count(len(numbers), 'stated number')} differ by more than 10 %")
    if orders:
        held = sum(claim.verdict == "holds" for claim in orders)
        verb = "are predicted" if orders[0].predicted else "hold"
        parts.append(f"{held} of {count(len(orders), 'stated order')} {verb}")
    if inputs := len(values) + len(claims) - len(numbers) - len(orders):
        more = count(inputs, "more statement" if parts else "statement")
        parts.append(f"{more} came from the paper into the model and judge nothing")
    return f"{name}: {'; '.join(parts)}."


def shows(paper: str, part: str) -> str:
    """What a part shows, in a few words; '' for a section."""
    found = study_of(paper).part(part)
    return found.shows if found else ""
