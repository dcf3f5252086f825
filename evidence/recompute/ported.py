"""Tables of advice about programs that others wrote, beside the versions with unified memory that they wrote too.

The numbers are those of ported.json, which benchmarks/ported_versions.py writes. A program's timers divide it into the
compute part (copies or prefetches to the GPU, advice, kernels with their faults), the reading back, and the rest.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

from firsttouch.base.units import format_size
from firsttouch.model.ranges import range_of_traced
from firsttouch.records.text import count, percent
from records import Directory, table

VERSIONS: Mapping[str, str] = {
    "explicit": "as it is",
    "um": "managed",
    "hint": "managed+advise",
    "prefetch": "managed+prefetch",
    "both": "managed+both",
}
"""The versions of um-apps, and the rows of the advice that are about them."""
CLEARLY, WHOLE, LARGE_ERROR = 1.05, 1.10, 0.50
_BACK = ("copy back", "first touch of host pages by the copy", "faults of the CPU")
"""What terms of the reading back begin with, whatever phase they are in."""


@dataclass(frozen=True)
class Span:
    """ms: the median of several rounds, the least and the most."""

    ms: float
    low: float
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Span:
        return cls(*(1e3 * v for v in (median(seconds), min(seconds), max(seconds))))


@dataclass(frozen=True)
class Version:
    """One version of a program: its compute part, and all of it but the reading back, as timed; and what is predicted
    that memory adds.
    """

    program: str
    name: str
    compute: Span
    whole: Span
    added: Span
    """Predicted, in the compute part."""
    total: float
    """Predicted ms of all that memory adds, but for the reading back."""
    kernels: float

    @property
    def measured(self) -> float:
        """ms that the compute part takes beyond the kernels of the explicit version."""
        return self.compute.ms - self.kernels

    @property
    def in_range(self) -> bool:
        """Whether the range that users are told holds."""
        low, high = range_of_traced(self.added.ms, self.added.low, self.added.high)
        return low <= self.measured <= high

    @property
    def error(self) -> float:
        return abs(self.added.ms - self.measured) / self.compute.ms


def timer(timers: Mapping[str, float], *names: str) -> float:
    """Seconds of the first of these timers that a program has, or 0."""
    known = {name.lower(): value for name, value in timers.items()}
    return next((known[name] for name in names if name in known), 0.0)


def read_back(timers: Mapping[str, float]) -> float:
    return timer(timers, "d2h timer") + timer(timers, "d2h async prefetch timer")


def compute_part(timers: Mapping[str, float]) -> float:
    before = timer(timers, "h2d timer") + timer(timers, "h2d async prefetch timer")
    advice = timer(timers, "advise timer", "adivse timer")
    return before + advice + timer(timers, "compute migrate timer") - read_back(timers)


def whole(timers: Mapping[str, float]) -> float:
    """All but the reading back, which the versions with unified memory do with a copy that the explicit ones lack."""
    return timer(timers, "application timer", "applicaiton timer") - read_back(timers)


def total(advice: Mapping[str, Any], row: str) -> float:
    """What a row adds in all but the reading back."""
    terms = advice["rows"][row]["terms"]
    return sum(t[4] for t in terms if t[0] != "readback" and not t[1].startswith(_BACK))


def load_ported(directories: Sequence[Directory]) -> dict[str, Any]:
    """What came of the visit of which a directory has prices."""
    found: dict[str, Any] = json.loads((directories[0].path.parents[1] / "ported.json").read_text())
    return found


def predicted(advice: Mapping[str, Any], row: str) -> Span | None:
    """What a row says that the compute part takes beyond the kernels, with the bounds of what these may use."""
    if row not in advice["rows"]:
        return None
    own = row == VERSIONS["explicit"]
    terms = [
        term
        for term in advice["rows"][row]["terms"]
        if (term[1].startswith("copy in") if own else term[0] == "compute" or term[1].startswith("advice"))
    ]
    ms, low, high = (sum(term[i] for term in terms) for i in (4, 5, 6))
    for bounds in advice["bounds"]:
        if bounds["strategy"] == row:
            least, most = (
                bounds[n] if bounds[n] is not None else bounds["assumed_ms"] for n in ("least_ms", "most_ms")
            )
            low, high = low - max(0.0, bounds["assumed_ms"] - least), high + max(0.0, most - bounds["assumed_ms"])
    return Span(ms, max(0.0, low), high)


def versions(ported: Mapping[str, Any]) -> Iterator[Version]:
    """The versions that were timed and predicted."""
    for program, about in ported.items():
        times, advice = about["times"], about.get("advice")
        if not times.get("explicit") or advice is None:
            continue
        kernels = 1e3 * median(timer(t, "compute migrate timer") - read_back(t) for t in times["explicit"])
        for name, row in VERSIONS.items():
            added = predicted(advice, row)
            if times.get(name) and added is not None:
                compute, all_of_it = (Span.of([part(t) for t in times[name]]) for part in (compute_part, whole))
                yield Version(program, name, compute, all_of_it, added, total(advice, row), kernels)


def pairs(ported: Mapping[str, Any]) -> Iterator[tuple[Version, Version, bool]]:
    """Versions of a program whose compute parts differ clearly, the faster first, and whether that was predicted."""
    known = list(versions(ported))
    for a, b in combinations(known, 2):
        if a.program == b.program:
            first, second = sorted((a, b), key=lambda v: v.compute.ms)
            if first.compute.high < second.compute.low and second.compute.ms > CLEARLY * first.compute.ms:
                yield first, second, first.added.ms < second.added.ms


def whole_pairs(ported: Mapping[str, Any]) -> Iterator[bool]:
    """Of versions of a program whose applications differ by over 10 %, whether the order was predicted."""
    for a, b in combinations(versions(ported), 2):
        if a.program == b.program:
            first, second = sorted((a, b), key=lambda v: v.whole.ms)
            if second.whole.ms > WHOLE * first.whole.ms:
                yield first.total < second.total


def order(directories: Sequence[Directory]) -> str:
    """What memory adds to the compute part of each version, predicted and measured, in ms."""
    known = list(versions(load_ported(directories)))
    rows = [
        [program, *(f"{v.added.ms:.3g}, {v.measured:.3g}" for v in known if v.program == program)]
        for program in dict.fromkeys(v.program for v in known)
    ]
    return table(["", *(f"`{row}`" for row in VERSIONS.values())], rows)


def verdict(directories: Sequence[Directory]) -> str:
    return judged(load_ported(directories))


OTHERWISE = "convolutionFFT2D"
"""The program whose versions with unified memory do more than its explicit one: they fill scratch arrays on the CPU."""


def judged_alike(directories: Sequence[Directory]) -> str:
    """The verdict of the programs whose versions do the same."""
    return judged({name: about for name, about in load_ported(directories).items() if name != OTHERWISE})


def judged(ported: Mapping[str, Any]) -> str:
    """The verdict in sentences."""
    known, ordered, wholes = list(versions(ported)), list(pairs(ported)), list(whole_pairs(ported))
    errors = sorted(v.error for v in known)
    within = sum(error <= LARGE_ERROR for error in errors)
    held = sum(v.in_range for v in known)
    right, choices = sum(ok for _, _, ok in ordered), list(advised(known))
    texts = (
        f"Of {count(len(ordered), 'pair')} of versions whose compute parts differ clearly, {right} are in the "
        f"predicted order. Of {len(wholes)} pairs whose whole times, without reading back, differ by over 10 %, "
        f"{sum(wholes)} are.",
        "The version with the lowest prediction is the fastest, or within 5 % of it, in "
        f"{sum(choices)} of {len(choices)} programs.",
        f"The predicted addition is off by a median of {percent(median(errors))} of the compute part, and by at most "
        f"50 % in {within} of {len(errors)} versions; the range that is printed contains the measured one in {held} of "
        "them.",
    )
    return textwrap.fill(" ".join(texts), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def advised(known: Sequence[Version]) -> Iterator[bool]:
    """Of each program, whether the version with the least prediction is as good as the fastest."""
    for program in dict.fromkeys(v.program for v in known):
        of = [v for v in known if v.program == program]
        best, fastest = min(of, key=lambda v: v.added.ms), min(of, key=lambda v: v.compute.ms)
        yield best.compute.ms <= CLEARLY * fastest.compute.ms


INTO, BACK = "faults of the GPU on pages that are on the CPU", "faults of the CPU on pages that are on the GPU"


def moved(directories: Sequence[Directory]) -> str:
    """Bytes that plain managed memory moves each way, as predicted and as the trace of that version counts them."""
    ported, rows = load_ported(directories), []
    for program, about in ported.items():
        advised, traced = about.get("advice", {}).get("rows", {}), about["traced"].get("um")
        if "managed" not in advised or traced is None:
            continue
        terms, own = advised["managed"]["terms"], advised.get(VERSIONS["explicit"], {}).get("terms", [])
        into, back = (sum(t[2] for t in terms if t[1] == what) for what in (INTO, BACK))
        copied = sum(t[2] for t in own if t[1].startswith(_BACK[:2]))
        amounts = (into, traced["h2d"] or 0, copied, back, traced["d2h"] or 0)
        rows.append([program, *(format_size(amount, 4) for amount in amounts)])
    head = ["program", "to the GPU: predicted", "traced", "copied back as it is", "back: predicted", "traced"]
    return table(head, rows)


TEXTS = {"ported-order": order, "ported-judged": verdict, "ported-alike": judged_alike, "ported-moved": moved}
