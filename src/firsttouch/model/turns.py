"""Turns of a kernel and the CPU over a small managed block by the driver's rules, where nobody measured them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from firsttouch.model.costs import ExchangePrice, Time
from firsttouch.model.rules.thrashing import time_of_turns

FOLLOWED = 4000
"""At most this many turns are followed one by one. Further ones take as long as the later half of these."""


@dataclass(frozen=True)
class RuledTurns(ExchangePrice):
    """The times of turns by rules/thrashing.py.

    fault: a fault alone, of either agent. remote: a turn while the block is pinned. coherent: whether the CPU reaches
    the GPU's memory, over a link with atomics.
    """

    fault: Time = field(default_factory=Time)
    remote: Time = field(default_factory=Time)
    coherent: bool = False

    def of(self, turns: float, gap: float = 0) -> Time:
        bounds = (
            (self.fault.value, self.remote.value),
            (self.fault.low, self.remote.low),
            (self.fault.high, self.remote.high),
        )
        times = [_followed(int(turns), fault, remote, gap, self.coherent) for fault, remote in bounds]
        return Time(times[0], min(times), max(times))


@lru_cache(maxsize=4096)
def _followed(turns: int, fault: float, remote: float, gap: float, coherent: bool) -> float:
    count = min(turns, FOLLOWED)
    whole, half = (_time(n, fault, remote, gap, coherent) for n in (count, count // 2))
    later = (whole - half) / max(1, count - count // 2)
    return whole + later * (turns - count)


def _time(turns: int, fault: float, remote: float, gap: float, coherent: bool) -> float:
    return time_of_turns(turns, fault, fault, remote, gap=gap, cpu_reaches_gpu=coherent, fast_link=coherent)
