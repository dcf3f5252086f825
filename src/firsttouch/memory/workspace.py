"""The Workspace: what becomes of an application's declared accesses under a strategy. Read this page first.

An application declares its buffers once, and for every launch on either agent which byte ranges it reads and writes.
Per buffer the Workspace keeps the ranges that are valid for the CPU and for the GPU, and from that alone decides:

=================  =====================================================================================
before             what happens
=================  =====================================================================================
an agent reads     ranges that are valid on the other side only cross over: duplicated buffers are copied, others move
                   by themselves or stay where they are
the CPU touches    it waits for the device where queued work still writes (or, if the CPU writes, reads) the same
                   bytes; memory that must be mapped is mapped; memory of one side at a time waits for all
the GPU touches    memory that is mapped for the CPU is unmapped
the first launch   `prefetch`: shared buffers go to the GPU in a stream of their own
readback           `prefetch`: what ends on the CPU goes back before it is read
=================  =====================================================================================

Advice follows from roles when buffers are made (preferred location, accessed by) and after initialisation (read
mostly). Scratch of one side is plain memory of that side under every strategy. What only the GPU touches and is no
scratch is the application's data: it lies where the strategy says, without a host array under `duplicated` ones.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from firsttouch import _core
from firsttouch.errors import Unsupported
from firsttouch.memory.ranges import Ranges
from firsttouch.memory.strategies import Strategy
from firsttouch.schema import DeviceInfo

Agent = Literal["cpu", "gpu"]
Role = Literal["input", "output", "inout", "constant", "control", "scratch"]
PLACED: tuple[Role, ...] = ("input", "output", "inout")
"""Roles that `advise` gives a preferred location; the same and constants are prefetched."""


@dataclass(frozen=True)
class Declaration:
    """One buffer as an application declares it. shape: items per dimension, slowest first; sides: who ever touches it;
    starts_on: who initialises it; ends_on: who needs it last; advice: instead of what the role implies; file: it is
    what a file holds.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    role: Role
    sides: Literal["both", "cpu", "gpu"]
    starts_on: Agent | None = None
    ends_on: Agent | None = None
    advice: tuple[str, ...] | None = None
    file: bool = False

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def like(self, other: Declaration) -> bool:
        """Whether the two may be exchanged: alike in size, role and placement."""
        return (self.nbytes, self.role, self.sides, self.advice) == (
            other.nbytes,
            other.role,
            other.sides,
            other.advice,
        )


class Store:
    """The memory behind one buffer, and where it is valid. host is what the CPU uses, device what kernels use; the same
    object where it is shared, None on a side that never touches it. window: of a device array that holds only the
    bytes from there on.
    """

    def __init__(self, host: _core.Buffer | None, device: _core.Buffer | None) -> None:
        self.host, self.device = host, device
        self.valid: dict[Agent, Ranges] = {"cpu": Ranges(), "gpu": Ranges()}
        # What queued device work still reads or writes of the memory that the CPU uses.
        self.busy_read, self.busy_written = Ranges(), Ranges()
        self.mapped: int | None = None
        self.must_map = self.disjoint = self.concurrent = False
        self.window = 0

    @property
    def shared(self) -> bool:
        return self.host is self.device

    @property
    def address(self) -> int:
        """Where the CPU finds the first byte now."""
        assert self.host is not None
        return self.mapped if self.mapped is not None else self.host.address


