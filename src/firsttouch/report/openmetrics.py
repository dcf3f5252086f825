"""The numbers of the first screen, and the points that they rest on, as OpenMetrics 1.0 text for a monitoring system.

Each number and each experiment is a gauge, in base units: seconds, bytes, bytes per second, ratios. Without time stamps
and with `gauge` for all, Prometheus' collector of text files reads it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite

from firsttouch.base.encoding import valid_text
from firsttouch.experiments.contract.base import Experiment
from firsttouch.records.findings import Condition, Quantity
from firsttouch.records.predicted import predicted_for
from firsttouch.records.reading import Results, key_of
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.text import SECONDS
from firsttouch.report.answers import answered
from firsttouch.report.first_screen import FirstScreen, first_screen
from firsttouch.report.sentences import predicted

_OTHERS: Mapping[str, tuple[str, float]] = {
    "": ("ratio", 1),
    "%": ("ratio", 0.01),
    "B": ("bytes", 1),
    "GB/s": ("bytes_per_second", 1e9),
    "M/s": ("operations_per_second", 1e6),
}
"""The base unit of a unit of the records, and the factor to it; those of times are seconds."""
_UNNAMED = re.compile(r"[^a-zA-Z0-9_]+")
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass
class _Family:
    """One metric. samples: values by their labels, each of which occurs once."""

    name: str
    unit: str
    help: str
    samples: dict[str, float] = field(default_factory=dict)

    def lines(self) -> Iterable[str]:
        yield f"# TYPE {self.name} gauge"
        if self.unit:
            yield f"# UNIT {self.name} {self.unit}"
        yield f"# HELP {self.name} {valid_text(self.help).translate(_ESCAPED)}"
        for labels, value in self.samples.items():
            yield f"{self.name}{{{labels}}} {value!r}"


class _Metrics:
    """Collects samples of one or several results directories."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}

    def add(self, what: str, unit: str, text: str, labels: Mapping[str, Condition], value: float) -> None:
        """A sample of firsttouch_WHAT_UNIT, of which `text` says what it is. The first of the same labels counts."""
        if isfinite(value):
            name = "_".join(filter(None, ("firsttouch", _slug(what), unit)))
            family = self._families.setdefault(name, _Family(name, unit, text))
            family.samples.setdefault(_labels(labels), float(value))

    def text(self) -> str:
        families = sorted(self._families.values(), key=lambda family: family.name)
        return "\n".join([*(line for family in families for line in family.lines()), "# EOF", ""])


def openmetrics(results: Mapping[str, Results], experiments: Mapping[str, Experiment]) -> str:
    """The metrics of one or several directories; those of several have the label `run`."""
    metrics = _Metrics()
    for run, held in results.items():
        machines = predicted_for(device.name for device in held.machine.devices)
        common = {"host": held.machine.host} | ({"run": run} if len(results) > 1 else {})
        common |= _predicted_label(machines)
        answers = list(answered(held.records, held.machine.devices, experiments))
        _add_run(metrics, held, first_screen(held, answers), common, experiments)
    return metrics.text()


def _predicted_label(prediction: str) -> dict[str, str]:
    return {"predicted": prediction.removeprefix("predicted for ")} if prediction else {}


def _add_run(
    metrics: _Metrics,
    held: Results,
    screen: FirstScreen,
    common: Mapping[str, Condition],
    experiments: Mapping[str, Experiment],
) -> None:
    about = {"firsttouch": held.machine.firsttouch, "hardware": screen.title}
    metrics.add("run_info", "", "The build that measured or predicted, and the hardware.", {**common, **about}, 1)
    if (when := _time(held.machine.created)) is not None:
        metrics.add("run_start", "seconds", "When the run began, since 1970.", common, when)
    statuses = [("suspect" if r.suspect else "wrong" if r.verified is False else r.status) for r in held.records]
    for status in dict.fromkeys(statuses):
        text = "Points by status; wrong: the data were not right; suspect: the value breaks a rule of plausibility."
        metrics.add("points", "", text, {**common, "status": status}, statuses.count(status))
    records = {key_of(record): record for record in held.records}
    for number in screen.numbers:
        finding = number.finding
        if isinstance(finding.value, Quantity):
            unit, scale = _unit(finding.value.unit)
            conditions = {n: v for n, v in finding.conditions.items() if not isinstance(v, tuple)}
            text = "A number of the first screen: the label 'what' names it, the others are its conditions."
            labels = {**conditions, **common, **_predicted_label(predicted(finding)), "what": number.head}
            metrics.add(_headline(finding.claim.id), unit, text, labels, scale * finding.value.value)
            points = [records[key] for key in finding.points if key in records]
            _add_disturbed(metrics, _headline(finding.claim.id), points, labels)
        for record in (records[key] for key in finding.points if key in records):
            _add_point(metrics, record, common, experiments)


def _add_point(
    metrics: _Metrics, record: Record, common: Mapping[str, Condition], experiments: Mapping[str, Experiment]
) -> None:
    """The median of a point, under its factors."""
    if record.summary is None:
        return
    unit, scale = _unit(record.unit)
    experiment = experiments.get(record.experiment)
    text = experiment.question if experiment is not None else record.experiment
    labels = {**record.factors, **common, **_predicted_label(predicted_for([record.device])), "device": record.device}
    metrics.add(record.experiment, unit, text, labels, scale * record.summary.median)
    _add_disturbed(metrics, record.experiment, [record], labels)


def _add_disturbed(metrics: _Metrics, what: str, records: Sequence[Record], labels: Mapping[str, Condition]) -> None:
    """Whether other programs used the processors while a value was measured."""
    text = (
        "1: other programs used the CPU meanwhile, so the value may be worse than on an idle machine; 0: they did not."
    )
    metrics.add(f"{what}_disturbed", "", text, labels, float(any(record.is_disturbed for record in records)))


def _headline(claim: str) -> str:
    return f"headline_{claim.removeprefix('headline.')}"


def _unit(unit: str) -> tuple[str, float]:
    """The base unit, as the end of a metric's name, and the factor to it: ('seconds', 1e-9) of 'ns'."""
    head, _, rest = unit.partition(" ")
    if head in SECONDS:
        return "_".join(["seconds", *rest.split()]), SECONDS[head]
    if unit in _OTHERS:
        return _OTHERS[unit]
    return _slug(unit.replace("/", " per ")).lower(), 1.0


def _slug(name: str) -> str:
    return _UNNAMED.sub("_", name).strip("_")


def _labels(labels: Mapping[str, Condition]) -> str:
    """Labels in the form of the format. What has no value is left out."""
    texts = {_label(name): _value(value) for name, value in labels.items() if value is not None}
    return ",".join(f'{name}="{valid_text(text).translate(_ESCAPED)}"' for name, text in sorted(texts.items()))


def _label(name: str) -> str:
    slug = _slug(name)
    return slug if slug[:1].isalpha() else f"factor_{slug}"


def _value(value: Condition | Scalar) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_value, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _time(created: str) -> float | None:
    try:
        return datetime.fromisoformat(created).timestamp()
    except ValueError:
        return None
