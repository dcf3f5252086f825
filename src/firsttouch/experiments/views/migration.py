"""The findings of migration."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from firsttouch.base.units import format_number, format_size
from firsttouch.experiments.analysis.passes import behaviour, settled_at
from firsttouch.machine.allocators.properties import role
from firsttouch.profile.events.unseen import is_complete
from firsttouch.records.findings import (
    CLEAR_RATIO,
    EVERY,
    Claim,
    Finding,
    Quantity,
    compare_medians,
    counter,
    finding,
    number,
    quantity,
    ratio_of,
)
from firsttouch.records.reading import key_of
from firsttouch.records.schema import Record, as_number
from firsttouch.records.statistics import median_of
from firsttouch.records.text import count

BASE_FAMILIES = ("base", "allocator")
"""The families of points that differ from the base point in the allocator at most."""
WHOLE = ("whole", "streams-2", "streams-4")
"""Prefetches of the whole buffer."""
RATIO = "ratio"
"""An optional factor: bytes of the buffer for each byte that ballast leaves free on the device."""
AS_REQUESTED = 0.02
"""How far the ratio that came out may be from the requested one and still be called by its name."""
_CASE = ("touch", "order", "advice", "prefetch", "starts_on", "operation", "events")
"""The factors of the base point, which a case names where it differs from it."""
_ANY_CASE = ("allocator", *_CASE)
_PASSES = ("migration.passes", "over {size} that the CPU wrote, passes of a kernel:")
SHARED = Claim(
    _PASSES[0],
    "{value} on {allocator}",
    "nothing migrates, since the device shares the host's memory; a pass over {size} takes",
    _CASE,
)
PASSES = {
    "moves at once": Claim(
        _PASSES[0], "{allocator} moves in the first pass ({first}, then {value} each)", _PASSES[1], _CASE
    ),
    "moves gradually": Claim(
        _PASSES[0], "{allocator} gets faster over {passes} (from {first} to {value} a pass)", _PASSES[1], _CASE
    ),
    "stays": Claim(
        _PASSES[0],
        "{allocator} does not move ({value} a pass, {ratio_as_long} as in device memory)",
        _PASSES[1],
        _CASE,
    ),
    "is there": Claim(
        _PASSES[0], "{allocator} takes the same time from the first pass on ({value})", _PASSES[1], _CASE
    ),
    "settles": Claim(_PASSES[0], "{allocator} settles at {value} a pass, after at most {most}", _PASSES[1], _CASE),
}
"""By the behaviour of the passes (experiments/analysis/passes.py)."""
SPEEDUP = Claim("migration.speedup", "{speedup} with {case}", "speedup over no advice and no prefetch:", _ANY_CASE)
MOST_NAMED = 3
"""How many of the highest and of the lowest speedups are named."""
BACK = Claim(
    "migration.prefetch_back", "a prefetch of {size} of {allocator} memory back to the CPU takes {value}", names=_CASE
)
NO_FAULTS = Claim(
    "migration.faults", "after a prefetch of the whole buffer, the passes raise no GPU faults", names=(EVERY,)
)
FAULTS = Claim(
    "migration.faults",
    "{value} with {case}",
    "after a prefetch of the whole buffer, the passes still raise GPU faults:",
    _ANY_CASE,
)
MOVED = Claim(
    "migration.touches",
    "{touched} touches in order, {touch}, move {value}, {each} a touch ({causes}), in transfers of {smallest} to "
    "{largest}, each a multiple of {multiple}; the total is {same} in every repetition",
    names=("order", "events"),
)
_RATIOS = ("migration.ratio", "all passes over {size}, by the ratio of the buffer to the device memory left free:")
_OF_RATIO = (*_ANY_CASE, RATIO)
RATIO_TIME = Claim(_RATIOS[0], "{case}: {value}", _RATIOS[1], _OF_RATIO)
RATIO_COMPARED = Claim(_RATIOS[0], "{case}: {value}, {ratio_as_long} as at {lowest}", _RATIOS[1], _OF_RATIO)
RATIO_ALIKE = Claim(
    _RATIOS[0], "{case}: {value}, with no clear difference from {other_value} at {lowest}", _RATIOS[1], _OF_RATIO
)
EVENTS = Claim(
    "migration.events", "with events recorded, the same points are {value_as_fast}, over {over}", names=(EVERY,)
)
_CAUSE = re.compile(r"compute_h2d_([a-z_]+)_bytes")


def migration_findings(records: Sequence[Record], *, shares_memory: bool) -> list[Finding]:
    """Returns how the passes behave, what advice and prefetches change, and what the recorded events show.

    Points with ballast are left to ratio_findings. shares_memory: the device uses the host's memory, so nothing can
    migrate.
    """
    records = [r for r in records if RATIO not in r.factors]
    plain = [r for r in records if r.factors["events"] == "off"]
    if not plain:
        return []
    smallest = min(r.count("size") for r in plain)  # the only one at which all conditions vary
    at = [r for r in plain if r.factors["size"] == smallest]
    base = [r for r in at if r.counters.get("family") in BASE_FAMILIES]
    return [
        *(_pass_time_findings(base) if shares_memory else _pass_findings(base)),
        *_speedup_findings(at),
        *(finding(BACK, r, value) for r in at if (value := counter(r, "prefetch_back_ms", "ms"))),
        *_fault_findings_after_prefetch(records),
        *_touch_byte_findings(records),
        *_event_cost_findings(records),
    ]


def ratio_findings(records: Sequence[Record]) -> list[Finding]:
    """Returns how long the passes take at the highest ratio, compared with the lowest, under equal other conditions."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if RATIO in record.factors and record.factors["events"] == "off":
            groups[key_of(record, RATIO)].append(record)
    findings = []
    for rows in groups.values():
        lowest, highest = min(rows, key=ratio_of_record), max(rows, key=ratio_of_record)
        case = _case_with_ratio(highest)
        if highest is lowest:
            findings.append(finding(RATIO_TIME, highest, case=case))
        else:
            comparison = compare_medians(highest, lowest)
            claim = RATIO_COMPARED if comparison.is_clear else RATIO_ALIKE
            lower = format_number(ratio_of_record(lowest))
            findings.append(finding(claim, highest, comparison=comparison, case=case, lowest=lower))
    return findings


