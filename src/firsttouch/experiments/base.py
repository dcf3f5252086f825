"""What an experiment is: factors, how one point is measured and verified, and its figure.

One module per experiment in this folder, holding one subclass of Experiment; nothing else registers it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from firsttouch.analysis.findings import Finding
from firsttouch.figures import Figure
from firsttouch.machine import switches
from firsttouch.records.schema import BufferFact, DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.units import format_size

if TYPE_CHECKING:
    from firsttouch import _core
    from firsttouch.experiments.presets import Property, Rule
    from firsttouch.session import Session

Preset = Literal["quick", "standard", "full"]
FactorKind = Literal["size", "count", "ratio", "extent", "choice"]
MOST_VALUES = 10_000
"""That a factor may have."""


def _is_scalar(value: object) -> bool:
    """Whether a record can hold the value of a factor."""
    if isinstance(value, str):
        return value.isprintable()
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and abs(value) < 2**63)


@dataclass(frozen=True)
class Factor:
    """One varied condition. values is what the preset takes; `--set name=...` may give others.

    kind "size" parses bytes, "count" a whole number >= 0, "ratio" a number above 0, "choice" one of `choices`, "extent"
    bytes or a word of `known`, which means the value that stands there. doc says what is varied, in a few words for
    --list. names_devices: values that name devices are tried, without --set, only where the call chose those
    devices.
    """

    name: str
    values: Sequence[Scalar]
    kind: FactorKind = "choice"
    choices: Sequence[str] = ()
    doc: str = ""
    known: Mapping[str, Scalar] = field(default_factory=dict)
    names_devices: bool = False
    least: int = 0
    most: int | None = None
    """Of kinds "size" and "count": the range in which a value can be measured at all, None without an upper end."""
    multiple: int = 1
    """Of kinds "size" and "count": what a value must be a whole multiple of."""

    def __post_init__(self) -> None:
        """Raises ValueError for what no record could hold and no --set could name."""
        if not (isinstance(self.name, str) and self.name.isidentifier()):
            raise ValueError(f"{self.name!r:.60} is not a valid name of a factor; give letters, digits and _")
        if self.kind not in get_args(FactorKind):
            raise ValueError(f"factor {self.name}: {self.kind!r:.60} is not one of {', '.join(get_args(FactorKind))}")
        values = list(islice(self.values, MOST_VALUES + 1))
        if len(values) > MOST_VALUES:
            raise ValueError(f"factor {self.name} has more than {MOST_VALUES} values")
        if wrong := [value for value in values if not _is_scalar(value)]:
            raise ValueError(f"factor {self.name}: {wrong[0]!r:.60} is not a number, a printable text or None")
        object.__setattr__(self, "values", values)

    def accepted(self) -> str:
        """What --set takes for it, in words."""
        if self.kind == "choice":
            return ", ".join(dict.fromkeys(str(value) for value in (*self.choices, *self.values)))
        if self.kind == "ratio":
            return "a number above 0"
        if self.kind == "extent":
            return ", ".join((*self.known, "or a size"))
        as_word = format_size if self.kind == "size" else str
        what = "a size" if self.kind == "size" else "a whole number"
        least = f" of at least {as_word(self.least)}" if self.most is None and self.least else ""
        between = f" from {as_word(self.least)} to {as_word(self.most)}" if self.most is not None else ""
        multiple = f", a multiple of {as_word(self.multiple)}" if self.multiple > 1 else ""
        return f"{what}{least}{between}{multiple}"


def describe_factors(factors: Iterable[Factor]) -> dict[str, dict[str, str]]:
    """What each factor is and what --set takes for it, by name; of devices that differ, all that any takes."""
    by_name: dict[str, list[Factor]] = {}
    for factor in factors:
        by_name.setdefault(factor.name, []).append(factor)
    return {
        name: {"doc": same[0].doc, "accepts": "; ".join(dict.fromkeys(f.accepted() for f in _joined(same)))}
        for name, same in by_name.items()
    }


def _joined(same: Sequence[Factor]) -> Sequence[Factor]:
    """Factors of one name, those of choices as one with the choices of all."""
    if any(factor.kind != "choice" for factor in same):
        return same
    return [
        replace(same[0], choices=list(dict.fromkeys(word for f in same for word in (*f.choices, *map(str, f.values)))))
    ]


@dataclass
class Measurement:
    """What was measured at one point. samples are in the metric's unit; verified None needs verified_why."""

    samples: Sequence[float]
    verified: bool | None
    verified_why: str = ""
    stopped_by: str = ""
    counters: dict[str, Scalar] = field(default_factory=dict)
    buffers: list[BufferFact] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        outcome: _core.Outcome,
        *,
        buffers: Sequence[BufferFact] = (),
        verified_why: str = "",
        checked: Iterable[_core.Outcome] = (),
        keep: Collection[str] | None = None,
        counters: Mapping[str, Scalar] | None = None,
    ) -> Measurement:
        """What a probe measured; the data are right where neither it nor those of `checked` found an error.

        keep names those of the probe's counters that the record gets, None all of them; counters are further ones.
        """
        own = {name: value for name, value in outcome.counters.items() if keep is None or name in keep}
        return cls(
            samples=outcome.samples,
            verified=outcome.errors == 0 and not any(other.errors for other in checked),
            verified_why=verified_why,
            stopped_by=outcome.stopped_by,
            counters={**own, **(counters or {})},
            buffers=list(buffers),
        )


