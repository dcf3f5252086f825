"""p2p-copy: copies between memory of two devices, or of two NUMA nodes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, ClassVar

from firsttouch import _core
from firsttouch.base.errors import NotModelled
from firsttouch.experiments.contract.base import Factor, Meaningless, Measurement, Point, WorkerRules
from firsttouch.experiments.contract.common import (
    GiB,
    KiB,
    MiB,
    buffer_fact,
    switch,
    unavailable,
    unreachable,
    unreachable_peer,
)
from firsttouch.experiments.contract.meanings import AGENTS, WAYS
from firsttouch.experiments.contract.modelled import device_of, predicted, usual_only
from firsttouch.experiments.contract.pairs import (
    ACCESS,
    BOTH_WAYS,
    ONE_WAY,
    PairExperiment,
    allocators_of,
    entries_of,
    is_main_pair,
    is_mixed_pair,
    open_pair,
    peer_factors,
    reached_by_cpu,
    ways,
)
from firsttouch.experiments.contract.presets import QUICK, STANDARD, Contains, Not, leave_out
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.pairs import (
    BY,
    OWN,
    OWNER,
    PARTIES,
    SIDES,
    between_devices,
    by_kind,
    is_own,
    shortest_alone,
    usual_pairs,
)
from firsttouch.machine.allocators.properties import is_common, is_device_side, is_plain_host
from firsttouch.machine.hosts import usable_processors
from firsttouch.model.micro import loads
from firsttouch.records.codebook import Codebook, CounterEntry, LinkShare
from firsttouch.records.figures import Heat, Line
from firsttouch.records.findings import Claim, Finding
from firsttouch.records.schema import NODE, PEER, SELF, AllocatorInfo, DeviceInfo, Factors, Metric, Record
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform

COPY_ENGINE, KERNEL, PEER_CALL, CPU = "copy-engine", "kernel", "peer-call", "cpu"
ENGINES = (COPY_ENGINE, KERNEL, PEER_CALL, CPU)
OUT, IN, BOTH = DIRECTIONS = "out", "in", "both"
LATENCY = ("latency_us", "latency_low_us", "latency_high_us")


def _may_both_touch(entry: AllocatorInfo) -> bool:
    """Whether either agent may touch the pages first: memory that both reach in place, or that gets its pages then."""
    return entry.managed or is_plain_host(entry.name) or entry.cpu == entry.gpu == "direct"


def _may_move(entry: AllocatorInfo) -> bool:
    """Whether pages may move to the device that uses them: those of managed memory, and those of plain host memory
    that it reaches.
    """
    return entry.managed or (is_plain_host(entry.name) and entry.gpu == "direct")


def _state_left(factors: Factors) -> str:
    return f"{ACCESS} {ONE_WAY}" if factors.get(ACCESS) == ONE_WAY else ""


def _why_meaningless(factors: Factors, device: DeviceInfo) -> str:
    engine = factors.text("engine")
    if engine == CPU and factors["direction"] == BOTH:
        return "the CPU copies one way at a time"
    if engine != CPU and factors["threads"] != 0:
        return "threads are those of the CPU's copies"
    on_nodes = not device.capabilities.runs_kernels
    if on_nodes and engine != CPU:
        return f"{device.name} has no engine but the CPU"
    if factors.get(ACCESS) == ONE_WAY and (engine == CPU or factors[PEER] == SELF):
        return "access is that of a device to another's memory"
    if on_nodes and factors["first_touch"] == "gpu":
        return f"{device.name} has no GPU"
    entries = entries_of(factors, device)
    if not on_nodes and factors["first_touch"] == "cpu" and not any(map(_may_both_touch, entries)):
        return f"the CPU cannot touch {entries[0].name} memory first" if entries else ""
    return ""


class P2pCopy(PairExperiment):
    """Copies from one device to another. Sources: nvbandwidth's method; Schieffer et al. 2025 (MI300A nodes)."""

    name = "p2p-copy"
    order = 220
    worker = WorkerRules(state=_state_left)
    question = "How fast are copies between two devices?"
    questions: ClassVar = {"node": "How fast are copies between two NUMA nodes?"}
    metric = Metric("GB/s", "higher")
    counted = (
        "Every byte copied counts once, with direction=both those of both copies; 10^9 bytes are one GB. Copies are "
        "queued back to back behind a gate by `device`, which times them on its own clock; those of the CPU are made "
        "one after another, on the device cpu by processors of `node`. latency_us is one copy alone, or one each way "
        "at once, from the call until all are complete. With access=both-ways each device has access to the other's "
        "memory where the driver lets it, which peer-call does not need, and of two copies at once each source's "
        "device queues one; with access=one-way only `device` has access, and queues both. in_gbs and out_gbs are "
        "the directions, seen from `device` or `node`; of_peak is the busier one over the link's stated peak, where "
        "the driver states it. source and target are the allocators of the two sides, which `first_touch` writes "
        "first where it reaches them. Where pages may move to the device that uses them, every sample is one copy of "
        "pages touched anew (counter touched_anew)."
    )
    source = "nvbandwidth; Schieffer et al. 2025"
    codebook = Codebook(
        called="copies between GPUs",
        factors={
            "engine": {
                "copy-engine": "a copy of the driver",
                "kernel": "a kernel of the device",
                "peer-call": "the driver's call that names both devices",
                "cpu": "threads of the processor",
            },
            NODE: {},
            PEER: {},
            "direction": {"out": "to the peer", "in": "from the peer", "both": "both ways at once"},
            "source": {},
            "target": {},
            ACCESS: {
                "both-ways": "each device reaches the other's memory, where the driver lets it",
                "one-way": "only the device that copies does",
            },
            "first_touch": AGENTS,
            "threads": {},
            "size": {},
        },
        only_where={"threads": {"engine": [CPU]}},
        counters=(*WAYS, CounterEntry(name="staged|touched", unit="word")),
        link_shares=(LinkShare(counter="of_peak"),),
    )
    figures = (
        Heat(x=OWNER, y=BY, diagonal=OWN, facet="engine", x_title="to", y_title="from", z_title="GB/s",
             title="Bandwidth of copies one way", where={"direction": OUT}),
        Line(x="size", colour="engine", dash="direction", facet=OWNER, log_x=True, log_y=True, x_title="bytes copied",
             y_title="bandwidth, GB/s", title="Bandwidth over the bytes copied"),
        Line(x="size", y="latency_us", colour="engine", dash="direction", facet=OWNER, log_x=True, log_y=True,
             x_title="bytes copied", y_title="one copy alone, us", title="Time of one copy alone"),
    )  # fmt: skip
    without_effect = {
        "sdma": "copies between devices are predicted alike by engines and by kernels",
        "xnack": "copies are predicted alike where the GPU retries faults",
    }
    planning = replace(
        PairExperiment.planning,
        switches_of=("memory", "copies"),
        rules=(
            leave_out("copies by kernels and by the CPU do not depend on sdma",
                      engine=(KERNEL, CPU), sdma_as_here=False, chosen=Not(Contains("sdma"))),
            leave_out("the CPU touches memory of devices first from the preset standard on",
                      QUICK, runs_kernels=True, main=True, first_touch="cpu"),
            leave_out("copies between memory of two kinds are measured if --set names them",
                      runs_kernels=True, mixed=True),
            *PairExperiment.planning.rules,
            leave_out("other allocators than the main one are measured one way", STANDARD, main=False,
                      direction=Not(OUT)),
        ),
        on_each=({"engine": COPY_ENGINE, "direction": (OUT, BOTH), PEER: Not(SELF), "main": True, "largest": True},),
        properties={**PairExperiment.planning.properties, "main": is_main_pair, "mixed": is_mixed_pair},
    )  # fmt: skip

    def sizes(self, device: DeviceInfo, preset: Preset) -> Sequence[int]:
        on_cpu = device.role != "gpu"
        return {
            "quick": [4 * KiB, 256 * KiB, 4 * MiB, 64 * MiB if on_cpu else 256 * MiB],
            "standard": [1, 64, *(4 * KiB << (2 * k) for k in range(9)), *([] if on_cpu else [GiB])],
            "full": [1, 8, 64, 512, *(4 * KiB << k for k in range(18 if on_cpu else 22))],
        }[preset]

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        engines = [CPU]
        if device.capabilities.runs_kernels:
            engines = [COPY_ENGINE, KERNEL]
            engines += [PEER_CALL] if device.facts.get("copies_between_devices") else []
            engines += [CPU] if reached_by_cpu(device) else []
        on_nodes = not device.capabilities.runs_kernels
        directions = [OUT, IN] if on_nodes else [OUT, IN, BOTH]
        touching = ["cpu"] if on_nodes else ["gpu", "cpu"]
        return [
            Factor("engine", engines, choices=ENGINES, doc="who copies"),
            *peer_factors(device),
            Factor("direction", directions, choices=DIRECTIONS, doc="to the peer, from it, or both ways at once"),
            *(_memory_factor(side, device, preset) for side in SIDES),
            *([] if on_nodes else [_access_factor()]),
            Factor("first_touch", touching, choices=("cpu", "gpu"), doc="who touches the pages of both sides first"),
            Factor("threads", [0], "count", most=usable_processors(device), doc="of the CPU's copies; 0 is all"),
            Factor("size", list(self.sizes(device, preset)), "size", least=1, doc="bytes copied each way"),
            *([] if preset == "quick" else switch(device, "sdma", ("0", "1"))),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if meaningless := _why_meaningless(factors, device):
            return Meaningless(meaningless)
        engine, peer = factors.text("engine"), device.peer(factors.text(PEER))
        agent = {KERNEL: ("gpu",), CPU: ("cpu",)}.get(engine, ())
        for side in SIDES:
            if reason := unavailable(device, factors.text(side)):
                return reason
        for entry in entries_of(factors, device):
            touching = (factors.text("first_touch"),) if _may_both_touch(entry) else ()
            if reason := unreachable(device, entry.name, *agent, *touching):
                return reason
            if engine == CPU and entry.cpu == "mapped":
                return f"the CPU reaches {entry.name} memory by mapping it, not in place"
            if engine == PEER_CALL and not is_device_side(entry):
                return f"{entry.name} memory is not device memory, and the engine {PEER_CALL} copies no other"
        if engine in (COPY_ENGINE, KERNEL) and (reason := unreachable_peer(device, factors.text(PEER))):
            return reason
        return peer.reason if peer is not None and peer.access == "copies" else None

    def measure(self, point: Point, session: Session) -> Measurement:
        engine, direction, size = point.text("engine"), point.text("direction"), point.size("size")
        anew = session.info.capabilities.runs_kernels and any(map(_may_move, entries_of(point.factors, session.info)))
        pair = open_pair(point, session, "cpu" if engine == CPU else "gpu", reach=engine != PEER_CALL)
        with ExitStack() as held:

            def copies(*, outward: bool) -> tuple[_core.Buffer, _core.Buffer]:
                """Target and source of the copies to the peer, or from it."""
                source = held.enter_context(pair.allocate(point.text("source"), size, of_peer=not outward))
                return held.enter_context(pair.allocate(point.text("target"), size, of_peer=outward)), source

            target, source = copies(outward=direction != IN)
            second = copies(outward=False) if direction == BOTH else (None, None)
            with pair.acting():
                outcome = _core.copy(
                    session.device,
                    target,
                    source,
                    engine=engine,
                    bytes=size,
                    threads=point.count("threads"),
                    second_target=second[0],
                    second_source=second[1],
                    second_by_owner=point.factors.get(ACCESS) == BOTH_WAYS,
                    touched_by=point.text("first_touch"),
                    target_processors=pair.writers(of_peer=direction != IN),
                    source_processors=pair.writers(of_peer=direction == IN),
                    anew=anew,
                    seed=session.seed,
                    stop=session.stop(),
                )
            buffers = [buffer_fact("source", source), buffer_fact("target", target)]
            measurement = Measurement.of(outcome, keep=LATENCY, buffers=buffers)
        rate = median(measurement.samples)
        crossed = {OUT: (0.0, rate), IN: (rate, 0.0), BOTH: (rate / 2, rate / 2)}[direction]
        link = session.info.peer(point.text(PEER))
        staged = {"staged_by_driver": True} if link is not None and link.access == "none" else {}
        touched = {"touched_anew": True} if anew else {}
        return replace(measurement, counters={**measurement.counters, **ways(*crossed, link), **staged, **touched})

    def predict(self, point: Point, platform: Platform) -> Measurement:
        usual_only(point, **{ACCESS: BOTH_WAYS})
        if point["engine"] == CPU and point["threads"] != 1:
            raise NotModelled("copies by several threads of the CPU")
        if point[PEER] == SELF:
            raise NotModelled("copies within a device, which transfer has")
        direction = point.text("direction")
        answer = loads.peer_copy(
            platform,
            engine=point.text("engine"),
            allocators=[point.text(side) for side in SIDES],
            first=point.text("first_touch"),
            both=direction == BOTH,
            nbytes=point.size("size"),
        )
        measurement = predicted(answer)
        link = device_of(point, platform).peer(point.text(PEER))
        crossed = (0.0, answer.value) if direction == OUT else (answer.value, 0.0)
        measurement.counters |= ways(*crossed, link)
        return measurement

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        outward = [r for r in records if r.factors["direction"] == OUT]
        kinds = by_kind(outward).values()
        return [
            *(f for kind_rows in kinds for f in usual_pairs(between_devices(kind_rows), "engine", ONE, SEVERAL)),
            *(f for kind_rows in kinds for f in shortest_alone([r for r in kind_rows if not is_own(r)], ALONE)),
        ]


def _access_factor() -> Factor:
    return Factor(
        ACCESS, [BOTH_WAYS], choices=[BOTH_WAYS, ONE_WAY], doc="which device has access to the other's memory"
    )


def _memory_factor(side: str, device: DeviceInfo, preset: Preset) -> Factor:
    """The memory of one side: device memory, and from standard on the common memory whose pages may move."""
    factor = allocators_of(side, device, f"memory of the {side}")
    moving = [a.name for a in device.allocators if a.available and is_common(a.name) and _may_move(a)]
    if preset == "quick" or not device.capabilities.runs_kernels:
        return factor
    return replace(factor, values=list(dict.fromkeys([*factor.values, *moving])))


_HEAD = "copies to {target} memory of another {party}, over {size}:"
_OUTWARD = (*PARTIES, "direction")
ONE = Claim("p2p-copy.pairs", "{engine} {value} ({by} to {owner})", _HEAD, _OUTWARD)
SEVERAL = Claim("p2p-copy.pairs", "{engine} {value}", _HEAD, _OUTWARD)
ALONE = Claim(
    "p2p-copy.alone", "a single copy of {size} takes at least {value} ({engine}, {by} to {owner})", names=_OUTWARD
)
