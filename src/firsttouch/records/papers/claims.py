"""The papers' claims as data: orderings, ratios and trends that a run may bear out, in data/claims.json."""

from __future__ import annotations

from functools import cache
from typing import Literal, TypeAlias

from firsttouch.records.papers.files import MEDIAN, FactorValues, read
from firsttouch.records.schema import Scalar, Struct

Need: TypeAlias = Literal[
    "one memory",
    "separate memories",
    "host reaches device memory",
    "migration",
    "another device",
    "no automatic migration",
]
"""A property of the hardware, or a setting, without which a claim says nothing: see evaluate.NEEDS."""


class Check(Struct, kw_only=True, tag_field="test"):
    """What a claim is tested on.

    experiment: "app" for applications. where: what a point's factors must be, a list for several values, ">N" for
    numbers above N, "!self" for any value but self, null for points without the factor; a condition of pooled.py, such
    as the page size of the kernel, is a factor too. metric: MEDIAN, or the name of a counter, or of several that are
    added, as in "a+b". exact: whether it is a count that has no interval because it needs none. exceeds_memory: whether
    the data of an application exceed the memory of the device, or the part of it that it may use; points are left out
    whose data do not, or of other claims those whose data do, unless the claim is about growth from one to the other.
    """

    experiment: str
    where: dict[str, FactorValues]
    metric: str = MEDIAN
    exact: bool = False
    exceeds_memory: bool = False

    @property
    def counters(self) -> list[str]:
        """The counters that the metric consists of."""
        return [] if self.metric == MEDIAN else self.metric.split("+")


class Compare(Check, kw_only=True, tag="compare"):
    """Two points that differ in some factors only.

    first, second: these factors of either. relation: first is "less" or "more" than second, "no more" than it, or the
    "same"; or first / second is a "ratio" from low to high. ignore: further factors that may differ. at: of points at
    several values of a number, those at the "largest" or "smallest" that both sides have. growth: a factor, for which
    the compared value is how many times as large a side's is at its largest number as at its smallest.
    """

    first: dict[str, FactorValues]
    second: dict[str, FactorValues]
    relation: Literal["less", "more", "no more", "same", "ratio"]
    low: float = 0
    high: float = 0
    ignore: list[str] = []
    at: dict[str, Literal["largest", "smallest"]] = {}
    growth: str = ""


class Across(Compare, kw_only=True, tag="across"):
    """How two points, as in Compare, compare on several machines: first / second is less on each of the platforms
    `less_on` than on each of `than_on`.
    """

    relation: Literal["less", "more", "no more", "same", "ratio"] = "less"
    less_on: list[str]
    than_on: list[str]


class Alike(Check, kw_only=True, tag="alike"):
    """Points that differ in the factor `over` alone: whether the least and the greatest are the same, or differ if
    alike is false. at: as in Compare.
    """

    over: str
    alike: bool = True
    at: dict[str, Literal["largest", "smallest"]] = {}


class Trend(Check, kw_only=True, tag="trend"):
    """Points along the numeric factor `over`: whether they rise, or fall if rises is false."""

    over: str
    rises: bool = True


class Level(Check, kw_only=True, tag="level"):
    """A point's value, divided by the factor `per` if one is given, from low to high."""

    low: float
    high: float
    per: str = ""


class Word(Check, kw_only=True, tag="word"):
    """A counter that is a word or yes or no."""

    word: Scalar


class Iterations(Check, kw_only=True, tag="iterations"):
    """Whether the first iteration of a point takes longer than every later one; or does not, if longest is false."""

    longest: bool = True


class Untestable(Struct, tag="none", tag_field="test"):
    """A claim that no run of one machine can test today."""

    why: str


AnyCheck: TypeAlias = Compare | Across | Alike | Trend | Level | Word | Iterations | Untestable


class PaperClaim(Struct):
    """A claim.

    id: unique. rows: the names of the rows that state it, "PAPER/ID", the first one's paper and section being the
    claim's. text: the claim in a sentence without its full stop, in our words. on: whose records are tested, a GPU's
    or those of the host alone. needs: properties of the hardware. holds_for: how many comparisons must agree, "all",
    "most" or "some". options: what a call needs besides the factors. test: how it is tested. undecided: why the paper
    does not decide it, by the name of the model of a machine, or "" for all.
    """

    id: str
    rows: list[str]
    text: str
    test: AnyCheck
    on: Literal["gpu", "host"] = "gpu"
    needs: list[Need] = []
    holds_for: Literal["all", "most", "some"] = "all"
    options: str = ""
    undecided: dict[str, str] = {}


@cache
def all_claims() -> list[PaperClaim]:
    claims: list[PaperClaim] = read("claims.json", list[PaperClaim])
    return claims


@cache
def claims_by_row() -> dict[str, list[str]]:
    """The ids of the claims that rest on a row, by the row's name."""
    by_row: dict[str, list[str]] = {}
    for claim in all_claims():
        for name in claim.rows:
            by_row.setdefault(name, []).append(claim.id)
    return by_row
