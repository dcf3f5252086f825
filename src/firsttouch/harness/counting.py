"""What an application does while a profiler counts it: its phase compute and its iterations lie between kernels that do
nothing (profile/counters/marks.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from firsttouch import _core
from firsttouch.experiments.contract.shares import share_of
from firsttouch.harness.app import App
from firsttouch.harness.exchanging import ranks_of
from firsttouch.harness.outcomes.derive import EVENTS, ON
from firsttouch.harness.outcomes.placements import PLACEMENT
from firsttouch.harness.placements import BEST
from firsttouch.profile.counters.marks import ITERATION_MARK, PHASE_MARK
from firsttouch.profile.counters.tool import COUNTED_ELSEWHERE
from firsttouch.program.execution.agents import KernelFile
from firsttouch.records.schema import Factors, Scalar

_KERNELS = "\n".join(f"KERNEL {name}(int unused) {{}}" for name in (PHASE_MARK, ITERATION_MARK))


class Marks:
    """Queues the marks of a run, in the order of its launches."""

    def __init__(self, device: _core.Device) -> None:
        file = KernelFile("marks", _KERNELS)
        self._device = device
        self._kernels = {name: file.compiled(device, name) for name in file.entries}

    @contextmanager
    def phase(self) -> Iterator[None]:
        self._launch_mark(PHASE_MARK)
        yield
        self._launch_mark(PHASE_MARK)

    def iteration(self) -> None:
        self._launch_mark(ITERATION_MARK)

    def _launch_mark(self, name: str) -> None:
        self._device.launch(self._kernels[name], 1, 1, [0])


def why_not(app: type[App], factors: Factors, requested: Mapping[str, Sequence[Scalar]]) -> str:
    """Why --counters does not count a point, in one sentence, or ''. requested: the factors set by options."""
    if factors.get(EVENTS) == ON:
        return COUNTED_ELSEWHERE
    if app.exchanges and ranks_of(factors) > 1:
        return "--counters profiles one process, and several carry out this point"
    if BEST in requested.get(PLACEMENT, ()) or (app.divided and share_of(factors) is None):
        return "a search runs the application many times; name the values that it found, and no search, to count them"
    return ""
