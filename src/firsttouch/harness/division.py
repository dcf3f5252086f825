"""How an application divides its work between both agents, and the search for the best division."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from firsttouch.experiments.contract.base import Factor
from firsttouch.experiments.contract.shares import CPU_THREADS, GPU_SHARE, ShareSearch, search, share_of
from firsttouch.harness.divided import Division
from firsttouch.program.strategies import Strategy, why_not_at_once
from firsttouch.records.schema import DeviceInfo, Factors, Scalar

if TYPE_CHECKING:
    from firsttouch.harness.app import App
    from firsttouch.harness.measure import Run

AT_ONCE, IN_TURNS = "concurrent", "lockstep"
FACTORS: Mapping[str, Factor] = {
    "gpu_share": GPU_SHARE,
    "cpu_threads": CPU_THREADS,
    "schedule": Factor("schedule", (AT_ONCE, IN_TURNS), doc="both agents at once, or the GPU's part, then the CPU's"),
}
"""Further factors of an application that divides its work."""


def why_skipped(app: type[App], factors: Factors, strategy: Strategy, device: DeviceInfo) -> str:
    """Why an application's division is impossible, or ''."""
    return why_not_at_once(strategy, device) if app.divided and factors.get("schedule") == AT_ONCE else ""


def divide(app: type[App], factors: Factors, strategy: Strategy, device: DeviceInfo) -> Division:
    """The division of a point; before a search, half each."""
    if not app.divided:
        return Division()
    share, threads = share_of(factors), factors.get("cpu_threads", 0)
    schedule = factors.get("schedule") or (IN_TURNS if why_not_at_once(strategy, device) else AT_ONCE)
    return Division(
        Division.gpu_share if share is None else share, threads if isinstance(threads, int) else 0, schedule == IN_TURNS
    )


def divided_ms(run: Run) -> float:
    """The time that depends on the division: computing, and the transfer of the result to the CPU."""
    return (run.phases["compute"] + run.phases["readback"]) * 1e3


@dataclass(frozen=True)
class ChosenDivision:
    """The division to measure; if it was searched for, the search and the times of the GPU alone."""

    division: Division
    search: ShareSearch | None = None
    gpu_alone: Sequence[float] = ()

    def counters(self, runs: Sequence[Run]) -> dict[str, Scalar]:
        """The counters of the record. runs: those with the division."""
        times = [divided_ms(run) for run in runs]
        return {} if self.search is None else self.search.counters(times, self.gpu_alone or times)


def find(
    app: type[App], factors: Factors, division: Division, run: Callable[[Division], Run], repeats: int
) -> ChosenDivision:
    """The division that a point sets, or the best one by a search with one run of each share. The GPU alone is then run
    `repeats` times, as the best one will be.
    """
    if not app.divided or share_of(factors) is not None:
        return ChosenDivision(division)

    def time_of(share: float) -> float:
        return divided_ms(run(replace(division, gpu_share=share)))

    result = search(time_of)
    alone = [time_of(1.0) for _ in range(repeats)] if result.best != 1 else []
    return ChosenDivision(replace(division, gpu_share=result.best), result, alone)


def facts(app: App) -> dict[str, Scalar]:
    """The counters of the record about its division."""
    if not app.divided:
        return {}
    return {"ran_schedule": IN_TURNS if app.division.in_turns else AT_ONCE, "ran_share": app.gpu_share_reached}
