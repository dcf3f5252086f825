"""How many threads carry out the CPU's code of an application: all, or one, as in most originals."""

from __future__ import annotations

from collections.abc import Mapping

from firsttouch.experiments.contract.base import Factor
from firsttouch.program.program import COMPUTE, INITIALISE, PhaseThreads
from firsttouch.records.schema import Factors

CPU_CODE = "cpu_code"
SINGLE = "single"
_THREADS = ("parallel", SINGLE)
FACTORS: Mapping[str, Factor] = {
    INITIALISE: Factor(INITIALISE, _THREADS, doc="CPU threads that generate inputs"),
    CPU_CODE: Factor(CPU_CODE, _THREADS, doc="CPU threads of what the CPU computes between kernels"),
}
_PHASES = {INITIALISE: INITIALISE, CPU_CODE: COMPUTE}


def threads_of(factors: Factors) -> PhaseThreads:
    """The threads of each phase at a point."""
    return PhaseThreads(**{phase: int(factors.get(name) == SINGLE) for name, phase in _PHASES.items()})
