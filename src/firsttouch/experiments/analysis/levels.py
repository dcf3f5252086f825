"""The levels of the memory hierarchy in one latency curve, as findings."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from firsttouch.experiments.analysis.plateaus import (
    OVERSHOOT,
    SAME,
    Plateau,
    find_plateaus,
    name_plateaus,
    stated_caches,
)
from firsttouch.records.findings import Claim, Finding, Quantity, finding, number
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.records.statistics import median_of

_ID, _HEAD = "latency.level", "memory levels seen by the {agent} in {allocator} memory:"
_CURVE = ("size", "order", "first_touch")
ENDS = Claim(_ID, "{level}: {value} up to {reach}", _HEAD, _CURVE)
STATED = Claim(_ID, "{level} ({stated_bytes} stated): {value} up to {reach}", _HEAD, _CURVE)
LAST = Claim(_ID, "{level}: {value}", _HEAD, _CURVE)
RISING = Claim(_ID, "memory: {value} at {size}, with no plateau", _HEAD, _CURVE)
LEVEL_FACTOR = sqrt(2)
"""Loads that take less than this many times as long as those of a level mostly still hit that level."""


def levels(curve: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
    """Each level of a curve over `size`, smallest first. Memory follows the last cache, with or without a plateau."""
    rows = sorted(curve, key=lambda r: number(r, "size"))
    facts = device.facts if device else {}
    named = name_plateaus(find_plateaus([int(number(r, "size")) for r in rows], list(map(median_of, rows))), facts)
    stated = stated_caches(facts)
    findings, largest = [], rows[-1]
    for i, (name, plateau) in enumerate(named):
        following = named[i + 1][1].value if i + 1 < len(named) else median_of(largest)
        findings.append(_level_finding(name, plateau, following, rows, stated))
    beyond = len(stated) > 1 and number(largest, "size") > OVERSHOOT * max(stated.values())
    if beyond and not any(name.startswith("memory") for name, _ in named):
        findings.append(finding(RISING, largest, level="memory"))
    return findings


def _level_finding(
    name: str, plateau: Plateau, following: float, rows: Sequence[Record], stated: dict[str, int]
) -> Finding:
    """One level and its end: the last size whose loads take less than LEVEL_FACTOR times as long as those of the level,
    and less than the geometric mean of this level and the next.
    """
    on_it = [r for r in rows if plateau.low <= number(r, "size") <= plateau.high]
    after = [r for r in rows if number(r, "size") > plateau.high]
    most = min(sqrt(plateau.value * max(following, plateau.value)), LEVEL_FACTOR * plateau.value)
    end = next((i for i, r in enumerate(after) if median_of(r) >= most), len(after))
    value = _level_value(on_it, plateau)
    if end == len(after):
        return finding(LAST, on_it, value, level=name)
    last = number((after[end - 1] if end else on_it[-1]), "size")
    details = {"reach": Quantity(last, "B", last, number(after[end], "size"))}
    if size := next((size for cache, size in stated.items() if cache in name), None):  # "L2" is in "near L2"
        return finding(STATED, on_it, value, details=details, level=name, stated_bytes=size)
    return finding(ENDS, on_it, value, details=details, level=name)


def _level_value(rows: Sequence[Record], plateau: Plateau) -> Quantity:
    """The level's median, with the range of its points except outliers."""
    near = [m for m in map(median_of, rows) if abs(m / plateau.value - 1) < SAME]
    return Quantity(plateau.value, rows[0].unit, min(near, default=None), max(near, default=None))
