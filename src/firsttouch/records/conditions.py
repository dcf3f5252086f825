"""Findings whose sentences name every factor in which the records that they compare differ.

All findings pass through here, those of users' modules too. A claim names the placeholders of its text, and its
`names`. A finding that compares records which differ in another factor is derived again from records that do not; a
condition that other records do not meet is added to the sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from string import Formatter
from typing import TypeAlias

import msgspec

from firsttouch.records.findings import EVERY, Finding
from firsttouch.records.reading import key_of
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.statistics import varying

Find: TypeAlias = Callable[[Sequence[Record]], Sequence[Finding]]
_Point: TypeAlias = Mapping[str, Scalar]
"""The factors of a point, and its device."""
_Value: TypeAlias = tuple[type, Scalar]
"""1, 1.0, True and '1' are different values of a factor."""

DEVICE = "device"
MOST_GROUPS = 4
"""Findings are derived from at most this many groups of like records, those with the most records."""
_OTHER = "other_"


def under_conditions(find: Find, records: Sequence[Record], known_factors: Collection[str] = ()) -> list[Finding]:
    """Returns the findings of `find`, each with the conditions that its claim does not name.

    known_factors: those that `find` knows of. It gets only records that have the same values of all others, and the
    newest definition of their metric. Empty: it knows of every factor.
    """
    newest = max((r.metric_version for r in records), default=0)
    rows = [r for r in records if r.metric_version == newest]
    extra = _unknown_factors(rows, known_factors)
    findings = []
    for group in _groups(rows, extra):
        of_group = {name: group[0].factors.get(name) for name in extra}
        findings += [with_conditions(f, rows, of_group) for f in _alike(find, group, frozenset())]
    return findings


def fullest_group(records: Sequence[Record], known_factors: Collection[str]) -> list[Record]:
    """The largest group of records with the same values of all factors but the known ones; of equally large ones, the
    first.
    """
    return max(_groups(records, _unknown_factors(records, known_factors)), key=len, default=[])


def _unknown_factors(records: Sequence[Record], known_factors: Collection[str]) -> list[str]:
    """The factors besides the known ones in which records differ. Without known factors, every factor is known."""
    return [name for name in varying(records) if known_factors and name not in (DEVICE, *known_factors)]


def with_conditions(
    finding: Finding, records: Sequence[Record], of_group: Mapping[str, Scalar] | None = None
) -> Finding:
    """The finding with the conditions to state: factors that its claim does not name, and that have other values in
    records which share what it names.

    of_group: conditions to state in any case.
    """
    stated: dict[str, Scalar] = {**(of_group or {})}
    for experiment, points in _by_experiment(finding.points).items():
        alike = [_point(r.device, r.factors) for r in _with_what_is_named(finding, experiment, points, records)]
        for name in dict.fromkeys(name for point in (*points, *alike) for name in point):
            values = {_value(point, name) for point in points}
            if len(values) == 1 and any(_value(point, name) not in values for point in alike):
                stated[name] = points[0].get(name)
    return replace(finding, stated=stated) if stated else finding


def _with_what_is_named(
    finding: Finding, experiment: str, points: Sequence[_Point], records: Sequence[Record]
) -> list[Record]:
    """The records of the experiment that have the same device and named factors as the finding's own points."""
    pool = [r for r in records if r.experiment == experiment]
    names = dict.fromkeys(name for r in pool for name in r.factors)
    named = [DEVICE, *(name for name in names if is_named(finding, name))]
    own_values = {_values(point, named) for point in points}
    return [r for r in pool if _values(_point(r.device, r.factors), named) in own_values]


def _is_about_all(finding: Finding, records: Sequence[Record]) -> bool:
    """Whether a finding rests on all records that share what its claim names."""
    alike = [
        key_of(record)
        for experiment, points in _by_experiment(finding.points).items()
        for record in _with_what_is_named(finding, experiment, points, records)
    ]
    return set(alike) <= set(finding.points)


