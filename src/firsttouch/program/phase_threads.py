"""How many threads of the CPU carry out a program's code in each phase: all, or one, as in most originals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

INITIALISE, COMPUTE = "initialise", "compute"
"""The phases in which the CPU's code runs."""
CPU_CODE = "cpu_code"
"""The setting that decides of the phase compute; that of the phase initialise has its name."""
PARALLEL, SINGLE = "parallel", "single"
USUAL_THREADS: Mapping[str, str] = {INITIALISE: PARALLEL, CPU_CODE: PARALLEL}
"""The settings, with what they are if a point does not say."""


class PhaseThreads(NamedTuple):
    """How many threads of the CPU carry out its code in each phase; 0: all."""

    initialise: int = 0
    compute: int = 0

    def of(self, phase: str) -> int:
        return {INITIALISE: self.initialise, COMPUTE: self.compute}.get(phase, 0)


EVERY_THREAD = PhaseThreads()


def threads_of(settings: Mapping[str, object]) -> PhaseThreads:
    """The threads of each phase, by settings such as the factors of a point."""
    return PhaseThreads(int(settings.get(INITIALISE) == SINGLE), int(settings.get(CPU_CODE) == SINGLE))
