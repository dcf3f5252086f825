"""p2p-latency: the time of one dependent load from memory of another device or NUMA node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from firsttouch import _core
from firsttouch.experiments.contract.base import Factor, Measurement, Point
from firsttouch.experiments.contract.common import GiB, KiB, MiB, buffer_fact, last_level_bytes, line_bytes, octaves
from firsttouch.experiments.contract.meanings import AGENTS, CHASE
from firsttouch.experiments.contract.modelled import device_of, predicted
from firsttouch.experiments.contract.pairs import PairExperiment, open_pair, reached_by_cpu
from firsttouch.experiments.contract.presets import Not
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.equals import Alikeness, alikeness, are_alike_but_few, compare_equals
from firsttouch.experiments.views.pairs import (
    BY,
    OWN,
    OWNER,
    PARTIES,
    between_devices,
    by_kind,
    name_of_pair,
    noun_of,
    own_of,
    pairs_not_told_apart,
    parties_of,
)
from firsttouch.model.micro import loads
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Heat, Line
from firsttouch.records.findings import Claim, Comparison, Finding, compare_medians, extremes, finding
from firsttouch.records.schema import NODE, PEER, SELF, DeviceInfo, Metric, Record
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform


class P2pLatency(PairExperiment):
    """The pointer chase of `latency` in a peer's memory. Source: multichase; Schieffer et al. 2025 (MI300A nodes)."""

    name = "p2p-latency"
    order = 200
    question = "How long does one load from another device's memory take?"
    questions: ClassVar = {
        "cpu": "How long does one load by the CPU from a device's memory take?",
        "node": "How long does one load from another NUMA node's memory take?",
    }
    metric = Metric("ns", "lower")
    counted = (
        "One dependent load in memory that belongs to `peer`, averaged over at least 100,000 along one random cycle "
        "through every cache line of the buffer, which the peer wrote. With agent=gpu a kernel of `device` loads, with "
        "agent=cpu the CPU at its NUMA node; on the device cpu, a processor of `node`. peer=self is the same in the "
        "device's or the node's own memory."
    )
    source = "multichase (pointer chase); Schieffer et al. 2025"
    codebook = Codebook(
        called="access to other GPUs",
        factors={"agent": AGENTS, NODE: {}, PEER: {}, "allocator": {}, "size": {}},
        counters=(*CHASE, CounterEntry(name="stride", unit="B")),
    )
    figures = (
        Heat(x=OWNER, y=BY, diagonal=OWN, x_title="memory of", y_title="loads by", title="Time of a random load, ns"),
        Line(x="size", colour=OWNER, dash="allocator", facet=BY, log_x=True, log_y=True, x_title="buffer",
             y_title="time per load", title="Time of a random load over the size of the buffer"),
    )  # fmt: skip
    without_effect = {
        "xnack": "a load takes as long where the GPU retries faults",
    }
    planning = replace(
        PairExperiment.planning,
        share=0.5,
        setup=0.25,
        on_each=({PEER: Not(SELF), "main_curve": True, "largest": True},),
    )

    def sizes(self, device: DeviceInfo, preset: Preset) -> Sequence[int]:
        beyond = 1 << (4 * last_level_bytes(device) - 1).bit_length()
        return octaves(4 * KiB, min(max(beyond, 64 * MiB), 4 * GiB), 2 if preset == "full" else 1)

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        common = self.common_factors(device, preset)
        if not device.capabilities.runs_kernels:
            return common
        agents = ["gpu", "cpu"] if reached_by_cpu(device) else ["gpu"]
        return [Factor("agent", agents, choices=["gpu", "cpu"], doc="who loads"), *common]

    def measure(self, point: Point, session: Session) -> Measurement:
        pair, theirs = open_pair(point, session), session.peer_info(point.text(PEER))
        stride = max(line_bytes(session.info), line_bytes(theirs))
        with pair.allocate(point.text("allocator"), point.size("size"), of_peer=True) as buffer, pair.acting():
            outcome = _core.chase(
                pair.device,
                buffer,
                agent=pair.agent,
                first_touch=pair.writer,
                stride=stride,
                last_level_bytes=max(last_level_bytes(session.info), last_level_bytes(theirs)),
                seed=session.seed,
                writers=pair.writers(of_peer=True),
                stop=session.stop(),
            )
            return Measurement.of(outcome, buffers=[buffer_fact("chase", buffer)], counters={"stride": stride})

    def predict(self, point: Point, platform: Platform) -> Measurement:
        agent, allocator, nbytes = point.text("agent"), point.text("allocator"), point.size("size")
        if point[PEER] == SELF:
            device = device_of(point, platform)
            return predicted(loads.load(platform, device, agent=agent, allocator=allocator, first=agent, nbytes=nbytes))
        return predicted(loads.peer_load(platform, agent=agent, allocator=allocator, nbytes=nbytes))

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        return [f for rows in by_kind(records).values() for f in _findings_of_kind(rows)]


def _findings_of_kind(records: Sequence[Record]) -> list[Finding]:
    """The findings about pairs of one kind."""
    pairs = between_devices(records)
    if not pairs:
        return []
    alikeness_of_pairs = alikeness(pairs)
    if len(pairs) > 1 and are_alike_but_few(alikeness_of_pairs):
        return [_equal_pairs_finding(alikeness_of_pairs, records)]
    nearest, farthest = extremes(pairs)
    own_memory = own_of(farthest, records)
    beside = compare_medians(farthest, own_memory) if own_memory else None
    is_clear = beside is not None and beside.is_clear
    findings = [_pair_finding(FARTHER if is_clear else FARTHEST, farthest, beside if is_clear else None)]
    if compare_medians(nearest, farthest).is_clear:
        findings.append(_pair_finding(NEAREST, nearest, unclear=pairs_not_told_apart(pairs, nearest)))
    return findings


def _equal_pairs_finding(found: Alikeness, records: Sequence[Record]) -> Finding:
    """The finding about pairs of which most are alike, beside the memory of one's own."""
    rows = [found.usual, *(r for r in (*found.alike, *found.apart) if r is not found.usual)]
    owns = {id(r): own_record for r in rows if (own_record := own_of(r, records)) is not None}
    equals = compare_equals(found, noun_of(rows), name_of_pair)
    text, beside = f"{_ANY} ({equals.text})", None
    if owns:
        own_record = owns.get(id(found.usual), next(iter(owns.values())))
        beside = compare_medians(found.usual, own_record)
        text += ", {ratio} times as long as from its own ({other_value}, {other_device})" if beside.is_clear else ""
    claim = Claim("p2p-latency.pairs", text, names=PARTIES)
    shown = beside if beside is not None and beside.is_clear else None
    names: dict[str, Any] = {**parties_of(found.usual), **equals.conditions}
    return finding(claim, rows, details=dict(equals.details), comparison=shown, **names)


def _pair_finding(claim: Claim, record: Record, comparison: Comparison | None = None, unclear: str = "") -> Finding:
    return finding(claim, record, comparison=comparison, unclear=unclear, **parties_of(record))


_ANY = "a random load from {size} of {allocator} memory of another {party} takes {value}"
_LOAD = "a random load from {size} of {allocator} memory of {owner} takes {by} {value}"
FARTHEST = Claim("p2p-latency.farthest", _LOAD, names=PARTIES)
FARTHER = Claim(
    "p2p-latency.farthest", _LOAD + ", {ratio} times as long as from its own ({other_value})", names=PARTIES
)
NEAREST = Claim(
    "p2p-latency.nearest",
    "the shortest between two {party}s: {value}, {by} in {size} of memory of {owner}{unclear}",
    names=PARTIES,
)
