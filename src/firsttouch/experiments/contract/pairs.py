"""What experiments share in which a device, or the processors of a NUMA node, access memory that belongs to another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

import msgspec

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.experiments.contract.base import Candidate, Experiment, Factor, Planning, Point, ReportSection
from firsttouch.experiments.contract.common import allocator_names, peer, unreachable, unreachable_peer
from firsttouch.experiments.contract.pair_figures import pair_figures
from firsttouch.experiments.contract.presets import (
    FULL,
    QUICK,
    STANDARD,
    Contains,
    Not,
    Octave,
    exclude,
    leave_out,
    take,
)
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.views.pairs import (
    BETWEEN,
    BY,
    OWNER,
    SIDES,
    actor,
    actor_of,
    agent_of,
    by_kind,
    memory_of,
    owner,
    owner_of,
)
from firsttouch.machine.allocators.properties import is_device_side, is_plain_host, main_allocator
from firsttouch.machine.numa import node_name
from firsttouch.machine.parties import node_of
from firsttouch.machine.tree import parse_ids
from firsttouch.records.schema import NODE, PEER, SELF, AllocatorInfo, DeviceInfo, Factors, Peer, Record, Scalar
from firsttouch.workers.session import Session


def _peers(device: DeviceInfo) -> list[str]:
    return [peer.name for peer in device.peers if peer.same_driver]


def _nodes(device: DeviceInfo) -> list[str]:
    """The NUMA nodes whose processors may act, if the device is the host's processor."""
    return [node_name(node) for node in parse_ids(str(device.facts.get(_ACTING, "")))]


def _other_peers(candidate: Candidate) -> list[str]:
    acting = actor(candidate.factors, candidate.device.name)
    return [name for name in _peers(candidate.device) if name != acting]


def _has_no_peer(candidate: Candidate) -> bool:
    return not _other_peers(candidate)


def _in_first_pair(candidate: Candidate) -> bool:
    """True if the first device or node acts, on its own memory or on that of the next. A device alone is the first."""
    acting = actor(candidate.factors, candidate.device.name)
    peer = next(iter(_other_peers(candidate)), "")
    nodes = _nodes(candidate.device)
    is_first = acting == nodes[0] if nodes else not peer or acting < peer
    return is_first and owner(candidate.factors, candidate.device.name) in (acting, peer)


def _is_largest(candidate: Candidate) -> bool:
    experiment = candidate.experiment
    assert isinstance(experiment, PairExperiment)
    return candidate.factors.size("size") == experiment.sizes(candidate.device, candidate.preset)[-1]


def is_main_pair(candidate: Candidate) -> bool:
    """True if both sides are the device's main allocator."""
    return all(candidate.factors[side] == main_allocator(candidate.device) for side in SIDES)


def is_mixed_pair(candidate: Candidate) -> bool:
    """True if the two sides are of different allocators, of which --set names none."""
    return len({candidate.factors[side] for side in SIDES}) > 1 and not candidate.chosen & set(SIDES)


def entries_of(factors: Factors, device: DeviceInfo) -> list[AllocatorInfo]:
    """The allocators of the two sides, each once."""
    names = dict.fromkeys(factors.text(side) for side in SIDES)
    return [entry for name in names if (entry := device.allocator(name)) is not None]


