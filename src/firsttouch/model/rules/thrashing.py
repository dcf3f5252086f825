"""NVIDIA's driver of unified memory: what it does about a page that a GPU and the CPU take from each other.

Source: kernel-open/nvidia-uvm/uvm_perf_thrashing.c of NVIDIA/open-gpu-kernel-modules, releases 515 to 595.45.04, for
one GPU and the CPU, without a preferred location. Times are nanoseconds. Not modelled: that a block's history is
forgotten after a second without such a move, and that the lapse follows the lapses seen from 590.44.01 on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from firsttouch.program.declarations import Agent

LAPSE_NS: Final = 500_000
"""UVM_PERF_THRASHING_LAPSE_USEC_DEFAULT: two moves of a page that are no further apart count as thrashing."""
THRESHOLD: Final = 3
"""UVM_PERF_THRASHING_THRESHOLD_DEFAULT: such moves after each other until something is done."""
MOST_EVENTS: Final = 7
"""UVM_PERF_THRASHING_THRESHOLD_MAX: where the count of moves stops."""
PIN_THRESHOLD: Final = 10
"""UVM_PERF_THRASHING_PIN_THRESHOLD_DEFAULT: naps after which a page is pinned."""
NAP_NS: Final = 1 * LAPSE_NS
"""UVM_PERF_THRASHING_NAP_DEFAULT lapses: how long an agent waits before its fault is serviced."""
PIN_NS: Final = 300 * LAPSE_NS
"""UVM_PERF_THRASHING_PIN_DEFAULT lapses: how long a page stays pinned."""
OVERSLEEP: Final = 1.5
"""The CPU naps half as long again: usleep_range(nap, nap + nap / 2) in uvm_va_space.c sets the timer to the end of the
range, and ends earlier only if another timer does.
"""


@dataclass(frozen=True)
class PageHistory:
    """What the driver knows of a page.

    moved_at: the time of the latest move, or -1. events: moves that followed each other closely. free_agent: the one
    that does not nap in this period, which ends at period_end. naps: since the page was pinned last.
    """

    moved_at: float = -1
    events: int = 0
    free_agent: Agent | None = None
    period_end: float = 0
    naps: int = 0
    pinned_at: Agent | None = None
    pinned_until: float = 0


class ThrashingHint(NamedTuple):
    """What to do about a fault. nap: wait until a time. pin: keep the page in a memory and map it from the other agent.
    none: move the page.
    """

    kind: Literal["none", "nap", "pin"]
    until: float = 0
    place: Agent | None = None


def after_move(history: PageHistory, time: float) -> PageHistory:
    """The history after a fault, or pages taken along, moved the page. Naps are counted until the page is pinned.

    Source: thrashing_event_cb, thrashing_reset_page.
    """
    if history.moved_at < 0:
        return replace(history, moved_at=time)
    if time - history.moved_at <= LAPSE_NS:
        return replace(history, moved_at=time, events=min(MOST_EVENTS, history.events + 1))
    if history.events >= THRESHOLD and history.pinned_at is None:
        return replace(history, moved_at=-1, events=0)
    return replace(history, moved_at=time)


def hint(
    history: PageHistory,
    time: float,
    agent: Agent,
    resident: Agent,
    *,
    cpu_reaches_gpu: bool,
    fast_link: bool = False,
) -> tuple[ThrashingHint, PageHistory]:
    """What to do about a fault of an agent on a page that is at the other, and the history then.

    Args:
        cpu_reaches_gpu: whether the CPU can use the GPU's memory. The GPU can use the CPU's.
        fast_link: NVLink or C2C, with atomics.

    Source: uvm_perf_thrashing_get_hint, thrashing_throttle_update, get_hint_for_migration_thrashing.
    """
    if history.pinned_at is not None and time > history.pinned_until:
        history = replace(history, moved_at=-1, events=0, pinned_at=None)
    if history.events < THRESHOLD or (time - history.moved_at > LAPSE_NS and history.pinned_at is None):
        return ThrashingHint("none"), history
    if time > history.period_end:
        free = None if history.free_agent == agent else agent
        history = replace(history, free_agent=free, period_end=time + NAP_NS)
    elif history.free_agent is None:
        history = replace(history, free_agent=agent)
    place = _pinned_place(history, agent, resident, cpu_reaches_gpu, fast_link)
    if place == "nap":
        naps = history.naps + (history.pinned_at is None)
        return ThrashingHint("nap", until=history.period_end), replace(history, naps=naps)
    if place is None:
        return ThrashingHint("none"), history
    until = history.pinned_until if history.pinned_at else time + PIN_NS
    return ThrashingHint("pin", place=place), replace(history, naps=0, pinned_at=place, pinned_until=until)


def _pinned_place(
    history: PageHistory, agent: Agent, resident: Agent, reaches: bool, fast: bool
) -> Agent | Literal["nap"] | None:
    """Where to pin the page, or 'nap', or None to move it, in the order of get_hint_for_migration_thrashing."""
    all_reach = {"cpu": True, "gpu": reaches}
    if fast and all_reach[resident]:
        if resident == "cpu" and reaches:
            return "gpu" if agent == "gpu" else None
        return resident
    if history.pinned_at:
        if agent == history.free_agent:
            return agent if all_reach[agent] else "cpu"
        return history.pinned_at if agent == "gpu" or reaches or history.pinned_at == "cpu" else "nap"
    if agent != history.free_agent:
        return "nap"
    return agent if history.naps >= PIN_THRESHOLD else None


def time_of_turns(
    turns: int,
    gpu_fault: float,
    cpu_fault: float,
    remote: float,
    *,
    gap: float = 0,
    cpu_reaches_gpu: bool = False,
    fast_link: bool = False,
) -> float:
    """How long a kernel and the CPU take for so many turns over a page, without what passes between them.

    Args:
        gpu_fault, cpu_fault: a fault that moves the page to this agent. remote: a turn in which one agent uses the page
            where it is pinned. gap: from one turn to the next.
    """
    ask = partial(hint, cpu_reaches_gpu=cpu_reaches_gpu, fast_link=fast_link)
    agents: tuple[Agent, Agent] = ("gpu", "cpu")
    history, now, resident, total = PageHistory(), 0.0, agents[1], 0.0
    for agent in agents * turns:
        began = now
        reaches = agent == "gpu" or cpu_reaches_gpu
        if agent != resident and history.pinned_at == resident and reaches and now <= history.pinned_until:
            now += remote
        elif agent != resident:
            todo, history = ask(history, now, agent, resident)
            while todo.kind == "nap":
                now += (todo.until + 1 - now) * (OVERSLEEP if agent == "cpu" else 1)
                todo, history = ask(history, now, agent, resident)
            now += gpu_fault if agent == "gpu" else cpu_fault
            if todo.kind == "none":
                history, resident = after_move(history, now), agent
            else:
                resident = todo.place or resident
        total += now - began
        now += gap if agent == "cpu" else 0
    return total
