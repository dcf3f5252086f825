"""What a program computes, as terms of a prediction: its kernels by their profile, and its CPU code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from firsttouch.model.caches import NONE, holding
from firsttouch.model.costs import Ground, Price, Time
from firsttouch.model.kernels import Kernels, NoProfile, kernel_bytes
from firsttouch.model.platform import MissingValue, Platform
from firsttouch.model.pricing import Computing, Pricing
from firsttouch.program.phase_threads import EVERY_THREAD, PhaseThreads
from firsttouch.program.program import Access, Launch

KERNELS = "kernels"
CPU_CODE = "code of the CPU"
STREAMS = "the CPU's code in the phase initialise reads or writes the declared bytes once, at memory bandwidth"


class ProfiledComputing(Computing):
    """Kernels that were measured elsewhere, and a CPU that streams, or takes what was measured elsewhere.

    kernels: None if they were not measured. notes: what is not in the times, in sentences. threads: as in Computing.
    """

    def __init__(
        self,
        platform: Platform,
        kernels: Kernels | None,
        notes: Iterable[str] = (),
        threads: PhaseThreads = EVERY_THREAD,
    ) -> None:
        self.kernels, self.notes, self.threads = kernels, dict.fromkeys(notes), threads
        self._platform = platform
        self._processors = platform.quantity("host.processors").value
        self._stream = platform.curve("host.bandwidth").assuming(STREAMS)
        self.grounds: Sequence[Ground] = kernels.grounds if kernels else ()
        self._profile = Price((0.0, 1.0), (Time(), Time()), tuple(self.grounds))

    def crossing(self, access: Access, allocator: str) -> tuple[float, float, float] | None:
        """Of memory that no cache holds, at least what kernels ask caches for."""
        asked, cross = (self.kernels.asked, self.kernels.crossings) if self.kernels else (None, None)
        if not asked or not self._is_uncached(allocator):
            return (cross.value, cross.low, cross.high) if cross else None
        if not cross:
            return asked.value, asked.low, asked.high
        return max(asked.value, cross.value), max(asked.low, cross.low), max(asked.high, cross.high)

    def launch(self, pricing: Pricing, launch: Launch) -> None:
        declared = kernel_bytes(launch)
        if not declared or launch.by == "file":
            return
        if launch.agent == "gpu":
            time = self._measured(launch, pricing.crossed)
            if time is not None and time.high > 0:
                pricing.terms.add(pricing.phase, KERNELS, self._profile, declared, time)
        else:
            self._cpu_code(pricing, launch, declared)

    def _is_uncached(self, allocator: str) -> bool:
        """Whether no cache of the GPU holds this memory; if the file does not say, they do."""
        with suppress(MissingValue):
            return holding(self._platform, "gpu", allocator) == NONE
        return False

    def _measured(self, launch: Launch, crossed: Time) -> Time | None:
        """The time of a kernel beyond that of the bytes that cross the link for it."""
        if self.kernels is None:
            return None
        try:
            kernel_time = self.kernels.time(launch)
        except NoProfile as missing:
            self.notes[str(missing)] = None
            return None
        return kernel_time.without(crossed)

    def _cpu_code(self, pricing: Pricing, launch: Launch, declared: float) -> None:
        """Where it was not measured, the CPU streams through what it declares; views between kernels are not counted
        then, of which only a few bytes may be used.
        """
        if self.kernels is not None:
            try:
                time = self.kernels.cpu_time(launch, pricing.phase)
                pricing.terms.add(pricing.phase, CPU_CODE, self._profile, declared, time)
                return
            except NoProfile as missing:
                if pricing.phase == "compute" and launch.by == "kernel":
                    self.notes[str(missing)] = None
        if pricing.phase == "initialise" or (self.kernels is not None and launch.by == "kernel"):
            time = self._stream.of(declared).times(self._longer(pricing, launch))
            pricing.terms.add(pricing.phase, CPU_CODE, self._stream, declared, time)

    def _longer(self, pricing: Pricing, launch: Launch) -> float:
        """How many times as long a launch takes if fewer threads share its work."""
        fewer = launch.by == "kernel" and self.threads.of(pricing.phase)
        return max(1.0, self._processors / fewer) if fewer else 1.0
