"""p2p-latency: the time of one dependent load from memory of another device."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch import _core
from firsttouch.analysis.findings import Claim, Finding, compare, extremes, finding
from firsttouch.experiments.base import Factor, Measurement, Point, Preset
from firsttouch.experiments.common import GiB, KiB, MiB, buffer_fact, last_level_bytes, line_bytes, octaves
from firsttouch.experiments.pairs import OWNER, PairExperiment, between_devices, open_peer, own_of
from firsttouch.figures import Heat, Line
from firsttouch.records.schema import PEER, DeviceInfo, Metric, Record
from firsttouch.session import Session


class P2pLatency(PairExperiment):
    """The pointer chase of `latency` in a peer's memory. Source: multichase; Schieffer et al. 2025 (MI300A nodes)."""

    name = "p2p-latency"
    order = 200
    question = "How long does one load from another device's memory take?"
    metric = Metric("ns", "lower")
    counted = (
        "One dependent load by a kernel of `device` in memory that belongs to `peer`, averaged over at least 100,000 "
        "along one random cycle through every cache line of the buffer, which the peer wrote. peer=self is the "
        "device's own memory."
    )
    source = "multichase (pointer chase); Schieffer et al. 2025"
    figures = (
        Heat(x=OWNER, y="device", x_title="memory of", y_title="loads by", title="Time of a random load, ns"),
        Line(x="size", colour=PEER, dash="allocator", facet="device", log_x=True, log_y=True, x_title="buffer",
             y_title="time per load", title="Time of a random load over the size of the buffer"),
    )  # fmt: skip
    share = 0.5

    def sizes(self, device: DeviceInfo, preset: Preset) -> Sequence[int]:
        beyond = 1 << (4 * last_level_bytes(device) - 1).bit_length()
        return octaves(4 * KiB, min(max(beyond, 64 * MiB), 4 * GiB), 2 if preset == "full" else 1)

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        return self.common_factors(device, preset)

    def measure(self, point: Point, session: Session) -> Measurement:
        owner, theirs = open_peer(point, session), session.peer_info(point.text(PEER))
        stride = max(line_bytes(session.info), line_bytes(theirs))
        with owner.allocate(point.text("allocator"), point.size("size")) as buffer:
            outcome = _core.chase(
                session.device,
                buffer,
                agent="gpu",
                first_touch="gpu",
                stride=stride,
                last_level_bytes=max(last_level_bytes(session.info), last_level_bytes(theirs)),
                seed=session.seed,
                stop=session.stop(),
            )
            return Measurement.of(outcome, buffers=[buffer_fact("chase", buffer)], counters={"stride": stride})

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        pairs = between_devices(records)
        if not pairs:
            return []
        nearest, farthest = extremes(pairs)
        own = own_of(farthest, records)
        beside = compare(farthest, own) if own else None
        says = beside is not None and beside.is_clear
        return [
            finding(FARTHER if says else FARTHEST, farthest, comparison=beside if says else None),
            *([finding(NEAREST, nearest)] if compare(nearest, farthest).is_clear else []),
        ]


_LOAD = "a random load from {size} of {allocator} memory of {peer} takes {device} {value}"
FARTHEST = Claim("p2p-latency.farthest", _LOAD)
FARTHER = Claim("p2p-latency.farthest", _LOAD + ", {ratio} times as long as from its own ({other_value})")
NEAREST = Claim("p2p-latency.nearest", "the shortest between two devices: {value}, {device} in memory of {peer}")
