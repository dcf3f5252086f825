"""The codebook of each experiment, as data: what its factors and counters mean, and what readers may conclude.

An experiment has it as its attribute `codebook`, which is the only place that says so. Readers of records find those of
all experiments of the package in codebook.json, which `make codebook` writes, so that they need not load experiments.
Rules of plausibility and prices name no experiment, factor or counter beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from firsttouch.records.factors import Factors
from firsttouch.records.schema import Record, Scalar

FILE = Path(__file__).with_suffix(".json")
Words: TypeAlias = dict[str, str]
"""The values of a factor with what each means. It is empty for numbers and for names of memory, devices or files."""
TWO_CLOCKS = 1e-3
"""By how much times by the device's clock and by the host's may differ. Oscillators are within 1e-4 of each other."""


class CodebookEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base class of what a codebook holds."""


class CounterEntry(CodebookEntry, frozen=True):
    """A counter, or several of one form.

    name: a regular expression. unit: "" for numbers, "word" for words. at_most: what it is a part of, so that it cannot
    exceed it: a counter or a factor, which may refer to groups of the expression, "median" or "max" of the samples, or
    a number. rounding: by how much it may exceed that, relative to it. signed: whether it is a difference, which may be
    below zero. moves: for a time, the factor with the bytes that pass within it through what `traffic` names.
    """

    name: str
    unit: str
    at_most: str | float | None = None
    rounding: float = 1e-6
    signed: bool = False
    moves: str = ""

    def names(self, counter: str) -> bool:
        return re.fullmatch(self.name, counter) is not None


class Traffic(CodebookEntry, frozen=True):
    """What the bytes that a point counts pass through, if its factors are those of `where` and its memory is `memory`.

    through: the memory of the device, or the link between it and the host. memory: of the factor `allocator`: of the
    device, or host memory that cannot move. passing: how many bytes pass for each byte counted. cacheable: how many
    times its size a cache of the device can hold, so that these bytes need not pass.
    """

    where: dict[str, Scalar | list[Scalar]]
    through: Literal["memory", "link"]
    memory: Literal["device", "host", "any"] = "any"
    passing: float = 1.0
    cacheable: float = 0.0


class LinkShare(CodebookEntry, frozen=True):
    """A counter that is a share of the stated peak of the link between two devices. cacheable: as of Traffic."""

    counter: str
    cacheable: float = 0.0


class LoadTime(CodebookEntry, frozen=True):
    """A sample is the time of one load by an agent from a buffer; the factors that name the agent and the size."""

    agent: str
    size: str


class FirstTouch(CodebookEntry, frozen=True):
    """A sample is the time of one page that is touched first, which takes no less than a load by the same agent.

    by, agents: the factor that says who touches the pages, and the agent for each of its values. pages: the factor with
    their number. threads: the counters and factors that say how many threads touch at once, the first known one
    counting; zero is all. single: values of `by` with which one thread touches them.
    """

    by: str
    agents: dict[str, Literal["cpu", "gpu"]]
    pages: str
    threads: list[str]
    single: list[str] = []


class PriceSource(CodebookEntry, frozen=True):
    """Points that are a price of advice, by the price's name.

    where: their factors. by: the factor that each parameter of the price decides; words: its value, where that is not
    the parameter's. names: the factors and counters that the price is computed from, by what they are to it. without:
    factors that they do not have.
    """

    price: str
    where: dict[str, Scalar] = {}
    by: Words = {}
    words: dict[str, Words] = {}
    names: Words = {}
    without: list[str] = []

    def factors(self, **given: Scalar) -> dict[str, Scalar]:
        """The factors of the points for given parameters."""
        chosen = {
            self.by[name]: self.words[name][str(value)] if name in self.words else value
            for name, value in given.items()
        }
        return {**self.where, **chosen}


class FormerFactor(CodebookEntry, frozen=True):
    """A factor that older records have. usual: the value that points without it had. now: the factors that another
    value stands for, by value and by application.
    """

    usual: str
    now: dict[str, dict[str, dict[str, Scalar]]]