def ratio_of_record(record: Record) -> float:
    """Bytes of the buffer for each byte that was free beside the ballast; as requested if the record does not say."""
    free = as_number(record.counters.get("free_beside_ballast_bytes"))
    return number(record, "size") / free if free else number(record, RATIO)


def _case_with_ratio(record: Record) -> str:
    """The case with the ratio that came out, and with the requested one if that is another."""
    case, requested, reached = str(record.counters["case"]), number(record, RATIO), ratio_of_record(record)
    if abs(reached / requested - 1) < AS_REQUESTED:
        return case
    return f"{case.rpartition(', ratio ')[0]}, ratio {format_number(reached)} instead of {format_number(requested)}"


def times_of(record: Record) -> list[float]:
    """Returns the times of the passes of a record in ms, in order."""
    return [record.counter(f"iteration_{n}_ms") for n in range(record.count("iterations"))]


def _pass_time_findings(rows: Sequence[Record]) -> list[Finding]:
    """The time of a pass over each allocator's memory."""
    return [finding(SHARED, r, Quantity(settled_at(times_of(r)), "ms")) for r in rows]


def _pass_findings(rows: Sequence[Record]) -> list[Finding]:
    """How the passes over each allocator's memory behave, compared with those over device memory."""
    settled = {r.text("allocator"): Quantity(settled_at(times_of(r)), "ms") for r in rows}
    reference = next((settled[name] for name in settled if role(name) == "device"), None)
    findings = []
    for record in rows:
        value, times = settled[record.text("allocator")], times_of(record)
        kind, early = behaviour(times, reference.value if reference else None)
        if kind == "is there" and max(times) > CLEAR_RATIO * min(times):
            kind = "settles"
        details = {
            "most": Quantity(max(times), "ms"),
            "first": Quantity(times[0], "ms"),
            "passes": Quantity(early, "passes"),
        }
        if reference is not None:
            details["ratio"] = ratio_of(value, reference)
        findings.append(finding(PASSES[kind], record, value, details=details))
    return findings


