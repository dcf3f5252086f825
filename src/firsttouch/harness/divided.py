"""How an application divides its work between both agents."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Division:
    """gpu_share: part of the work that the GPU does. cpu_threads: of the CPU's part; 0: all. in_turns: the CPU's part
    of each step begins when the GPU's has ended.
    """

    gpu_share: float = 0.5
    cpu_threads: int = 0
    in_turns: bool = False
