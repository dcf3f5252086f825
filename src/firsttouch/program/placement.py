"""Where a strategy places each buffer of an application."""

from __future__ import annotations

from typing import Literal

from firsttouch.program.declarations import Declaration
from firsttouch.program.guidance import BY_ITSELF, Placement
from firsttouch.program.strategies import Strategy

Place = Literal["cpu", "gpu", "copies", "strategy", "exchange"]


def placement(
    declared: Declaration, strategy: Strategy, guidance: Placement = BY_ITSELF, *, copy_control: bool = False
) -> Place:
    """Where a buffer is: plain memory of one side, a host array and a device array, memory of the strategy, or that of
    messages. Arguments are those of Ledger. One that both sides may use, and whose memory is `device`, has a host array
    too, for the CPU to read.
    """
    if declared.role == "exchange":
        return "exchange"
    if declared.sides == "cpu":
        return "cpu"
    copied = strategy.duplicated or guidance.on_device(declared)
    if declared.sides == "gpu" and copied:
        return "gpu"
    copied = copied or (declared.role == "control" and copy_control)
    return "copies" if copied else "strategy"
