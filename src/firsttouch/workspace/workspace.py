"""The Workspace: turns an application's declared accesses into copies, mappings, waits and hints. Read this first.

An application declares its buffers once, and for each launch on either agent the byte ranges that it reads and writes.
For each buffer the Workspace tracks the ranges that are valid for the CPU and for the GPU. From these it decides:

=================  =====================================================================================
before             what happens
=================  =====================================================================================
an agent reads     ranges that are valid only on the other side are transferred: duplicated buffers are copied; for
                   others the driver moves pages, or the agent reads them remotely
the CPU accesses   it waits for queued work that still writes (or, if the CPU writes, reads) the same bytes; memory that
                   must be mapped is mapped; memory that only one side may use at a time waits for queued work that
                   uses the buffer (so does memory whose strategy says `wait`), and on a device without concurrent
                   managed access for all queued work
the GPU accesses   memory that is mapped for the CPU is unmapped; `flush`: the CPU's stores leave its write-combining
                   buffers
the first launch   buffers whose guidance says so are prefetched to the GPU in a separate stream, which the launch waits
                   for unless the strategy says `overlap`
readback           buffers whose guidance says so are prefetched back before they are read
=================  =====================================================================================

Which buffers are advised and prefetched is in guidance.py: read-mostly after initialisation, other advice after
allocation. Scratch buffers are plain memory of their side, unless `place_scratch`. Other buffers that only the GPU uses
are placed by the strategy, without a host array if it is `duplicated`. Buffers of the role `exchange`, which kernels
pack and unpack, are memory of an allocator of their own, whatever the strategy.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from firsttouch import _core
from firsttouch.allocators.properties import (
    allows_concurrent_parts,
    coherence,
    common_allocator,
    is_plain_host,
    needs_idle_device,
    needs_mapping,
    takes_page_size,
)
from firsttouch.errors import Unsupported
from firsttouch.machine.pages import BASE_PAGE
from firsttouch.records.schema import DeviceInfo
from firsttouch.workspace.guidance import BY_ITSELF, Guidance, Placement
from firsttouch.workspace.ranges import Ranges
from firsttouch.workspace.strategies import Strategy

Agent = Literal["cpu", "gpu"]
PLAIN = common_allocator("host")
Role = Literal["input", "output", "inout", "constant", "control", "scratch", "exchange"]


@dataclass(frozen=True)
class Declaration:
    """One buffer as an application declares it.

    shape: items per dimension, slowest first; sides: the agents that use it; starts_on: the agent that initialises it;
    ends_on: the agent that needs the result; advice: replaces the hints that the role implies; file: its contents are
    those of a file.
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

    def is_interchangeable_with(self, other: Declaration) -> bool:
        """Whether the two have the same size, role and placement, so that they may be swapped."""
        return (self.nbytes, self.role, self.sides, self.advice) == (
            other.nbytes,
            other.role,
            other.sides,
            other.advice,
        )


def placement(
    declared: Declaration, strategy: Strategy, *, place_scratch: bool
) -> Literal["cpu", "gpu", "copies", "strategy", "exchange"]:
    """Where a buffer is: plain memory of one side, a host array and a device array, memory of the strategy, or that of
    messages.
    """
    if declared.role == "exchange":
        return "exchange"
    if declared.sides == "cpu":
        return "cpu"
    if declared.sides == "gpu" and (strategy.duplicated or (declared.role == "scratch" and not place_scratch)):
        return "gpu"
    return "copies" if strategy.duplicated else "strategy"


class Store:
    """The memory of one buffer, and which bytes of it are valid for each agent.

    host is what the CPU uses and device what kernels use: the same object if the memory is shared, None for an agent
    that never uses it. window: offset in bytes of the part that a streamed array's device memory holds.
    """

    def __init__(self, host: _core.Buffer | None, device: _core.Buffer | None) -> None:
        self.host, self.device = host, device
        self.valid: dict[Agent, Ranges] = {"cpu": Ranges(), "gpu": Ranges()}
        # Ranges of the CPU's memory that queued device work still reads or writes.
        self.busy_read, self.busy_written = Ranges(), Ranges()
        self.mapped: int | None = None
        self.must_map = self.disjoint = self.concurrent = self.needs_idle_device = False
        self.window = 0

    @property
    def shared(self) -> bool:
        return self.host is self.device

    @property
    def address(self) -> int:
        """The CPU's current address of the first byte."""
        assert self.host is not None
        return self.mapped if self.mapped is not None else self.host.address