class Codebook(CodebookEntry, frozen=True):
    """called: what users call the experiment, if not by its name. between_memories: its values depend on whether CPU
    and GPU share one memory, whatever the allocator. factors: with their values. only_where: factors that mean
    something only where others have one of these values; elsewhere they have a value that says nothing. open: whether
    points may have factors beside these. version: of the metric. base: the point around which conditions are varied,
    but for its memory and size. former: factors of older records. The other fields are what readers may conclude; see
    their types.
    """

    called: str = ""
    between_memories: bool = False
    factors: dict[str, Words] = {}
    only_where: dict[str, dict[str, list[Scalar]]] = {}
    counters: tuple[CounterEntry, ...] = ()
    open: bool = False
    version: int = 1
    base: dict[str, Scalar] = {}
    traffic: tuple[Traffic, ...] = ()
    link_shares: tuple[LinkShare, ...] = ()
    load: LoadTime | None = None
    touch: FirstTouch | None = None
    prices: tuple[PriceSource, ...] = ()
    former: dict[str, FormerFactor] = {}

    def counter(self, name: str) -> CounterEntry | None:
        """The first entry whose form the counter's name has."""
        return next((counter for counter in self.counters if counter.names(name)), None)

    def knows(self, name: str) -> bool:
        """Whether there is a factor or a counter of this name."""
        return name in self.factors or self.counter(name) is not None

    def applies(self, name: str, factors: Mapping[str, Scalar]) -> bool:
        """Whether a factor means something for a point with these factors."""
        return all(factors.get(other) in values for other, values in self.only_where.get(name, {}).items())

    def flaws(self) -> list[str]:
        """A sentence for each factor, value and counter that the codebook refers to but does not have."""
        problems = [self._condition_problem(t.where, "traffic") for t in self.traffic] + [
            self._condition_problem(self.base, "base")
        ]
        problems += [
            self._name_problem([name], name) or self._condition_problem(where, name)
            for name, where in self.only_where.items()
        ]
        problems += [self._name_problem([s.counter], "a share of a link") for s in self.link_shares]
        problems += [self._name_problem([c.at_most], c.name) for c in self.counters if _is_name(c.at_most)]
        problems += [self._name_problem([c.moves], c.name) for c in self.counters if c.moves]
        if self.load is not None:
            problems.append(self._name_problem([self.load.agent, self.load.size], "load"))
        if self.touch is not None:
            problems.append(self._name_problem([self.touch.by, self.touch.pages, *self.touch.threads], "touch"))
            problems += [self._condition_problem({self.touch.by: [*self.touch.agents, *self.touch.single]}, "touch")]
        for source in self.prices:
            about = f"the price {source.price}"
            problems.append(self._condition_problem(source.where, about))
            problems.append(self._name_problem([*source.by.values(), *source.names.values(), *source.without], about))
            problems += [
                self._condition_problem({source.by[p]: [*words.values()]}, about) for p, words in source.words.items()
            ]
        return [text for text in problems if text]

    def _condition_problem(self, where: Mapping[str, Scalar | list[Scalar]], about: str) -> str:
        for name, wanted in where.items():
            if name not in self.factors:
                return f"{about}: there is no factor {name}"
            values, meanings = wanted if isinstance(wanted, list) else [wanted], self.factors[name]
            if strange := [v for v in values if meanings and str(v) not in meanings]:
                return f"{about}: the factor {name} has no value {strange[0]}"
        return ""

    def _name_problem(self, names: list[str | float | None] | list[str], about: str) -> str:
        strange = [name for name in names if isinstance(name, str) and not self.knows(name.replace("{}", "0"))]
        return f"{about}: there is no factor or counter {strange[0]}" if strange else ""


def _is_name(limit: str | float | None) -> bool:
    return isinstance(limit, str) and limit not in ("median", "max") and "\\" not in limit


EMPTY = Codebook()


@cache
def codebooks() -> Mapping[str, Codebook]:
    """Those of the experiments of the package and of applications, by name."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Codebook])


def codebook_of(experiment: str) -> Codebook:
    """That of an experiment; an empty one for experiments that are not of the package."""
    return codebooks().get(experiment, EMPTY)


def with_present_factors(record: Record) -> Record:
    """The record with former factors replaced by those of today, where it is known what they stand for."""
    former, factors = codebook_of(record.experiment).former, record.factors
    if former.keys().isdisjoint(factors):
        return record
    for name in former.keys() & factors.keys():
        rest = Factors({other: value for other, value in factors.items() if other != name})
        if factors[name] == former[name].usual:
            factors = rest
        elif (now := former[name].now.get(str(factors[name]), {}).get(str(factors.get("app")))) is not None:
            factors = Factors({**now, **rest})
    return msgspec.structs.replace(record, factors=factors)


@lru_cache(maxsize=4096)
def limit_of(experiment: str, counter: str) -> tuple[str | float, float] | None:
    """What a counter cannot exceed, and the rounding allowed for; None if it is not a part of anything."""
    entry = codebook_of(experiment).counter(counter)
    if entry is None or entry.at_most is None:
        return None
    match = re.fullmatch(entry.name, counter)
    whole = match.expand(entry.at_most) if match and isinstance(entry.at_most, str) else entry.at_most
    return whole, entry.rounding
