"""What an experiment has at hand inside a worker: the device, the host, the time it may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from firsttouch import _core
from firsttouch.machine.devices import open_device
from firsttouch.run import events
from firsttouch.run.events import EventLog
from firsttouch.schema import DeviceInfo


@dataclass
class Session:
    """One worker's view. The device opens at its first use, so that `context` can time that itself.

    seconds is the time that sampling of one point may take; tolerance the relative half width of the median's
    95 % interval at which sampling stops earlier.
    """

    info: DeviceInfo
    seed: int
    seconds: float
    tolerance: float
    preset: str
    events: EventLog | None = field(default=None, init=False)
    """Unified-memory events, where they were asked for and the open device offers them. Windows are cut from it."""
    events_reason: str = field(default="", init=False)
    """Why there are none although asked: one sentence, else ''."""

    @cached_property
    def device(self) -> _core.Device:
        return self.open_device()

    def open_device(self) -> _core.Device:
        """The device, newly opened, and its events from now on."""
        self.events, self.events_reason = events.start(self.info)
        return open_device(self.info.name)

    @cached_property
    def host(self) -> _core.Device:
        """The CPU as a device; the same object as `device` on the device `cpu`."""
        return self.device if self.info.name == "cpu" else open_device("cpu")

    def stop(self, *, min_samples: int = 3, max_samples: int = 1000, share: float = 1.0) -> _core.Stop:
        """The stopping rule of this point; `share` of its time where a point samples more than one thing."""
        return _core.Stop(
            tolerance=self.tolerance,
            seconds=self.seconds * share,
            min_samples=min_samples,
            max_samples=max_samples,
        )
