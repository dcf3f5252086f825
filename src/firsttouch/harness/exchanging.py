"""Applications whose work several processes share: which factors they have, and how their messages are carried."""

from __future__ import annotations

from dataclasses import replace

from firsttouch import _core
from firsttouch.experiments.contract.base import Factor, RankRules
from firsttouch.experiments.contract.common import unavailable, unreachable
from firsttouch.experiments.contract.rank_interfaces import (
    INTERFACES,
    by_device_address,
    dealt_out,
    interface_factor,
    open_interface,
    staging_allocator,
    why_not_carried,
    why_too_many,
)
from firsttouch.harness.app import App, Params
from firsttouch.harness.outcomes.exchanges import BUFFERS, NONE
from firsttouch.machine.allocators.properties import common_allocator, main_allocator
from firsttouch.machine.allocators.semantics import SEMANTICS
from firsttouch.machine.backends import MPI_STAGED, XCCL
from firsttouch.machine.switches import xccl_environment
from firsttouch.program.execution.exchange import Exchange
from firsttouch.records.schema import INTERFACE, RANKS, DeviceInfo, Factors
from firsttouch.workers.session import Session

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
PACKING, SEND_BUFFERS, RECEIVES = "packing", "send_buffers", "receives"
OPTIONS = {PACKING: ("gpu", "cpu"), SEND_BUFFERS: ("reused", "allocated"), RECEIVES: ("sized", "posted")}
"""Options of applications whose messages have any size: which agent packs and unpacks; whether memory is allocated for
each message that is sent; and whether receives begin before the work, or when their size is known."""


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
    if ranks_of(factors) == 1 and any(factors.get(name, words[0]) != words[0] for name, words in OPTIONS.items()):
        return "one process alone sends no messages; --ranks 2 starts two"
    if factors.get(RECEIVES) == "posted" and factors[INTERFACE] == XCCL:
        return "NCCL and RCCL receive messages of known size only; use receives=sized"
    return ""


def why_skipped(app: type[App], params: Params, factors: Factors, device: DeviceInfo) -> str | None:
    buffers, interface = factors.text(BUFFERS), factors.text(INTERFACE)
    packer = str(factors.get(PACKING, "gpu"))
    if reason := unavailable(device, buffers) or unreachable(device, buffers, packer):
        return reason
    if ranks_of(factors) == 1:
        return None
    if reason := app.why_not_divided(params, ranks_of(factors)):
        return reason
    carried = why_not_carried(interface, device, [buffers], by_kernels=packer == "gpu")
    return carried or why_too_many(interface, device, ranks_of(factors))


def environment(factors: Factors) -> dict[str, str]:
    return xccl_environment() if factors.get(INTERFACE) == XCCL else {}


RANKS_OF_APPS = RankRules(
    places=lambda factors, device: dealt_out(device, ranks_of(factors)) if ranks_of(factors) > 1 else [],
    least=1,
    takes_mpi=lambda factors: factors.get(INTERFACE) in INTERFACES and factors[INTERFACE] != XCCL,
    alone=True,
)
"""How the processes of an application carry out its points."""


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
