"""collective: operations of all ranks, such as the sum of a vector over all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, NamedTuple

from firsttouch import _core
from firsttouch.base.errors import NotModelled
from firsttouch.base.units import format_size
from firsttouch.experiments.contract.base import (
    Candidate,
    Experiment,
    Factor,
    Meaningless,
    Measurement,
    Planning,
    Point,
    RankRules,
    WorkerRules,
)
from firsttouch.experiments.contract.common import GiB, KiB, MiB, buffer_fact
from firsttouch.experiments.contract.meanings import INTERFACES
from firsttouch.experiments.contract.modelled import device_of, predicted, usual_only
from firsttouch.experiments.contract.presets import QUICK, STANDARD, Above, Not, Octave, leave_out
from firsttouch.experiments.contract.rank_interfaces import (
    MPI_FACTS,
    by_device_address,
    dealt_out,
    devices_of,
    interface_factor,
    memory_factor,
    mpi_facts,
    open_interface,
    staging_allocator,
    why_no_use,
    why_not_carried,
    why_too_many,
)
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.ranking import not_told_apart, overlapping
from firsttouch.machine.allocators.properties import main_allocator
from firsttouch.machine.backends import MPI_STAGED, XCCL, message_library
from firsttouch.machine.switches import xccl_environment
from firsttouch.model.micro import collectives
from firsttouch.model.platform import Platform
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Line
from firsttouch.records.findings import Claim, Finding, counter, extremes, finding, number
from firsttouch.records.schema import INTERFACE, RANKS, AllocatorInfo, DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.records.statistics import group_by
from firsttouch.workers.session import Session

OPERATION, ALLOCATOR = "operation", "allocator"
PROCESSES = "processes"
EACH, ONE = "each", "one"
SIDES = "source", "target"
NUMBER = 4
"""Bytes of a number."""
PROPORTIONAL = 0.8
"""From this exponent of the size on, a time counts as growing in proportion to it."""


class Shape(NamedTuple):
    """Of an operation: whether its source and its target hold a block for each rank, and the factor of nccl-tests from
    the bytes of the larger buffer over the time to what each link carries, by the number of ranks.
    """

    source: bool
    target: bool
    bus: Callable[[int], float]

    def block(self, size: int, ranks: int) -> int:
        """The numbers in a block if the larger buffer has at most `size` bytes, but at least one."""
        blocks = ranks if self.source or self.target else 1
        return max(1, size // NUMBER // blocks)

    def larger(self, block: int, ranks: int) -> int:
        """The bytes of the larger buffer."""
        return block * NUMBER * (ranks if self.source or self.target else 1)


def _share(ranks: int) -> float:
    return (ranks - 1) / ranks


OPERATIONS: Mapping[str, Shape] = {
    "all-reduce": Shape(False, False, lambda ranks: 2 * _share(ranks)),
    "reduce-scatter": Shape(True, False, _share),
    "all-gather": Shape(False, True, _share),
    "broadcast": Shape(False, False, lambda ranks: 1.0),
    "reduce": Shape(False, False, lambda ranks: 1.0),
    "all-to-all": Shape(True, True, _share),
}


def _is_main(candidate: Candidate) -> bool:
    return candidate.factors[ALLOCATOR] == main_allocator(candidate.device)


def _is_in_one_process(candidate: Candidate) -> bool:
    return _in_one_process(candidate.factors)


def _in_one_process(factors: Factors) -> bool:
    return factors.get(PROCESSES) == ONE


class Collective(Experiment):
    """Operations of all ranks. Sources: the OSU micro-benchmarks; nccl-tests; Schieffer et al. 2025 (MI300A nodes)."""

    name = "collective"
    order = 240
    question = "How fast are collective operations of several processes?"
    metric = Metric("us", "lower")
    counted = (
        "Microseconds of one operation on f32 numbers, from the call until the rank can use its target, of the slowest "
        "rank; all ranks begin together, and the root is rank 0. mean_us and least_us are over the ranks. interval_us "
        "is the time of one of several queued back to back (counter back_to_back). `size` is the larger of a rank's "
        "two buffers, in bytes; where the ranks do not divide it, the counter bytes has what was used. block_bytes "
        "is what the OSU benchmarks call the size. algorithm_gbs is bytes over interval_us, and bus_gbs is that "
        "times nccl-tests' factor, which makes it comparable with a link. With mpi-staged the device's copies are "
        "part of all times. With processes=one, one thread starts each operation on the devices of all ranks, in a "
        "group, and the time is until all have ended; mean_us and least_us are then unknown."
    )
    source = "OSU micro-benchmarks; nccl-tests; Schieffer et al. 2025"
    codebook = Codebook(
        called="collectives",
        factors={
            OPERATION: {
                "all-reduce": "every rank gets the sum",
                "reduce-scatter": "every rank gets its part of the sum",
                "all-gather": "every rank gets the parts of all",
                "broadcast": "every rank gets the first one's data",
                "reduce": "the first rank gets the sum",
                "all-to-all": "every rank sends a part to every other",
            },
            INTERFACE: INTERFACES,
            RANKS: {},
            "allocator": {},
            "size": {},
            PROCESSES: {"each": "each rank has a process", "one": "one process has the devices of all"},
        },
        counters=(
            CounterEntry(name="(bus|algorithm)_gbs", unit="GB/s"),
            CounterEntry(name="bytes|block_bytes", unit="B"),
            CounterEntry(name="back_to_back", unit=""),
            CounterEntry(name="(interval|interval_low|interval_high|least|mean)_us", unit="us"),
            CounterEntry(name="shared", unit="word"),
            MPI_FACTS,
        ),
    )
    figures = (
        Line(x="size", colour=INTERFACE, dash=RANKS, facet=OPERATION, log_x=True, log_y=True,
             x_title="larger buffer of a rank", y_title="one operation, us", title="Time of collective operations"),
        Line(x="size", y="bus_gbs", colour=INTERFACE, dash=RANKS, facet=OPERATION, log_x=True, log_y=True,
             x_title="larger buffer of a rank", y_title="bus bandwidth, GB/s", title="Bus bandwidth, back to back"),
    )  # fmt: skip
    ranks = RankRules(
        places=lambda factors, device: dealt_out(device, factors.count(RANKS)),
        least=1,
        takes_mpi=lambda factors: factors[INTERFACE] != XCCL,
        in_one_process=_in_one_process,
    )
    worker = WorkerRules(environment=lambda factors: xccl_environment() if factors[INTERFACE] == XCCL else {})
    without_effect = {
        "sdma": "copies between devices are predicted alike by engines and by kernels",
        "xnack": "messages are carried alike where the GPU retries faults",
    }
    planning = Planning(
        share=0.3,
        setup=0.2,
        switches_of=("memory", "copies"),
        rules=(
            leave_out(
                "one process with several devices is measured from the preset standard on", QUICK, in_one_process=True
            ),
            leave_out("other allocators are measured from the preset standard on", QUICK, main=False),
            leave_out(
                "what passes through host memory is measured up to 16 MiB in a quick run",
                QUICK,
                interface=MPI_STAGED,
                size=Above(16 * MiB),
            ),
            leave_out("other allocators are measured at every sixth octave", STANDARD, main=False, size=Not(Octave(6))),
        ),
        properties={"main": _is_main, "in_one_process": _is_in_one_process},
    )

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        on_cpu = device.role != "gpu"
        sizes = {
            "quick": [NUMBER, 64 * KiB, MiB, 16 * MiB, *([] if on_cpu else [256 * MiB])],
            "standard": [NUMBER, 64, 512, *(4 * KiB << (2 * k) for k in range(8 if on_cpu else 10))],
            "full": [NUMBER << k for k in range(29)],
        }[preset]
        alternatives = message_library(device.kind) != "" and len(devices_of(device)) > 1
        ranks = [2] if preset == "quick" else [2, 3, 4, *(8 << k for k in range(8))]
        return [
            Factor(OPERATION, list(OPERATIONS), doc="what the ranks do together"),
            interface_factor(device),
            Factor(RANKS, ranks, "count", least=1, most=2048, doc="how many take part"),
            Factor(PROCESSES, [EACH, ONE] if alternatives else [EACH], choices=[EACH, ONE],
                   doc="each rank has a process, or one has the devices of all", optional=not alternatives),
            memory_factor(ALLOCATOR, device, preset, "memory of both buffers"),
            Factor("size", sizes, "size", least=NUMBER, most=GiB, multiple=NUMBER,
                   doc="bytes of the larger buffer of a rank"),
        ]  # fmt: skip

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if _in_one_process(factors) and factors.count(RANKS) == 1:
            return Meaningless("a rank that is alone has a process of its own in any case")
        if _in_one_process(factors) and factors[INTERFACE] != XCCL:
            return Meaningless("only NCCL and RCCL take several devices of one process")
        if factors.count(RANKS) == 1 and factors[INTERFACE] != XCCL:
            return Meaningless("a rank that is alone has none to communicate with; --ranks 2 starts two")
        if meaningless := why_no_use(factors.text(INTERFACE), device, _entries(factors, device)):
            return Meaningless(meaningless)
        if reason := why_not_carried(factors.text(INTERFACE), device, [factors.text(ALLOCATOR)]):
            return reason
        return why_too_many(factors.text(INTERFACE), device, factors.count(RANKS))

    def measure(self, point: Point, session: Session) -> Measurement:
        interface, shape, ranks = point.text(INTERFACE), OPERATIONS[point.text(OPERATION)], point.count(RANKS)
        by_device = by_device_address(interface, _entries(point.factors, session.info))
        devices = [session.device, *map(session.peer, session.peers)]
        if _in_one_process(point.factors):
            comms = session.xccl_of(devices)
        else:
            comms = [open_interface(interface, session, device_memory=by_device)]
        block = shape.block(point.size("size"), ranks)
        sizes = [block * NUMBER * (ranks if many else 1) for many in shape[:2]]
        with ExitStack() as resources:
            resources.enter_context(session.on_own_processors())
            staging = staging_allocator(session.info) if interface == MPI_STAGED else None
            members = []
            for device, comm in zip(devices, comms, strict=True):
                source, target = (
                    resources.enter_context(device.allocate(point.text(ALLOCATOR), size)) for size in sizes
                )
                through = [
                    resources.enter_context(device.allocate(staging, size)) if staging else None for size in sizes
                ]
                members.append((device, comm, source, target, through[0], through[1]))
            outcome = _core.collective(
                members,
                operation=point.text(OPERATION),
                block=block,
                device_addresses=by_device,
                seed=session.seed,
                stop=session.stop(),
            )
            device_suffixes = [f" of {device.name}" if len(devices) > 1 else "" for device in devices]
            buffers = [
                buffer_fact(side + device_suffixes[rank], buffer)
                for rank, member in enumerate(members)
                for side, buffer in zip(SIDES, member[2:4], strict=True)
            ]
            counters = _rates(outcome.counters["interval_us"], shape, block, ranks) if outcome.samples else {}
            counters |= mpi_facts(interface, session)
            return Measurement.of(
                outcome, buffers=buffers, counters=counters, verified_why=_describe_wrong_devices(outcome, devices)
            )

    def predict(self, point: Point, platform: Platform) -> Measurement:
        device, shape, ranks = device_of(point, platform), OPERATIONS[point.text(OPERATION)], point.count(RANKS)
        if not 1 < ranks <= len(devices_of(device)):
            raise NotModelled("ranks without a device each, and one that is alone")
        usual_only(point, processes=EACH)
        block = shape.block(point.size("size"), ranks)
        answer = collectives.collective(
            platform,
            device,
            operation=point.text(OPERATION),
            interface=point.text(INTERFACE),
            ranks=ranks,
            allocator=point.text(ALLOCATOR),
            nbytes=shape.larger(block, ranks),
        )
        measurement = predicted(answer)
        measurement.counters |= _rates(float(str(answer.counters["interval_us"])), shape, block, ranks)
        return measurement

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        findings = []
        apart = group_by(records, PROCESSES).values()
        for rows in (rows for same in apart for rows in group_by(same, OPERATION, "device").values()):
            most = max(number(r, RANKS) for r in rows)
            main = [r for r in rows if number(r, RANKS) == most and r.factors[ALLOCATOR] == rows[0].factors[ALLOCATOR]]
            findings.append(_quickest_interface(main))
        return findings


def _entries(factors: Factors, device: DeviceInfo) -> list[AllocatorInfo]:
    entry = device.allocator(factors.text(ALLOCATOR))
    return [] if entry is None else [entry]


def _describe_wrong_devices(outcome: _core.CollectiveOutcome, devices: Sequence[_core.Device]) -> str:
    """Which of several devices of one process received wrong data, or ''."""
    wrong = [rank for rank, errors in enumerate(outcome.errors_of_ranks) if errors and len(devices) > 1]
    return "; ".join(f"rank {rank} ({devices[rank].name}) received wrong data" for rank in wrong)


def _rates(interval_us: float, shape: Shape, block: int, ranks: int) -> dict[str, Scalar]:
    """What follows from the interval: bandwidths in GB/s, and the bytes that count."""
    size = shape.larger(block, ranks)
    algorithm = size / interval_us * 1e-3
    whole = shape.source and not shape.target  # OSU counts what a rank contributes, but of all-to-all one block
    rates: dict[str, Scalar] = {
        "bytes": size, "block_bytes": size if whole else block * NUMBER, "algorithm_gbs": algorithm
    }  # fmt: skip
    return rates | {"bus_gbs": algorithm * shape.bus(ranks)} if ranks > 1 else rates


def proportional_from(records: Sequence[Record]) -> float | None:
    """The smallest measured size from which on the time grows in proportion to the size; None if it nowhere does.

    records: of one operation under one set of conditions, at several sizes.
    """
    timed = sorted((number(r, "size"), r.summary.median) for r in records if r.summary)
    least = None
    for (small, quick), (large, slow) in reversed([*pairwise(timed)]):
        if large <= small or quick <= 0 or math.log(slow / quick) < PROPORTIONAL * math.log(large / small):
            break
        least = small
    return least


def _quickest_interface(records: Sequence[Record]) -> Finding:
    """The finding about the smallest size of one operation, by the quickest interface."""
    least = min(number(r, "size") for r in records)
    smallest = [r for r in records if number(r, "size") == least]
    quickest, _ = extremes(smallest)
    curve = [r for r in records if r.factors[INTERFACE] == quickest.factors[INTERFACE]]
    grows = proportional_from(curve)
    if not any(counter(r, "bus_gbs", "GB/s") for r in records):
        return finding(ITSELF, quickest)
    most, most_of = max(((q, r) for r in records if (q := counter(r, "bus_gbs", "GB/s"))), key=lambda p: p[0].value)
    named: dict[str, Any] = {
        "unclear": not_told_apart([r.text(INTERFACE) for r in overlapping(smallest, quickest)]),
        "bus_size": format_size(most_of.count("size")),
        "bus_interface": most_of.text(INTERFACE),
    }
    best = {"bus": most}
    parties = "devices of one process" if quickest.factors.get(PROCESSES) == ONE else "processes"
    if grows is None:
        return finding(QUICKEST, quickest, details=best, parties=parties, **named)
    return finding(GROWS, quickest, details=best, begins=format_size(grows), parties=parties, **named)


_HEAD = "quickest operations of {ranks} {parties} in {allocator} memory:"
_BUS = "bus at most {bus} ({bus_size}, {bus_interface})"
QUICKEST = Claim(
    "collective.quickest",
    f"{{operation}} {{value}} for {{size}} ({{interface}}){{unclear}}; {_BUS}",
    _HEAD,
    (PROCESSES,),
)
GROWS = Claim(
    "collective.quickest",
    "{operation} {value} for {size} ({interface}){unclear}, about in proportion to the size from {begins}; " + _BUS,
    _HEAD,
    (PROCESSES,),
)
ITSELF = Claim(
    "collective.itself",
    "{operation} of a process with itself takes {value} for {size} ({interface}, {allocator} memory)",
)
