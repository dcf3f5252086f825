"""The contract of a kind of work: all that planner, runner and command line know about `run` and `app`.

A kind of work provides experiments by name, facts for the planner and the runner, and a summary. The kinds are listed
in firsttouch/engine/work_kinds.py; nothing in this folder names one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from firsttouch.base.outputs import Output
from firsttouch.records.schema import DeviceInfo, Factors, Record, Request, Scalar, WorkKind

if TYPE_CHECKING:
    from firsttouch.experiments.contract.base import Experiment


@dataclass(frozen=True)
class PlanningFacts:
    """What the planner must know about a kind of work.

    noun: what the names in a call refer to. skips_are_results: whether a plan whose points are all skipped is still
    recorded. hints: by factor, the advice to print if its values left nothing to measure. why_no_factor: why what a
    call names has no factor that --set names, in one sentence, or '' if there is no more to say.
    """

    noun: str = "experiment"
    skips_are_results: bool = True
    hints: Mapping[str, str] = field(default_factory=dict)
    why_no_factor: Callable[[str, str], str] = lambda name, factor: ""


DEFAULT_FACTS = PlanningFacts()


@dataclass(frozen=True)
class Listing:
    """The output of --list: with --json, and as lines of text. titles: what each entry is, by its name."""

    output: Output
    lines: Sequence[str]
    titles: Mapping[str, str]


class Work:
    """One kind of work."""

    name: ClassVar[WorkKind]
    """The name of its command, and `kind` in run.json."""
    planning: ClassVar[PlanningFacts] = DEFAULT_FACTS
    timeout: ClassVar[float | None] = None
    """Seconds that one point may take without --timeout; if None, the runner decides."""
    names_required: ClassVar[bool] = False
    """If True, a call must name something or say --all. If False, a call without names means everything."""

    def check_modules(self, paths: Sequence[str]) -> None:
        """Raises UsageError if a file loaded by --module defines nothing of this kind."""

    def check_relative_to(self, baseline: str) -> None:
        """Raises UsageError if points cannot be compared to `baseline`."""

    def names(self) -> Mapping[str, object]:
        """The names that a call may use. Raises UsageError for a module that cannot be used."""
        raise NotImplementedError

    def usual_names(self) -> Mapping[str, object]:
        """The names that a call without names means."""
        return self.names()

    def experiments(self, sets: Mapping[str, Sequence[Scalar]]) -> dict[str, Experiment]:
        """The experiment of each name. sets: the factors given with --set and other options, with their values."""
        raise NotImplementedError

    def find(self, experiment: str, factors: Factors) -> Experiment:
        """The experiment of one point. Raises UsageError if this version has none of that name."""
        raise NotImplementedError

    def default_devices(self, devices: Sequence[DeviceInfo], request: Request) -> list[str]:
        """The names of the available devices that are used if the call names none."""
        return [device.name for device in devices]

    def every_device(self, request: Request) -> bool:
        """Whether a call that names no device asks for every point on each of several equal devices."""
        return True

    def listing(self, names: Sequence[str], devices: Sequence[str], preset: str) -> Listing:
        """The output of --list for `names`."""
        raise NotImplementedError

    def further(self, request: Request, records: Sequence[Record]) -> list[Request]:
        """Requests that follow from what was measured. The runner measures those of their points that have no record,
        and asks again, until there is none.
        """
        return []

    def why_further(self, request: Request, records: Sequence[Record]) -> list[str]:
        """Why these requests follow, in sentences."""
        return []

    def summary(self, records: Sequence[Record]) -> dict[str, Any]:
        """Further entries of the output of --json for a finished run, by key."""
        return {}
