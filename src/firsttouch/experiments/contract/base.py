"""The base class of experiments: factors, measuring and verifying a point, figures and findings.

Each module of an experiment in this folder has one subclass of Experiment. Nothing else registers it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from firsttouch.base.errors import NotModelled
from firsttouch.base.units import format_size
from firsttouch.experiments.contract.rules import NOTHING, Preset, PresetRule, PropertyValue, RuleCondition
from firsttouch.records.codebook import Codebook
from firsttouch.records.figures import Figure
from firsttouch.records.findings import Finding
from firsttouch.records.schema import RANKS, AllocatorInfo, BufferFact, DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.schema import Point as Point

if TYPE_CHECKING:
    from firsttouch import _core
    from firsttouch.machine.switches import Part
    from firsttouch.model.platform import Platform
    from firsttouch.model.terms import Term
    from firsttouch.records.timeline import MemoryCourse
    from firsttouch.workers.session import Session

FactorKind = Literal["size", "count", "ratio", "fraction", "extent", "name", "choice"]
ONE_AT_A_TIME = "a profiler stops the GPU around each kernel, so CPU and GPU would not work at once"
"""Why a profiler cannot count an experiment in which they do."""
MAX_VALUES = 10_000
"""The most values that a factor may have."""


class Meaningless(str):
    """Why a combination of factors has no meaning, as a reason of Experiment.skip()."""


def _is_scalar(value: object) -> bool:
    """True if a record can hold the value of a factor."""
    if isinstance(value, str):
        return value.isprintable()
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and abs(value) < 2**63)


@dataclass(frozen=True)
class Factor:
    """A condition that is varied. values are those that the preset measures; `--set name=...` may name others.

    kind: "size" parses bytes, "count" a whole number >= 0, "ratio" a number above 0, "fraction" one from 0 to 1,
    "choice" one of the values or of `choices`, "name" a text that matches `pattern`, of which `choices` are examples,
    and "extent" bytes. For "extent", "fraction", "count" and "choice", known has words that are accepted too, each with
    the value for which it stands. doc says in a few words what is varied, for --list. names_devices: the values name
    devices; without --set, only those are measured that the call chose.
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
    """For the kinds "size" and "count": the range of values that can be measured; None means no upper limit."""
    multiple: int = 1
    """For the kinds "size" and "count": a value must be a multiple of this."""
    pattern: str = ""
    """For the kind "name": the regular expression that a value must match."""
    optional: bool = False
    """Whether points have it only if --set names it."""
    only_on: str = ""
    """For an optional factor: the name of the only device whose points may have it. If --set names the factor, its
    experiment is measured on no other device.
    """

    def __post_init__(self) -> None:
        """Raises ValueError if no record can hold a value or --set cannot name the factor."""
        if not (isinstance(self.name, str) and all(part.isidentifier() for part in self.name.split("."))):
            raise ValueError(f"{self.name!r:.60} is not a valid name of a factor; give letters, digits and _")
        if self.kind not in get_args(FactorKind):
            raise ValueError(f"factor {self.name}: {self.kind!r:.60} is not one of {', '.join(get_args(FactorKind))}")
        values = list(islice(self.values, MAX_VALUES + 1))
        if len(values) > MAX_VALUES:
            raise ValueError(f"factor {self.name} has more than {MAX_VALUES} values")
        if wrong := [value for value in values if not _is_scalar(value)]:
            raise ValueError(f"factor {self.name}: {wrong[0]!r:.60} is not a number, a printable text or None")
        object.__setattr__(self, "values", values)

    def words(self) -> dict[str, Scalar]:
        """The values that a factor of kind "choice" accepts, by the word for each."""
        return {str(value): value for value in (*self.choices, *self.values)} | dict(self.known)

    def accepted(self) -> str:
        """Describes the values that --set accepts."""
        if self.kind == "choice":
            return ", ".join(self.words())
        if self.kind == "ratio":
            return "a number above 0"
        if self.kind == "fraction":
            return ", or ".join((*self.known, "a number from 0 to 1"))
        if self.kind == "name":
            return f"a name such as {', '.join(self.choices)}"
        if self.kind == "extent":
            return ", ".join((*self.known, "or a size"))
        as_word = format_size if self.kind == "size" else str
        noun = "a size" if self.kind == "size" else "a whole number"
        least = f" of at least {as_word(self.least)}" if self.most is None and self.least else ""
        between = f" from {as_word(self.least)} to {as_word(self.most)}" if self.most is not None else ""
        multiple = f", a multiple of {as_word(self.multiple)}" if self.multiple > 1 else ""
        return ", or ".join((*self.known, f"{noun}{least}{between}{multiple}"))