class PairExperiment(Experiment):
    """A GPU, or the processors of the NUMA node `node` on the device `cpu`, accesses memory of `peer` in place. The
    owner of the memory writes it first.
    """

    across_devices = True
    planning = Planning(
        rules=(
            exclude("a device's own memory is what other experiments measure, unless --set peer=self asks for it here",
                    no_peer=True, chosen=Not(Contains(PEER))),
            take("the full preset measures every pair at every size", FULL),
            take("every pair is measured at the sizes that --set names", chosen=Contains("size")),
            leave_out("pairs are measured with the main allocator", QUICK, main=False),
            take("every pair is measured at the largest size", main=True, largest=True),
            leave_out("one pair is measured at all sizes, the others at the largest", in_first_pair=False),
            leave_out("other allocators are measured at every second octave", STANDARD, main=False,
                      size=Not(Octave(2))),
        ),
        properties={"no_peer": _has_no_peer, "in_first_pair": _in_first_pair, "largest": _is_largest},
    )  # fmt: skip
    questions: ClassVar[Mapping[str, str]] = {}
    """The question of each kind of pair but the first, by its kind (see `kind_of`)."""

    def sizes(self, device: DeviceInfo, preset: Preset) -> Sequence[int]:
        """The sizes of the buffers in bytes, in ascending order."""
        raise NotImplementedError

    def common_factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        """The factors `peer`, `allocator` and `size`, and on the device `cpu` also `node`."""
        return [
            *peer_factors(device),
            allocators_of("allocator", device, "the peer's memory"),
            Factor("size", list(self.sizes(device, preset)), "size", doc="bytes of one buffer"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        allocator, name, agent = factors.text("allocator"), factors.text(PEER), agent_of(factors)
        if reason := unreachable(device, allocator, agent):
            return reason
        entry, peer = device.allocator(allocator), device.peer(name)
        if entry is not None and entry.managed:
            return f"pages of {allocator} memory move to the device that touches them, so it has none in the other's"
        if agent == "cpu":
            mapped = entry is not None and entry.cpu == "mapped"
            return f"the CPU reaches {allocator} memory by mapping it, not in place" if mapped else None
        if reason := unreachable_peer(device, name):
            return reason
        return peer.reason if peer is not None and peer.access == "copies" else None

    def derive(self, records: Sequence[Record]) -> list[Record]:
        """Adds `owner`, whose memory is used, and `by`, who uses it: with them, pairs are a matrix. Adds `memory`, the
        allocators of both sides.
        """
        return [msgspec.structs.replace(r, counters={**r.counters, **_side_columns(r)}) for r in records]

    def sections(self, records: Sequence[Record], device: DeviceInfo | None) -> list[ReportSection]:
        return [self._section(kind, rows) for kind, rows in by_kind(records).items()]

    def _section(self, kind: str, records: Sequence[Record]) -> ReportSection:
        ordered = sorted(records, key=lambda r: (owner_of(r), actor_of(r)))
        figures = pair_figures(self.figures, ordered)
        question, title = self.questions.get(kind, self.question), _TITLES.get(kind, "")
        return self.section(ordered, question=question, figures=figures, title=title)


def _side_columns(record: Record) -> dict[str, Scalar]:
    return {OWNER: owner_of(record), BY: actor_of(record), BETWEEN: memory_of(record.factors)}


ACCESS = "access"
BOTH_WAYS, ONE_WAY = "both-ways", "one-way"
"""Each device has access to the other's memory, as most programs open it, or the one that acts alone."""
_ACTING = "nodes_with_processors"
"""The fact of the device `cpu` that names the nodes whose processors this process may use."""
_TITLES: Mapping[str, str] = {"cpu": "by the CPU", "node": "NUMA nodes"}


def peer_factors(device: DeviceInfo) -> list[Factor]:
    """The factor `peer`, and on the device `cpu` also `node`. Raises Unsupported if there are no such nodes."""
    if device.capabilities.runs_kernels:
        return [peer(device, itself=True)]
    acting, nodes = _nodes(device), _peers(device)
    if not (acting and nodes):
        raise Unsupported("this system shows no NUMA nodes with processors and memory")
    return [
        Factor(NODE, acting, doc="the NUMA node whose processors act"),
        Factor(PEER, nodes, choices=[SELF, *nodes], doc="the NUMA node whose memory they use"),
    ]


def allocators_of(name: str, device: DeviceInfo, doc: str) -> Factor:
    """A factor whose values are the allocators of device memory, or of host memory on `cpu`, and by --set any other."""
    on_nodes = not device.capabilities.runs_kernels
    usual = [
        a.name
        for a in device.allocators
        if a.available and (is_plain_host(a.name) if on_nodes else is_device_side(a) and not a.managed)
    ]
    return Factor(name, usual or [main_allocator(device)], choices=allocator_names(device), doc=doc)


def reached_by_cpu(device: DeviceInfo) -> bool:
    """Whether the CPU accesses memory of the device in place, and this is not host memory under another name."""
    direct = any(a.available and is_device_side(a) and not a.managed and a.cpu == "direct" for a in device.allocators)
    return direct and not device.capabilities.on_host_processor


def ways(in_gbs: float, out_gbs: float, link: Peer | None) -> dict[str, Scalar]:
    """The counters of both directions, seen from the one who acts, with the busier one over the link's stated peak."""
    of_peak = link.of_peak(in_gbs, out_gbs) if link else None
    counters: dict[str, Scalar] = {"in_gbs": in_gbs, "out_gbs": out_gbs}
    return counters if of_peak is None else counters | {"of_peak": of_peak}


class OpenPair(Protocol):
    """Who takes part in a point. device: that of the probe; agent: who acts; writer: the agent that writes first."""

    device: _core.Device
    agent: str
    writer: str

    def allocate(self, allocator: str, size: int, *, of_peer: bool) -> AbstractContextManager[_core.Buffer]:
        """Memory of the peer (`of_peer`) or of the one who acts."""
        ...

    def writers(self, *, of_peer: bool) -> list[int]:
        """The processors on which the CPU writes memory of the owner: its node's, or those nearest to the device. Empty
        if there are none.
        """
        ...

    def acting(self) -> AbstractContextManager[object]:
        """The scope in which the probe runs."""
        ...


def open_pair(point: Point, session: Session, agent: str = "", *, reach: bool = True) -> OpenPair:
    """Who takes part in a point. A device that acts gets access to the peer's memory and, unless the factor `access`
    says otherwise, the peer to its own. Access stays open as long as the process.

    agent: who acts for a device, by default the factor `agent`. reach: access is needed, not only opened if possible.

    Raises:
        _core.Unavailable: a device does not open, or the driver refuses access; the text says why.
    """
    if NODE in point.factors:
        return NodePair(point, session)
    return DevicePair(point, session, agent or agent_of(point.factors), reach)


class DevicePair:
    """A device whose kernels, or the CPU beside it whose loads, use memory of `peer`."""

    writer = "gpu"

    def __init__(self, point: Point, session: Session, agent: str, reach: bool) -> None:
        self.agent = agent
        self._owner = session.peer(point.text(PEER))
        self._session, self._own = session, session.device
        self._info = {False: session.info, True: session.peer_info(point.text(PEER))}
        self.device = self._own if self.agent == "gpu" else self._owner
        if self.agent == "gpu":
            self._open_access(str(point.factors.get(ACCESS, "")), reach)

    def _open_access(self, access: str, needed: bool) -> None:
        own, peer = self._own, self._owner
        if needed or own.why_unreachable(peer) is None:
            own.reach(peer)
        if access != ONE_WAY and ((needed and access == BOTH_WAYS) or peer.why_unreachable(own) is None):
            peer.reach(own)

    def allocate(self, allocator: str, size: int, *, of_peer: bool) -> _core.Buffer:
        return (self._owner if of_peer else self._own).allocate(allocator, size)

    def writers(self, *, of_peer: bool) -> list[int]:
        node = node_of(self._info[of_peer])
        return [] if node is None else self._session.processors.get(node_name(node), [])

    def acting(self) -> AbstractContextManager[object]:
        """The CPU acts on the processors nearest to the device. Where new pages go is left to who touches them."""
        return _core.OnNode(self.writers(of_peer=False) if self.agent == "cpu" else [], None)


class NodePair:
    """The processors of the NUMA node `node`, which use memory of the node `peer`."""

    agent = writer = "cpu"

    def __init__(self, point: Point, session: Session) -> None:
        self.device, self._session = session.device, session
        self._nodes = {False: point.text(NODE), True: owner(point.factors, point.device)}

    def allocate(self, allocator: str, size: int, *, of_peer: bool) -> AbstractContextManager[_core.Buffer]:
        return memory_on(self._nodes[of_peer], self._session, allocator, size)

    def writers(self, *, of_peer: bool) -> list[int]:
        return self._session.processors.get(self._nodes[of_peer], [])

    def acting(self) -> AbstractContextManager[object]:
        return self._session.on_node(self._nodes[False])


@contextlib.contextmanager
def memory_on(node: str, session: Session, allocator: str, size: int) -> Iterator[_core.Buffer]:
    """Host memory of a NUMA node, all of whose pages are shown to be there before and after it is used.

    Raises:
        Misplaced: a page is on another node; the text says how many.
        Unsupported: the kernel does not tell where pages are.
    """
    with session.on_node(node):
        buffer = session.device.allocate(allocator, size)
        buffer.fill(seed=session.seed, agent="cpu")
    with buffer:
        require_on(node, buffer)
        yield buffer
        require_on(node, buffer)


class Misplaced(Exception):
    """Pages of a buffer are on another NUMA node than they were asked for."""


def require_on(node: str, buffer: _core.Buffer) -> None:
    """Checks up to 4096 pages, spread evenly over the buffer.

    Raises:
        Misplaced: a page is on another node; the text says how many.
        Unsupported: the kernel does not tell where pages are.
    """
    pages_on = {node_name(number): pages for number, pages in buffer.pages_on_nodes().items()}
    if not pages_on:
        raise Unsupported(f"the kernel does not tell on which NUMA node the {buffer.allocator} memory is")
    if elsewhere := {name: pages for name, pages in pages_on.items() if name != node}:
        where = ", ".join(f"{pages} on {name}" for name, pages in elsewhere.items())
        raise Misplaced(f"of {sum(pages_on.values())} pages of {buffer.allocator} memory asked of {node}, {where}")
