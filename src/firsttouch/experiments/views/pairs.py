"""Pairs of devices or NUMA nodes, of which one accesses memory of the other: who is who in a record, and the matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from firsttouch.base.units import format_number
from firsttouch.experiments.views.equals import alikeness, compare_equals
from firsttouch.experiments.views.ranking import overlapping, some
from firsttouch.records.findings import Claim, Finding, at_shared, counter, finding, number
from firsttouch.records.schema import NODE, PEER, SELF, Record, Scalar
from firsttouch.records.statistics import group_by

SIDES = ("source", "target")
"""The factors with the allocators of the two sides."""
MEMORY = ("allocator", *SIDES)
BOTH = "both"
"""The direction of copies both ways at once."""
OWNER, BY = "owner", "by"
OWN = "its own memory"
"""What the diagonal of a matrix of pairs is."""
BETWEEN = "memory"
"""The allocators of both sides in words: 'device', or 'device to malloc'."""
_SAME_PEAK = 1.02
"""How far stated peaks of one kind of link may be apart, since they follow from rounded counters."""
PARTIES = ("device", PEER, NODE)
"""The factors that these words of findings name."""


def agent_of(factors: Mapping[str, Scalar]) -> str:
    return "cpu" if NODE in factors else str(factors.get("agent", "gpu"))


def actor(factors: Mapping[str, Scalar], device: str) -> str:
    """Who accesses the memory: a device or a node."""
    return str(factors.get(NODE, device))


def owner(factors: Mapping[str, Scalar], device: str) -> str:
    """The device or the node to which the memory belongs."""
    name = str(factors[PEER])
    return actor(factors, device) if name == SELF else name


def kind_of(record: Record) -> str:
    """The kind of a pair: "gpu" or "cpu" accesses memory of a device, or a "node" that of a node."""
    return "node" if NODE in record.factors else agent_of(record.factors)


def by_kind(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each kind of pair that there is."""
    return {kind: rows for kind in ("gpu", "cpu", "node") if (rows := [r for r in records if kind_of(r) == kind])}


def actor_of(record: Record) -> str:
    """Who accesses the memory, in words."""
    acting = actor(record.factors, record.device)
    return (f"the CPU at {acting}" if kind_of(record) == "cpu" else acting) + _host_suffix(record, 0)


def owner_of(record: Record) -> str:
    """The device or the node to which the memory belongs."""
    return owner(record.factors, record.device) + _host_suffix(record, -1)


def _host_suffix(record: Record, party: int) -> str:
    """The host of one of the parties, if they are on several: such a pair is not taken for one within a host."""
    return (
        f" on {record.parties[party].host}" if len({party_of_pair.host for party_of_pair in record.parties}) > 1 else ""
    )


def parties_of(record: Record) -> dict[str, Any]:
    """For findings: who accesses the memory (`by`), the `owner`, and what these are (`party`), in words."""
    party = "NUMA node" if kind_of(record) == "node" else "device"
    return {"by": actor_of(record), "owner": owner_of(record), "party": party}


def pairs_not_told_apart(records: Sequence[Record], best: Record) -> str:
    """For a superlative: ', with no clear difference from cuda:0 to cuda:2', the pairs whose intervals overlap with
    that of the best; otherwise ''.
    """
    overlapping_pairs = [f"{actor_of(r)} to {owner_of(r)}" for r in overlapping(records, best)]
    return f", with no clear difference from {some(overlapping_pairs)}" if overlapping_pairs else ""


def name_of_pair(record: Record) -> str:
    """'cuda:2 to cuda:5', 'cuda:2 from cuda:5' of loads, or 'cuda:2 and cuda:5' of both ways at once."""
    return named_as(record, actor_of(record), owner_of(record))


def named_as(record: Record, acting: str, owning: str) -> str:
    """The name of another pair, of which a point would be what the record is of its own."""
    if record.factors.get("direction") == BOTH:
        return " and ".join(sorted((acting, owning)))
    return f"{acting} {'to' if record.unit.endswith('/s') else 'from'} {owning}"


