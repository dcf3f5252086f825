"""Applications whose work several processes share: which factors they have, and how their messages are carried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from firsttouch import _core
from firsttouch.allocators.properties import common_allocator, main_allocator
from firsttouch.allocators.semantics import SEMANTICS
from firsttouch.analysis.findings import Claim, Finding, compare, counter, extremes, finding, number
from firsttouch.analysis.statistics import group_by, median_of
from firsttouch.experiments.base import Factor
from firsttouch.experiments.common import unavailable, unreachable
from firsttouch.experiments.interfaces import (
    INTERFACE,
    INTERFACES,
    MPI_STAGED,
    XCCL,
    by_device_address,
    dealt_out,
    interface_factor,
    open_interface,
    staging_allocator,
    why_not_carried,
    why_too_many,
)
from firsttouch.figures import Bar
from firsttouch.harness.app import App, Params
from firsttouch.machine.switches import xccl_environment
from firsttouch.records.schema import RANKS, DeviceInfo, Factors, Record
from firsttouch.session import Session
from firsttouch.text import count
from firsttouch.workspace.exchange import Exchange

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
    title="Time of a run by memory of the messages and interface",
)  # fmt: skip
FIGURE = Bar(
    x=BUFFERS, y=EXCHANGED, colour=INTERFACE, facet=RANKS, x_title="messages in", y_title="exchanges, ms",
    title="Time of all exchanges of a run, from packing to unpacked, by memory of the messages and interface",
)  # fmt: skip
RUN = Claim("app.run", "{value} for a run of {app} by {count}, messages in {buffers} memory", "{interface}:")
BEST_RUN = Claim("app.best_run", "{value} by {count}, {interface}, messages in {buffers} memory", "{app}:")
BEST_ALONE = Claim("app.best_run", "{value} by one process alone, messages in {buffers} memory", "{app}:")
_BEST = (
    "with {ranks} processes a run of {app} takes {value} by {interface} with messages in {buffers} memory, {exchange} "
    "of it in exchanges"
)
BEST = Claim("app.exchange", _BEST)
RANGE = Claim("app.exchange", _BEST + "; {other_value} by {other_interface} with {other_buffers} memory, the slowest")


FACTORS = (
    Factor(RANKS, (1,), "count", least=1, most=2048, doc="how many processes share the work; --ranks starts them"),
    Factor(
        INTERFACE,
        (NONE, *INTERFACES),
        doc="what carries messages; none: one process alone, which copies them on the device",
    ),
    Factor(
        BUFFERS,
        (common_allocator("device"),),
        choices=tuple(SEMANTICS),
        doc="memory of the messages alone, any that the device reaches",
    ),
)
"""Without what a device restricts."""


def factors_of(device: DeviceInfo) -> list[Factor]:
    ranks, interface, buffers = FACTORS
    allocators = tuple(entry.name for entry in device.allocators)
    return [
        ranks,
        replace(interface, values=(NONE, *interface_factor(device).values), choices=(NONE, *INTERFACES)),
        replace(buffers, values=(main_allocator(device),), choices=allocators),
    ]


def ranks_of(factors: Factors) -> int:
    """How many processes carry out a point of an application."""
    return factors.count(RANKS) if RANKS in factors else 1


def why_meaningless(factors: Factors) -> str:
    if (ranks_of(factors) == 1) != (factors[INTERFACE] == NONE):
        return (
            "one process alone copies its messages on the device; --ranks 2 starts two"
            if ranks_of(factors) == 1
            else "several processes need an interface"
        )
    return ""


def why_skipped(app: type[App], params: Params, factors: Factors, device: DeviceInfo) -> str | None:
    buffers, interface = factors.text(BUFFERS), factors.text(INTERFACE)
    if reason := unavailable(device, buffers) or unreachable(device, buffers, "gpu"):
        return reason
    if ranks_of(factors) == 1:
        return None
    if reason := app.why_not_divided(params, ranks_of(factors)):
        return reason
    return why_not_carried(interface, device, [buffers]) or why_too_many(interface, device, ranks_of(factors))


def environment(factors: Factors) -> dict[str, str]:
    return xccl_environment() if factors.get(INTERFACE) == XCCL else {}


def places(factors: Factors, device: DeviceInfo) -> Sequence[str]:
    return dealt_out(device, ranks_of(factors)) if ranks_of(factors) > 1 else []


def takes_mpi(factors: Factors) -> bool:
    return factors.get(INTERFACE) in INTERFACES and factors[INTERFACE] != XCCL


class Exchanges:
    """Makes the Exchange of each run of a point, over connections that are opened once.

    Raises:
        Unsupported, _core.Unavailable: the interface does not carry this memory; the text says why.
    """

    def __init__(self, factors: Factors, session: Session) -> None:
        self._comm: _core.Comm | None = None
        self._by_device, self._staging = False, ""
        if session.ranks > 1:
            interface = factors.text(INTERFACE)
            entry = session.info.allocator(factors.text(BUFFERS))
            self._by_device = by_device_address(interface, [entry] if entry is not None else [])
            self._comm = open_interface(interface, session, device_memory=self._by_device)
            if interface == MPI_STAGED:
                self._staging = staging_allocator(session.info) or ""

    def new(self) -> Exchange:
        return Exchange(self._comm, self._by_device, self._staging)


def findings(records: Sequence[Record]) -> list[Finding]:
    """The fastest way of messages for each application and number of processes, from ok and verified records."""
    exchanging = [r for r in records if r.counters.get(EXCHANGED) is not None and r.factors.get(INTERFACE) != NONE]
    found = []
    for rows in group_by(sorted(exchanging, key=lambda r: number(r, RANKS)), "app", RANKS, "size", "strategy").values():
        best, worst = extremes(rows)
        part = counter(best, EXCHANGED, "ms")
        differ = compare(best, worst)
        claim = RANGE if differ.is_clear else BEST
        found.append(finding(claim, best, comparison=differ, details={"exchange": part} if part else {}))
    return found


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