class Array:
    """A declared buffer of a running application. `array[a:b]` is the part of rows a to b of its first dimension."""

    def __init__(self, declaration: Declaration, key: int) -> None:
        self.declaration, self.key = declaration, key
        self.name, self.dtype, self.shape = declaration.name, declaration.dtype, declaration.shape
        self.nbytes = declaration.nbytes
        self.row_bytes = self.nbytes // max(1, self.shape[0])
        self.store = Store(None, None)
        self.file = -1
        """The descriptor of the open file that it is, where it is declared so."""

    def __repr__(self) -> str:
        return f"buffer {self.name}"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Part:
        start, stop, step = rows.indices(self.shape[0])
        if step != 1:
            raise ValueError(f"a part of {self.name} is one run of rows; give a slice without a step")
        return Part(self, start * self.row_bytes, max(start, stop) * self.row_bytes)

    @property
    def start(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return self.nbytes

    @property
    def array(self) -> Array:
        return self


@dataclass(frozen=True)
class Part:
    """A run of bytes [start, end) of an array."""

    array: Array
    start: int
    end: int


Reach = Array | Part


class Workspace:
    """The buffers of one application under one strategy on one open device.

    Args:
        info: the device as it states itself.
        device: the same, open. Its own stream takes all launches and copies.
        host_allocator: what `duplicated` strategies take for host arrays: malloc or pinned.
        pages: page size asked of the kernel for plain host memory: policy, base or huge.
    """

    def __init__(
        self,
        strategy: Strategy,
        info: DeviceInfo,
        device: _core.Device,
        *,
        host_allocator: str = "malloc",
        pages: str = "policy",
    ) -> None:
        self.strategy, self.info, self.device = strategy, info, device
        self.host_allocator, self.pages = host_allocator, pages
        self.arrays: list[Array] = []
        self.crossed: dict[Agent, int] = {"cpu": 0, "gpu": 0}
        """Bytes that had to reach each agent: copied under `duplicated`, else what must move or be read across."""
        self._busy: set[Store] = set()
        self._side: _core.Stream | None = None

    # ------------------------------------------------------------------------------------------------ allocation

    def allocate(self, arrays: Sequence[Array], windows: dict[Array, int] | None = None) -> None:
        """Obtain memory for `arrays`; windows: bytes of the device's part of those that are streamed through it."""
        for array in arrays:
            self.arrays.append(array)
            array.store = self._obtain(array, (windows or {}).get(array, array.nbytes))
            if self.strategy.advise and array.store.shared:
                self._advise(array, ("preferred-gpu", "accessed-by-cpu"), PLACED)
            if self.strategy.prefault and array.store.shared and array.store.host is not None:
                self._prefault(array, array.store.host.address)

    def _obtain(self, array: Array, device_bytes: int) -> Store:
        sides, strategy = array.declaration.sides, self.strategy
        if sides == "cpu":
            return Store(self._take("malloc", array.nbytes), None)
        if sides == "gpu" and (strategy.duplicated or array.declaration.role == "scratch"):
            return Store(None, self._take("device", array.nbytes))
        mapped = self.device.map_file(array.file, array.nbytes) if self._maps(array) else None
        if strategy.duplicated:
            host = mapped or self._take(self.host_allocator, array.nbytes)
            return Store(host, self._take(strategy.allocator, device_bytes))
        memory = mapped or self._take(strategy.allocator, array.nbytes)
        store = Store(memory, memory)
        entry = self.info.allocator(strategy.allocator)
        assert entry is not None
        store.must_map, store.concurrent = entry.cpu == "mapped", entry.concurrent is True
        store.disjoint = entry.disjoint is True or entry.concurrent is True
        return store

    @staticmethod
    def _prefault(array: Array, address: int) -> None:
        """The CPU touches every page: writes what is not initialised yet, reads what a file holds."""
        if array.declaration.file:
            _read_pages(address, array.nbytes)
        else:
            _core.launch_on_host("generate/touch", "pLL", 0, [address, array.nbytes, 4096])

    def load(self, array: Array, threads: int) -> None:
        """Of an array that is declared as a file: what the file holds is there for the CPU. Where plain memory of the
        host is used the array is the mapped file; elsewhere it is read into the array through a mapping.
        """
        host = array.store.host
        assert host is not None
        if self._maps(array):
            array.store.valid["cpu"].add(0, array.nbytes)
            return
        with self.device.map_file(array.file, array.nbytes) as source:
            values: list[object] = [self.cpu_address(array, writes=True), source.address, array.nbytes]
            _core.launch_on_host("generate/copy_8", "ppL", threads, values)

    def _maps(self, array: Array) -> bool:
        """Whether the CPU's memory of an array is a mapped file."""
        plain = self.host_allocator if self.strategy.duplicated else self.strategy.allocator
        return array.declaration.file and plain == "malloc"

    def _take(self, allocator: str, nbytes: int) -> _core.Buffer:
        return self.device.allocate(allocator, nbytes, self.pages if allocator in ("malloc", "mmap") else "policy")

    def allocations(self) -> list[tuple[str, str, int]]:
        """What is held: the buffer's name, the allocator and the bytes of each block."""
        blocks = {
            id(m): (a.name, m.allocator, m.size) for a in self.arrays for m in (a.store.host, a.store.device) if m
        }
        return list(blocks.values())

    def free(self) -> None:
        self.wait()
        for array in self.arrays:
            self._unmap(array.store)
            for memory in {id(m): m for m in (array.store.host, array.store.device) if m is not None}.values():
                memory.free()
            array.store = Store(None, None)
        self.arrays.clear()

    # ------------------------------------------------------------------------------------------------ roles

    def _advise(self, array: Array, implied: Sequence[str], roles: Sequence[Role]) -> None:
        own, before = array.declaration.advice, implied[0] != "read-mostly"
        if own is not None:
            advice = [a for a in own if (a != "read-mostly") == before]
        else:
            advice = [*implied] if array.declaration.role in roles else []
        assert array.store.host is not None
        for one in advice:
            self.device.advise(array.store.host, one)

    def initialised(self) -> None:
        """After the phase initialise: advice on what is only read from now on."""
        if self.strategy.advise:
            for array in self._shared():
                self._advise(array, ("read-mostly",), ("input", "constant"))

    def begin(self) -> None:
        """Before the first launch of the phase compute."""
        if not self.strategy.prefetch:
            return
        self._side = self._side or self.device.stream()
        for array in self._shared():
            if array.declaration.role in (*PLACED, "constant"):
                assert array.store.device is not None
                self.device.prefetch(array.store.device, 0, array.nbytes, "gpu", self._side)
        self.device.join(self.device.record(self._side))

    def read_back(self, arrays: Iterable[Array]) -> None:
        """Bring whole arrays to the CPU, which then reads a byte of every page."""
        arrays = list(arrays)
        if self.strategy.prefetch:
            for array in arrays:
                if array.store.shared and array.store.device is not None:
                    self.device.prefetch(array.store.device, 0, array.nbytes, "cpu")
        for array in arrays:
            _read_pages(self.cpu_address(array, reads=True), array.nbytes)

    def _shared(self) -> list[Array]:
        return [a for a in self.arrays if a.store.shared and a.store.device is not None]

    # ------------------------------------------------------------------------------------------------ accesses

    def touch(self, agent: Agent, reach: Reach, *, reads: bool, writes: bool) -> None:
        """An agent is about to read or write a range: bring it, wait for whom it disturbs, and note the change."""
        store, start, end = reach.array.store, reach.start, reach.end
        if start >= end:
            return
        if (store.host if agent == "cpu" else store.device) is None:
            raise ValueError(f"{reach.array.name} is declared without the side {agent}")
        if reads:
            self._bring(reach, agent)
        if agent == "cpu":
            self._settle(store, start, end, writes)
        else:
            self._unmap(store)
            if store.shared:
                self._note_busy(store, start, end, reads=reads, writes=writes)
        if writes:
            other: Agent = "gpu" if agent == "cpu" else "cpu"
            store.valid[agent].add(start, end)
            store.valid[other].remove(start, end)

    def _bring(self, reach: Reach, agent: Agent) -> None:
        store = reach.array.store
        gaps = store.valid[agent].missing(reach.start, reach.end)
        other: Agent = "gpu" if agent == "cpu" else "cpu"
        for start, end in gaps:
            if store.valid[other].missing(start, end):
                raise ValueError(f"bytes {start} to {end} of {reach.array.name} are read before anyone wrote them")
            self.crossed[agent] += end - start
            if not store.shared:
                self._copy(store, start, end, agent)
            store.valid[agent].add(start, end)

    def _copy(self, store: Store, start: int, end: int, to: Agent) -> None:
        assert store.host is not None
        assert store.device is not None
        if to == "gpu":
            self._wait_if(store.busy_written.overlaps(start, end))
            self.device.copy(store.device, start - store.window, store.host, start, end - start)
        else:
            self.device.copy(store.host, start, store.device, start - store.window, end - start)
        self._note_busy(store, start, end, reads=to == "gpu", writes=to == "cpu")

    def _settle(self, store: Store, start: int, end: int, writes: bool) -> None:
        """Wait where the CPU's access would meet queued work; map where it must."""
        meets = store.busy_written.overlaps(start, end) or (writes and store.busy_read.overlaps(start, end))
        apart = store.disjoint or not store.shared
        self._wait_if(meets or (not apart and bool(store.busy_read or store.busy_written)))
        if store.must_map and store.mapped is None:
            assert store.host is not None
            self._wait_if(store in self._busy)
            store.mapped = store.host.map()

    def _unmap(self, store: Store) -> None:
        if store.mapped is not None and store.host is not None:
            store.host.unmap(store.mapped)
            store.mapped = None

    def _note_busy(self, store: Store, start: int, end: int, *, reads: bool, writes: bool) -> None:
        if reads:
            store.busy_read.add(start, end)
        if writes:
            store.busy_written.add(start, end)
        self._busy.add(store)

    def _wait_if(self, needed: bool) -> None:
        if needed:
            self.wait()

    def wait(self) -> None:
        """Until all queued work has ended."""
        self.device.wait()
        for store in self._busy:
            store.busy_read.clear()
            store.busy_written.clear()
        self._busy.clear()

    def cpu_address(self, reach: Reach, *, reads: bool = False, writes: bool = False) -> int:
        """Where the CPU finds an array from its first byte on, after the access is settled."""
        self.touch("cpu", reach, reads=reads, writes=writes)
        return reach.array.store.address

    def beside(self, array: Array) -> int:
        """The CPU's address of an array while kernels use the same bytes, or of one that they never use, which it
        overwrites. Raises Unsupported where the CPU sees nothing.
        """
        store = array.store
        if array.declaration.sides == "cpu":
            return self.cpu_address(array, writes=True)
        if not (store.shared and store.concurrent and store.host is not None):
            raise Unsupported(f"under {self.strategy.name} the CPU sees nothing of {array.name} while a kernel runs")
        return store.host.address

    def view(self, reach: Reach, *, reads: bool = True, writes: bool = False) -> np.ndarray[Any, Any]:
        """The memory itself as a numpy array, shaped as declared; a part in its rows."""
        address = self.cpu_address(reach, reads=reads, writes=writes)
        array, count = reach.array, reach.end - reach.start
        raw = (ctypes.c_uint8 * count).from_address(address + reach.start)
        return np.ctypeslib.as_array(raw).view(array.dtype).reshape(-1, *array.shape[1:])

    def contents(self, array: Array) -> np.ndarray[Any, Any]:
        """For checks: the whole array; of what only the GPU touches a copy, where that is memory of its own."""
        if array.store.host is not None:
            return self.view(array)
        assert array.store.device is not None
        return np.frombuffer(array.store.device.read(0, array.nbytes), array.dtype).reshape(array.shape)

    def swap(self, one: Array, other: Array) -> None:
        """Exchange what two buffers stand for. Raises ValueError unless they are alike in size, role and placement."""
        if not one.declaration.like(other.declaration):
            raise ValueError(f"{one.name} and {other.name} are not alike: only buffers of one kind are exchanged")
        one.store, other.store = other.store, one.store

    # ------------------------------------------------------------------------------------------------ tiles

    def move_window(self, array: Array, start: int) -> None:
        """A streamed array's device part holds the bytes from `start` on. What only it held goes to the host first."""
        store = array.store
        if store.window == start:
            return
        for first, last in [*store.valid["gpu"]]:
            for gap in store.valid["cpu"].missing(first, last):
                self.crossed["cpu"] += gap[1] - gap[0]
                self._copy(store, *gap, "cpu")
                store.valid["cpu"].add(*gap)
        store.valid["gpu"].clear()
        store.window = start


def _read_pages(address: int, nbytes: int) -> None:
    """The CPU's threads read a byte of every page."""
    total = np.zeros(1, np.uint64)
    _core.launch_on_host("generate/read_pages", "pLLLp", 0, [address, 0, nbytes, 4096, total.ctypes.data])