def unnamed(finding: Finding, records: Sequence[Record]) -> set[str]:
    """The factors that a finding's claim does not name, and in which its records differ from each other or from those
    that they are compared with. None if the finding says, in words, the same of all records that share what it names.
    """
    in_words = isinstance(finding.value, str) and finding.comparison is None and not is_ambiguous(finding)
    if in_words and _is_about_all(finding, records):
        return set()
    differing: set[str] = set()
    compared_points = _by_experiment(finding.comparison.points if finding.comparison else ())
    for experiment, points in _by_experiment(finding.points).items():
        against = compared_points.get(experiment, points)
        for name in dict.fromkeys(name for point in (*points, *against) for name in point):
            mine, theirs = ({_value(point, name) for point in rows} for rows in (points, against))
            alone = len(mine) > 1 and not is_named(finding, name)
            if alone or (mine != theirs and not is_named(finding, name, compared=True)):
                differing.add(name)
    return differing


def is_ambiguous(finding: Finding) -> bool:
    """Whether the claim's text has a placeholder of a factor of which the finding's records have several values."""
    factors = {name for points in _by_experiment(finding.points).values() for point in points for name in point}
    return any(name in factors and name not in finding.conditions for name in _placeholders(finding))


def _placeholders(finding: Finding) -> set[str]:
    texts = (finding.claim.head, finding.claim.text)
    return {name for text in texts for _, name, *_ in Formatter().parse(text) if name}


def is_named(finding: Finding, factor: str, *, compared: bool = False) -> bool:
    """Whether a finding's claim names a factor; compared: for what the value is compared with."""
    claim = finding.claim
    if EVERY in claim.names or factor in claim.names:
        return True
    fields = _placeholders(finding)
    if not compared:
        return factor in fields and factor in finding.conditions
    comparison = finding.comparison
    return f"{_OTHER}{factor}" in fields and comparison is not None and factor in comparison.conditions


def _alike(find: Find, records: Sequence[Record], apart: frozenset[str]) -> list[Finding]:
    """The findings about these records. Those that compare what differs in a factor that they do not name are derived
    again from groups of records that have the same value of it.
    """
    findings = [(f, unnamed(f, records)) for f in find(records) if not _compares_with_itself(f)]
    differing = apart.union(*(names for _, names in findings))
    refused = {f.claim.id for f, names in findings if names}
    rederived: dict[str, list[Finding]] = {}
    for rows in _groups(records, sorted(differing)) if differing != apart else []:
        for f in _alike(find, rows, differing):
            rederived.setdefault(f.claim.id, []).append(f)
    kept: list[Finding] = []
    for f, _ in findings:
        if f.claim.id not in refused:
            kept.append(f)
        else:
            kept += rederived.pop(f.claim.id, [])
    return kept


def _compares_with_itself(finding: Finding) -> bool:
    """Whether a finding compares a value with itself, as where only one point was measured."""
    against = finding.comparison
    if against is None or set(against.points) != set(finding.points) or against.value != finding.value:
        return False
    return any(name == "ratio" or name.startswith(_OTHER) for name in _placeholders(finding))


def _groups(records: Sequence[Record], names: Sequence[str]) -> list[list[Record]]:
    """Records with the same values of some factors, in the order of the records; at most MOST_GROUPS of them."""
    groups: dict[tuple[_Value, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(_values(_point(record.device, record.factors), names), []).append(record)
    most = sorted(groups, key=lambda values: len(groups[values]), reverse=True)[:MOST_GROUPS]
    return [rows for values, rows in groups.items() if values in most]


def _by_experiment(keys: Iterable[str]) -> dict[str, list[_Point]]:
    """The points with these keys, by experiment."""
    points: dict[str, list[_Point]] = {}
    for key in keys:
        experiment, device, factors = msgspec.json.decode(key)
        points.setdefault(experiment, []).append(_point(device, factors))
    return points


def _point(device: str, factors: Mapping[str, Scalar]) -> _Point:
    return {DEVICE: device, **factors}


def _values(point: _Point, names: Sequence[str]) -> tuple[_Value, ...]:
    return tuple(_value(point, name) for name in names)


def _value(point: _Point, name: str) -> _Value:
    value = point.get(name)
    return type(value), value
