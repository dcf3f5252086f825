"""The published results: one JSON file a paper in data/, strictly loaded.

A file holds the paper's `source`, the `platforms` that it names, and `rows`: figures and orderings that its text
states, each restated in our words. A row that corresponds to something that firsttouch measures says so under `here`;
the rules of reasons.json say why each other row does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal, TypeAlias

from firsttouch.base.encoding import encode_json
from firsttouch.base.errors import UsageError, did_you_mean
from firsttouch.base.outputs import Output
from firsttouch.records.papers.claims import claims_by_row
from firsttouch.records.papers.files import DATA, MEDIAN, FactorValues, read
from firsttouch.records.schema import Scalar, Struct
from firsttouch.records.text import count

RowKind: TypeAlias = Literal["measured", "derived", "theoretical", "configuration", "ordering"]
"""measured: a figure of the paper. derived: a ratio or a percentage that it states. theoretical: a limit.
configuration: a setting of the study or a fact of its machine. ordering: which of several is better, or a trend.
"""
RowValue: TypeAlias = bool | int | float | str | list[int | float | str]
"""A number, the two ends of a range, text, or a list (of an ordering: the best first)."""
APPLICATIONS = "app"
"""The experiment of records of applications."""
NONE = "none"
"""The unit of text."""
_OPPOSITES = {"more-than": "below", "below": "more-than", "up-to": "at-least", "at-least": "up-to"}
"""What hedges a value does so for what remains of it in the other direction: a loss of more than half leaves less."""
_OTHER_FILES = ("reasons.json", "claims.json")


class PaperSource(Struct):
    """A paper. artifact: the address of its programs, or ''."""

    title: str
    authors: list[str]
    venue: str
    year: int
    artifact: str = ""


class PublishedPlatform(Struct):
    """A machine that a paper names. memory: whether CPU and GPU share one physical memory. members: the platforms that
    a statement about several of them covers. model: the platform file that describes it, if its name is another.
    """

    name: str
    description: str
    memory: Literal["shared", "separate"]
    members: list[str] = []
    model: str = ""


class Correspondence(Struct):
    """The measurement of firsttouch that a row corresponds to.

    experiment: its name; "app" for applications. factors: what a record's factors must be, a list for several values,
    "!self" for any other than self; other factors may have any value. metric: MEDIAN or the name of a counter.
    metric_version: of its definition. unit: of the value in our terms, "ratio" for a ratio of two points. relative_to:
    the factors by which the other point of a ratio differs. scale, offset: what turns the paper's value into ours,
    offset + scale * value. value: our word for a text. assumed: what the paper leaves open and how it is read here.
    exceeds_memory: whether the data of the application exceed the memory of the GPU. options: what a call needs besides
    the factors, such as the size of the study. set_by_call: how the call itself sets the value, so that it judges no
    prediction.
    """

    experiment: str
    factors: dict[str, FactorValues]
    unit: str
    metric: str = MEDIAN
    metric_version: int = 1
    relative_to: dict[str, Scalar] = {}
    scale: float = 1
    offset: float = 0
    value: str = ""
    assumed: str = ""
    exceeds_memory: bool = False
    options: str = ""
    set_by_call: str = ""

    def matches(self, factors: Mapping[str, Scalar]) -> bool:
        """True if a point with these factors is one that the row corresponds to."""
        return are_met(self.factors, factors)


def are_met(conditions: Mapping[str, FactorValues], factors: Mapping[str, Scalar]) -> bool:
    """Whether each factor has the value that is wanted, or one of those; for ">64" any number above it, for "!self" any
    other than self.
    """
    return all(_includes(values, factors.get(name)) for name, values in conditions.items())


def _includes(condition: FactorValues, value: Scalar) -> bool:
    if isinstance(condition, list):
        return any(_includes(each, value) for each in condition)
    if isinstance(condition, str) and is_bound(condition) and isinstance(value, int | float):
        return value > float(condition[1:])
    if is_exception(condition):
        return value is not None and value != str(condition)[1:]
    return value == condition and isinstance(value, bool) == isinstance(condition, bool)


def is_bound(condition: FactorValues) -> bool:
    """True for a condition that any number above one meets, such as ">64"."""
    return isinstance(condition, str) and condition.startswith(">")


def is_exception(condition: FactorValues) -> bool:
    """True for a condition that any value but one meets, such as "!self"."""
    return isinstance(condition, str) and condition.startswith("!")


class Stated(Struct, kw_only=True):
    """A row of a file.

    id: unique in the file; begins with what was measured. platform: a key of `platforms`. experiment, metric, unit:
    what was measured, in the paper's terms; the unit `none` marks text. conditions: every factor that the text names.
    value, kind: what is stated. qualifier: how the text hedges it (about, up-to, below, at-best, ...). cited: the work
    that the text takes it from. note: a contradiction or an ambiguity of the text, to be read before the row is
    compared. section: where it stands. says: the row in a sentence. here: what it corresponds to.
    """

    id: str
    platform: str
    experiment: str
    metric: str
    unit: str
    conditions: dict[str, RowValue]
    value: RowValue
    kind: RowKind
    section: str
    says: str
    qualifier: str = ""
    cited: str = ""
    note: str = ""
    here: Correspondence | None = None


class Paper(Struct):
    """The content of a file."""

    source: PaperSource
    platforms: dict[str, PublishedPlatform]
    rows: list[Stated]


class PaperRow(Stated, kw_only=True):
    """A row with its paper. paper: the name of the file. machine: the platform's name. not_here: why no measurement
    corresponds to it, or ''. claims: the claims of `firsttouch claims` that rest on it.
    """

    paper: str
    machine: str
    not_here: str = ""
    claims: list[str] = []

    @property
    def name(self) -> str:
        """Unique over all papers."""
        return f"{self.paper}/{self.id}"


class Published(Output, frozen=True, kw_only=True, tag="firsttouch-published/1"):
    """What `firsttouch published --json` prints."""

    rows: list[PaperRow]


class _Reason(Struct):
    """Why rows correspond to nothing that is measured. A rule covers a row that fits everything that it states: its
    paper, experiment, kind or unit, whether it is cited, and how its id begins.
    """

    reason: str
    paper: str = ""
    experiments: list[str] = []
    kinds: list[RowKind] = []
    units: list[str] = []
    ids: list[str] = []
    cited: bool = False

    def covers(self, paper: str, row: Stated) -> bool:
        return (
            self.paper in ("", paper)
            and (not self.experiments or row.experiment in self.experiments)
            and (not self.kinds or row.kind in self.kinds)
            and (not self.units or row.unit in self.units)
            and (not self.ids or row.id.startswith(tuple(self.ids)))
            and bool(row.cited) >= self.cited
        )


@cache
def papers() -> Mapping[str, Paper]:
    """The papers by name, such as 'mi300a-upm'."""
    names = sorted(path.name for path in DATA.iterdir() if path.name.endswith(".json"))
    return {name.removesuffix(".json"): read(name, Paper) for name in names if name not in _OTHER_FILES}


@cache
def all_rows() -> Sequence[PaperRow]:
    """The rows of all papers."""
    reasons = read("reasons.json", list[_Reason])
    return [_with_paper(name, paper, row, reasons) for name, paper in papers().items() for row in paper.rows]


def _with_paper(name: str, paper: Paper, row: Stated, reasons: Iterable[_Reason]) -> PaperRow:
    fields = {field: getattr(row, field) for field in row.__struct_fields__}
    not_here = "" if row.here else next(rule.reason for rule in reasons if rule.covers(name, row))
    machine = paper.platforms[row.platform].name
    tested = claims_by_row().get(f"{name}/{row.id}", [])
    return PaperRow(**fields, paper=name, machine=machine, not_here=not_here, claims=tested)


def models_of(paper: Paper, platform: str) -> list[str]:
    """The names of the models of the machines that a statement about a platform covers."""
    covered = paper.platforms[platform].members or [platform]
    return [paper.platforms[name].model or name for name in covered]


def published(search: str | None = None) -> Published:
    """The published results, or those in which every word of `search` occurs, in any field and any case.

    Raises:
        UsageError: no row has the words.
    """
    words = (search or "").casefold().split()
    if search is not None and not words:
        raise UsageError("--search is empty; give it a word that a published result has, or leave it out")
    rows = [row for row in all_rows() if all(word in _text(row) for word in words)]
    if not rows:
        vocabulary = {word for row in all_rows() for word in (row.paper, row.platform, row.experiment, row.metric)}
        raise UsageError(
            f"no published result has '{search}'{did_you_mean(search or '', vocabulary)}; try the name of an experiment"
        )
    measured = sum(row.here is not None for row in rows)
    extent = f"{count(len(rows), 'row')} of {count(len({row.paper for row in rows}), 'paper')}"
    return Published(summary=f"{extent}; firsttouch measures what {measured} of them state.", rows=rows)


def _text(row: PaperRow) -> str:
    """Everything that a row says, for a search."""
    return encode_json(row).decode().casefold() + " " + papers()[row.paper].source.title.casefold()


class PublishedValue(Struct, kw_only=True):
    """A published value that a run's value may be compared with.

    experiment, factors, metric, metric_version, unit: as in Correspondence. low, high: the ends of a range, equal for a
    single value. source: the paper, its section and the machine, in words. qualifier, note, assumed: what is read with
    it.
    """

    experiment: str
    factors: dict[str, FactorValues]
    metric: str
    metric_version: int
    unit: str
    low: float
    high: float
    paper: str
    id: str
    section: str
    machine: str
    source: str
    qualifier: str = ""
    note: str = ""
    assumed: str = ""

    @property
    def value(self) -> float:
        """The value, or the middle of its range."""
        return (self.low + self.high) / 2


def side(row: PaperRow) -> PublishedValue | None:
    """As stated_value, but None for a ratio of two points, and for applications, whose inputs differ."""
    here = row.here
    return None if here is None or here.relative_to or here.experiment == APPLICATIONS else stated_value(row)


def stated_value(row: PaperRow) -> PublishedValue | None:
    """A row's value in the terms of the measurement that it corresponds to, or None for text."""
    correspondence, bounds = row.here, numbers(row)
    if correspondence is None or bounds is None:
        return None
    low, high = bounds
    return PublishedValue(
        experiment=correspondence.experiment,
        factors=correspondence.factors,
        metric=correspondence.metric,
        metric_version=correspondence.metric_version,
        unit=correspondence.unit,
        low=low,
        high=high,
        paper=row.paper,
        id=row.id,
        section=row.section,
        machine=row.machine,
        source=f"{cite(row)}, on {row.machine}",
        qualifier=_OPPOSITES.get(row.qualifier, row.qualifier) if correspondence.scale < 0 else row.qualifier,
        note=row.note,
        assumed=correspondence.assumed,
    )


