"""What a port program runs on: a device, its kernels, and the memory that is usual or unified there."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.experiments.contract.common import unreachable
from firsttouch.machine.allocators.properties import (
    common_allocator,
    is_common,
    main_allocator,
    needs_idle_device,
    role,
)
from firsttouch.records.schema import AllocatorInfo, DeviceInfo
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    WordArray = npt.NDArray[np.uint64]

WORD = 8
_CODES = {
    "port_sum": "pLpL",
    "port_add": "pLL",
    "port_step": "pLLLpL",
    "port_raise": "pL",
    "port_filter": "ppLp",
    "port_filter_symbol": "ppLpLp",
    "port_distances": "pLLLp",
}
"""The parameters of each kernel of base/kernels/port.c that is launched from here."""
_ROLES = ("shared", "host", "page-locked")
"""Unified memory in the order of preference: what a driver may move, plain memory, what stays on the host."""


def unified_memory(device: DeviceInfo) -> AllocatorInfo | None:
    """The memory that the CPU and kernels use by one address, and that the CPU may use while a kernel runs; None if the
    device has none. On a device without kernels, plain memory.
    """
    kernels = device.capabilities.runs_kernels
    usable = [
        entry
        for entry in device.allocators
        if role(entry.name) in _ROLES and not (unreachable(device, entry.name, "cpu", *["gpu"] * kernels))
        if entry.cpu == "direct" and (entry.gpu == "direct" or not kernels) and not needs_idle_device(entry)
    ]
    best = sorted(usable, key=lambda e: (_ROLES.index(str(role(e.name))), not e.concurrent, not is_common(e.name)))
    return best[0] if best else None


def why_no_plain_memory(device: DeviceInfo) -> str | None:
    """Returns why kernels cannot use memory that only the CPU's allocator knows, or None."""
    plain = common_allocator("host")
    return unreachable(device, plain, *["gpu"] * device.capabilities.runs_kernels)


class Parts:
    """The device of a session with its memory and the kernels of base/kernels/port.c."""

    def __init__(self, session: Session) -> None:
        self.session, self.info = session, session.info
        self._kernels: dict[str, _core.Kernel] = {}
        self._counted: dict[str, int] = {}

    @cached_property
    def device(self) -> _core.Device:
        return self.session.device

    def on_host(self, nbytes: int) -> _core.Buffer:
        """Plain host memory."""
        return self.device.allocate(common_allocator("host"), nbytes)

    def on_device(self, nbytes: int) -> _core.Buffer:
        """The usual memory of the device."""
        return self.device.allocate(main_allocator(self.info), nbytes)

    def unified(self, nbytes: int) -> _core.Buffer:
        """Memory for the CPU and kernels. Raises Unsupported if there is none."""
        entry = unified_memory(self.info)
        if entry is None:
            raise Unsupported(f"{self.info.name} has no unified memory")
        return self.device.allocate(entry.name, nbytes)

    def once(self, what: str, count: Callable[[], int]) -> int:
        """What `count` returns in the first run, which is not timed."""
        if what not in self._counted:
            self._counted[what] = count()
        return self._counted[what]

    def launch(self, entry: str, n: int, *arguments: object) -> None:
        """Queues a kernel over n items."""
        if entry not in self._kernels:
            text = _core.kernel_file("port.c")
            self._kernels[entry] = self.device.kernel("port", text, entry, _CODES[entry])
        self.device.launch(self._kernels[entry], *self.device.grid(n), [*arguments])

    def copy(self, target: _core.Buffer, source: _core.Buffer, nbytes: int, *, start: int = 0) -> None:
        """Queues a copy of `nbytes` from `start` of the source to the begin of the target."""
        self.device.copy(target, 0, source, start, nbytes)

    def wait(self) -> None:
        self.device.wait()


def words(buffer: _core.Buffer) -> WordArray:
    """The CPU's view of a buffer that it can use by its address."""
    import ctypes

    import numpy as np

    view: WordArray = np.ctypeslib.as_array((ctypes.c_uint64 * (buffer.size // WORD)).from_address(buffer.address))
    return view


def wait_for(event: _core.Event) -> None:
    """Returns when the work before the event has completed."""
    event.seconds_until(event)
