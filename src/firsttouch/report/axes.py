"""Ticks, labels and scales of quantitative axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from firsttouch.records.text import SECONDS, is_size
from firsttouch.report.drawing import Spec
from firsttouch.report.lettering import CHARACTER
from firsttouch.report.naming import without_unit

NAMES: Spec = {"labelLimit": 290, "titlePadding": 38}
"""Properties of an axis of names. The padding leaves room for names that are wider in the reader's font."""
WIDE_NAMES: Spec = {**NAMES, "labelLimit": 370}
"""The same for a chart that has the whole width."""
LONG_NAME = 30
"""The characters from which a name may need more room in the reader's font than the padding leaves."""
FEW_TICKS: Spec = {"tickCount": 4}
"""Properties of the horizontal axis of a chart that is as wide as a phone."""
MOST_ACROSS = 7
"""If a horizontal decimal axis had more ticks, only its powers of ten have one."""
MOST_TICKS = 15
"""The most whole numbers on an axis of which each has a tick."""


def extent(names: Sequence[str], limit: float) -> Spec:
    """The room that an axis of long names has in any case."""
    longest = max(map(len, names), default=0)
    return {"minExtent": round(min(limit, CHARACTER * longest))} if longest > LONG_NAME else {}


def log_ticks(values: Sequence[float], base: int) -> tuple[list[float], list[float]]:
    """Domain and ticks of a logarithmic axis. Ticks are whole powers; over few decades also their 2- and 5-fold."""
    low, high = min(values), max(values)
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    if base == 2:
        step = max(1, math.ceil((last - first) / 8))
        ticks = [2.0**e for e in range(first, last + 1) if e % step == 0]
        return ([low, high] if high > low else [low / 2, high * 2]), ticks
    last = max(last, first + 1)
    multiples = (1, 2, 5) if last - first <= 3 else (1,)
    step = max(1, math.ceil((last - first) / 8))
    ticks = [m * 10.0**e for e in range(first, last + 1, step) for m in multiples]
    inside = [t for t in ticks if low / 2.5 <= t <= high * 2.5]
    if len(inside) < 2:
        return [10.0**first, 10.0**last], ticks
    return [min(low, inside[0]), max(high, inside[-1])], inside


def byte_ticks(most: float) -> list[float]:
    """Ticks from 0 to at least `most` bytes, in steps of a power of two."""
    step = 2.0 ** math.ceil(math.log2(max(most, 6.0) / 6))
    return [i * step for i in range(math.ceil(most / step) + 1)]


def size_label(digits: str = "") -> str:
    """A Vega expression that labels each value of an axis in a suitable binary unit."""
    units = ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B"))
    parts = [
        f"abs(datum.value) >= {2**shift} ? format(datum.value / {2**shift}, '{digits}~r') + ' {unit}'"
        for shift, unit in units
    ]
    return " : ".join(parts) + f" : format(datum.value, '{digits}~r')"


def time_label(scale: float) -> str:
    """A Vega expression that labels each time of an axis in a suitable unit. scale: the data's unit in seconds."""
    parts = [
        f"abs(datum.value) >= {0.9999 * unit_value} ? format(datum.value / {unit_value}, '.3~r') + ' {unit}'"
        for unit, unit_value in (("s", 1.0 / scale), ("ms", 1e-3 / scale), ("us", 1e-6 / scale))
    ]
    return " : ".join(parts) + f" : format(datum.value * {scale / 1e-9}, '.3~r') + ' ns'"


def quantitative(name: str, title: str, unit: str, values: Sequence[float], log: bool, *, is_x: bool = False) -> Spec:
    """Title, scale and axis of one quantitative channel."""
    scale: Spec = {"zero": not is_x, "nice": not is_x}
    axis: Spec = {"grid": not is_x}
    head, is_bytes = unit.partition(" ")[0], is_size(name) or unit == "B"
    if is_bytes:
        axis |= {"labelExpr": size_label()}
    elif as_time(head, values):
        axis |= {"labelExpr": time_label(SECONDS[head]), "tickCount": 5}
        title = without_unit(title, head)
    elif head in SECONDS and head not in title.replace(",", " ").split():
        title = f"{title}, {head}"
        axis |= {"format": ",~r"}
    elif name in ("median", "value"):
        axis |= {"format": ",~r"}
    elif is_x and not log and all(v.is_integer() for v in values):
        few = max(values) - min(values) < MOST_TICKS
        whole = {"values": [*range(int(min(values)), int(max(values)) + 1)], "format": ",d"}
        axis |= whole if few else {"tickMinStep": 1}
    positive = [v for v in values if v > 0]
    if log and min(values) <= 0:
        # The scale is linear up to the least value above zero. Vega chooses no round ticks for such a scale.
        scale = {"type": "symlog", "nice": False, "constant": min(positive, default=1.0)}
        few = is_x and len(set(values)) <= 10
        axis["values"] = sorted(
            {0.0, *(values if few or not positive else log_ticks(positive, 2 if is_bytes else 10)[1])}
        )
    elif log:
        powers = all(math.log2(v).is_integer() for v in values)
        base = 2 if is_bytes or (powers and name not in ("median", "value")) else 10
        domain, ticks = log_ticks(values, base)
        if is_x and base == 10 and len(ticks) > MOST_ACROSS:
            ticks = [t for t in ticks if math.log10(t).is_integer()]
        scale, axis["values"] = {"type": "log", "domain": domain, "nice": False}, ticks
    elif is_bytes and min(values) >= 0:
        axis["values"] = byte_ticks(max(values))
    return {"title": title, "scale": scale, "axis": axis}


def as_time(unit: str, values: Sequence[float]) -> bool:
    """True if values of this unit are easier to read as times, each in a suitable unit."""
    return unit in SECONDS and (max(values, default=0) >= 1e4 or 0 < max(values, default=0) < 0.1)