def numbers(row: PaperRow) -> tuple[float, float] | None:
    """The ends of a row's value in our terms, or None if it corresponds to nothing or is text."""
    correspondence, value = row.here, row.value if isinstance(row.value, list) else [row.value]
    if correspondence is None or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in value):
        return None
    ours = [correspondence.offset + correspondence.scale * float(v) for v in value]
    return min(ours), max(ours)


def cite(row: PaperRow) -> str:
    """'Wahlgren et al. 2025, Sec. IV-A'; of a file of the user's, its name."""
    return f"{authors(row.paper) if row.paper in papers() else row.paper}, {row.section}"


def authors(paper: str) -> str:
    """'Wahlgren et al. 2025'."""
    source = papers()[paper].source
    surnames = [name.split()[-1] for name in source.authors]
    who = f"{surnames[0]} et al." if len(surnames) > 2 else " and ".join(surnames)
    return f"{who} {source.year}"


def side_names() -> list[str]:
    """The names that `sides` accepts: papers, and platforms with values that a run's may be compared with."""
    with_values = [row for row in all_rows() if side(row)]
    return list(dict.fromkeys([*(row.paper for row in with_values), *(row.platform for row in with_values)]))


def sides(name: str) -> list[PublishedValue]:
    """The values of a paper ('mi300a-upm') or a platform ('gh200') that a run's values may be compared with.

    Raises:
        UsageError: there is no such paper or platform, or it has no such value.
    """
    if name in papers() and name not in side_names():
        raise UsageError(
            f"'{name}' states no value to compare a run with, only relations; `firsttouch claims` tests those"
        )
    if name not in side_names():
        accepted = ", ".join(side_names())
        raise UsageError(f"no published results '{name}'{did_you_mean(name, side_names())}; accepted: {accepted}")
    of_paper = name in papers()
    rows = [row for row in all_rows() if (row.paper if of_paper else row.platform) == name]
    return [value for row in rows if (value := side(row))]
