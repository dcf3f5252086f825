"""How work is divided between CPU and GPU: the factors, the search for the best share, and what reports say about it.

The share is the part of the work that the GPU does: 0 is the CPU alone, 1 the GPU alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firsttouch.experiments.contract.base import Factor
from firsttouch.records.figures import Line
from firsttouch.records.findings import Claim, Finding, Quantity, finding
from firsttouch.records.schema import Factors, Record, Scalar, as_number

BEST = "best"
COARSE = (1.0, 0.75, 0.5, 0.25, 0.0)
"""The shares that a search tries first, the GPU alone before all others."""
HALVINGS = 2
"""How often a search then halves the distance, and tries the shares on both sides of the best one."""
SEARCH_SECONDS = 10.0
"""No further share is tried after this."""
CURVE = "share_{}_ms"
"""The counters of the times that a search found."""

GPU_SHARE = Factor(
    "gpu_share",
    (0.5,),
    "fraction",
    known={BEST: BEST},
    doc="part of the work that the GPU does; the CPU does the rest",
    optional=True,
)
CPU_THREADS = Factor("cpu_threads", (0,), "count", doc="threads of the CPU's part; 0: all", optional=True)
FIGURE = Line(
    x="series", y="value", series=CURVE, colour="strategy", mark="best_share", x_title="part of the work on the GPU",
    y_title="ms", where={"gpu_share": BEST}, title="Time over the part of the work on the GPU; a ring marks the best",
)  # fmt: skip

CLAIM = "shares.best"
_TIMES = "{speedup} times as fast as the GPU alone"
_NAMES = ("allocator", "cpu_half", "strategy", "gpu_share")
FASTER = Claim(CLAIM, f"{{where}}: best share {{best}}: {_TIMES} ({{low}} to {{high}})", names=_NAMES)
NO_FASTER = Claim(
    CLAIM,
    "{where}: no share is clearly faster than the GPU alone; {best}, the fastest in the search, is {speedup} times as "
    "fast ({low} to {high})",
    names=_NAMES,
)
ONCE = Claim(CLAIM, f"{{where}}: best share {{best}}: {_TIMES}, by one run of each", names=_NAMES)
GPU_ALONE = Claim(CLAIM, "{where}: no share is faster than the GPU alone", names=_NAMES)


def share_of(factors: Factors) -> float | None:
    """The share that a point sets, half by default; None if it is searched for."""
    share = factors.get("gpu_share", GPU_SHARE.values[0])
    return None if share == BEST else float(share or 0)


@dataclass(frozen=True)
class ShareSearch:
    """The times of the shares that were tried, in ms, and how long that took. complete: no share was left out."""

    times: dict[float, float]
    seconds: float
    complete: bool

    @property
    def best(self) -> float:
        return min(self.times, key=lambda share: self.times[share])

    def counters(self, best: Sequence[float], gpu_alone: Sequence[float]) -> dict[str, Scalar]:
        """The counters of a record. best, gpu_alone: times of more runs at the best share, and with the GPU alone."""
        from firsttouch import _core

        (n, median, *_, low, high), (_, alone, *_, alone_low, alone_high) = map(_core.summarise, (best, gpu_alone))
        counters: dict[str, Scalar] = {CURVE.format(f"{share:g}"): self.times[share] for share in sorted(self.times)}
        counters |= {"best_share": self.best, "best_ms": median, "all_on_gpu_ms": alone, "best_speedup": alone / median}
        if n > 1 and self.best != 1:
            counters |= {"best_speedup_low": alone_low / high, "best_speedup_high": alone_high / low}
        return counters | {"search_ms": self.seconds * 1e3, "search_complete": self.complete}


def search(time_of: Callable[[float], float], limit: float = SEARCH_SECONDS) -> ShareSearch:
    """Find the share with the least time: a coarse grid, then halves of its step on both sides of the best.

    time_of: the time of one run in ms. limit: seconds after which no other share is tried; two always are.
    """
    started = time.monotonic()
    times: dict[float, float] = {}

    def tries(shares: Sequence[float]) -> bool:
        for share in shares:
            if len(times) > 1 and time.monotonic() - started > limit:
                return False
            times[share] = time_of(share)
        return True

    complete, step = tries(COARSE), COARSE[0] - COARSE[1]
    for _ in range(HALVINGS):
        step /= 2
        best = min(times, key=lambda share: times[share])
        complete = complete and tries([s for s in (best + step, best - step) if 0 <= s <= 1])
    return ShareSearch(times, time.monotonic() - started, complete)


def speedup(record: Record) -> Quantity | None:
    """How many times as fast as the GPU alone the best share is, by the record of a search; otherwise None."""
    values = [record.counters.get(f"best_speedup{bound}") for bound in ("", "_low", "_high")]
    ratio, low, high = map(as_number, values)
    return None if ratio is None else Quantity(ratio, "", low, high)


def claim_of(share: float, ratio: Quantity) -> Claim:
    """What may be said of the best share, which is `ratio` times as fast as the GPU alone."""
    if share == 1:
        return GPU_ALONE
    return ONCE if ratio.low is None else FASTER if ratio.low > 1 else NO_FASTER


def parts_of(ratio: Quantity) -> dict[str, Quantity]:
    """The quantities that a claim about it names."""
    parts = {"speedup": ratio.value, "low": ratio.low, "high": ratio.high}
    return {name: Quantity(value) for name, value in parts.items() if value is not None}


def best_found(record: Record, where: str) -> list[Finding]:
    """What a search found, if the record is one of a search. where: its memory, in words."""
    share, ratio = as_number(record.counters.get("best_share")), speedup(record)
    if ratio is None or share is None:
        return []
    claim = claim_of(share, ratio)
    return [finding(claim, record, ratio, details=parts_of(ratio), where=where, best=f"{share:g}")]