def _speedup_findings(records: Sequence[Record]) -> list[Finding]:
    """The speedup of the whole by each single advice and prefetch: the best and the worst of those that are clear."""
    base = {r.text("operation"): r for r in records if r.counters.get("family") in ("base", "operation")}
    rows = [r for r in records if r.counters.get("family") in ("advice", "prefetch", "advice, operation")]
    rows = [r for r in rows if "prefetch_back_ms" not in r.counters]  # its sample does not include the prefetch
    findings = []
    for record in rows:
        against = base.get(record.text("operation"))
        if against is not None and (comparison := compare_medians(record, against)).is_clear:
            details = {"speedup": ratio_of(quantity(against), quantity(record))}
            case = str(record.counters["case"])
            findings.append(finding(SPEEDUP, record, comparison=comparison, details=details, case=case))
    findings.sort(key=lambda f: f.details["speedup"].value, reverse=True)
    return findings if len(findings) <= 2 * MOST_NAMED else [*findings[:MOST_NAMED], *findings[-MOST_NAMED:]]


def _fault_findings_after_prefetch(records: Sequence[Record]) -> list[Finding]:
    """Whether passes still raise faults after the whole buffer was prefetched."""
    whole = [r for r in records if r.text("prefetch") in WHOLE]
    counted = [(r, q) for r in whole if (q := counter(r, "compute_most_gpu_fault_groups", "fault groups"))]
    raised = [(r, q) for r, q in counted if q.value]
    if counted and not raised:
        complete = [r for r, _ in counted if is_complete(r)]
        return [finding(NO_FAULTS, complete, Quantity(0))] if complete else []
    return [finding(FAULTS, r, q, case=str(r.counters["case"])) for r, q in raised]


def _touch_byte_findings(records: Sequence[Record]) -> list[Finding]:
    """The bytes that touches in order move."""
    findings = []
    for record in records:
        counters = record.counters
        if record.factors["order"] == "sequential" and "record_multiple" in counters and is_complete(record):
            causes = tuple(
                f"{format_size(record.counter(key))} {cause[1].replace('_', ' ')}"
                for key in counters
                if (cause := _CAUSE.fullmatch(key))
            )
            named = {"each": "bytes_per_touch", "smallest": "smallest_record", "largest": "largest_record",
                     "multiple": "record_multiple"}  # fmt: skip
            details = {name: Quantity(record.counter(counter), "B") for name, counter in named.items()}
            findings.append(
                finding(
                    MOVED,
                    record,
                    Quantity(record.counter("compute_h2d_bytes"), "B"),
                    details=details,
                    touched=counters["touched"],
                    causes=causes,
                    same="the same" if counters["same_every_time"] else "not the same",
                )
            )
    return findings


def _event_cost_findings(records: Sequence[Record]) -> list[Finding]:
    """Compares points with and without recording that have the same other factors."""
    pairs_by_factors: dict[str, dict[str, Record]] = defaultdict(dict)
    for record in records:
        pairs_by_factors[key_of(record, "events")][record.text("events")] = record
    pairs = [
        (pair["on"], pair["off"]) for pair in pairs_by_factors.values() if len(pair) == 2 and median_of(pair["off"]) > 0
    ]
    pairs = [(on, off) for on, off in pairs if on.modelled is None]  # a prediction's events cost nothing
    ratios = [median_of(on) / median_of(off) for on, off in pairs]
    if not ratios:
        return []
    rows, over = [record for pair in pairs for record in pair], count(len(pairs), "pair")
    return [finding(EVENTS, rows, Quantity(median(ratios), "", min(ratios), max(ratios)), over=over)]
