"""GPU time: from the first work of a span on the device to the last, by the device's clock.

um-apps (Chien et al., MCHPC 2019) calls the same span "GPU Time": it starts its clock when the inputs have been copied,
or when prefetches have been requested, whose stream the kernels wait for; and stops it when the device is idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from firsttouch import _core


class GpuClock:
    """Runs from the first prefetch or launch, whichever comes first, until stop(). Copies to the device do not count.

    What the host does between launches counts.
    """

    def __init__(self, device: _core.Device) -> None:
        self._device = device
        self._first_event: _core.Event | None = None
        self._last_event: _core.Event | None = None
        self._copies: list[tuple[_core.Event, _core.Event]] = []

    def start(self) -> None:
        """Called before each prefetch to the device and each launch. Only the first call starts the clock."""
        if self._first_event is None:
            self._first_event = self._device.record()

    @contextmanager
    def copying(self) -> Iterator[None]:
        """A scope that queues a copy to the device."""
        if self._first_event is None:
            yield
            return
        begin = self._device.record()
        yield
        self._copies.append((begin, self._device.record()))

    def stop(self) -> None:
        """Called when all work of the span has been queued."""
        if self._first_event is not None:
            self._last_event = self._device.record()

    def seconds(self) -> float | None:
        """None if the clock never started. The device must be idle."""
        if self._first_event is None or self._last_event is None:
            return None
        copies = sum(begin.seconds_until(end) for begin, end in self._copies)
        return max(0.0, self._first_event.seconds_until(self._last_event) - copies)
