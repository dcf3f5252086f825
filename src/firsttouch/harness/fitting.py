"""Whether an application fits into memory: sizes that a device has names for, tiles, budgets and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firsttouch.base.units import format_size, parse_size
from firsttouch.harness.app import App, Params
from firsttouch.harness.shortage import OVERSUBSCRIBED, RATIO, budget_of, gpu_bytes, needs_of, why_not_left
from firsttouch.machine.allocators.properties import may_oversubscribe
from firsttouch.machine.hosts import managed_limit, may_exceed_device, memory_limit
from firsttouch.program.execution.ballast import why_not_oversubscribed
from firsttouch.program.needs import why_too_large
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import DeviceInfo, Factors, Scalar

REACHED = 0.95
"""The part of a size in bytes that an application should at least reach."""


def _round_down(size: float) -> int:
    """Round a size down to a sixteenth of its power of two, so that it does not depend on small changes in use."""
    step = 1 << max(0, int(size).bit_length() - 5)
    return int(size) // step * step


def requested_budget(requested: Mapping[str, Sequence[Scalar]]) -> int | None:
    try:
        return min((parse_size(str(text)) for text in requested.get("budget", ())), default=None)
    except ValueError:  # reported when the plan is made
        return None


def memory_sizes(device: DeviceInfo, budget: int | None) -> dict[str, Scalar]:
    """The sizes named in-memory and oversubscribed on a device, in bytes."""
    host, managed = memory_limit(device) or 0, managed_limit(device)
    on_device = device.facts.get("memory_free_bytes") or device.facts.get("memory_bytes")
    free = on_device if isinstance(on_device, int) else host
    smallest = min(free, host // 2, *(limit for limit in (managed, budget) if limit is not None))
    beyond: Scalar = _round_down(1.5 * (budget or free))
    if budget is None and why_not_oversubscribed(device):
        beyond = OVERSUBSCRIBED  # Application.skip says why
    return {"in-memory": _round_down(0.8 * smallest), OVERSUBSCRIBED: beyond}


def window_rows(app: type[App], params: Params, strategy: Strategy, factors: Factors) -> int:
    """Returns the rows of the tiled buffers that fit on the device at once under the budget; 0 if all fit.

    Raises:
        ValueError: not even one row fits, or no buffers are tiled.
    """
    budget, declarations = budget_of(factors), app.declarations(params)
    if budget is None or not strategy.duplicated or gpu_bytes(declarations) <= budget:
        return 0
    tiled = [d for d in declarations if d.name in app.tiled]
    needs = f"{app.name} needs {format_size(gpu_bytes(declarations))} of device memory, more than the budget"
    if not tiled:
        raise ValueError(f"{needs}, and has no tiled buffers that could be streamed")
    rest = gpu_bytes(d for d in declarations if d.name not in app.tiled)
    rows = max(0, budget - rest) // sum(d.nbytes // d.shape[0] for d in tiled)
    if rows < 1:
        raise ValueError(f"{needs}, which is too small for one row of its tiled buffers")
    return rows // 256 * 256 or rows


def why_too_small(app: type[App], params: Params, factors: Factors, device: DeviceInfo) -> str | None:
    """Returns that the application does not reach a size beyond the device or the budget, or None."""
    size, footprint = factors["size"], app.footprint(params)
    available = budget_of(factors) or device.facts.get("memory_free_bytes") or device.facts.get("memory_bytes")
    if not (isinstance(size, int) and isinstance(available, int)) or RATIO.name in factors:
        return None
    if footprint >= REACHED * size or not footprint <= available < size:
        return None
    limit = (
        f"the budget of {format_size(available)}"
        if budget_of(factors)
        else f"the {format_size(available)} of {device.name}"
    )
    return (
        f"{app.name} cannot exceed {limit} with a size of {format_size(size)}: its largest parameters below that take "
        f"{format_size(footprint)}"
    )


def why_does_not_fit(
    app: type[App], params: Params, strategy: Strategy, factors: Factors, device: DeviceInfo
) -> str | None:
    """Returns why the application does not fit into memory or the budget under the strategy, or None: of several
    processes, why the part of one does not.
    """
    entry = device.allocator(strategy.allocator)
    assert entry is not None
    try:
        rows = window_rows(app, params, strategy, factors)
    except ValueError as error:
        return str(error)
    budget, subject, moves = budget_of(factors), f"{app.name} needs", may_oversubscribe(entry)
    allowed = moves and may_exceed_device(device)
    hint = "; use --allow-oversubscription to run it anyway" if moves else ""
    needs = needs_of(app, params, strategy, factors, device)
    if not strategy.duplicated and budget is not None and needs.device > budget and not allowed:
        return f"{subject} {format_size(needs.device)} of device memory, more than the budget{hint}"
    on_host, on_device = needs.on(device)
    if rows:
        on_device = min(on_device, budget or on_device)
    if reason := why_too_large(subject, on_host, memory_limit(device), "host memory; the limit is"):
        return reason
    if allowed:
        on_device, hint = min(on_device, needs.fixed), ""
    if reason := why_too_large(subject, on_device, device.facts.get("memory_bytes"), f"{device.name}, which has"):
        return reason + hint
    return why_not_left(app, params, strategy, factors, device)
