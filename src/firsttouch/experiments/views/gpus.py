"""What was measured between the GPUs of a machine, and which of them, or of their pairs, are apart from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from firsttouch.experiments.analysis.fastest_interfaces import LEAST_WIN
from firsttouch.experiments.views.equals import FEWEST, alikeness, compare_equals
from firsttouch.experiments.views.pairs import (
    BOTH,
    BY,
    OWNER,
    actor_of,
    kind_of,
    memory_of,
    name_of_pair,
    named_as,
    noun_of,
    owner_of,
)
from firsttouch.experiments.views.ranking import groups_apart_from
from firsttouch.machine.allocators.properties import common_allocator, main_allocator
from firsttouch.records.findings import EVERY, Claim, Finding, Quantity, counter, finding, literal, number, quantity
from firsttouch.records.schema import PEER, RANKS, DeviceInfo, Machine, Record, Scalar
from firsttouch.records.statistics import group_by, median_of
from firsttouch.records.text import join_names, label

_PAIR = ("device", PEER)
OUT = "out"


@dataclass(frozen=True)
class PairsOfLink:
    """Points of one experiment under the same conditions, one for each pair of GPUs that the same kind of link joins.

    link: what the machine states for it; '' if nothing. lacking: the names of the other pairs that it joins.
    """

    records: Sequence[Record]
    link: str
    lacking: Sequence[str]
    peak_gbs: float | None


def gpus_of(machine: Machine, records: Iterable[Record]) -> list[DeviceInfo]:
    """The GPUs that the records are about, whatever became of them."""
    named = {name for r in records for name in (r.device, r.factors.get(PEER))}
    return [d for d in machine.devices if d.available and d.role == "gpu" and d.name in named]


def numbers_of_several(records: Sequence[Record], machine: Machine) -> list[Finding]:
    """Copies one way and both ways, loads, messages and sums over all GPUs, and each GPU beside its equals, as far as
    they were measured.
    """
    kinds = equal_gpus(records, machine)
    candidates = [
        *_pair_findings(records, machine, "p2p-copy", ONE_WAY, direction=OUT),
        *_pair_findings(records, machine, "p2p-copy", BOTH_WAYS, direction=BOTH),
        *_pair_findings(records, machine, "p2p-latency", LOADS, agent="gpu"),
        *_pair_findings(records, machine, "p2p-message", MESSAGES),
        _all_reduce_finding(records, machine),
        *(_equal_gpus_finding(equals, one_kind=len(kinds) == 1) for equals in kinds),
    ]
    return [f for f in candidates if f is not None]


# ------------------------------------------------------------------------------------------------ pairs of GPUs


def pairs_by_link(records: Iterable[Record], machine: Machine, experiment: str, **factors: object) -> list[PairsOfLink]:
    """The points between GPUs with these factors, under the conditions that most pairs have, and of several such at the
    largest size; of those the best, or the first that are as good, so that runs of one machine have the same. They are
    in groups by kind of link, that with most pairs first.
    """
    all_records = list(records)
    gpus = {d.name: d for d in gpus_of(machine, all_records)}
    rows = [
        r
        for r in all_records
        if r.experiment == experiment and r.device in gpus and r.factors.get(PEER) in gpus
        and r.factors.get(PEER) != r.device and kind_of(r) == "gpu" and r.is_measured and median_of(r) > 0
        and all(r.factors.get(n) == v for n, v in factors.items())
    ]  # fmt: skip
    if not rows:
        return []
    several = groups_apart_from(rows, *_PAIR)
    extents = [(len(group_by(group, *_PAIR)), number(group[0], "size")) for group in several]
    widest = [group for group, extent in zip(several, extents, strict=True) if extent == max(extents)]
    middles = [median_of(alikeness(group).usual) for group in widest]
    best = min(middles) if rows[0].better == "lower" else max(middles)
    usual = next(group for group, m in zip(widest, middles, strict=True) if max(m, best) <= LEAST_WIN * min(m, best))
    by_link: dict[tuple[object, ...], list[Record]] = {}
    for (device, peer), pair_records in group_by(usual, *_PAIR).items():
        by_link.setdefault(_link_facts(gpus, device, peer), []).append(pair_records[0])
    return [
        PairsOfLink(rows, str(link[0]), _unmeasured_pairs(rows, gpus), _peak(link))
        for link, rows in sorted(by_link.items(), key=lambda entry: -len(entry[1]))
    ]


def _link_facts(gpus: Mapping[str, DeviceInfo], device: object, peer: object) -> tuple[object, ...]:
    """What the machine states for the link from a device to its peer."""
    link = gpus[str(device)].peer(str(peer))
    return ("", None, None, "") if link is None else (link.link, link.hops, link.peak_out_gbs, link.access)


def _unmeasured_pairs(rows: Sequence[Record], gpus: Mapping[str, DeviceInfo]) -> list[str]:
    """The pairs over the same kind of link that have no point."""
    link = _link_facts(gpus, rows[0].device, rows[0].factors[PEER])
    names = [named_as(rows[0], a, b) for a in gpus for b in gpus if a != b and _link_facts(gpus, a, b) == link]
    measured = {named_as(r, r.device, str(r.factors[PEER])) for r in rows}
    return [name for name in dict.fromkeys(names) if name not in measured]


def _peak(link: tuple[object, ...]) -> float | None:
    return link[2] if isinstance(link[2], int | float) and link[2] > 0 else None


def _is_both_ways(record: Record) -> bool:
    return record.factors.get("direction") == BOTH


def _slower_of_each_pair(pairs: PairsOfLink) -> PairsOfLink:
    """The pairs; of two GPUs that each measured both ways at once, the slower point."""
    if not _is_both_ways(pairs.records[0]):
        return pairs
    slower: dict[frozenset[str], Record] = {}
    for r in sorted(pairs.records, key=median_of):
        slower.setdefault(frozenset((r.device, str(r.factors[PEER]))), r)
    rows = [r for r in pairs.records if any(r is kept for kept in slower.values())]
    return replace(pairs, records=rows)


def _pair_findings(
    records: Sequence[Record], machine: Machine, experiment: str, claim: Claim, **factors: object
) -> list[Finding]:
    links = pairs_by_link(records, machine, experiment, **factors)
    return [_link_finding(pairs, claim, several=len(links) > 1) for pairs in links]


def _link_finding(pairs: PairsOfLink, claim: Claim, *, several: bool) -> Finding:
    pairs = _slower_of_each_pair(pairs)
    found = alikeness(pairs.records)
    equals = compare_equals(found, noun_of(pairs.records, pairs.lacking), name_of_pair, pairs.lacking)
    details, share, of_peak = dict(equals.details), "", counter(found.usual, "of_peak", "")
    if of_peak is not None and pairs.peak_gbs is not None:
        details |= {"share": Quantity(100 * of_peak.value, "%"), "limit": Quantity(pairs.peak_gbs, "GB/s")}
        share = f", {{share}} of the link's stated {{limit}}{' each way' if _is_both_ways(found.usual) else ''}"
    head = f"{claim.head.removesuffix(':')} over {literal(pairs.link)}:" if several and pairs.link else claim.head
    worded = Claim(claim.id, f"{claim.text}{share}; {equals.text}", head, claim.names)
    rows = [found.usual, *(r for r in pairs.records if r is not found.usual)]
    conditions: dict[str, Any] = {"memory": memory_of(found.usual.factors), **equals.conditions}
    return finding(worded, rows, details=details, **conditions)


_NAMED = (*_PAIR, "direction", "agent", "source", "target", "allocator")
ONE_WAY = Claim(
    "headline.copies_one_way",
    "{value} over {size} of {memory} memory ({engine})",
    "copies between GPUs, one way:",
    _NAMED,
)
BOTH_WAYS = Claim(
    "headline.copies_both_ways",
    "{value} over {size} of {memory} memory ({engine})",
    "copies between GPUs, both ways:",
    _NAMED,
)
LOADS = Claim("headline.loads", "{value} from {size} of {memory} memory", "loads from another GPU:", _NAMED)
MESSAGES = Claim(
    "headline.messages", "{value} over {size} of {memory} memory ({interface})", "messages between GPUs:", _NAMED
)


def picture_of_pairs(records: Sequence[Record], machine: Machine) -> tuple[list[Record], list[Finding]]:
    """The copies one way and both ways between at least three GPUs, with the counters OWNER, BY, and SHARE where every
    link's peak is stated; and what they say. None of fewer GPUs.
    """
    shown, findings = list[Record](), list[Finding]()
    for words, direction in (("one way", OUT), ("both ways", BOTH)):
        links = pairs_by_link(records, machine, "p2p-copy", direction=direction)
        for pairs in links:
            shown += [_with_pair_counters(r) for r in pairs.records]
            unordered = _slower_of_each_pair(pairs)
            equals = compare_equals(
                alikeness(unordered.records),
                noun_of(unordered.records, unordered.lacking),
                name_of_pair,
                unordered.lacking,
            )
            over = f" over {literal(pairs.link)}" if len(links) > 1 and pairs.link else ""
            conditions: dict[str, Any] = {**equals.conditions}
            claim = Claim("headline.pairs", equals.text, f"copies {words}{over}:", _NAMED)
            findings.append(finding(claim, unordered.records, details=dict(equals.details), **conditions))
    if len({r.device for r in shown}) < FEWEST:
        return [], []
    if not all(SHARE in r.counters for r in shown):
        shown = [
            msgspec.structs.replace(r, counters={n: v for n, v in r.counters.items() if n != SHARE}) for r in shown
        ]
    return shown, findings


SHARE = "percent_of_peak"


def _with_pair_counters(record: Record) -> Record:
    share = counter(record, "of_peak", "")
    placed: dict[str, Scalar] = {OWNER: owner_of(record), BY: actor_of(record)}
    placed |= {SHARE: 100 * share.value} if share is not None else {}
    return msgspec.structs.replace(record, counters={**record.counters, **placed})


# ------------------------------------------------------------------------------------------------ each by itself


@dataclass(frozen=True)
class GpuMeasure:
    """What is measured of each GPU. title: in a table. text: in a sentence, after the value."""

    experiment: str
    factors: Mapping[str, object]
    title: str
    text: str


_OWN = {"agent": "gpu", "first_touch": "self"}
_COPY = {"engine": "copy-engine", "streams": 1, "chunk": 0}
GPU_MEASURES: Sequence[GpuMeasure] = (
    GpuMeasure("bandwidth", {**_OWN, "arrays": "memory", "kernel": "triad"}, "triad in own memory",
            "in a triad over {size} of its own memory"),
    GpuMeasure("latency", {**_OWN, "order": "random"}, "load from own memory",
               "for a load from {size} of its own memory"),
    GpuMeasure("transfer", {**_COPY, "direction": "h2d"}, "copy from the host",
               "for a copy to it from {memory} memory"),
    GpuMeasure("transfer", {**_COPY, "direction": "d2h"}, "copy to the host", "for a copy from it"),
)  # fmt: skip


@dataclass(frozen=True)
class EqualGpus:
    """GPUs of one model and backend, or partitions of GPUs. measured: the points of each measure under the same
    conditions, one for each GPU with any.
    """

    title: str
    noun: str
    names: Sequence[str]
    measured: Sequence[tuple[GpuMeasure, Sequence[Record]]]


def by_product(gpus: Iterable[DeviceInfo]) -> dict[tuple[str, str], list[DeviceInfo]]:
    """The GPUs by product and backend, since two backends may have the same GPUs. Those of a modelled machine whose
    values were changed are not those of the machine.
    """
    kinds: dict[tuple[str, str], list[DeviceInfo]] = {}
    for gpu in gpus:
        changes = gpu.modelled.changes if gpu.modelled else {}
        kind = ", ".join([gpu.kind, *(f"{name}={text}" for name, text in changes.items())])
        kinds.setdefault((gpu.product, kind), []).append(gpu)
    return kinds


def equal_gpus(records: Sequence[Record], machine: Machine) -> list[EqualGpus]:
    """The GPUs of each model of which there are several, with what was measured of more than one."""
    kinds, made = by_product(gpus_of(machine, records)), list[EqualGpus]()
    for (product, kind), gpus in kinds.items():
        title = product if sum(product == other_product for other_product, _ in kinds) == 1 else f"{product} ({kind})"
        noun = "partition" if "partitions" in gpus[0].facts else "GPU"
        names = [gpu.name for gpu in gpus]
        gpu_records = [r for r in records if r.device in names and not r.parties and r.is_measured and median_of(r) > 0]
        rows = [
            (measure, _points_of_measure(measure, gpu_records, main_allocator(gpus[0]))) for measure in GPU_MEASURES
        ]
        if several := [(measure, gpu_points) for measure, gpu_points in rows if len(gpu_points) > 1]:
            made.append(EqualGpus(title, noun, names, several))
    return made


def _points_of_measure(measure: GpuMeasure, records: Sequence[Record], own_allocator: str) -> list[Record]:
    """The points of a measure, one of each GPU, under the conditions that most have."""
    allocator = own_allocator if measure.experiment != "transfer" else common_allocator("page-locked")
    wanted_factors = {"allocator": allocator, **measure.factors}
    rows = [
        r for r in records
        if r.experiment == measure.experiment and all(r.factors.get(n) == v for n, v in wanted_factors.items())
    ]  # fmt: skip
    groups = [list(group_by(group, "device").values()) for group in groups_apart_from(rows, "device")]
    return [
        gpu_points[0]
        for gpu_points in max(groups, key=lambda group: (len(group), number(group[0][0], "size")), default=[])
    ]


def _equal_gpus_finding(equals: EqualGpus, *, one_kind: bool) -> Finding:
    values: dict[str, list[str]] = {}
    details, conditions, rows = dict[str, Quantity](), dict[str, Any](), list[Record]()
    for i, (measure, gpu_points) in enumerate(equals.measured):
        alikeness_of_gpus, lacking = (
            alikeness(gpu_points),
            [n for n in equals.names if n not in {r.device for r in gpu_points}],
        )
        comparison = compare_equals(alikeness_of_gpus, equals.noun, lambda r: r.device, lacking, f"of_{i}_")
        placeholders = {
            "size": label("size", alikeness_of_gpus.usual.factors["size"]),
            "memory": memory_of(alikeness_of_gpus.usual.factors),
        }
        value = "{value}" if i == 0 else f"{{usual_{i}}}"
        values.setdefault(comparison.text, []).append(f"{value} {literal(measure.text.format_map(placeholders))}")
        details |= {**comparison.details, f"usual_{i}": quantity(alikeness_of_gpus.usual)}
        conditions |= comparison.conditions
        rows += [alikeness_of_gpus.usual, *(r for r in gpu_points if r is not alikeness_of_gpus.usual)]
    text = "; ".join(f"{join_names(alike)}: {sentence}" for sentence, alike in values.items())
    kind = f"{equals.noun}s" if one_kind else literal(equals.title)
    claim = Claim("headline.gpus", text, f"each of {len(equals.names)} {kind}:", (EVERY,))
    return finding(claim, rows, details=details, **conditions)


# ------------------------------------------------------------------------------------------------ all together


def _all_reduce_finding(records: Sequence[Record], machine: Machine) -> Finding | None:
    """The bandwidth of the largest sum over the most GPUs, and the time of the smallest; of operations by a process
    for each GPU, if there are any.
    """
    gpus = {d.name for d in gpus_of(machine, records)}
    rows = [
        r for r in records
        if r.experiment == "collective" and r.factors.get("operation") == "all-reduce" and r.is_measured
        and median_of(r) > 0 and r.device in gpus and counter(r, "bus_gbs", "GB/s")
        and 1 < len(r.parties) == len({(p.host, p.device) for p in r.parties})
    ]  # fmt: skip
    most = max((len(r.parties) for r in rows), default=0)
    rows = [r for r in rows if len(r.parties) == most]
    if not rows:
        return None
    by_each = [r for r in rows if r.factors.get("processes") == "each"]
    claim = ALL_REDUCE if by_each else replace(ALL_REDUCE, head="all-reduce of {ranks} GPUs by one process:")
    rows = by_each or rows
    largest, least = (pick(number(r, "size") for r in rows) for pick in (max, min))
    rate = max((r for r in rows if number(r, "size") == largest), key=lambda r: r.counter("bus_gbs"))
    quick = min((r for r in rows if number(r, "size") == least), key=median_of)
    bus = counter(rate, "bus_gbs", "GB/s")
    return finding(
        claim,
        [rate] if rate is quick else [rate, quick],
        bus,
        details={"quickest": quantity(quick)},
        ranks=str(most),
        largest=label("size", rate.factors["size"]),
        least=label("size", quick.factors["size"]),
        rate_interface=rate.text("interface"),
        quick_interface=quick.text("interface"),
        memory=memory_of(rate.factors),
    )


ALL_REDUCE = Claim(
    "headline.all_reduce",
    "{value} of bus bandwidth over {largest} of {memory} memory ({rate_interface}); {quickest} for {least}"
    " ({quick_interface})",
    "all-reduce of {ranks} GPUs:",
    ("size", "interface", "operation", "allocator", RANKS),
)
