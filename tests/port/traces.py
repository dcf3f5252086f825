"""Traces made by hand: what a program asks of CUDA, call by call."""

from __future__ import annotations

from typing import Any

from firsttouch.profile.calls import (
    AnyCall,
    Arguments,
    ArgumentWord,
    BlockCall,
    HostUse,
    LaunchCall,
    MoveCall,
    PointersCall,
    QueryCall,
    TracedCalls,
    WaitCall,
)
from firsttouch.profile.recorded import CallFrame, CallSite
from firsttouch.program.trace import TracedRun, trace

DEVICE_BASE = 0x7F0000000000
HOST_BASE = 0x100000000
PROGRAM = "/app/program"
KERNEL = "_Z6kernelPfS_"
"""A kernel whose parameters may all be written."""


def at(line: int) -> CallSite:
    """A call in the program, of which `line` is the offset in its file."""
    return (CallFrame(PROGRAM, line),) if line else ()


class Calls:
    """The calls of a program. Each method adds a call, 1 ms after the last one, and takes further fields by name.

    Memory of the device and of CUDA is at addresses that `block` hands out; a freed address is used again for the same
    size. The host's memory is at whatever address is given; `host` hands out some.
    """

    def __init__(self, pid: int = 1) -> None:
        self.pid, self.calls, self.durations = pid, list[AnyCall](), dict[int, float]()
        self._t, self._next, self._next_host = 0.0, DEVICE_BASE, HOST_BASE
        self._alive: dict[int, BlockCall] = {}
        self._freed: dict[int, list[int]] = {}

    def _when(self, seconds: float | None = None) -> dict[str, Any]:
        self._t = round(self._t + 0.001, 6)
        correlation = len(self.calls) + 1
        if seconds is not None:
            self.durations[correlation] = seconds
        return {"t": self._t, "correlation": correlation}

    def host(self, nbytes: int) -> int:
        """The address of memory that CUDA does not know, whole pages apart."""
        address, self._next_host = self._next_host, self._next_host + -(-nbytes // 65536) * 65536 + 65536
        return address

    def block(
        self, nbytes: int, *, at_address: int = 0, kind: Any = "device", line: int = 0, name: str = "", **more: Any
    ) -> int:
        """An allocation, or a static variable. Returns its address, which is `at_address` if that is given."""
        if at_address:
            address = at_address
        elif again := self._freed.get(nbytes):
            address = again.pop()
        else:
            address, self._next = self._next, self._next + -(-nbytes // 512) * 512 + 512
        more = {"reserved": 0, "site": at(line), **more}
        call = BlockCall(**self._when(), address=address, bytes=nbytes, begins=True, kind=kind, name=name, **more)
        self.calls.append(call)
        self._alive[address] = call
        return address

    def free(self, address: int, line: int = 0, *, waits: bool = True) -> None:
        """Frees a block. waits: for the device, if it has work, as cudaFree does, and what frees in the order of a
        stream does not.
        """
        begun = self._alive.pop(address)
        self._freed.setdefault(begun.bytes, []).append(address)
        self.calls.append(
            BlockCall(**self._when(), address=address, bytes=0, begins=False, kind=begun.kind, site=at(line))
        )
        if waits and self._has_work():
            self.wait("free")

    def _has_work(self) -> bool:
        for call in reversed(self.calls):
            if isinstance(call, WaitCall) or (isinstance(call, MoveCall) and call.blocking):
                return False
            if isinstance(call, MoveCall | LaunchCall):
                return True
        return False

    def copy(
        self, target: int, source: int, nbytes: int, *, seconds: float | None = None, line: int = 0, **more: Any
    ) -> int:
        """A copy, which blocks if not told otherwise. Returns its correlation."""
        more = {"blocking": True, "site": at(line), **more}
        when = self._when(seconds)
        self.calls.append(MoveCall(**when, what="copy", source=source, target=target, bytes=nbytes, **more))
        return when["correlation"]

    def fill(self, target: int, nbytes: int, *, seconds: float | None = None, line: int = 0, **more: Any) -> None:
        when = self._when(seconds)
        self.calls.append(MoveCall(**when, what="fill", source=0, target=target, bytes=nbytes, site=at(line), **more))

    def pointers(self, target: int, *addresses: int, correlation: int = 0) -> None:
        """What the last copy held of addresses, if no other is told by its correlation."""
        correlation = correlation or len(self.calls)
        self.calls.append(PointersCall(t=self._t, correlation=correlation, target=target, addresses=addresses))

    def launch(
        self, *addresses: int, kernel: str = KERNEL, seconds: float | None = None, line: int = 0, **more: Any
    ) -> None:
        """A launch with these addresses as its parameters, in order; 0 is one that is no address."""
        words = tuple(ArgumentWord(n, 0, address) for n, address in enumerate(addresses) if address)
        arguments = Arguments(kernel, words, sizes_known=True)
        self.calls.append(LaunchCall(**{"arguments": arguments, "site": at(line), **self._when(seconds), **more}))

    def wait(self, what: Any = "context", thread: int = 0, stack: int = 0, *, line: int = 0) -> None:
        self.calls.append(WaitCall(t=self._when()["t"], thread=thread, what=what, stack=stack, site=at(line)))

    def query(self, free: int, total: int, *, line: int = 0, vendor: bool = False) -> None:
        self.calls.append(QueryCall(t=self._when()["t"], free=free, total=total, site=at(line), vendor=vendor))

    def host_use(self, address: int, nbytes: int, writes: Any = (), read: int | None = None, **more: Any) -> None:
        """What the CPU did with a range since the last call."""
        since, now = self._t, self._when()["t"]
        more = {"late": False, **more}
        use = HostUse(since=since, t=now, address=address, bytes=nbytes, writes=tuple(writes), read=read, **more)
        self.calls.append(use)

    @property
    def traced(self) -> TracedCalls:
        return TracedCalls(self.pid, self.calls, self.durations)

    @property
    def run(self) -> TracedRun:
        return trace(self.traced)
