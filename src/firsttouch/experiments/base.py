"""What an experiment is: factors, how one point is measured and verified, and its figure.

One module per experiment in this folder, holding one subclass of Experiment; nothing else registers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from firsttouch.machine import switches
from firsttouch.schema import BufferFact, DeviceInfo, Factors, Record, Scalar

if TYPE_CHECKING:
    from firsttouch.run.session import Session

Preset = Literal["quick", "standard", "full"]


@dataclass(frozen=True)
class Factor:
    """One varied condition. values is what the preset takes; `--set name=...` may give others.

    kind "size" parses bytes, "count" a whole number >= 0, "ratio" a number above 0, "choice" one of `choices`, "extent"
    bytes or a word of `known`, which means the value that stands there.
    """

    name: str
    values: Sequence[Scalar]
    kind: Literal["size", "count", "ratio", "extent", "choice"] = "choice"
    choices: Sequence[str] = ()
    doc: str = ""
    known: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A figure as data. x, y, z, colour, dash and facet name a factor, a counter, or 'median' (of the samples).

    kind "line" draws y over x with the 95 % interval as a band; "bar" draws one bar per x with a whisker; "table"
    lists `columns`, of which 'verified' is whether the data were right; "heat" draws a cell per x and y, coloured and
    labelled by z; "stack" draws one bar per x of the values of `series` end to end, in the order of the counters, with
    their sum at its end. One figure is drawn per device. Ranges of x that are sizes use binary units.

    series: a pattern of counter names with one {}, such as "iteration_{}_ms". Every counter of a record that matches
    becomes a point of its own, in which 'series' is what {} stood for (a number where it reads as one) and 'value' the
    counter; x, y, z, colour, dash and facet may name them. Of a stack every such counter is a segment of one bar.
    """

    kind: Literal["line", "bar", "table", "heat", "stack"]
    x: str
    y: str = "median"
    z: str = "median"
    z_unit: str = ""
    """How cells read: 'B' as bytes, '' as plain numbers."""
    z_title: str = ""
    """What a cell shows, with its unit; without it z's own name or the experiment's unit says it."""
    centre: float | None = None
    """Of a heat map: the value that is neither good nor bad, such as 1 for a ratio; colours diverge from it."""
    series: str = ""
    colour: str = "allocator"
    dash: str | None = None
    facet: str | None = None
    log_x: bool = False
    log_y: bool = False
    title: str = ""
    """What the figure shows, in place of a caption made of names."""
    x_title: str = ""
    y_title: str = ""
    columns: Sequence[str] = ()
    titles: Mapping[str, str] = field(default_factory=dict)
    """What factors and counters are called on axes, legends and columns, where their own names say too little."""
    order: Sequence[str] = ()
    """The values that `colour` may take, in an order that fixes the colour of each for every report."""
    without: Sequence[str] = ()
    """Of a stack: segments that are left out, by what {} stands for."""
    where: Mapping[str, Scalar] = field(default_factory=dict)
    """Only records whose factors or counters have these values are drawn."""
    levels: bool = False
    """Name the plateaus found in each curve on the figure."""
    level_names: Literal["caches", "tlb"] = "caches"
    """What the plateaus are levels of: caches, over bytes; or translation caches, over pages."""


@dataclass
class Measurement:
    """What measuring one point gave. samples are in the experiment's unit; verified None needs verified_why."""

    samples: Sequence[float]
    verified: bool | None
    verified_why: str = ""
    stopped_by: str = ""
    counters: dict[str, Scalar] = field(default_factory=dict)
    buffers: list[BufferFact] = field(default_factory=list)


@dataclass(frozen=True)
class Point:
    """One combination of all factors on one device."""

    experiment: str
    device: str
    factors: Factors

    def __getitem__(self, factor: str) -> Scalar:
        return self.factors[factor]


@dataclass(frozen=True)
class Part:
    """One section of the report on one device. Those of an experiment stand by title, an overview first.

    title: told after the experiment's name, as in "app: hotspot". answer: from the points that are ok and not wrong;
    None leaves it to the experiment's verdict. overview: its records are listed and counted by other parts.
    """

    question: str
    records: Sequence[Record]
    figures: Sequence[Figure]
    title: str = ""
    counted: str = ""
    source: str = ""
    overview: bool = False
    answer: Callable[[Sequence[Record]], str] | None = None


class Experiment:
    """A question with factors, a unit and a figure."""

    name: ClassVar[str]
    order: ClassVar[int] = 100
    """Place in lists and reports."""
    question: ClassVar[str]
    """What a reader wants to know, as a question; the report's heading."""
    unit: ClassVar[str]
    better: ClassVar[Literal["lower", "higher", "neither"]]
    counted: ClassVar[str]
    """What exactly one sample counts, for the report."""
    source: ClassVar[str]
    figures: ClassVar[Sequence[Figure]]
    share: ClassVar[float] = 1.0
    """Weight of this experiment in a preset's time."""
    fresh_process: ClassVar[bool] = False
    """Every point in a new worker."""
    opens_device: ClassVar[bool] = True
    """False: the worker leaves the device to the experiment. Give environment() something of its own then, so that no
    other experiment has opened it in that worker."""

    def supports(self, device: DeviceInfo) -> str | None:
        """None where the experiment can run on the device at all, else the reason."""
        return None

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        """The factors on this device; points are their cross product, in this order."""
        raise NotImplementedError

    def optional(self) -> Sequence[str]:
        """Further factors, which are there when --set gives them."""
        return ()

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        """Why this combination can't be measured here (recorded as skipped), or None."""
        return None

    def drop(self, factors: Factors) -> bool:
        """True where the combination means nothing at all (not a point, not recorded)."""
        return False

    def thin(self, factors: Factors, device: DeviceInfo, preset: Preset) -> bool:
        """True where the preset leaves this combination out to keep its time.

        A value that --set asks for keeps all its combinations where thinning would leave none.
        """
        return False

    def environment(self, factors: Factors) -> dict[str, str]:
        """Environment variables that the worker of this point must start with: those of the runtime's switches among
        the factors (machine/switches.py).
        """
        return switches.environment(factors)

    def measure(self, point: Point, session: Session) -> Measurement:
        """Measure and verify one point. Raises _core.GuardRefused where memory limits forbid it (skipped)."""
        raise NotImplementedError

    def verdict(self, records: Iterable[Record], device: DeviceInfo | None) -> str:
        """One or two sentences that answer the question from the ok records of one device."""
        raise NotImplementedError

    def derive(self, records: Sequence[Record]) -> list[Record]:
        """The records of one device as the report is to show them: with what follows from several of them together."""
        return list(records)

    def sections(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Part]:
        """The sections in which the derived records of one device are shown, each in one, an overview aside."""
        return [Part(self.question, records, self.figures, counted=self.counted, source=self.source)]
