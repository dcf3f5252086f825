"""What a kind of work is: all that planner, runner and command line know of `run`, `app` and whatever follows.

A kind of work gives experiments by name, facts for the planner and the runner, and a summary. The kinds are the rows
of firsttouch/work.py; nothing in this folder names one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from firsttouch.records.schema import DeviceInfo, Factors, Kind, Record, Scalar

if TYPE_CHECKING:
    from firsttouch.experiments.base import Experiment


@dataclass(frozen=True)
class PlanningFacts:
    """What the planner must know of a kind of work.

    noun: what is named in a call. skips_are_results: whether a plan of which nothing can be measured is still worth
    recording. hints: by factor, what to say where its values left nothing to measure.
    """

    noun: str = "experiment"
    skips_are_results: bool = True
    hints: Mapping[str, str] = field(default_factory=dict)


DEFAULT_FACTS = PlanningFacts()


@dataclass(frozen=True)
class Listing:
    """What --list shows: the value for --json, under one key, and the lines for a reader."""

    key: str
    entries: Sequence[Any]
    lines: Sequence[str]


class Work:
    """One kind of work."""

    name: ClassVar[Kind]
    """Of its command, and `kind` in run.json."""
    planning: ClassVar[PlanningFacts] = DEFAULT_FACTS
    timeout: ClassVar[float | None] = None
    """Seconds that one point may take without --timeout; None leaves it to the runner."""
    names_required: ClassVar[bool] = False
    """Whether a call that names nothing is wrong unless it says --all, rather than meaning everything."""

    def check_modules(self, paths: Sequence[str]) -> None:
        """Raises UsageError for a loaded file of --module in which there is nothing of this kind."""

    def names(self) -> Mapping[str, object]:
        """What may be named in a call. Raises UsageError for a module that can't be used."""
        raise NotImplementedError

    def experiments(self, asked: Mapping[str, Sequence[Scalar]]) -> dict[str, Experiment]:
        """The experiment of each name. asked: the factors that --set and options name, with their words."""
        raise NotImplementedError

    def find(self, experiment: str, factors: Factors) -> Experiment:
        """The experiment of one point. Raises UsageError where this version has none of that name."""
        raise NotImplementedError

    def default_devices(self, devices: Sequence[DeviceInfo]) -> list[str]:
        """Which of the available devices are meant where the call names none."""
        return [device.name for device in devices]

    def listing(self, names: Sequence[str], devices: Sequence[str], preset: str) -> Listing:
        """What --list shows of `names`."""
        raise NotImplementedError

    def summary(self, records: Sequence[Record]) -> dict[str, Any]:
        """What --json says of a finished run besides its counts, by key."""
        return {}
