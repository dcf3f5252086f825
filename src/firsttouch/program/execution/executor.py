"""Carries out the ledger's steps on an open device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np

from firsttouch import _core
from firsttouch.machine.allocators.properties import takes_page_size
from firsttouch.machine.pages import BASE_PAGE
from firsttouch.program import steps
from firsttouch.program.execution.arrays import Array
from firsttouch.program.execution.gpu_clock import GpuClock


class Executor:
    """The memory of `arrays` on a device, whose default stream takes all launches and copies.

    pages: page size to request for plain host memory: policy, base or huge.
    """

    def __init__(self, device: _core.Device, arrays: list[Array], pages: str) -> None:
        self._device, self._arrays, self._pages = device, arrays, pages
        self.clock: GpuClock | None = None
        self._prefetch_stream: _core.Stream | None = None
        self._prefetched: _core.Event | None = None
        self._file: _core.Buffer | None = None
        self._actions: dict[type, Callable[[Any], None]] = {
            steps.Allocate: self._allocate,
            steps.Prefault: self._prefault,
            steps.Advise: self._advise,
            steps.MapFile: self._map_file,
            steps.CopyFile: self._copy_file,
            steps.Copy: self._copy,
            steps.Map: self._map,
            steps.Unmap: self._unmap,
            steps.Flush: lambda _: _core.flush_stores(),
            steps.Wait: lambda _: self._device.wait(),
            steps.Prefetch: self._prefetch,
            steps.EndPrefetches: self._end_prefetches,
            steps.Join: self._join,
            steps.Use: lambda _: None,
            steps.ReadPages: self._read_pages,
            steps.Free: self._free,
        }

    def play(self, next_steps: Iterable[steps.Step]) -> None:
        for step in next_steps:
            self._actions[type(step)](step)

    def _allocate(self, step: steps.Allocate) -> None:
        array = self._arrays[step.buffer]
        if step.file:
            block = self._device.map_file(array.file, step.nbytes)
        else:
            pages = self._pages if takes_page_size(step.allocator) else "policy"
            block = self._device.allocate(step.allocator, step.nbytes, pages, host_only=step.side == "host")
        if step.side != "device":
            array.memory.host = block
        if step.side != "host":
            array.memory.device = block

    def _prefault(self, step: steps.Prefault) -> None:
        address = self._arrays[step.buffer].memory.address
        if step.file:
            _read_pages(address, step.nbytes)
        else:
            _core.launch_on_host("generate/touch", "pLL", 0, [address, step.nbytes, BASE_PAGE])

    def _advise(self, step: steps.Advise) -> None:
        self._device.advise(self._host(step.buffer), step.hint)

    def _map_file(self, step: steps.MapFile) -> None:
        self._file = self._device.map_file(self._arrays[step.buffer].file, step.nbytes)

    def _copy_file(self, step: steps.CopyFile) -> None:
        assert self._file is not None
        with self._file as source:
            values: list[object] = [self._arrays[step.buffer].memory.address, source.address, step.nbytes]
            _core.launch_on_host("generate/copy_8", "ppL", step.threads, values)
        self._file = None

    def _copy(self, step: steps.Copy) -> None:
        host = self._host(step.buffer if step.source is None else step.source)
        device, count = self._on_device(step.buffer), step.end - step.start
        if step.to == "gpu":
            with self.clock.copying() if self.clock else nullcontext():
                self._device.copy(device, step.start - step.window, host, step.start, count)
        else:
            self._device.copy(host, step.start, device, step.start - step.window, count)

    def _map(self, step: steps.Map) -> None:
        self._arrays[step.buffer].memory.mapped = self._host(step.buffer).map()

    def _unmap(self, step: steps.Unmap) -> None:
        memory = self._arrays[step.buffer].memory
        assert memory.mapped is not None
        self._host(step.buffer).unmap(memory.mapped)
        memory.mapped = None

    def _prefetch(self, step: steps.Prefetch) -> None:
        memory = self._on_device(step.buffer)
        if step.to == "cpu":
            self._device.prefetch(memory, 0, step.nbytes, "cpu")
        else:
            if self.clock:
                self.clock.start()
            self._prefetch_stream = self._prefetch_stream or self._device.stream()
            self._device.prefetch(memory, 0, step.nbytes, "gpu", self._prefetch_stream)

    def _end_prefetches(self, _: steps.EndPrefetches) -> None:
        assert self._prefetch_stream is not None
        self._prefetched = self._device.record(self._prefetch_stream)

    def _join(self, _: steps.Join) -> None:
        assert self._prefetched is not None
        self._device.join(self._prefetched)
        self._prefetched = None

    def _read_pages(self, step: steps.ReadPages) -> None:
        _read_pages(self._arrays[step.buffer].memory.address, step.nbytes)

    def _free(self, step: steps.Free) -> None:
        (self._on_device if step.side == "device" else self._host)(step.buffer).free()

    def _host(self, buffer: int) -> _core.Buffer:
        memory = self._arrays[buffer].memory.host
        assert memory is not None
        return memory

    def _on_device(self, buffer: int) -> _core.Buffer:
        memory = self._arrays[buffer].memory.device
        assert memory is not None
        return memory


def _read_pages(address: int, nbytes: int) -> None:
    """Read one byte of each page with all CPU threads."""
    total = np.zeros(1, np.uint64)
    _core.launch_on_host("generate/read_pages", "pLLLp", 0, [address, 0, nbytes, BASE_PAGE, total.ctypes.data])
