"""p2p-message: messages between two processes, each with a device or a NUMA node of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from statistics import median
from typing import ClassVar

from firsttouch import _core
from firsttouch.base.errors import NotModelled
from firsttouch.experiments.contract.base import Factor, Meaningless, Measurement, Point, RankRules, WorkerRules
from firsttouch.experiments.contract.common import GiB, KiB, MiB, buffer_fact
from firsttouch.experiments.contract.meanings import INTERFACES, WAYS
from firsttouch.experiments.contract.modelled import device_of, predicted
from firsttouch.experiments.contract.pairs import (
    PairExperiment,
    entries_of,
    is_main_pair,
    is_mixed_pair,
    memory_on,
    peer_factors,
    ways,
)
from firsttouch.experiments.contract.presets import leave_out
from firsttouch.experiments.contract.rank_interfaces import (
    MPI_FACTS,
    by_device_address,
    interface_factor,
    memory_factor,
    mpi_facts,
    open_interface,
    staging_allocator,
    why_no_use,
    why_not_carried,
)
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.pairs import (
    BETWEEN,
    BY,
    OWN,
    OWNER,
    PARTIES,
    SIDES,
    between_devices,
    by_kind,
    is_own,
    matrix,
    owner,
    parties_of,
    shortest_alone,
    usual_pairs,
)
from firsttouch.machine.allocators.properties import is_device_side
from firsttouch.machine.backends import MPI, MPI_STAGED, XCCL
from firsttouch.machine.mpi import may_be_taken
from firsttouch.machine.switches import DEFAULT, ROUTES, route_environment, xccl_environment
from firsttouch.model.micro import messages
from firsttouch.model.platform import Platform
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Heat, Line
from firsttouch.records.findings import Claim, Finding, extremes, finding, number
from firsttouch.records.schema import INTERFACE, NODE, PEER, SELF, DeviceInfo, Factors, Metric, Record
from firsttouch.workers.session import Session


def _places(factors: Factors, device: DeviceInfo) -> Sequence[str]:
    holder = owner(factors, device.name)
    if factors[INTERFACE] == XCCL and holder == device.name:
        return [device.name]  # NCCL refuses two ranks on one GPU
    return [device.name, device.name if NODE in factors else holder]


def _environment(factors: Factors) -> Mapping[str, str]:
    return xccl_environment() if factors[INTERFACE] == XCCL else route_environment(factors.text("route"))


class P2pMessage(PairExperiment):
    """Messages between two ranks. Source: the OSU micro-benchmarks; Schieffer et al. 2025 (MI300A nodes)."""

    name = "p2p-message"
    order = 230
    question = "How fast are messages between two processes with a GPU each?"
    questions: ClassVar = {"node": "How fast are messages between two processes on NUMA nodes?"}
    metric = Metric("GB/s", "higher")
    counted = (
        "Every byte of a message counts once; 10^9 bytes are one GB. Rank 0, on `device` or the NUMA node `node`, "
        "sends to rank 1, on `peer`, in windows of messages queued back to back (counter window), each of which rank 1 "
        "acknowledges when it can use the data. latency_us is one message alone, half of the time there and back. With "
        "mpi and xccl (NCCL, RCCL) the library gets the addresses of source and target; with mpi-staged the device "
        "copies each message to "
        "page-locked host memory and from it, which is counted. out_gbs is seen from rank 0; of_peak is the rate over "
        "the link's stated peak, where the driver states it."
    )
    source = "OSU micro-benchmarks (osu_bw, osu_latency); Schieffer et al. 2025"
    codebook = Codebook(
        called="messages",
        factors={
            INTERFACE: INTERFACES,
            NODE: {},
            PEER: {},
            "source": {},
            "target": {},
            "route": {
                "default": "as the MPI does",
                "direct": "from device memory",
                "staged": "through host memory",
            },
            "size": {},
        },
        counters=(*WAYS, CounterEntry(name="window", unit=""), CounterEntry(name="shared", unit="word"), MPI_FACTS),
    )
    figures = (
        Heat(x=OWNER, y=BY, diagonal=OWN, facet="interface", x_title="to", y_title="from", z_title="GB/s",
             title="Bandwidth of messages"),
        Line(x="size", colour="interface", dash=BETWEEN, facet=OWNER, log_x=True, log_y=True, x_title="one message",
             y_title="bandwidth, GB/s", title="Bandwidth over the size of a message"),
        Line(x="size", y="latency_us", colour="interface", dash=BETWEEN, facet=OWNER, log_x=True, log_y=True,
             x_title="one message", y_title="one message alone, us", title="Time of one message alone"),
    )  # fmt: skip
    ranks = RankRules(places=_places, least=1, takes_mpi=lambda factors: factors[INTERFACE] != XCCL)
    worker = WorkerRules(environment=_environment)
    without_effect = {
        "xnack": "messages are carried alike where the GPU retries faults",
    }
    planning = replace(
        PairExperiment.planning,
        share=0.3,
        setup=0.25,
        switches_of=("memory", "copies"),
        rules=(
            leave_out("messages between memory of two kinds are measured if --set names them", mixed=True),
            *(rule for rule in PairExperiment.planning.rules if not rule.strict),
        ),
        properties={**PairExperiment.planning.properties, "main": is_main_pair, "mixed": is_mixed_pair},
    )

    def sizes(self, device: DeviceInfo, preset: Preset) -> Sequence[int]:
        on_cpu = device.role != "gpu"
        return {
            "quick": [8, 4 * KiB, 64 * KiB, MiB, 16 * MiB if on_cpu else 64 * MiB],
            "standard": [1, 8, 64, 512, *(4 * KiB << (2 * k) for k in range(8)), *([] if on_cpu else [256 * MiB, GiB])],
            "full": [1 << k for k in range(31)],
        }[preset]

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        return [
            interface_factor(device),
            *peer_factors(device),
            *(memory_factor(side, device, preset, f"memory of the {side}") for side in SIDES),
            Factor("route", [DEFAULT], choices=ROUTES, doc="how the MPI itself carries device memory"),
            Factor("size", list(self.sizes(device, preset)), "size", least=1, most=GiB, doc="bytes of one message"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        uses_device_memory = any(is_device_side(entry) for entry in entries_of(factors, device))
        if factors["route"] != DEFAULT and (factors[INTERFACE] != MPI or not uses_device_memory):
            return Meaningless("route is that of device memory whose address the MPI gets")
        if meaningless := why_no_use(factors.text(INTERFACE), device, entries_of(factors, device)):
            return Meaningless(meaningless)
        name, runs_kernels = factors.text(PEER), device.capabilities.runs_kernels
        if runs_kernels and name != SELF and device.peer(name) is None:
            return f"{device.name} has no peer {name}"
        if factors["route"] != DEFAULT and not may_be_taken(device.kind):
            return f"no MPI takes addresses of {device.kind} memory"
        return why_not_carried(factors.text(INTERFACE), device, [factors.text(side) for side in SIDES])

    def measure(self, point: Point, session: Session) -> Measurement:
        interface, size = point.text(INTERFACE), point.size("size")
        by_device = by_device_address(interface, entries_of(point.factors, session.info))
        comm = open_interface(interface, session, device_memory=by_device or point["route"] != DEFAULT)
        with ExitStack() as held:
            held.enter_context(session.on_own_processors())
            source, target = (held.enter_context(_allocate(point, session, side, size)) for side in SIDES)
            staging = None
            if interface == MPI_STAGED and (name := staging_allocator(session.info)):
                staging = held.enter_context(session.device.allocate(name, 2 * size))
            outcome = _core.message(
                session.device,
                comm,
                source,
                target,
                bytes=size,
                other=session.ranks - 1 - session.rank,
                staging=staging,
                device_addresses=by_device,
                seed=session.seed,
                stop=session.stop(),
            )
            buffers = [buffer_fact("source", source), buffer_fact("target", target)]
            measurement = Measurement.of(outcome, buffers=buffers, counters=mpi_facts(interface, session))
        if not measurement.samples:
            return measurement
        link = session.info.peer(owner(point.factors, point.device))
        return replace(measurement, counters={**measurement.counters, **ways(0.0, median(measurement.samples), link)})

    def predict(self, point: Point, platform: Platform) -> Measurement:
        if point[PEER] == SELF:
            raise NotModelled("messages of two processes with one device")
        device = device_of(point, platform)
        answer = messages.message(
            platform,
            device,
            interface=point.text(INTERFACE),
            source=point.text("source"),
            target=point.text("target"),
            route=point.text("route"),
            nbytes=point.size("size"),
        )
        measurement = predicted(answer)
        measurement.counters |= ways(0.0, answer.value, device.peer(point.text(PEER)))
        return measurement

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        between = [r for r in records if len(r.parties) > 1]
        kinds = by_kind(between).values()
        return [
            *(
                f
                for kind_rows in kinds
                for f in usual_pairs(_between_two_or_within(kind_rows), INTERFACE, ONE, SEVERAL)
            ),
            *(f for kind_rows in kinds for f in shortest_alone(_between_two_or_all(kind_rows), ALONE)),
            *_self_message_findings([r for r in records if len(r.parties) == 1]),
        ]


def _allocate(point: Point, session: Session, side: str, size: int) -> AbstractContextManager[_core.Buffer]:
    allocator = point.text(side)
    if NODE not in point.factors:
        return session.device.allocate(allocator, size)
    node = point.text(NODE) if session.rank == 0 else owner(point.factors, point.device)
    return memory_on(node, session, allocator, size)


def _between_two_or_within(records: Sequence[Record]) -> Sequence[Record]:
    """The messages between two devices or nodes; if there is only one, those within it."""
    return between_devices(records) or matrix(records)


def _between_two_or_all(records: Sequence[Record]) -> Sequence[Record]:
    """The messages between two devices or nodes; if there is only one, all messages."""
    return [r for r in records if not is_own(r)] or records


def _self_message_findings(records: Sequence[Record]) -> list[Finding]:
    """The finding about processes that send to themselves, of the largest message."""
    if not records:
        return []
    largest = max(number(r, "size") for r in records)
    _, fastest = extremes([r for r in records if number(r, "size") == largest])
    return [finding(ITSELF, fastest, **parties_of(fastest))]


_HEAD = "messages of {size} between two processes:"
ONE = Claim("p2p-message.pairs", "{interface} {value} ({by} to {owner}, {target} memory)", _HEAD, PARTIES)
SEVERAL = Claim("p2p-message.pairs", "{interface} {value} in {target} memory", _HEAD, PARTIES)
ITSELF = Claim(
    "p2p-message.itself",
    "a process on {by} sends messages of {size} to itself at {value} ({interface})",
    names=PARTIES,
)
ALONE = Claim(
    "p2p-message.alone",
    "a message of {size} alone takes at least {value} ({interface}, {by} to {owner}, {target} memory)",
    names=PARTIES,
)
