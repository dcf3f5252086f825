"""p2p-direct: kernels that read and write memory of another device, or of another NUMA node, in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, ClassVar

from firsttouch import _core
from firsttouch.base.units import format_size
from firsttouch.experiments.bandwidth import sweep_passes
from firsttouch.experiments.contract.base import Factor, Measurement, Point
from firsttouch.experiments.contract.common import GiB, MiB, buffer_fact, memory_bytes, octaves
from firsttouch.experiments.contract.meanings import STREAM, WAYS
from firsttouch.experiments.contract.modelled import device_of, predicted
from firsttouch.experiments.contract.pairs import PairExperiment, open_pair, ways
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.pairs import (
    BY,
    OWN,
    OWNER,
    PARTIES,
    actor_of,
    between_devices,
    by_kind,
    is_own,
    owner_of,
    parties_of,
    usual_pairs,
)
from firsttouch.model.micro import loads
from firsttouch.model.micro.loads import ARRAYS
from firsttouch.records.codebook import Codebook, LinkShare
from firsttouch.records.figures import Heat, Line
from firsttouch.records.findings import Claim, Finding, counter, finding
from firsttouch.records.schema import NODE, PEER, SELF, DeviceInfo, Metric, Peer, Record, Scalar
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    from firsttouch.model.platform import Platform


@dataclass(frozen=True)
class _Crossing:
    """What a pass of a kernel does, in arrays.

    op: the kernel of STREAM. target, source: whether these arrays are the peer's. inward, outward: how often an array
    crosses to the device and to the peer.
    """

    op: str
    target: bool
    source: bool
    inward: int
    outward: int


KERNELS: Mapping[str, _Crossing] = {
    "read": _Crossing("read", target=False, source=True, inward=1, outward=0),
    "write": _Crossing("write", target=True, source=True, inward=0, outward=1),
    "copy-in": _Crossing("copy", target=False, source=True, inward=1, outward=0),
    "copy-out": _Crossing("copy", target=True, source=False, inward=0, outward=1),
    "copy-there": _Crossing("copy", target=True, source=True, inward=1, outward=1),
}


def crossings(kernel: _Crossing, each_way: float, link: Peer | None) -> dict[str, Scalar]:
    """The counters of both directions, if each array that crosses does so with `each_way` GB/s."""
    return ways(each_way * kernel.inward, each_way * kernel.outward, link)


class P2pDirect(PairExperiment):
    """STREAM's read, write and copy in a peer's memory. Source: STREAM; Schieffer et al. 2025 (MI300A nodes)."""

    name = "p2p-direct"
    order = 210
    question = "How fast do kernels read and write another device's memory?"
    questions: ClassVar = {"node": "How fast do a NUMA node's processors read and write another node's memory?"}
    metric = Metric("GB/s", "higher")
    counted = (
        "Bytes that cross between `device`, whose kernel runs, and the memory of `peer`, per second; on the device "
        "cpu between the processors of `node`, all of which work, and the memory of the node `peer`. 10^9 bytes are "
        "one GB. A byte counts once for each time that it crosses: in read, write, copy-in (from the peer to the one "
        "who acts) and copy-out once; in copy-there, where both arrays are the peer's, once each way. in_gbs and "
        "out_gbs are the directions, seen from the one who acts; of_peak is the busier one over the link's stated "
        "peak, where the driver states it. size is one array, which the peer wrote if it is the peer's; a run passes "
        "over small arrays repeatedly, as in bandwidth, until it has moved 64 MiB. What is read again may come from a "
        "cache: of the owner, behind the link, or of the one who acts, where of_peak is above 1, because then not all "
        "bytes cross. peer=self is the same in the device's or the node's own memory."
    )
    source = "STREAM; Schieffer et al. 2025"
    codebook = Codebook(
        called="access to other GPUs",
        factors={
            "kernel": {
                "read": "sums an array of the peer",
                "write": "fills an array of the peer",
                "copy-in": "from the peer's memory to the own",
                "copy-out": "from the own memory to the peer's",
                "copy-there": "within the peer's memory",
            },
            NODE: {},
            PEER: {},
            "allocator": {},
            "size": {},
        },
        counters=(*STREAM, *WAYS),
        link_shares=(LinkShare(counter="of_peak", cacheable=1),),
    )
    figures = (
        Heat(x=OWNER, y=BY, diagonal=OWN, facet="kernel", x_title="memory of", y_title="kernel on", z_title="GB/s",
             title="Bandwidth from one to another"),
        Line(x="size", colour=OWNER, dash="allocator", facet="kernel", log_x=True, log_y=True, x_title="one array",
             y_title="bandwidth, GB/s", title="Bandwidth over the size of the array"),
    )  # fmt: skip

    without_effect = {"xnack": "kernels use the memory of peers alike where the GPU retries faults"}

    def sizes(self, device: DeviceInfo, preset: Preset) -> Sequence[int]:
        if device.capabilities.on_host_processor:
            return octaves(2 * MiB, max(64 * MiB, 1 << (memory_bytes(device) - 1).bit_length()))
        return octaves(2 * MiB, GiB if preset == "quick" else 8 * GiB)

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        return [Factor("kernel", tuple(KERNELS), doc="what crosses"), *self.common_factors(device, preset)]

    def measure(self, point: Point, session: Session) -> Measurement:
        pair, kernel = open_pair(point, session), KERNELS[point.text("kernel")]
        allocator, size = point.text("allocator"), point.size("size")
        with (
            pair.allocate(allocator, size, of_peer=kernel.target) as a,
            pair.allocate(allocator, size, of_peer=kernel.source) as b,
            pair.acting(),
        ):
            outcome = _core.stream(
                pair.device, a, b, a,
                op=kernel.op,
                agent=pair.agent,
                first_touch=pair.writer,
                passes=sweep_passes(kernel.op, size),
                seed=session.seed,
                writers=[pair.writers(of_peer=of_peer) for of_peer in (kernel.target, kernel.source, kernel.target)],
                stop=session.stop(),
            )  # fmt: skip
            prefix = "shape_" if pair.agent == "gpu" else ""
            counters = {f"{prefix}{name}": value for name, value in outcome.counters.items()}
            measurement = Measurement.of(
                outcome, keep=(), counters=counters, buffers=[buffer_fact("target", a), buffer_fact("source", b)]
            )
        arrays = sum(ARRAYS[kernel.op])
        samples = [rate / arrays * (kernel.inward + kernel.outward) for rate in measurement.samples]
        each_way = median(rate / arrays for rate in measurement.samples)
        crossed = crossings(kernel, each_way, session.info.peer(point.text(PEER)))
        return replace(measurement, samples=samples, counters={**measurement.counters, **crossed})

    def predict(self, point: Point, platform: Platform) -> Measurement:
        kernel, nbytes, allocator = KERNELS[point.text("kernel")], point.size("size"), point.text("allocator")
        crossed, device = kernel.inward + kernel.outward, device_of(point, platform)
        if point[PEER] == SELF:
            part = crossed / sum(ARRAYS[kernel.op])
            in_memory = nbytes >= memory_bytes(device)
            answer = loads.own_stream(platform, device, allocator, kernel.op, nbytes, part, in_memory=in_memory)
        else:
            answer = loads.peer_stream(platform, allocator=allocator, crossings=crossed, nbytes=nbytes)
        measurement = predicted(answer)
        link = device.peer(point.text(PEER))
        measurement.counters |= crossings(kernel, answer.value / crossed, link)
        return measurement

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        kinds = by_kind(records).values()
        return [
            *(
                f
                for kind_rows in kinds
                for f in usual_pairs(between_devices(kind_rows), "kernel", ONE, SEVERAL, _name_of_access)
            ),
            *(f for kind_rows in kinds for f in _own_cache_findings(kind_rows)),
        ]


def _own_cache_findings(records: Sequence[Record]) -> list[Finding]:
    """The finding about the rate that is farthest above what the link carries."""
    above = [(q, r) for r in records if not is_own(r) and (q := counter(r, "of_peak", "")) and q.value > 1]
    if not above:
        return []
    share, farthest = max(above, key=lambda pair: pair[0].value)
    alike = [r for _, r in above if r.factors["kernel"] == farthest.factors["kernel"]]
    most = format_size(max(r.count("size") for r in alike))
    return [finding(CACHED, farthest, details={"share": share}, most=most, **parties_of(farthest))]


def _name_of_access(record: Record) -> str:
    return f"{actor_of(record)} in that of {owner_of(record)}"


_HEAD = "kernels in {allocator} memory of another {party}, over {size}:"
ONE = Claim("p2p-direct.pairs", "{kernel} {value} ({by} in that of {owner})", _HEAD, PARTIES)
SEVERAL = Claim("p2p-direct.pairs", "{kernel} {value}", _HEAD, PARTIES)
CACHED = Claim(
    "p2p-direct.cached",
    "over {size} of {allocator} memory of another {party}, {kernel} reaches {value}, {share} times the stated peak of "
    "the link: arrays of up to {most} come from caches of the {party} whose kernel runs",
    names=PARTIES,
)
