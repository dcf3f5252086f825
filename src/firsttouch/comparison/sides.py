"""The sides that a call names: directories, several directories of one machine, or the devices of one directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from firsttouch.base.encoding import encode_json
from firsttouch.base.errors import UsageError
from firsttouch.comparison.runs import ComparedPoint, ComparedRun, Lost, Unreadable, factors_of, read_all
from firsttouch.comparison.table import Side
from firsttouch.records.papers.rows import sides
from firsttouch.records.text import join_names

AnyPoint = TypeVar("AnyPoint", ComparedPoint, Lost)
OBSERVING = ("repeat", "kernel_times", "timeline")
"""Factors of applications that say how a point is observed, which changes nothing in a prediction."""
SEPARATOR = ","
PUBLISHED = "published:"
"""Begins the name of a side that is not a directory but a paper or a platform, as in published:mi300a-upm."""


@dataclass(frozen=True)
class Sides:
    """The sides of a comparison. unreadable: what could not be read of further ones. of_devices: whether they are the
    devices of one directory.
    """

    sides: list[Side]
    unreadable: list[Unreadable]
    of_devices: bool = False


def read_sides(specs: Sequence[str]) -> Sides:
    """Reads what a call names.

    Raises:
        UsageError: fewer than two sides can be compared; the text says why.
    """
    if not specs:
        raise UsageError("name two results directories to compare, such as `firsttouch compare BEFORE AFTER`")
    stated = {spec: sides(spec.removeprefix(PUBLISHED)) for spec in specs if spec.startswith(PUBLISHED)}
    directories = {spec: directories_of(spec) for spec in specs if spec not in stated}
    if not directories:
        raise UsageError("published results are compared with your own; name a results directory too")
    for names in directories.values():
        if not all(name.strip() for name in names):
            raise UsageError(f"the name of a directory is empty in '{SEPARATOR.join(names)}'; leave it out")
    runs, unreadable = read_all(list(dict.fromkeys(name for names in directories.values() for name in names)))
    by_name = {run.name: run for run in runs}
    reasons = {bad.name: bad.reason for bad in unreadable}
    sides_read: list[Side] = []
    broken: list[Unreadable] = []
    for spec in specs:
        name = unique(spec, sides_read)
        if spec in stated:
            sides_read.append(Side(name, [], stated[spec]))
            continue
        names = directories[spec]
        bad = next((reasons[name] for name in names if name in reasons), "")
        bad = bad or mixed([by_name[name] for name in names])
        if bad:
            broken.append(Unreadable(spec, bad))
        else:
            sides_read.append(Side(name, [by_name[directory] for directory in names]))
    if len(specs) == 1 and sides_read:
        return Sides(devices_of(sides_read[0]), [], of_devices=True)
    if len(sides_read) < 2 or not any(side.runs for side in sides_read):
        raise UsageError(broken[0].reason)
    return Sides(sides_read, broken)


def directories_of(spec: str) -> list[str]:
    """The directories of one side. The path of an existing directory may contain a comma."""
    return [spec] if Path(spec).exists() else spec.split(SEPARATOR)


def unique(name: str, sides: Sequence[Side]) -> str:
    taken = {side.name for side in sides}
    return next(n for i in range(1, len(taken) + 2) if (n := name if i == 1 else f"{name} ({i})") not in taken)


def mixed(runs: Sequence[ComparedRun]) -> str:
    """A sentence if the runs are not of one machine, otherwise ''."""
    first, *other_runs = runs
    for run in other_runs:
        for identity_name, value in first.identity.items():
            if run.identity.get(identity_name, value) != value:
                return (
                    f"{first.name} and {run.name} are joined by a comma but are of two machines "
                    f"({identity_name}: {value} and "
                    f"{run.identity[identity_name]}); join runs of one machine only"
                )
    return ""


def devices_of(side: Side) -> list[Side]:
    """The devices of one role as sides, if a machine has several.

    Raises:
        UsageError: it has not.
    """
    roles: dict[str, dict[str, None]] = {}
    for run in side.runs:
        for device in run.devices:
            roles.setdefault(device.role, {})[device.name] = None
    several = [list(names) for names in roles.values() if len(names) > 1]
    if not several:
        only = join_names([name for names in roles.values() for name in names])
        raise UsageError(
            f"{side.name} is the only side, and it has no two devices of one kind (it has {only or 'none'}); "
            "name a second directory to compare it with"
        )
    return [Side(name, [_run_of_device(run, name) for run in side.runs]) for name in max(several, key=len)]


def _run_of_device(run: ComparedRun, device: str) -> ComparedRun:
    """The part of a run that one device measured."""
    return ComparedRun(
        run.name,
        run.host,
        [d for d in run.devices if d.name == device],
        run.definitions,
        [p for p in run.points if p.device == device],
        [p for p in run.lost if p.device == device],
        run.conditions,
        [p for p in run.phases if p.device == device],
        command=run.command,
        machine=run.machine,
        program=run.program,
    )


def as_predicted(side: Side) -> Side:
    """A side beside predictions: how often a point was run, and what was observed besides, is no factor of those."""

    def without(points: list[AnyPoint]) -> list[AnyPoint]:
        """Of several that differ in this alone, the first has its place."""
        taken = {(point.device, point.factors) for point in points}
        plain = []
        for point in points:
            factors = _without_observing(point.factors)
            if (point.device, factors) not in taken:
                taken.add((point.device, factors))
                point = replace(point, factors=factors)
            plain.append(point)
        return plain

    runs = [replace(r, points=without(r.points), phases=without(r.phases), lost=without(r.lost)) for r in side.runs]
    return Side(side.name, runs, side.stated)


def _without_observing(factors: str) -> str:
    factors_by_name = factors_of(factors)
    kept = {name: value for name, value in factors_by_name.items() if name not in OBSERVING}
    return factors if len(kept) == len(factors_by_name) else encode_json(kept, order="sorted").decode()


def of_phases(sides: Sequence[Side]) -> list[Side]:
    """The sides with the phases of their applications in place of their points."""
    return [Side(side.name, [replace(run, points=run.phases, lost=[]) for run in side.runs]) for side in sides]
