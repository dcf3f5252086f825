"""Exchange: the messages of an application whose work is divided among processes, each with a part of its data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

from firsttouch import _core
from firsttouch.program.execution.arrays import ByteRange
from firsttouch.program.execution.workspace import Workspace

Message: TypeAlias = "tuple[int, ByteRange]"
"""The process at the other end, and the bytes of a buffer of the role `exchange`."""
PLACE = 256
"""Bytes to a multiple of which a staged message is rounded up (native/comm/exchange.cpp)."""
MOST_MESSAGES = 64


@dataclass
class Exchange:
    """How the processes of an application exchange data, and what a run exchanged.

    Args:
        comm: the processes as the library that carries messages sees them. None: there is one, which sends to itself by
            copies on the device.
        device_addresses: the library gets the device's addresses of buffers, not the CPU's.
        staging: the allocator of host memory through which the device copies all messages; '' if the library gets the
            addresses of the buffers.
    """

    comm: _core.Comm | None = None
    device_addresses: bool = False
    staging: str = ""
    calls: float = 0.0
    """Seconds of sending and receiving alone."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of each message that this process sent, but for empty ones."""
    spans: list[tuple[_core.Event, _core.Event]] = field(default_factory=list)
    """The beginning and the end of each exchange, from packing to unpacked, in the device's stream."""
    _staged: list[_core.Buffer] = field(default_factory=list)
    _begun: _core.Receives | None = None

    def allocate(self, workspace: Workspace) -> None:
        """Allocate the memory through which messages are staged: as much as all buffers of the role `exchange`, which
        hold at most MOST_MESSAGES at a time.
        """
        arrays = [a for a in workspace.arrays if a.declaration.role == "exchange"]
        if self.staging and arrays:
            size = sum(a.nbytes + PLACE * MOST_MESSAGES for a in arrays)
            self._staged = [workspace.device.allocate(self.staging, size) for _ in range(2)]

    def carry(self, workspace: Workspace, outgoing: Sequence[Message], incoming: Sequence[Message]) -> None:
        """Send and receive messages. Returns when all that this process sends or receives have arrived.

        The n-th message to a process is the n-th that it receives from this one, and has the same size.
        """
        sent, received = ([_parcel(*message) for message in messages] for messages in (outgoing, incoming))
        staging_out, staging_in = self._staged or (None, None)
        self.calls += _core.exchange(
            workspace.device,
            self.comm,
            sent,
            received,
            staging_out=staging_out,
            staging_in=staging_in,
            device_addresses=self.device_addresses,
        )
        self.sizes += [size for _, _, _, size in sent if size]

    def begin(self, workspace: Workspace, incoming: Sequence[Message]) -> None:
        """Begin to receive a message of at most so many bytes from each of other processes."""
        assert self.comm is not None, "there are other processes"
        _, staging_in = self._staged or (None, None)
        self._begun = _core.receive(
            workspace.device,
            self.comm,
            [_parcel(*message) for message in incoming],
            staging_in=staging_in,
            device_addresses=self.device_addresses,
        )

    @property
    def has_begun(self) -> bool:
        return self._begun is not None

    def finish(self, outgoing: Sequence[Message]) -> list[int]:
        """Send to the same processes. Returns the bytes that have arrived from each, when all have."""
        assert self._begun is not None
        sent = [_parcel(*message) for message in outgoing]
        staging_out, _ = self._staged or (None, None)
        arrived, seconds = self._begun.finish(sent, staging_out)
        self._begun = None
        self.calls += seconds
        self.sizes += [size for _, _, _, size in sent if size]
        return arrived

    def free(self) -> None:
        """Free that memory."""
        for memory in self._staged:
            memory.free()
        self._staged = []

    def meet(self) -> None:
        """Wait until all processes have called it."""
        if self.comm is not None:
            self.comm.meet()

    def total(self, number: int) -> int:
        """The sum of the numbers of all processes, modulo 2^64."""
        return number if self.comm is None else self.comm.total(number)

    def swap_numbers(self, peers: Sequence[int], numbers: Sequence[int]) -> list[int]:
        """Tell each of the other processes, which all name this one in turn, a number. Returns theirs."""
        return [] if self.comm is None else self.comm.swap_words(peers, numbers)

    def largest(self, number: float) -> float:
        """The largest of the numbers of all processes."""
        return number if self.comm is None else self.comm.largest(number)

    def least(self, number: float) -> float:
        """The least of the numbers of all processes."""
        return -self.largest(-number)

    def fixed_sum(self, number: float) -> float:
        """The sum of the numbers of all processes, in units of 2^-50, so that it does not depend on their order."""
        return self.total(int(number * 2.0**50) % 2**64) / 2**50 if math.isfinite(number) else number

    def counters(self, compute: float) -> dict[str, float]:
        """What this process has exchanged in a phase `compute` of so many seconds. Times are in ms."""
        if not self.spans:
            return {}
        exchanged = sum(begin.seconds_until(end) for begin, end in self.spans)
        counters = {"exchange_ms": exchanged * 1e3, "calls_ms": self.calls * 1e3, "messages": len(self.sizes)}
        if compute > 0:
            counters["exchange_part"] = min(1.0, exchanged / compute)
        if self.sizes:
            counters |= {"message_median_bytes": int(median(self.sizes)), "message_largest_bytes": max(self.sizes)}
        return counters


def _parcel(peer: int, byte_range: ByteRange) -> tuple[int, _core.Buffer, int, int]:
    memory = byte_range.array.memory.device or byte_range.array.memory.host
    assert memory is not None
    return peer, memory, byte_range.start, byte_range.end - byte_range.start
