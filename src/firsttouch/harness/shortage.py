"""Less device memory than data: the ratio, what it is a ratio of, and what ballast leaves free."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.experiments.contract.base import Factor
from firsttouch.harness import exchanging
from firsttouch.harness.app import App, Params
from firsttouch.harness.outcomes.exchanges import BUFFERS
from firsttouch.harness.placements import placement_of
from firsttouch.machine.allocators.properties import is_plain_host, may_oversubscribe, moves_when_touched
from firsttouch.program.declarations import Declaration
from firsttouch.program.execution.ballast import Ballast, why_not_beside_ballast, why_not_oversubscribed
from firsttouch.program.guidance import MEMORY_OF, OF_STRATEGY
from firsttouch.program.needs import MemoryNeeds, memory_needs
from firsttouch.program.strategies import STRATEGIES, Strategy
from firsttouch.records.schema import DeviceInfo, Factors, Scalar

OVERSUBSCRIBED = "oversubscribed"
RATIO = Factor(
    "oversubscribe", (), "ratio", doc="ratio of the application's device memory to the device memory that is left free"
)
PEAK = Factor(
    "peak",
    ("declared", "measured"),
    doc="the device memory that oversubscribe is a ratio of: of the declared buffers, or the peak of a run under "
    "explicit before the ballast, with what libraries allocate",
)
FACTORS = (RATIO, PEAK)
MEASURED_UNDER = "explicit"
"""The strategy whose peak is that of every strategy, so that all have the same bytes left."""


def is_oversubscribed(factors: Factors) -> bool:
    """Whether a point is to have less device memory than its data take, whatever the device has."""
    return factors["size"] == OVERSUBSCRIBED or RATIO.name in factors


def measures_peak(factors: Factors) -> bool:
    return RATIO.name in factors and factors.get(PEAK.name) == "measured"


def gpu_bytes(declarations: Iterable[Declaration]) -> int:
    return sum(d.nbytes for d in declarations if d.sides != "cpu")


def declared_peak(app: type[App], params: Params, factors: Factors) -> int:
    """Bytes of the buffers that the GPU uses; of several processes, of those of one."""
    return gpu_bytes(app.declarations(params, ranks=exchanging.ranks_of(factors)))


def budget_of(factors: Factors) -> int | None:
    """Bytes of device memory that the application may use."""
    budget = factors.get("budget")
    return budget if isinstance(budget, int) else None


def bytes_left_by_ballast(peak: int, strategy: Strategy, factors: Factors, device: DeviceInfo) -> int | None:
    """Returns the bytes of device memory that a ballast allocation leaves free, or None if there is no ballast.

    A ballast simulates a smaller device: for --oversubscribe, the same under every strategy; under a budget for memory
    that may come to the device without being allocated there, which is managed memory, and plain memory that the GPU
    touches first or that its driver moves.
    """
    ratio, budget = factors.get(RATIO.name), budget_of(factors)
    if isinstance(ratio, (int, float)):
        return int(peak / ratio)
    name, entry = strategy.allocator, device.allocator(strategy.allocator)
    moves = moves_when_touched(name) or may_oversubscribe(entry)
    moves = moves or (is_plain_host(name) and not device.capabilities.shares_host_memory)
    return budget if budget is not None and peak > budget and moves else None


def needs_of(app: type[App], params: Params, strategy: Strategy, factors: Factors, device: DeviceInfo) -> MemoryNeeds:
    """The memory that a point needs; of several processes, that of one."""
    return memory_needs(
        app.declarations(params, ranks=exchanging.ranks_of(factors)),
        strategy,
        device,
        messages=str(factors.get(BUFFERS, "")),
        guidance=placement_of(app, factors),
    )


def of_strategy(app: type[App], factors: Factors) -> Factors:
    """The settings that make memory of the strategy of all buffers that are device memory of their own."""
    guidance = placement_of(app, factors)
    own = [d.name for d in app.declarations(app.sizes["tiny"]) if guidance.on_device(d)]
    return Factors({f"{MEMORY_OF}{name}": OF_STRATEGY for name in own})


def why_not_left(
    app: type[App], params: Params, strategy: Strategy, factors: Factors, device: DeviceInfo, peak: int | None = None
) -> str | None:
    """Returns why the application cannot run beside its ballast, or None. peak: as measured; None: as declared."""
    if peak is None and measures_peak(factors):
        return why_not_oversubscribed(device)  # the rest is known when it was measured
    left = bytes_left_by_ballast(peak or declared_peak(app, params, factors), strategy, factors, device)
    entry = device.allocator(strategy.allocator)
    if left is None or entry is None:
        return None
    budget, subject = budget_of(factors), f"{app.name} needs"

    def refusal(chosen: Factors) -> str | None:
        needs = needs_of(app, params, strategy, chosen, device)
        on_device = needs.on(device)[1]
        if strategy.duplicated and budget is not None:
            on_device = min(on_device, budget)  # the arrays are used in tiles that fit the budget
        return why_not_beside_ballast(subject, device, entry, left, needed=on_device, fixed=min(on_device, needs.fixed))

    reason, placed = refusal(factors), of_strategy(app, factors)
    if reason and placed and refusal(factors | placed) is None:
        options = " ".join(f"--set {name}={value}" for name, value in placed.items())
        reason += f"; it fits with memory of the strategy for what only the GPU uses ({options})"
    return reason


class Shortage:
    """Ballast of a point, and the ratio that came out of it.

    run_under: runs the application once under a strategy, and returns its peak of device memory in bytes.
    """

    def __init__(
        self,
        app: type[App],
        params: Params,
        strategy: Strategy,
        factors: Factors,
        device: DeviceInfo,
        run_under: Callable[[Strategy], int],
    ) -> None:
        """Raises Unsupported if the application cannot run beside the ballast of a measured peak."""
        peak = self._measured = run_under(STRATEGIES[MEASURED_UNDER]) if measures_peak(factors) else None
        if peak is not None and (reason := why_not_left(app, params, strategy, factors, device, peak)):
            raise Unsupported(reason)
        self._peak = peak if peak is not None else declared_peak(app, params, factors)
        self.left = bytes_left_by_ballast(self._peak, strategy, factors, device)
        """Bytes of the device that ballast leaves free; None: there is none."""
        self._reports = device.capabilities.reports_free_memory and not device.capabilities.shares_host_memory

    def ballast(self, device: _core.Device) -> Ballast:
        return Ballast(device, self.left)

    def counters(self, ballast: Ballast, device: _core.Device) -> dict[str, Scalar]:
        """Counters of the record, read while there is the ballast. Data that exceed the device have a ratio without."""
        counters = dict(ballast.counters)
        if self._measured is not None:
            counters["measured_peak_bytes"] = self._measured
        free = device.memory()[1] if self._reports else 0
        if free > 0 and (counters or self._peak > free):
            counters["ratio_reached"] = self._peak / free
        return counters
