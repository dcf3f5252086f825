"""The session that a worker provides to an experiment: the device, its peers, the host and the stopping rule."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from firsttouch import _core
from firsttouch.errors import Unsupported
from firsttouch.events import log as events
from firsttouch.events.log import EventLog
from firsttouch.machine import host, numa
from firsttouch.machine.backends import HOST
from firsttouch.machine.devices import open_device
from firsttouch.machine.mpi import open_mpi
from firsttouch.machine.tree import Tree, parse_ids
from firsttouch.records.schema import SELF, DeviceInfo, Party, Scalar


@dataclass
class Session:
    """The session of one point. The device opens at its first use, so that the experiment `context` can time opening.

    seconds: time limit for sampling one point; tolerance: relative half width of the median's 95 % interval at which
    sampling stops earlier; peers: descriptions of the other devices that the point names.
    """

    info: DeviceInfo
    seed: int
    seconds: float
    tolerance: float
    preset: str
    peers: Mapping[str, DeviceInfo] = field(default_factory=dict)
    limit: float = field(default=30.0, init=False)
    """Seconds that the point may take in all. Then the worker is killed."""
    events: EventLog | None = field(default=None, init=False)
    """Unified-memory events, if they were requested and the open device reports them. Windows are cut from this log."""
    events_reason: str = field(default="", init=False)
    """Why there are no events although they were requested, as one sentence; otherwise ''."""
    counted: Mapping[str, Scalar] | None = field(default=None, init=False)
    """If a profiler counts this run of the point: the counters of the record with the timed samples. Otherwise None."""
    outputs: Collection[str] = field(default=(), init=False)
    """Digests of outputs that earlier points of this run checked. The same output need not be checked again."""
    rank: int = field(default=0, init=False)
    """Which of the processes this is that carry out the point together."""
    ranks: int = field(default=1, init=False)
    party: Party | None = field(default=None, init=False)
    """This process as one of them: its NUMA node and its processors."""
    _others: dict[str, _core.Device] = field(default_factory=dict, init=False)
    _xccl_of: dict[tuple[str, ...], list[_core.Comm]] = field(default_factory=dict, init=False)

    @cached_property
    def device(self) -> _core.Device:
        return self.open_device()

    def open_device(self) -> _core.Device:
        """Open the device again, and record its events from now on."""
        self.events, self.events_reason = events.start(self.info)
        return open_device(self.info.name)

    def recorded_events(self) -> EventLog:
        """The log of the events of the open device. Raises Unsupported if they are not recorded; the text says why."""
        if self.events is None:
            raise Unsupported(self.events_reason or "no unified-memory events were recorded in this process")
        return self.events

    def open(self, name: str) -> _core.Device:
        """A device by name; `self` is the session's device. It is opened at its first use and stays open.

        Raises:
            _core.Unavailable: it does not open; the text says why.
        """
        if name in (SELF, self.info.name):
            return self.device
        if name == HOST:
            return self.host
        if name not in self._others:
            self._others[name] = self.open_other(name)
        return self._others[name]

    def open_other(self, name: str) -> _core.Device:
        """Open a device other than the session's device."""
        return open_device(name)

    def peer(self, name: str) -> _core.Device:
        """The device that a value of the factor `peer` names. Raises Unsupported if it names a NUMA node."""
        if name not in self.peers and name != SELF:
            raise Unsupported(f"{name} is not a device that can be opened")
        return self.open(name)

    def peer_info(self, name: str) -> DeviceInfo:
        """The description of that device from discovery; of a NUMA node, that of the session's device."""
        return self.peers.get(name, self.info)

    @cached_property
    def mpi(self) -> _core.Comm:
        """The ranks as MPI sees them, which is initialised at the first use.

        Raises:
            RuntimeError: the launcher belongs to another MPI.
            _core.Unavailable: the library lacks a function.
        """
        return open_mpi(self.rank, self.ranks)

    def share(self, text: str | None) -> str:
        """Give a text to all other ranks, or wait for that of another rank. Returns it."""
        raise NotImplementedError

    @cached_property
    def xccl(self) -> _core.Comm:
        """The ranks as NCCL or RCCL sees them, opened at the first use by all ranks at once.

        Raises:
            _core.Unavailable: there is no such library for the device; the text says why.
        """
        made = _core.new_xccl_id(self.device) if self.rank == 0 else None
        shared = self.share(None if made is None else made.hex()) if self.ranks > 1 else ""
        return _core.open_xccl(
            self.device, rank=self.rank, ranks=self.ranks, id=bytes.fromhex(shared) if made is None else made
        )

    def xccl_of(self, devices: Sequence[_core.Device]) -> list[_core.Comm]:
        """All ranks of NCCL or RCCL in this process, one for each device, opened at the first use.

        Raises:
            _core.Unavailable: there is no such library for a device; the text says why.
        """
        names = tuple(device.name for device in devices)
        if names not in self._xccl_of:
            self._xccl_of.clear()  # so that only one group holds memory
            self._xccl_of[names] = _core.open_xccl_of(devices)
        return self._xccl_of[names]

    @cached_property
    def processors(self) -> Mapping[str, list[int]]:
        """The processors that this process may use, by the name of their NUMA node."""
        found = numa.acting_nodes(Tree(), host.usable_cores())
        return {numa.node_name(node): cores for node, cores in found.items()}

    def on_node(self, name: str, memory_of: str = "") -> _core.OnNode:
        """A scope in which this thread, and those that it starts, run on a NUMA node's processors and take new pages
        from the memory of a node, by default the same one. A node without processors leaves the thread where it runs.

        Raises, when it is entered:
            _core.Unavailable: the kernel refuses; the text has its words.
        """
        return _core.OnNode(self.processors.get(name, []), numa.node_number(memory_of or name))

    def on_own_processors(self) -> _core.OnNode:
        """A scope in which this thread, and those that it starts, run on the processors of this rank and take new pages
        from the memory of its NUMA node, if that is known. A process that is no rank stays where it is.
        """
        if self.party is None:
            return _core.OnNode([], None)
        return _core.OnNode(parse_ids(self.party.processors), self.party.numa_node)

    @cached_property
    def host(self) -> _core.Device:
        """The CPU as a device; the same object as `device` on the device `cpu`."""
        return self.device if self.info.name == HOST else open_device(HOST)

    def stop(
        self, *, min_samples: int = 3, max_samples: int = 1000, share: float = 1.0, counted: bool = True
    ) -> _core.Stop:
        """The stopping rule of this point: one sample if a profiler counts it.

        share: fraction of its time, for points that sample several quantities. counted: whether these are the samples
        that a profiler counts.
        """
        if self.counted is not None:
            return _core.Stop(
                tolerance=self.tolerance, seconds=self.seconds, min_samples=1, max_samples=1, counted=counted
            )
        return _core.Stop(
            tolerance=self.tolerance,
            seconds=self.seconds * share,
            min_samples=min_samples,
            max_samples=max_samples,
        )