def describe_factors(factors: Iterable[Factor]) -> dict[str, dict[str, str]]:
    """Returns by name what each factor is and what --set accepts; if devices differ, what any of them accepts."""
    by_name: dict[str, list[Factor]] = {}
    for factor in factors:
        by_name.setdefault(factor.name, []).append(factor)
    return {
        name: {"doc": same[0].doc, "accepts": "; ".join(dict.fromkeys(f.accepted() for f in _merge_factors(same)))}
        for name, same in by_name.items()
    }


def _merge_factors(same: Sequence[Factor]) -> Sequence[Factor]:
    """Merges factors of one name into one with all of their choices, if they are of the kind "choice"."""
    if any(factor.kind != "choice" for factor in same):
        return same
    return [replace(same[0], choices=list(dict.fromkeys(word for f in same for word in f.words())))]


@dataclass
class Measurement:
    """The result of one point. samples are in the metric's unit. If verified is None, verified_why must say why."""

    samples: Sequence[float]
    verified: bool | None
    verified_why: str = ""
    stopped_by: str = ""
    counters: dict[str, Scalar] = field(default_factory=dict)
    buffers: list[BufferFact] = field(default_factory=list)
    phases: Sequence[tuple[str, float, float]] = ()
    """Of a point that is sampled (WorkerRules.sampled): spans of time during which memory is shown, by name, with their
    begin and end in seconds of time.monotonic(). Spans may lie in others.
    """
    outputs: Sequence[str] = ()
    """Digests of outputs that were checked, so that a later point with the same output need not repeat the check."""
    low: float | None = None
    high: float | None = None
    """Of a prediction, the bounds that follow from the ranges of the platform's values, in the metric's unit. A
    prediction has one sample; without bounds, it is exact.
    """
    terms: Sequence[Term] = ()
    """Of a prediction, what takes time."""
    memory: MemoryCourse | None = None
    """Of a prediction, the memory in use over time, if the point asks for it."""

    @classmethod
    def predicted(
        cls,
        value: float,
        low: float | None = None,
        high: float | None = None,
        *,
        terms: Sequence[Term] = (),
        counters: Mapping[str, Scalar] | None = None,
    ) -> Measurement:
        """The result of a prediction: a value in the metric's unit, with the bounds of its range."""
        return cls([value], None, "predicted", counters={**(counters or {})}, low=low, high=high, terms=terms)

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
        """The result of a probe. It is verified if neither its outcome nor those in `checked` found an error.

        keep: names of the probe's counters to record; None records all. counters: additional counters.
        """
        kept_counters = {name: value for name, value in outcome.counters.items() if keep is None or name in keep}
        return cls(
            samples=outcome.samples,
            verified=outcome.errors == 0 and not any(check.errors for check in checked),
            verified_why=verified_why,
            stopped_by=outcome.stopped_by,
            counters={**kept_counters, **(counters or {})},
            buffers=list(buffers),
        )


@dataclass(frozen=True)
class ReportSection:
    """One section of the report on one device. The sections of an experiment are sorted by title, after its overview.

    title: follows the experiment's name, as in "app: hotspot". findings: called with the points that are ok and not
    wrong; None means those of the experiment. overview: its records are also listed and counted in other sections.
    """

    question: str
    records: Sequence[Record]
    figures: Sequence[Figure]
    title: str = ""
    counted: str = ""
    source: str = ""
    overview: bool = False
    findings: Callable[[Sequence[Record], DeviceInfo | None], Sequence[Finding]] | None = None


