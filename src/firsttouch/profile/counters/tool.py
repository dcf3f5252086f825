"""What `--counters` needs of a vendor's profiler, and the counters that it adds to a record.

A tool is one module of this folder and one row of tools.py. docs/counters.md names the vendor's counter behind each
quantity. The run under the tool is in engine/counted.py.
"""

from __future__ import annotations

import csv
import glob
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from firsttouch.records.schema import Record, reason_in

PREFIX = "hw_"
"""The prefix of all counters that the run under a tool adds to a record."""
STATE = "hw_counters"
"""The counter of a record that names the tool, or says NONE and why nothing was counted."""
KERNELS, KERNEL_TIME = "hw_kernels", "hw_kernel_ms"
"""The counters that hold the number of kernels over which the others are sums, and their time under the tool."""
COUNTED = "counted_"
"""The beginning of the name of a kernel that is to be counted (Lab::timed_kernel)."""
COUNTED_ELSEWHERE = "events=on records the driver's events, which excludes a profiler; the same point has events=off"
"""The reason of a point that has no counters because another point has them."""
OF_ITERATION = f"{PREFIX}iteration_"
"""The prefix of the counters of one iteration."""
_NUMBER = re.compile(r"\d+(\.\d*)?(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_LARGEST = 2.0**63
"""A count from here on is one below zero that has wrapped."""


class RefusedError(Exception):
    """The tool counted nothing; the text is one sentence. lasting: it will not count any other point of this run."""

    def __init__(self, reason: str, lasting: bool = False) -> None:
        super().__init__(reason)
        self.lasting = lasting


@dataclass(frozen=True)
class HwCounter:
    """A counter of a record as a sum of the vendor's counters, each with a factor.

    forms: several such sums, because vendors rename counters. The first is used whose counters the tool offers here.
    """

    name: str
    means: str
    forms: Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class KernelCounts:
    """What a tool counted of one launch of a kernel: the vendor's counters, and its ms, if the tool states them."""

    kernel: str
    values: Mapping[str, float]
    ms: float | None = None


@dataclass(frozen=True)
class Reading:
    """The sums of the vendor's counters over the counted kernels. kernels: None if the tool counts no kernels; ms:
    their time under the tool, None if it is unknown. note: what limits the values, in words.
    """

    values: Mapping[str, float]
    kernels: int | None = None
    ms: float | None = None
    note: str = ""


class Tool:
    """A profiler that counts the events of a program which it starts."""

    name: ClassVar[str]
    """The name of the program."""
    places: ClassVar[Sequence[str]] = ()
    """Where it is if it is not on the PATH, as patterns of paths."""
    absent: ClassVar[str]
    """What to do if it is nowhere."""
    how: ClassVar[str] = ""
    """How it counts, in words, for the record."""
    lists: ClassVar[Sequence[str]] = ()
    """The arguments with which it lists the counters that this machine has."""
    quantities: ClassVar[Sequence[HwCounter]]

    def find(self) -> str:
        """The path of the program. Raises RefusedError if there is none."""
        path = shutil.which(self.name) or next((p for place in self.places for p in sorted(glob.glob(place))[::-1]), "")
        if not path:
            raise RefusedError(f"{self.name} is not on the PATH; {self.absent}", lasting=True)
        return path

    def arguments(self, counters: Sequence[str], folder: Path, target: Sequence[str], kernels: str) -> list[str]:
        """The arguments that count `counters` while `target` runs, and write what was counted into `folder`.

        kernels: the beginning of the names of those that are counted; all if empty.
        """
        raise NotImplementedError

    def environment(self, folder: Path) -> dict[str, str]:
        """Environment variables of the program that is counted."""
        return {}

    def refusal(self, folder: Path, output: str) -> RefusedError | None:
        """Why the tool could not count, from what it wrote and printed; None if it says nothing of that."""
        return None

    def read(self, folder: Path) -> Reading:
        """What was counted. Raises RefusedError if it is missing."""
        return add_up(self.launches(folder, COUNTED))

    def launches(self, folder: Path, kernels: str = "") -> list[KernelCounts]:
        """What was counted of each launch, in their order. Raises RefusedError if there is none.

        kernels: the beginning of the names of those that are wanted.
        """
        raise RefusedError(f"{self.name} does not count kernels one by one")


def add_up(launches: Sequence[KernelCounts]) -> Reading:
    """The sums over launches, of the counters that every launch has."""
    names = (
        [name for name in launches[0].values if all(name in launch.values for launch in launches)] if launches else []
    )
    times = [launch.ms for launch in launches if launch.ms is not None]
    return Reading(
        {name: sum(launch.values[name] for launch in launches) for name in names},
        len(launches),
        sum(times) if len(times) == len(launches) else None,
    )


def parse_count(text: str | None) -> float | None:
    """What a tool counted; None for words, an empty field, and numbers that no event can reach or that are negative."""
    value = float(text) if text and _NUMBER.fullmatch(text) else _LARGEST
    return value if value < _LARGEST else None


def csv_rows(lines: Iterable[str], tool: str) -> list[list[str]]:
    """The rows of a tool's CSV, of any width, without empty ones. Raises RefusedError if it is none."""
    try:
        return [row for row in csv.reader(lines) if row]
    except csv.Error as error:
        raise RefusedError(f"{tool} wrote no valid CSV: {error}") from None


def listed_names(listing: str) -> set[str]:
    """All words of a tool's list of counters."""
    return set(re.findall(r"\w+", listing))


def choose_forms(quantities: Sequence[HwCounter], offered: Collection[str]) -> dict[str, Mapping[str, float]]:
    """The form in which each quantity is counted, by name. Those without are not counted on this machine.

    offered: the counters that the tool lists, without the suffix after a dot; empty if it lists none, in which case the
    first form is taken.
    """
    chosen = {}
    for quantity in quantities:
        for form in quantity.forms:
            if not offered or {name.partition(".")[0] for name in form} <= {*offered}:
                chosen[quantity.name] = form
                break
    return chosen


def evaluate(forms: Mapping[str, Mapping[str, float]], reading: Reading) -> dict[str, int]:
    """The quantities, by name. Those are left out for which the tool has no value, and differences of counters of
    several passes that are below zero.
    """
    sums = {
        name: round(sum(factor * reading.values[counter] for counter, factor in form.items()))
        for name, form in forms.items()
        if all(counter in reading.values for counter in form)
    }
    return {name: value for name, value in sums.items() if value >= 0}


def why_none(record: Record) -> str | None:
    """Why a point for which counters were requested has none; None for other points."""
    return reason_in(record.counters.get(STATE))


def why_lacking(record: Record) -> str | None:
    """The same, but None for points whose counters another point has."""
    reason = why_none(record)
    return None if reason == COUNTED_ELSEWHERE else reason
