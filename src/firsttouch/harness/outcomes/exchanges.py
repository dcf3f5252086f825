"""What records of applications say of the exchanges between processes that share the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from firsttouch.experiments.views.ranking import groups_apart_from
from firsttouch.records.figures import Bar
from firsttouch.records.findings import Claim, Finding, compare_medians, counter, extremes, finding, number
from firsttouch.records.schema import INTERFACE, RANKS, Record
from firsttouch.records.statistics import group_by, median_of
from firsttouch.records.text import count

BUFFERS, NONE = "buffers", "none"
"""The factor of the memory of messages, and the interface of a process that is alone."""
EXCHANGED = "exchange_ms"
COLUMNS = {
    EXCHANGED: "exchanges",
    "calls_ms": "send and receive alone",
    "exchange_part": "part of compute",
    "messages": "messages",
    "message_median_bytes": "median message",
    "message_largest_bytes": "largest message",
}
"""Titles of the counters of what process 0 exchanged in a run."""
RUNS = Bar(
    x=BUFFERS, colour=INTERFACE, facet="app", x_title="messages in", y_title="time of a run, ms",
    title="Time of a run by memory of the messages",
)  # fmt: skip
FIGURE = Bar(
    x=BUFFERS, y=EXCHANGED, colour=INTERFACE, facet=RANKS, x_title="messages in", y_title="exchanges, ms",
    title="Time of all exchanges of a run, from packing to unpacked, by memory of the messages",
)  # fmt: skip
OF_ONE = replace(RUNS, facet=RANKS)
"""The same of one application."""
_KINDS = ("events", "placement")
_WAY = (RANKS, INTERFACE, *_KINDS)
RUN = Claim("app.run", "{value} for a run of {app} by {count}, messages in {buffers} memory", "{interface}:", _WAY)
BEST_RUN = Claim("app.best_run", "{value} by {count}, {interface}, messages in {buffers} memory", "{app}:", _WAY)
BEST_ALONE = Claim("app.best_run", "{value} by one process alone, messages in {buffers} memory", "{app}:", _WAY)
_BEST = (
    "with {ranks} processes a run of {app} takes {value} by {interface} with messages in {buffers} memory, {exchange} "
    "of it in exchanges"
)
BEST = Claim("app.exchange", _BEST, names=_KINDS)
RANGE = Claim(
    "app.exchange",
    _BEST + "; {other_value} by {other_interface} with {other_buffers} memory, the slowest",
    names=_KINDS,
)


def findings(records: Sequence[Record]) -> list[Finding]:
    """The fastest way of messages for each application and number of processes, from ok and verified records."""
    exchanging = [r for r in records if r.counters.get(EXCHANGED) is not None and r.factors.get(INTERFACE) != NONE]
    findings = []
    for rows in groups_apart_from(sorted(exchanging, key=lambda r: number(r, RANKS)), INTERFACE, BUFFERS):
        best, worst = extremes(rows)
        part = counter(best, EXCHANGED, "ms")
        differ = compare_medians(best, worst)
        claim = RANGE if differ.is_clear else BEST
        findings.append(finding(claim, best, comparison=differ, details={"exchange": part} if part else {}))
    return findings


def runs(records: Sequence[Record]) -> list[Finding]:
    """The fastest run by each interface and number of processes, if there are several, fastest first."""
    ways = [r for r in records if INTERFACE in r.factors]
    groups = group_by(ways, RANKS, INTERFACE).values()
    if len(groups) < 2:
        return []
    fastest = sorted((extremes(rows)[0] for rows in groups), key=median_of)
    return [finding(RUN, r, count=count(int(number(r, RANKS)), "rank")) for r in fastest]


def best_runs(records: Sequence[Record]) -> list[Finding]:
    """The fastest run of one application for each number of processes, if there are several ways."""
    ways = sorted((r for r in records if INTERFACE in r.factors), key=lambda r: number(r, RANKS))
    if len({(r.factors[INTERFACE], r.factors.get(BUFFERS)) for r in ways}) < 2:
        return []
    fastest = [extremes(rows)[0] for rows in group_by(ways, RANKS).values()]
    return [
        finding(BEST_ALONE if r.factors[INTERFACE] == NONE else BEST_RUN, r, count=count(int(number(r, RANKS)), "rank"))
        for r in fastest
    ]