@dataclass(frozen=True)
class Point:
    """One combination of all factors on one device. Its factors are read as those of Factors are."""

    experiment: str
    device: str
    factors: Factors

    def __getitem__(self, factor: str) -> Scalar:
        return self.factors[factor]

    def text(self, factor: str) -> str:
        return self.factors.text(factor)

    def count(self, factor: str) -> int:
        return self.factors.count(factor)

    def size(self, factor: str) -> int:
        return self.factors.size(factor)


@dataclass(frozen=True)
class ReportSection:
    """One section of the report on one device. Those of an experiment stand by title, an overview first.

    title: follows the experiment's name, as in "app: hotspot". findings: from the points that are ok and not wrong;
    without it they are the experiment's. overview: its records are listed and counted by other sections.
    """

    question: str
    records: Sequence[Record]
    figures: Sequence[Figure]
    title: str = ""
    counted: str = ""
    source: str = ""
    overview: bool = False
    findings: Callable[[Sequence[Record], DeviceInfo | None], Sequence[Finding]] | None = None


class Experiment:
    """A question with factors, a metric and a figure."""

    name: ClassVar[str]
    order: ClassVar[int] = 100
    """Place in lists and reports."""
    question: ClassVar[str]
    """What a reader wants to know, as a question; the report's heading."""
    metric: ClassVar[Metric]
    """What one sample means: its unit, whether lower or higher is better, and the version of its definition."""
    counted: ClassVar[str]
    """What exactly one sample counts, for the report."""
    source: ClassVar[str]
    figures: ClassVar[Sequence[Figure]]
    share: ClassVar[float] = 1.0
    """Weight of this experiment in a preset's time."""
    fresh_process: ClassVar[bool] = False
    """Every point in a new worker."""
    across_devices: ClassVar[bool] = False
    """The report shows the records of all devices together: figures may name `device` and, where it is a factor,
    `peer`; derive(), sections() and findings() get the records of all, and None for the device.
    """
    rules: ClassVar[Sequence[Rule]] = ()
    """What a preset leaves out to keep its time (presets.py). A value that --set asks for keeps all its combinations
    where the rules would leave none.
    """
    properties: ClassVar[Mapping[str, Property]] = {}
    """What the rules ask of a point besides its factors and the properties that presets.py knows."""
    opens_device: ClassVar[bool] = True
    """False: the worker leaves the device to the experiment. Give environment() something of its own then, so that no
    other experiment has opened it in that worker."""

    def supports(self, device: DeviceInfo) -> str | None:
        """None where the experiment can run on the device at all, else the reason."""
        return None

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        """The factors on this device; points are their cross product, in this order."""
        raise NotImplementedError

    def optional(self) -> Sequence[Factor]:
        """Further factors, which are there when --set gives them."""
        return ()

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        """Why this combination can't be measured here (recorded as skipped), or None."""
        return None

    def base_point(self, device: DeviceInfo) -> Mapping[str, Scalar]:
        """The values around which conditions vary one at a time, for rules that ask which are `varied`."""
        return {}

    def why_meaningless(self, factors: Factors, device: DeviceInfo) -> str:
        """Why the combination means nothing at all, in words (it is not a point and not recorded), or ''."""
        return ""

    def environment(self, factors: Factors) -> dict[str, str]:
        """Environment variables that the worker of this point must start with: those of the runtime's switches among
        the factors (machine/switches.py).
        """
        return switches.environment(factors)

    def measure(self, point: Point, session: Session) -> Measurement:
        """Measure and verify one point. Raises _core.GuardRefused where memory limits forbid it (skipped)."""
        raise NotImplementedError

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> Sequence[Finding]:
        """What answers the question, the most important first, from the records of one device that are ok and not
        wrong. None where the records support none.
        """
        raise NotImplementedError

    def derive(self, records: Sequence[Record]) -> list[Record]:
        """The records of one device as the report is to show them: with what follows from several of them together."""
        return list(records)

    def sections(self, records: Sequence[Record], device: DeviceInfo | None) -> list[ReportSection]:
        """The sections in which the derived records of one device are shown, each in one, an overview aside."""
        return [ReportSection(self.question, records, self.figures, counted=self.counted, source=self.source)]