def _on_one_device(factors: Factors, device: DeviceInfo) -> Sequence[str]:
    return [device.name] * factors.count(RANKS)


@dataclass(frozen=True)
class RankRules:
    """How several processes, the ranks, carry out the points of an experiment together.

    Each calls measure(); its session has `rank` and `ranks`. Samples and counters are those that rank 0 returns.

    Attributes:
        places: the device of each rank, by name; by default that of the point. None if one process carries the point
            out as that of any other experiment.
        least: the fewest ranks of a point.
        takes_mpi: whether they use MPI; otherwise they need no launcher.
        in_one_process: whether one process has the devices of all ranks; its session has those of the others as
            `peers`.
        alone: a call without --ranks plans the points that one process carries out.
    """

    places: Callable[[Factors, DeviceInfo], Sequence[str]] = _on_one_device
    least: int = 2
    takes_mpi: Callable[[Factors], bool] = lambda factors: True
    in_one_process: Callable[[Factors], bool] = lambda factors: False
    alone: bool = False


@dataclass(frozen=True)
class WorkerRules:
    """In which process the points of an experiment are measured.

    Attributes:
        fresh: each in a new worker.
        own: in a worker that has measured no other experiment.
        opens_device: if not, the worker must not open the device. environment must then give a variable that no other
            experiment has, so that no other experiment has opened the device in the same worker.
        timeout: seconds that a point may take without --timeout, where that is more than the points of others may.
        state: what a point leaves changed in its worker, or ''. Points that differ in it share no worker.
        environment: further environment variables with which it must start. Those of the switches among the factors are
            set in any case.
        sampled: whether its memory is sampled while it measures the point.
    """

    fresh: bool = False
    own: bool = False
    opens_device: bool = True
    timeout: float = 0.0
    state: Callable[[Factors], str] = lambda factors: ""
    environment: Callable[[Factors], Mapping[str, str]] = lambda factors: {}
    sampled: Callable[[Factors], bool] = lambda factors: False


@dataclass(frozen=True)
class CountingRules:
    """How the points of an experiment are counted with the vendor's profiler.

    The experiment takes its stopping rule from session.stop(). Its probe launches what it times by Lab::timed_kernel.

    Attributes:
        by_marks: while it is counted, it launches the kernels of profile/counters/marks.py around what is counted and
            around its iterations. Then all kernels between them are counted, whatever their names.
        why_not: why a point is not counted, or ''.
    """

    by_marks: bool = False
    why_not: Callable[[Factors], str] = lambda factors: ""


@dataclass(frozen=True, eq=False)
class Planning:
    """Which combinations of its factors an experiment measures, and in what time.

    Attributes:
        share: its weight in a preset's time.
        setup: seconds that one of its points takes besides sampling, for the planned time of a run; None if they are
            unknown.
        switches_of: which switches of a device's runtime (machine/switches.py) are factors: those of its memory, of its
            copies. Every experiment that measures what they change has them, so that no two records with different
            values look alike.
        rules: which points the presets leave out (presets.py). If the rules leave out every point of a value that --set
            names, it is measured under the conditions under which the preset measures other values of that factor; if
            there are none, in all combinations, except those that a strict rule excludes.
        on_each: which points ask about each single device, or each single pair of devices, not about their model: those
            that meet all conditions of one of these sets, with conditions as rules have them. A call that names nothing
            measures them on each of several equal devices or pairs, and all others on one of them for all.
        properties: properties of points that the rules use, in addition to factors and to the properties in presets.py.
    """

    share: float = 1.0
    setup: float | None = 0.04
    switches_of: Sequence[Part] = ("memory",)
    rules: Sequence[PresetRule] = ()
    on_each: Sequence[Mapping[str, RuleCondition]] = ()
    properties: Mapping[str, Property] = field(default_factory=dict)


