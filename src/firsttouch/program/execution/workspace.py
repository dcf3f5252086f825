"""The Workspace: an application's buffers on one open device.

The ledger (ledger.py) decides what is copied, mapped, waited for, advised and prefetched; the executor does it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from firsttouch import _core
from firsttouch.program.declarations import Agent
from firsttouch.program.execution.arrays import Array, ByteRange, Memory, Passes, Scattered
from firsttouch.program.execution.executor import Executor
from firsttouch.program.execution.gpu_clock import GpuClock
from firsttouch.program.guidance import BY_ITSELF, Placement
from firsttouch.program.ledger import Ledger
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import DeviceInfo


class Workspace:
    """The buffers of one application under one strategy on one open device.

    Args:
        info: the device's properties.
        device: the open device. Its default stream takes all launches and copies.
        pages: page size to request for plain host memory: policy, base or huge.
        copy_control, guidance, messages: those of the Ledger.
    """

    clock: GpuClock | None = None

    def __init__(
        self,
        strategy: Strategy,
        info: DeviceInfo,
        device: _core.Device,
        *,
        pages: str = "policy",
        copy_control: bool = False,
        guidance: Placement = BY_ITSELF,
        messages: str = "",
    ) -> None:
        self.strategy, self.info, self.device = strategy, info, device
        self.arrays: list[Array] = []
        self._in_part: set[Array] = set()
        """Those of which the GPU's next launch may use a part only."""
        self.ledger = Ledger(
            strategy,
            info,
            copy_control=copy_control,
            guidance=guidance,
            messages=messages,
        )
        self._executor = Executor(device, self.arrays, pages)

    @property
    def transferred(self) -> Mapping[Agent, int]:
        """Bytes transferred to each agent: copied if `duplicated`, else expected to migrate or be read remotely."""
        return self.ledger.transferred

    @property
    def least(self) -> Mapping[Agent, int]:
        """What of these bytes the driver must move at least; empty if nothing has to move."""
        return self.ledger.least.bytes if self.ledger.moves else {}

    def time_with(self, clock: GpuClock | None) -> None:
        """From now on, tell a clock of prefetches, launches and copies; None: no clock."""
        self.clock = self._executor.clock = clock

    # ------------------------------------------------------------------------------------------------ memory

    def allocate(self, arrays: Sequence[Array], windows: Mapping[Array, int] | None = None) -> None:
        """Allocate memory for `arrays`. windows: bytes of device memory for each array that is streamed."""
        for array in (array for array in arrays if not array.deferred):
            array.number = len(self.arrays)
            self.arrays.append(array)
            self._executor.play(self.ledger.allocate(array.declaration, (windows or {}).get(array)))

    def release(self, arrays: Sequence[Array]) -> None:
        """Free the memory of the arrays that were allocated last."""
        first = min(array.number for array in arrays)
        self._executor.play(self.ledger.release(first))
        del self.arrays[first:]

    def allocations(self) -> list[tuple[str, str, int]]:
        """Name of the buffer, allocator and size in bytes of each allocated block."""
        blocks = {
            id(m): (a.name, m.allocator, m.size) for a in self.arrays for m in (a.memory.host, a.memory.device) if m
        }
        return list(blocks.values())

    def load(self, array: Array, threads: int) -> None:
        """Make the contents of its file available to the CPU in an array declared with file=True.

        Under strategies of plain host memory the array is a mapping of the file. Elsewhere the file is copied into it.
        """
        self._executor.play(self.ledger.load(array.number, threads))

    def swap(self, first: Array, second: Array) -> None:
        """Exchange the memory of two buffers, or, of a device array and a host array, copy. Raises ValueError unless
        they have the same size, role and placement.
        """
        if steps := self.ledger.swap(first.number, second.number):
            self._executor.play(steps)
        else:
            first.memory, second.memory = second.memory, first.memory

    def move_window(self, array: Array, start: int) -> None:
        """Move the device part of a streamed array to offset `start` in bytes."""
        self._executor.play(self.ledger.move_window(array.number, start))

    def forget(self, array: Array) -> None:
        """Take an array as never written."""
        self.ledger.forget([array.number])

    def free(self) -> None:
        self._executor.play(self.ledger.free())
        for array in self.arrays:
            array.memory = Memory()
        self.arrays.clear()

    # ------------------------------------------------------------------------------------------------ phases

    def after_initialise(self) -> None:
        """Called at the end of the phase initialise."""
        self._executor.play(self.ledger.after_initialise())

    def before_compute(self) -> None:
        """Called before the first launch of the phase compute."""
        self._executor.play(self.ledger.before_compute())

    def join_prefetches(self) -> None:
        """Called at the end of the phase compute, so that the phase contains the prefetches."""
        self._executor.play(self.ledger.join_prefetches())

    def read_back(self, arrays: Iterable[Array]) -> None:
        """Transfer whole arrays to the CPU, which then reads one byte of each page."""
        self._executor.play(self.ledger.read_back([array.number for array in arrays]))

    # ------------------------------------------------------------------------------------------------ accesses

    def touch(self, agent: Agent, byte_range: ByteRange, *, reads: bool, writes: bool) -> None:
        """Prepare for an agent's access to a byte range: transfer it, and wait for conflicting work."""
        whole = agent == "cpu" or byte_range.array not in self._in_part
        self._touch(agent, byte_range, reads=reads, writes=writes, whole=whole)

    def _touch(self, agent: Agent, byte_range: ByteRange, *, reads: bool, writes: bool, whole: bool) -> None:
        number, start, end = byte_range.array.number, byte_range.start, byte_range.end
        self._executor.play(self.ledger.touch(agent, number, start, end, reads=reads, writes=writes, whole=whole))

    def lend(self, byte_range: ByteRange, *, arrives: bool) -> None:
        """Prepare for bytes of a message to leave a buffer of the role `exchange`, or to arrive in it."""
        self._executor.play(
            self.ledger.lend(byte_range.array.number, byte_range.start, byte_range.end, arrives=arrives)
        )

    def declare_scattered(self, arrays: Sequence[Array]) -> None:
        """Arrays that the next launch of the CPU goes through in no order. A dry run records it."""

    def declare_passes(self, passes: Passes) -> None:
        """How often the GPU's next launch takes the bytes of arrays from memory."""
        self._in_part = {array for array, times in passes.items() if times < 1 or isinstance(times, Scattered)}

    def wait(self) -> None:
        """Wait until all queued work has ended."""
        self._executor.play(self.ledger.wait())

    def concurrent_address(self, array: Array) -> int:
        """The CPU's address of an array for access while kernels use it, or of a CPU-only array, which is overwritten.

        Raises Unsupported if the CPU can't access the memory while a kernel runs.
        """
        self._executor.play(self.ledger.touch_at_once(array.number))
        return array.memory.address

    def view(self, byte_range: ByteRange, *, reads: bool = True, writes: bool = False) -> np.ndarray[Any, Any]:
        """The memory as a numpy array of the declared shape, without a copy; a slice has fewer rows."""
        self._touch("cpu", byte_range, reads=reads, writes=writes, whole=False)
        array, count = byte_range.array, byte_range.end - byte_range.start
        raw = (ctypes.c_uint8 * count).from_address(array.memory.address + byte_range.start)
        return np.ctypeslib.as_array(raw).view(array.dtype).reshape(-1, *array.shape[1:])

    def contents(self, byte_range: ByteRange) -> np.ndarray[Any, Any]:
        """The memory for checks; a copy if the CPU has no memory of it."""
        array, count = byte_range.array, byte_range.end - byte_range.start
        if array.memory.host is not None:
            return self.view(byte_range)
        assert array.memory.device is not None
        raw = array.memory.device.read(byte_range.start, count)
        return np.frombuffer(raw, array.dtype).reshape(-1, *array.shape[1:])
