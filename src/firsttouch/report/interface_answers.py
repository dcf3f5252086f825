"""Which interface moves data fastest, in words: answers, summary, and the section of the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from firsttouch.base.errors import UsageError, unknown
from firsttouch.base.outputs import Output
from firsttouch.base.units import format_number, format_size
from firsttouch.experiments import all_experiments
from firsttouch.experiments.analysis.fastest_interfaces import (
    KINDS,
    Crossover,
    Interfaces,
    Measure,
    MovementRow,
    Segment,
    interfaces,
    is_about,
    segments,
)
from firsttouch.records.findings import Quantity
from firsttouch.records.reading import load_results, point_key
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.statements import headed
from firsttouch.records.text import count, join_names
from firsttouch.report.drawing import DrawnFigure
from firsttouch.report.movements import BETWEEN, alike_in_words, between_whom, by_way, in_words, joined, shared_and_own
from firsttouch.report.sentences import quantity_text


class Title(NamedTuple):
    """A kind of movement, and by what its interfaces are compared."""

    kind: str
    measure: str

    def __str__(self) -> str:
        return f"{self.kind}, {self.measure}"


TITLES: Mapping[tuple[str, Measure], Title] = {
    ("direct", "bandwidth"): Title("Direct access", "bandwidth"),
    ("copy", "blocking"): Title("Copies", "time of a single copy"),
    ("copy", "bandwidth"): Title("Copies", "bandwidth"),
    ("message", "blocking"): Title("Messages", "time of a single message"),
    ("message", "bandwidth"): Title("Messages", "bandwidth"),
    ("collective", "blocking"): Title("Collective operations", "time of a single operation"),
    ("collective", "bandwidth"): Title("Collective operations", "bandwidth back to back"),
}
MOST_ROWS = 2000
"""The most rows of the table in the report; --json has all."""


@dataclass(frozen=True)
class InterfaceAnswer:
    """Which interface is the fastest for some movements that have the same answer.

    what: the conditions that not all movements of the kind share, in words; '' if there are none. text: the answer in
    words. curves: the rows of each movement.
    """

    what: str
    text: str
    curves: Sequence[Sequence[MovementRow]] = field(repr=False)

    @property
    def is_open(self) -> bool:
        """Whether several interfaces were measured."""
        return any(map(_has_choice, self.curves))

    @property
    def is_within_one(self) -> bool:
        """Whether no data move from one device to another."""
        return all(between_whom(dict(rows[0].conditions)).within for rows in self.curves)


@dataclass(frozen=True)
class AnswersOfKind:
    """The answers about one kind of movement by one measure. shared: the conditions that all movements share."""

    kind: str
    measure: Measure
    shared: str
    answers: Sequence[InterfaceAnswer]
    curves: Sequence[Sequence[MovementRow]] = field(repr=False)
    """The rows of each movement that several interfaces carry out, in the order of the records."""
    predicted: str = ""
    """'predicted for gh200' if the values are predictions; otherwise ''."""

    @property
    def open(self) -> list[InterfaceAnswer]:
        """The answers about movements that several interfaces carry out."""
        return [answer for answer in self.answers if answer.is_open]

    @property
    def title(self) -> Title:
        return TITLES[self.kind, self.measure]

    @property
    def heading(self) -> str:
        title = headed(str(self.title), self.predicted)
        return f"{title}: {self.shared}" if self.shared else title


def _has_choice(rows: Sequence[MovementRow]) -> bool:
    return any(row.verdict != "one interface" for row in rows)


def parts(fastest: Interfaces) -> list[AnswersOfKind]:
    """The answers of each kind and measure. Those with a choice come first, and of these the ones between several
    devices; otherwise they are in the order of the records.
    """
    of_kinds: dict[tuple[str, Measure], list[list[MovementRow]]] = {}
    done = "predicted" if fastest.predicted else "measured"
    for rows in fastest.curves:
        of_kinds.setdefault((rows[0].kind, rows[0].measure), []).append(rows)
    made = []
    for (kind, measure), curves in of_kinds.items():
        shared, own_conditions = shared_and_own([rows[0].conditions for rows in curves])
        pairs = list(dict.fromkeys(of_movement.get(BETWEEN, "") for of_movement in own_conditions))
        alike: dict[tuple[Any, ...], list[int]] = {}
        for i, rows in enumerate(curves):
            alike.setdefault(tuple((s.first, s.last, s.verdict, s.fastest) for s in segments(rows)), []).append(i)
        answers = [
            InterfaceAnswer(joined([own_conditions[i] for i in places], pairs),
                            _text([segments(curves[i]) for i in places], done), [curves[i] for i in places])
            for places in alike.values()
        ]  # fmt: skip
        answers.sort(key=lambda answer: (not answer.is_open, answer.is_within_one))
        chosen = [rows for rows in curves if _has_choice(rows)]
        made.append(AnswersOfKind(kind, measure, ", ".join(shared.values()), answers, chosen, fastest.predicted))
    return made


def alone(of: Sequence[AnswersOfKind]) -> list[str]:
    """What was measured by one interface only, one text for each kind and interface."""
    by_interface: dict[tuple[str, str], dict[str, Mapping[str, Scalar]]] = {}
    for part in of:
        for rows in (rows for answer in part.answers if not answer.is_open for rows in answer.curves):
            movements = by_interface.setdefault((part.title.kind, rows[0].fastest[0]), {})
            movements.setdefault(point_key("", "", rows[0].conditions), rows[0].conditions)
    texts = []
    for (kind, interface), movements in by_interface.items():
        shared, own_conditions = shared_and_own([*movements.values()])
        movements_in_words = ", ".join(filter(None, [joined(own_conditions), *shared.values()]))
        texts.append(f"{kind} by {interface}: {movements_in_words}")
    return texts


def summary(fastest: Interfaces) -> str:
    """The whole in few sentences: how often each interface is the fastest, and how often that changes with the size.
    Pairs with the same answer count once.
    """
    return headed(_summary(fastest), fastest.predicted)


def _summary(fastest: Interfaces) -> str:
    answers = [answer for part in parts(fastest) for answer in part.answers]
    chosen = [answer for answer in answers if answer.is_open]
    alone = len(answers) - len(chosen)
    if not chosen:
        return "Each movement of data has one interface only, so there is no choice to compare."
    leaders = [_leaders(list(rows)) for _, rows in groupby(alike_rows(fastest.rows), key=lambda rows: rows[0].kind)]
    changing = {point_key(c.kind, c.measure, c.conditions) for c in fastest.crossovers}
    crossing = sum(any(_curve_key(rows) in changing for rows in answer.curves) for answer in chosen)
    changes = (
        f"The fastest interface changes with the size in {crossing or 'none'} of {count(len(chosen), 'comparison')}"
    )
    more = f"; {alone} more {'has' if alone == 1 else 'have'} one interface only" if alone else ""
    return " ".join(filter(None, [*leaders, f"{changes}{more}."]))


def _curve_key(rows: Sequence[MovementRow]) -> str:
    return point_key(rows[0].kind, rows[0].measure, rows[0].conditions)


def alike_rows(rows: Sequence[MovementRow]) -> list[list[MovementRow]]:
    """The rows, those together that have the same answer and differ in the pair alone."""
    alike: dict[tuple[Any, ...], list[MovementRow]] = {}
    for row in rows:
        words = in_words(row.conditions)
        way = next(iter(by_way([words.pop(BETWEEN, "")])))
        answer = (row.verdict, frozenset(row.fastest), frozenset(row.interfaces))
        alike.setdefault((row.kind, row.measure, *words.items(), way, row.size, *answer), []).append(row)
    return list(alike.values())


def _leaders(alike: Sequence[Sequence[MovementRow]]) -> str:
    """How often each interface is the fastest in one kind of movement; '' if nothing was compared. A case is one
    movement at one size by one measure; pairs with the same answer are one.
    """
    rows = [segment[0] for segment in alike]
    compared = [row for row in rows if row.verdict != "one interface"]
    won = Counter(row.fastest[0] for row in compared if row.verdict == "fastest").most_common()
    if not compared:
        return ""
    kind, cases = TITLES[rows[0].kind, rows[0].measure].kind, count(len(compared), "case")
    if not won:
        return f"{kind}: no interface is clearly the fastest in any of {cases}."
    (first, most), *other_winners = won
    texts = [f"{first} is the fastest in {most} of {cases}", *(f"{name} in {n}" for name, n in other_winners)]
    unclear = len(compared) - sum(n for _, n in won)
    return f"{kind}: {', '.join(texts)}{f'; {unclear} without a clear difference' if unclear else ''}."


def crossover_texts(fastest: Interfaces) -> list[str]:
    """Each crossover in words: 'Copies, bandwidth, ...: kernel to copy-engine between 64 KiB and 256 KiB'."""
    return [
        f"{TITLES[c.kind, c.measure]}, {', '.join(in_words(c.conditions).values())}: {c.before} to {c.after} "
        f"between {format_size(c.smaller)} and {format_size(c.larger)}"
        for c in fastest.crossovers
    ]


def read(directory: Path, kinds: Sequence[str] = ()) -> Interfaces:
    """The answers of a results directory. kinds: those to keep; all if there are none.

    Raises:
        UsageError: the directory holds no results, no verified points of these kinds, or there is no such kind.
    """
    experiment_of = {kind.name: kind.experiment for kind in KINDS}
    for name in kinds:
        if name not in experiment_of:
            raise unknown("kind", name, experiment_of)
    records = load_results(directory).records
    chosen = [r for r in records if any(r.experiment == experiment_of[name] for name in kinds or experiment_of)]
    fastest = interfaces(chosen)
    if not fastest.rows:
        names = [experiment_of[name] for name in kinds or experiment_of]
        points = f"{count(len(chosen), 'point')} of {join_names(names, 'or')}, none of which is ok and verified"
        lack = points if chosen else f"no points of {join_names(names, 'or')}"
        ranks = " --ranks 2" if any(all_experiments()[name].ranks for name in names) else ""
        raise UsageError(f"{directory} holds {lack}; measure some with `firsttouch run {' '.join(names)}{ranks}`")
    return fastest


def _text(movements: Sequence[Sequence[Segment]], done: str) -> str:
    """The answer for movements with the same segments. done: 'measured' or 'predicted'."""
    last, chosen, single = len(movements[0]) - 1, list[str](), list[str]()
    for i, same in enumerate(zip(*movements, strict=True)):
        text = f"{_who(same, done)} {_where(same[0], i == 0, i == last)}{_by_how_much(same)}"
        (single if same[0].verdict == "one interface" else chosen).append(text)
    return "; ".join(filter(None, [", ".join(chosen), ", ".join(single)]))


def _who(same: Sequence[Segment], done: str) -> str:
    names = join_names(same[0].fastest, "or")
    words = {"one interface": f"only {names} {done}", "no interval": f"{names}, without intervals,"}
    return words.get(same[0].verdict, names)


def _where(segment: Segment, is_first: bool, is_last: bool) -> str:
    first, last = format_size(segment.first), format_size(segment.last)
    if first == last:
        return f"at {last}"
    if is_first == is_last:
        return f"from {first} to {last}"
    return f"to {last}" if is_first else f"from {first}"


def _by_how_much(same: Sequence[Segment]) -> str:
    """The largest ratio of the fastest to the next, and where it is."""
    best = max((s.best for s in same), key=lambda row: row.ratio.value if row.ratio else 0)
    if best.ratio is None:
        return ""
    most = f"{'up to ' if len(same) > 1 or same[0].first < same[0].last else ''}{ratio_text(best.ratio)} times as fast"
    return f" ({most})" if same[0].first == same[0].last else f" ({most}, at {format_size(best.size)})"


def ratio_text(ratio: Quantity) -> str:
    """A ratio with as many digits as its interval supports, and not as 1 if it is above."""
    text = quantity_text(ratio)
    return text if text != "1" else format_number(ratio.value, 4)


class AnswerOutput(msgspec.Struct, kw_only=True):
    """An answer, as printed. shared, what: the conditions in words. conditions: of every movement that it is about."""

    kind: str
    measure: Measure
    shared: str
    what: str
    text: str
    conditions: list[Mapping[str, Scalar]]


class InterfacesOutput(Output, frozen=True, kw_only=True, tag="firsttouch-interfaces/1"):
    """What `firsttouch interfaces --json` prints."""

    directory: str
    predicted: str
    """'predicted for gh200' if all values are predictions; '' if they were measured."""
    answers: list[AnswerOutput]
    rows: Sequence[MovementRow]
    crossovers: Sequence[Crossover]


def output(fastest: Interfaces, directory: str) -> InterfacesOutput:
    """Everything for --json and Python."""
    answers = [
        AnswerOutput(
            kind=part.kind,
            measure=part.measure,
            shared=part.shared,
            what=answer.what,
            text=answer.text,
            conditions=[rows[0].conditions for rows in answer.curves],
        )
        for part in parts(fastest)
        for answer in part.answers
    ]
    return InterfacesOutput(
        summary=summary(fastest),
        directory=directory,
        predicted=fastest.predicted,
        answers=answers,
        rows=fastest.rows,
        crossovers=fastest.crossovers,
    )


def _in_table(alike: Sequence[MovementRow], pairs: Collection[str]) -> list[str]:
    """The row of the table for rows that differ in the pair alone, with the least and the greatest of their values."""
    first, between = alike[0], [in_words(row.conditions).get(BETWEEN, "") for row in alike]
    words = in_words(first.conditions) | {BETWEEN: alike_in_words(BETWEEN, between, pairs)}
    best = max((row.ratio for row in alike if row.ratio), key=lambda ratio: ratio.value, default=None)
    values: dict[str, list[Quantity]] = {}
    for row in alike:
        for measured in row.measured:
            values.setdefault(measured.interface, []).append(measured.value)
    return [
        str(TITLES[first.kind, first.measure]),
        ", ".join(filter(None, words.values())),
        format_size(first.size),
        join_names(first.fastest, "or"),
        first.verdict if best is None else f"{'up to ' if len(alike) > 1 else ''}{ratio_text(best)}",
        ", ".join(f"{name} {_range(some)}" for name, some in values.items()),
    ]


def _range(values: Sequence[Quantity]) -> str:
    ends = [quantity_text(pick(values, key=lambda value: value.value)) for pick in (min, max)]
    return " to ".join(dict.fromkeys(ends))


@dataclass
class InterfacesSection:
    """What the report shows: the summary, the answers of each kind, what has one interface only, and tables."""

    summary: str
    parts: Sequence[AnswersOfKind]
    alone: Sequence[str]
    crossovers: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    drawings: list[DrawnFigure] = field(default_factory=list)
    predicted: str = ""
    """'predicted for gh200' of predictions; '' otherwise."""

    @property
    def kinds(self) -> list[list[AnswersOfKind]]:
        """The parts of each kind of movement in which several interfaces were measured."""
        return [
            list(kind_parts)
            for _, kind_parts in groupby((part for part in self.parts if part.open), key=lambda part: part.kind)
        ]


def interfaces_section(records: Sequence[Record]) -> InterfacesSection | None:
    """The answers of a results directory; None if none of its points tells anything about interfaces."""
    if not is_about(records) or not (fastest := interfaces(records)).rows:
        return None
    answers = parts(fastest)
    pairs = list(dict.fromkeys(in_words(row.conditions).get(BETWEEN, "") for row in fastest.rows))
    rows = [_in_table(same, pairs) for same in alike_rows(fastest.rows)[:MOST_ROWS]]
    heads = [
        "what",
        "conditions",
        "size",
        "fastest",
        "times the next",
        "predicted" if fastest.predicted else "measured",
    ]
    return InterfacesSection(
        summary(fastest),
        answers,
        alone(answers),
        crossover_texts(fastest)[:MOST_ROWS],
        heads,
        rows,
        predicted=fastest.predicted,
    )