class Experiment:
    """A question with factors, a metric and a figure."""

    name: ClassVar[str]
    order: ClassVar[int] = 100
    """Place in lists and reports."""
    question: ClassVar[str]
    """The question that the experiment answers; the report's heading."""
    metric: ClassVar[Metric]
    """What one sample means: its unit, whether lower or higher is better, and the version of its definition."""
    counted: ClassVar[str]
    """Says exactly what one sample is, for the report."""
    source: ClassVar[str]
    figures: ClassVar[Sequence[Figure]]
    codebook: ClassVar[Codebook] = Codebook()
    """What readers of its records need to know of factors, counters and limits, and which are prices. An experiment
    whose codebook has factors has no others, and no other words as their values.
    """
    planning: Planning = Planning()
    """Which combinations of its factors are measured, and in what time."""
    worker: WorkerRules = WorkerRules()
    """In which process its points are measured."""
    counting: CountingRules | str = "the vendor's counters are not offered for this experiment"
    """How --counters counts its points with the vendor's profiler; or why it does not."""
    without_effect: ClassVar[Mapping[str, str]] = {}
    """Factors that change no prediction, as it should be, each with the reason, which the records of predictions state.
    """
    not_followed: ClassVar[Mapping[str, str]] = {}
    """Factors that change no prediction, although they may change measurements; as without_effect. Any other condition
    that a prediction does not follow, it refuses by name.
    """
    across_devices: ClassVar[bool] = False
    """True if the report shows the records of all devices together. Figures may then name `device` and, if it is a
    factor, `peer`; derive(), sections() and findings() get the records of all devices, and None for the device.
    """
    ranks: RankRules | None = None
    """How several processes carry out a point together; None: one carries it out."""

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        """Returns the factors on this device. Points are their cross product, in this order; optional ones come last.

        Raises:
            Unsupported: the experiment cannot run on the device. The text says why.
        """
        raise NotImplementedError

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        """Returns why this combination is not measured here, or None. It is recorded as skipped with this reason; one
        that is Meaningless is no point and not recorded.
        """
        return None

    def measure(self, point: Point, session: Session) -> Measurement:
        """Measures and verifies a point. Raises _core.GuardRefused if memory limits forbid it (it is then skipped)."""
        raise NotImplementedError

    def predict(self, point: Point, platform: Platform) -> Measurement:
        """Predicts a point on a machine that a platform describes; with the same arguments, always the same. The
        platform is as the switches among the point's factors leave it.

        Raises:
            NotModelled: no model covers the point; it is then skipped.
            MissingValue: the platform lacks a value that the prediction needs; the point is skipped with its name.
        """
        raise NotModelled(f"no model covers what {self.name} measures")

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> Sequence[Finding]:
        """Returns the findings that answer the question, the most important first, from the records of one device that
        are ok and not wrong. The result may be empty.
        """
        raise NotImplementedError

    def derive(self, records: Sequence[Record]) -> list[Record]:
        """Returns the records of one device as the report shows them, with values that follow from several records."""
        return list(records)

    def sections(self, records: Sequence[Record], device: DeviceInfo | None) -> list[ReportSection]:
        """Returns the report's sections on one device. Each derived record is in one section other than an overview."""
        return [self.section(records)]

    def section(self, records: Sequence[Record], **changes: Any) -> ReportSection:
        """Returns one section with these records and all figures. changes: other values of its fields."""
        whole = ReportSection(self.question, records, self.figures, counted=self.counted, source=self.source)
        return replace(whole, **changes)


@dataclass(slots=True)
class Candidate:
    """A combination of factors that may become a point of a preset on a device. chosen: the factors whose values were
    given with --set. found: the values of properties that rules have asked for. reason: why it is not measured, once
    the experiment was asked (contract.py: why_skipped).
    """

    experiment: Experiment
    factors: Factors
    device: DeviceInfo
    preset: Preset
    chosen: AbstractSet[str] = NOTHING
    found: dict[str, PropertyValue] = field(default_factory=dict, init=False)
    reason: str | None = field(default=None, init=False)

    @property
    def allocator(self) -> AllocatorInfo | None:
        """What the device states about the point's allocator."""
        return self.device.allocator(self.factors.text("allocator"))


Property: TypeAlias = Callable[[Candidate], PropertyValue]
