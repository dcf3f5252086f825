"""The session that a worker provides to an experiment: the device, its peers, the host and the stopping rule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.machine import host, numa
from firsttouch.machine.backends import HOST
from firsttouch.machine.devices import open_device
from firsttouch.machine.mpi import open_mpi
from firsttouch.machine.tree import Tree, parse_ids
from firsttouch.profile.events import log as events
from firsttouch.profile.events.log import EventLog
from firsttouch.records.schema import SELF, DeviceInfo, Party, Scalar


def _shared_with_nobody(text: str | None) -> str:
    raise NotImplementedError("this process is no rank")


class OpenDevices:
    """What a process has opened, and keeps open from one point to the next: devices, the log of events, communicators.

    info: the device of the process, which opens at its first use, so that the experiment `context` can time opening.
    opening: the scope in which a device is opened. share: gives a text to all other ranks, or waits for that of another
    rank, and returns it.
    """

    def __init__(
        self,
        info: DeviceInfo,
        opening: Callable[[], AbstractContextManager[None]] = nullcontext,
        share: Callable[[str | None], str] = _shared_with_nobody,
    ) -> None:
        self.info, self._opening, self._share = info, opening, share
        self.events: EventLog | None = None
        self.events_reason = ""
        self._peers: dict[str, _core.Device] = {}
        self._mpi: _core.Comm | None = None
        self._xccl: _core.Comm | None = None
        self._xccl_of: dict[tuple[str, ...], list[_core.Comm]] = {}

    @property
    def is_open(self) -> bool:
        return "device" in vars(self)

    @cached_property
    def device(self) -> _core.Device:
        with self._opening():
            self.events, self.events_reason = events.start(self.info)
            return open_device(self.info.name)

    @cached_property
    def host(self) -> _core.Device:
        return self.device if self.info.name == HOST else open_device(HOST)

    def peer(self, name: str) -> _core.Device:
        """A device other than that of the process. Raises _core.Unavailable if it does not open."""
        if name not in self._peers:
            with self._opening():
                self._peers[name] = open_device(name)
        return self._peers[name]

    def forget_events(self) -> None:
        """Discards the events so far. If the library fails, recording ends and measuring continues."""
        try:
            if self.events is not None:
                self.events.forget()
        except _core.VendorError as error:
            self.events, self.events_reason = None, " ".join(str(error).split())

    def mpi(self, rank: int, ranks: int) -> _core.Comm:
        if self._mpi is None:
            self._mpi = open_mpi(rank, ranks)
        return self._mpi

    def xccl(self, rank: int, ranks: int) -> _core.Comm:
        if self._xccl is None:
            new_id = _core.new_xccl_id(self.device) if rank == 0 else None
            shared = self._share(None if new_id is None else new_id.hex()) if ranks > 1 else ""
            self._xccl = _core.open_xccl(
                self.device, rank=rank, ranks=ranks, id=bytes.fromhex(shared) if new_id is None else new_id
            )
        return self._xccl

    def xccl_of(self, devices: Sequence[_core.Device]) -> list[_core.Comm]:
        names = tuple(device.name for device in devices)
        if names not in self._xccl_of:
            self._xccl_of.clear()  # so that only one group holds memory
            self._xccl_of[names] = _core.open_xccl_of(devices)
        return self._xccl_of[names]


@dataclass(frozen=True)
class Session:
    """The session of one point, made for its job and not changed after.

    info: the device, with what its driver states in this process. seconds: time limit for sampling one point;
    tolerance: relative half width of the median's 95 % interval at which sampling stops earlier; peers: descriptions of
    the other devices that the point names; limit: seconds that the point may take in all, after which the worker is
    killed. counted: if a profiler counts this run of the point, the counters of the record with the timed samples.
    outputs: digests of outputs that earlier points of this run checked; the same output need not be checked again.
    rank: which of the `ranks` processes this is that carry out the point together; party: this process as one of them,
    with its NUMA node and its processors.
    """

    info: DeviceInfo
    seed: int
    seconds: float
    tolerance: float
    preset: str
    peers: Mapping[str, DeviceInfo] = field(default_factory=dict)
    limit: float = 30.0
    counted: Mapping[str, Scalar] | None = None
    outputs: Collection[str] = ()
    rank: int = 0
    ranks: int = 1
    party: Party | None = None
    opened: OpenDevices | None = None

    @cached_property
    def _opened(self) -> OpenDevices:
        return self.opened or OpenDevices(self.info)

    @property
    def device(self) -> _core.Device:
        return self._opened.device

    @property
    def host(self) -> _core.Device:
        """The CPU as a device; the same object as `device` on the device `cpu`."""
        return self._opened.host

    @property
    def events(self) -> EventLog | None:
        """Unified-memory events, if they were requested and the open device reports them. Windows are cut from this
        log.
        """
        return self._opened.events

    @property
    def events_reason(self) -> str:
        """Why there are no events although they were requested, as one sentence; otherwise ''."""
        return self._opened.events_reason

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
        return self.host if name == HOST else self._opened.peer(name)

    def peer(self, name: str) -> _core.Device:
        """The device that a value of the factor `peer` names. Raises Unsupported if it names a NUMA node."""
        if name not in self.peers and name != SELF:
            raise Unsupported(f"{name} is not a device that can be opened")
        return self.open(name)

    def peer_info(self, name: str) -> DeviceInfo:
        """The description of the peer from discovery; for a NUMA node, that of the session's device."""
        return self.peers.get(name, self.info)

    @property
    def mpi(self) -> _core.Comm:
        """The ranks as MPI sees them, which is initialised at the first use.

        Raises:
            RuntimeError: the launcher belongs to another MPI.
            _core.Unavailable: the library lacks a function.
        """
        return self._opened.mpi(self.rank, self.ranks)

    @property
    def xccl(self) -> _core.Comm:
        """The ranks as NCCL or RCCL sees them, opened at the first use by all ranks at once.

        Raises:
            _core.Unavailable: there is no such library for the device; the text says why.
        """
        return self._opened.xccl(self.rank, self.ranks)

    def xccl_of(self, devices: Sequence[_core.Device]) -> list[_core.Comm]:
        """All ranks of NCCL or RCCL in this process, one for each device, opened at the first use.

        Raises:
            _core.Unavailable: there is no such library for a device; the text says why.
        """
        return self._opened.xccl_of(devices)

    @cached_property
    def processors(self) -> Mapping[str, list[int]]:
        """The processors that this process may use, by the name of their NUMA node."""
        cores_by_node = numa.acting_nodes(Tree(), host.usable_cores())
        return {numa.node_name(node): cores for node, cores in cores_by_node.items()}

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

    def whole_time(self) -> _core.Stop:
        """The stopping rule of a point that counts what happens while samples are taken: all of its time, at least a
        second.
        """
        return _core.Stop(tolerance=-1, seconds=max(1.0, self.seconds))

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