class Array:
    """A declared buffer of a running application. `array[a:b]` is a slice of rows of its first dimension."""

    def __init__(self, declaration: Declaration, key: int) -> None:
        self.declaration, self.key = declaration, key
        self.name, self.dtype, self.shape = declaration.name, declaration.dtype, declaration.shape
        self.nbytes = declaration.nbytes
        self.row_bytes = self.nbytes // max(1, self.shape[0])
        self.store = Store(None, None)
        self.file = -1
        """Descriptor of the open file, if it is declared with file=True."""

    def __repr__(self) -> str:
        return f"buffer {self.name}"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> ArraySlice:
        start, stop, step = rows.indices(self.shape[0])
        if step != 1:
            raise ValueError(f"a slice of {self.name} must be contiguous rows, without a step")
        return ArraySlice(self, start * self.row_bytes, max(start, stop) * self.row_bytes)

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
class ArraySlice:
    """A run of bytes [start, end) of an array."""

    array: Array
    start: int
    end: int


ByteRange = Array | ArraySlice


class Workspace:
    """The buffers of one application under one strategy on one open device.

    Args:
        info: the device's properties.
        device: the open device. Its default stream takes all launches and copies.
        pages: page size to request for plain host memory: policy, base or huge.
        place_scratch: scratch buffers that the GPU uses are memory of the strategy, unless it is `duplicated`.
            Otherwise they are device memory.
        guidance: where the advice and the prefetches of each buffer come from.
        messages: the allocator of buffers of the role `exchange`; '' for device memory.
    """

    def __init__(
        self,
        strategy: Strategy,
        info: DeviceInfo,
        device: _core.Device,
        *,
        pages: str = "policy",
        place_scratch: bool = False,
        guidance: Placement = BY_ITSELF,
        messages: str = "",
    ) -> None:
        self.strategy, self.info, self.device = strategy, info, device
        self.messages = messages or common_allocator("device")
        self.pages, self.place_scratch, self.guidance = pages, place_scratch, guidance
        self.arrays: list[Array] = []
        self.transferred: dict[Agent, int] = {"cpu": 0, "gpu": 0}
        """Bytes transferred to each agent: copied if `duplicated`, else expected to migrate or be read remotely."""
        self._busy_stores: set[Store] = set()
        self._prefetch_stream: _core.Stream | None = None
        self._prefetched: _core.Event | None = None
        self._stores_to_flush = False

    # ------------------------------------------------------------------------------------------------ allocation

    def allocate(self, arrays: Sequence[Array], windows: dict[Array, int] | None = None) -> None:
        """Allocate memory for `arrays`. windows: bytes of device memory for each array that is streamed."""
        for array in arrays:
            self.arrays.append(array)
            array.store = self._make_store(array, (windows or {}).get(array, array.nbytes))
            if array.store.shared:
                self._advise(array, self._guidance(array).at_allocation)
            if self.strategy.prefault and array.store.shared and array.store.host is not None:
                self._prefault(array, array.store.host.address)

    def _make_store(self, array: Array, device_bytes: int) -> Store:
        strategy = self.strategy
        where = placement(array.declaration, strategy, place_scratch=self.place_scratch)
        if where == "cpu":
            return Store(self._allocate(PLAIN, array.nbytes), None)
        if where == "exchange":
            return Store(None, self._allocate(self.messages, array.nbytes))
        if where == "gpu":
            allocator = strategy.allocator if strategy.duplicated else common_allocator("device")
            return Store(None, self._allocate(allocator, array.nbytes))
        mapped = self.device.map_file(array.file, array.nbytes) if self._is_file_mapping(array) else None
        if where == "copies":
            host = mapped or self._allocate(strategy.host_arrays, array.nbytes)
            return Store(host, self._allocate(strategy.allocator, device_bytes))
        memory = mapped or self._allocate(strategy.allocator, array.nbytes)
        store = Store(memory, memory)
        entry = self.info.allocator(strategy.allocator)
        assert entry is not None
        store.must_map, store.concurrent = needs_mapping(entry), coherence(entry) == "kernel" and not strategy.coherence
        store.disjoint = allows_concurrent_parts(entry) is True and strategy.coherence != "wait"
        store.needs_idle_device = needs_idle_device(entry)
        return store

    @staticmethod
    def _prefault(array: Array, address: int) -> None:
        """Touch every page from the CPU: read the pages of a file, write all others."""
        if array.declaration.file:
            _read_pages(address, array.nbytes)
        else:
            _core.launch_on_host("generate/touch", "pLL", 0, [address, array.nbytes, BASE_PAGE])

    def load(self, array: Array, threads: int) -> None:
        """Make the contents of its file available to the CPU in an array declared with file=True.

        Under strategies of plain host memory the array is a mapping of the file. Elsewhere the file is copied into it.
        """
        host = array.store.host
        assert host is not None
        if self._is_file_mapping(array):
            array.store.valid["cpu"].add(0, array.nbytes)
            return
        with self.device.map_file(array.file, array.nbytes) as source:
            values: list[object] = [self.cpu_address(array, writes=True), source.address, array.nbytes]
            _core.launch_on_host("generate/copy_8", "ppL", threads, values)

    def _is_file_mapping(self, array: Array) -> bool:
        """Whether the CPU's memory of an array is a mapping of its file."""
        plain = self.strategy.host_arrays if self.strategy.duplicated else self.strategy.allocator
        return array.declaration.file and is_plain_host(plain)

    def _allocate(self, allocator: str, nbytes: int) -> _core.Buffer:
        return self.device.allocate(allocator, nbytes, self.pages if takes_page_size(allocator) else "policy")

    def allocations(self) -> list[tuple[str, str, int]]:
        """Name of the buffer, allocator and size in bytes of each allocated block."""
        blocks = {
            id(m): (a.name, m.allocator, m.size) for a in self.arrays for m in (a.store.host, a.store.device) if m
        }
        return list(blocks.values())

    def free(self) -> None:
        self.join_prefetches()
        self.wait()
        for array in self.arrays:
            self._unmap(array.store)
            for memory in {id(m): m for m in (array.store.host, array.store.device) if m is not None}.values():
                memory.free()
            array.store = Store(None, None)
        self.arrays.clear()

    # ------------------------------------------------------------------------------------------------ roles

    def _guidance(self, array: Array) -> Guidance:
        return self.guidance.of(array.declaration, self.strategy)

    def _advise(self, array: Array, hints: Iterable[str]) -> None:
        for hint in hints:
            assert array.store.host is not None
            self.device.advise(array.store.host, hint)

    def after_initialise(self) -> None:
        """Advise read-mostly where the guidance says so. Called at the end of the phase initialise."""
        for array in self._shared():
            self._advise(array, self._guidance(array).after_initialise)

    def before_compute(self) -> None:
        """Prefetch to the GPU where the guidance says so. Called before the first launch of the phase compute.

        With `overlap` launches do not wait for the prefetches: a kernel faults on pages that have not arrived.
        """
        arrays = [array for array in self._shared() if "gpu" in self._guidance(array).prefetch]
        if not arrays:
            return
        self._prefetch_stream = self._prefetch_stream or self.device.stream()
        for array in arrays:
            assert array.store.device is not None
            self.device.prefetch(array.store.device, 0, array.nbytes, "gpu", self._prefetch_stream)
        self._prefetched = self.device.record(self._prefetch_stream)
        if not self.strategy.overlap:
            self.join_prefetches()

    def join_prefetches(self) -> None:
        """Make work that is queued from now on, and wait(), wait for the prefetches. Called at the end of the phase
        compute, so that the phase contains them.
        """
        if self._prefetched is not None:
            self.device.join(self._prefetched)
            self._prefetched = None

    def read_back(self, arrays: Iterable[Array]) -> None:
        """Transfer whole arrays to the CPU, which then reads one byte of each page."""
        arrays = list(arrays)
        for array in arrays:
            if array.store.shared and array.store.device is not None and "cpu" in self._guidance(array).prefetch:
                self.device.prefetch(array.store.device, 0, array.nbytes, "cpu")
        for array in arrays:
            _read_pages(self.cpu_address(array, reads=True), array.nbytes)

    def _shared(self) -> list[Array]:
        return [a for a in self.arrays if a.store.shared and a.store.device is not None]

    # ------------------------------------------------------------------------------------------------ accesses

    def touch(self, agent: Agent, byte_range: ByteRange, *, reads: bool, writes: bool) -> None:
        """Prepare for an agent's access to a byte range: transfer it, wait for conflicting work, and track validity."""
        store, start, end = byte_range.array.store, byte_range.start, byte_range.end
        if start >= end:
            return
        if (store.host if agent == "cpu" else store.device) is None:
            raise ValueError(f"{byte_range.array.name} is not declared for use by the {agent}")
        if reads:
            self._make_valid(byte_range, agent)
        if agent == "cpu":
            self._prepare_cpu_access(store, start, end, writes)
        else:
            self._unmap(store)
            self._flush_stores()
            if store.shared:
                self._note_busy(store, start, end, reads=reads, writes=writes)
        if writes:
            other: Agent = "gpu" if agent == "cpu" else "cpu"
            store.valid[agent].add(start, end)
            store.valid[other].remove(start, end)

    def _make_valid(self, byte_range: ByteRange, agent: Agent) -> None:
        store = byte_range.array.store
        gaps = store.valid[agent].missing(byte_range.start, byte_range.end)
        other: Agent = "gpu" if agent == "cpu" else "cpu"
        for start, end in gaps:
            if store.valid[other].missing(start, end):
                raise ValueError(f"bytes {start} to {end} of {byte_range.array.name} are read before they are written")
            self.transferred[agent] += end - start
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

    def _prepare_cpu_access(self, store: Store, start: int, end: int, writes: bool) -> None:
        """Wait for queued work that conflicts with a CPU access, and map the memory if needed."""
        conflicts = store.busy_written.overlaps(start, end) or (writes and store.busy_read.overlaps(start, end))
        independent = store.disjoint or not store.shared
        busy = not independent and bool(store.busy_read or store.busy_written)
        self._wait_if(conflicts or busy or store.needs_idle_device)
        if store.must_map and store.mapped is None:
            assert store.host is not None
            self._wait_if(store in self._busy_stores)
            store.mapped = store.host.map()
        self._stores_to_flush |= writes and store.shared and self.strategy.coherence == "flush"

    def _flush_stores(self) -> None:
        if self._stores_to_flush:
            _core.flush_stores()
            self._stores_to_flush = False

    def _unmap(self, store: Store) -> None:
        if store.mapped is not None and store.host is not None:
            store.host.unmap(store.mapped)
            store.mapped = None

    def _note_busy(self, store: Store, start: int, end: int, *, reads: bool, writes: bool) -> None:
        if reads:
            store.busy_read.add(start, end)
        if writes:
            store.busy_written.add(start, end)
        self._busy_stores.add(store)

    def _wait_if(self, needed: bool) -> None:
        if needed:
            self.wait()

    def wait(self) -> None:
        """Wait until all queued work has ended."""
        self.device.wait()
        for store in self._busy_stores:
            store.busy_read.clear()
            store.busy_written.clear()
        self._busy_stores.clear()

    def cpu_address(self, byte_range: ByteRange, *, reads: bool = False, writes: bool = False) -> int:
        """The CPU's address of an array's first byte, ready for the access."""
        self.touch("cpu", byte_range, reads=reads, writes=writes)
        return byte_range.array.store.address

    def concurrent_address(self, array: Array) -> int:
        """The CPU's address of an array for access while kernels use it, or of a CPU-only array, which is overwritten.

        Raises Unsupported if the CPU can't access the memory while a kernel runs.
        """
        store = array.store
        if array.declaration.sides == "cpu":
            return self.cpu_address(array, writes=True)
        if not (store.shared and store.concurrent and store.host is not None):
            raise Unsupported(f"under {self.strategy.name} the CPU cannot access {array.name} while a kernel runs")
        return store.host.address

    def view(self, byte_range: ByteRange, *, reads: bool = True, writes: bool = False) -> np.ndarray[Any, Any]:
        """The memory as a numpy array of the declared shape, without a copy; a slice has fewer rows."""
        address = self.cpu_address(byte_range, reads=reads, writes=writes)
        array, count = byte_range.array, byte_range.end - byte_range.start
        raw = (ctypes.c_uint8 * count).from_address(address + byte_range.start)
        return np.ctypeslib.as_array(raw).view(array.dtype).reshape(-1, *array.shape[1:])

    def contents(self, byte_range: ByteRange) -> np.ndarray[Any, Any]:
        """The memory for checks; a copy if the CPU has no memory of it."""
        array, count = byte_range.array, byte_range.end - byte_range.start
        if array.store.host is not None:
            return self.view(byte_range)
        assert array.store.device is not None
        raw = array.store.device.read(byte_range.start, count)
        return np.frombuffer(raw, array.dtype).reshape(-1, *array.shape[1:])

    def swap(self, first: Array, second: Array) -> None:
        """Exchange the memory of two buffers. Raises ValueError unless they have the same size, role and placement."""
        if not first.declaration.is_interchangeable_with(second.declaration):
            raise ValueError(f"{first.name} and {second.name} cannot be swapped: their size, role or placement differs")
        first.store, second.store = second.store, first.store

    # ------------------------------------------------------------------------------------------------ tiles

    def move_window(self, array: Array, start: int) -> None:
        """Move the device part of a streamed array to offset `start`, after copying data that only the device holds to
        the host.
        """
        store = array.store
        if store.window == start:
            return
        for first, last in [*store.valid["gpu"]]:
            for gap in store.valid["cpu"].missing(first, last):
                self.transferred["cpu"] += gap[1] - gap[0]
                self._copy(store, *gap, "cpu")
                store.valid["cpu"].add(*gap)
        store.valid["gpu"].clear()
        store.window = start


def _read_pages(address: int, nbytes: int) -> None:
    """Read one byte of each page with all CPU threads."""
    total = np.zeros(1, np.uint64)
    _core.launch_on_host("generate/read_pages", "pLLLp", 0, [address, 0, nbytes, BASE_PAGE, total.ctypes.data])