def noun_of(records: Sequence[Record], lacking: Sequence[str] = ()) -> str:
    """What each of several pairs is called: "pair", or "direction" if they are the two between the same two. lacking:
    those without a record.
    """
    back = {named_as(r, owner_of(r), actor_of(r)) for r in records}
    every = {*map(name_of_pair, records), *lacking}
    return "direction" if len(every) == 2 and back <= every else "pair"


def usual_pairs(
    records: Sequence[Record],
    name: str,
    one: Claim,
    several: Claim,
    called: Callable[[Record], str] = name_of_pair,
) -> list[Finding]:
    """For each value of a factor, and each stated peak of links, the usual pair, with those that are apart from it;
    `one` where only one was measured.

    several: its text is followed by who is alike, where a pair is `called` so.
    """
    findings = []
    for rows in group_by(records, name).values():
        links = _group_by_link(rows)
        for peak, some_rows in links:
            over = f" where the link has {format_number(peak)} GB/s each way" if len(links) > 1 and peak else ""
            findings.append(_usual_pair_finding(some_rows, one, several, called, over))
    return findings


def _group_by_link(records: Sequence[Record]) -> list[tuple[float, list[Record]]]:
    """The records by the stated peak of their links, 0 if none is stated; most pairs first."""
    groups: list[tuple[float, list[Record]]] = []
    for peak, record in sorted(((_link_peak(r), r) for r in records), key=lambda pair: pair[0]):
        if groups and peak <= _SAME_PEAK * groups[-1][0]:
            groups[-1][1].append(record)
        else:
            groups.append((peak, [record]))
    return sorted(groups, key=lambda group: -len(group[1]))


def _link_peak(record: Record) -> float:
    share = counter(record, "of_peak", "")
    rates = [rate.value for way in ("in_gbs", "out_gbs") if (rate := counter(record, way, "GB/s"))]
    return max(rates) / share.value if share and share.value > 0 and rates else 0.0


def _usual_pair_finding(
    records: Sequence[Record], one: Claim, several: Claim, called: Callable[[Record], str], over: str
) -> Finding:
    found = alikeness(records)
    parties = parties_of(found.usual)
    if len(records) == 1:
        return finding(replace(one, text=f"{one.text}{over}"), found.usual, **parties)
    equals = compare_equals(found, noun_of(records), called)
    claim = replace(several, text=f"{several.text}{over} ({equals.text})")
    rows = [found.usual, *(r for r in records if r is not found.usual)]
    names: dict[str, Any] = {**parties, **equals.conditions}
    return finding(claim, rows, details=dict(equals.details), **names)


def shortest_alone(records: Sequence[Record], claim: Claim) -> list[Finding]:
    """The shortest copy or message that was timed alone, of the smallest size."""
    timed = [(number(r, "size"), q.value, r, q) for r in records if (q := counter(r, "latency_us", "us"))]
    shortest = min(timed, key=lambda entry: entry[:2], default=None)
    return [finding(claim, shortest[2], shortest[3], **parties_of(shortest[2]))] if shortest else []


def memory_of(factors: Mapping[str, Scalar]) -> str:
    """The allocators of the two sides: 'device', or 'device to malloc'; of one side where there is one."""
    return " to ".join(dict.fromkeys(str(factors[name]) for name in MEMORY if factors.get(name) is not None))


def is_own(record: Record) -> bool:
    """True if the memory belongs to who accesses it."""
    return owner_of(record) == actor(record.factors, record.device)


def matrix(records: Sequence[Record]) -> list[Record]:
    """The points at the size, and with the allocators, for which most pairs of one kind were measured."""
    pairs = ("device", NODE, PEER)
    usual = max(group_by(records, *MEMORY).values(), key=lambda rows: len(group_by(rows, *pairs)), default=[])
    return at_shared(usual, pairs)


def between_devices(records: Sequence[Record]) -> list[Record]:
    """The records of the matrix in which a device uses memory of another."""
    return [r for r in matrix(records) if not is_own(r)]


def own_of(record: Record, records: Sequence[Record]) -> Record | None:
    """The point in which the same one uses its own memory and nothing else differs."""
    wanted = {**record.factors, PEER: ""}
    same = (r for r in records if r.device == record.device and {**r.factors, PEER: ""} == wanted)
    return next(filter(is_own, same), None)
