"""Which part of the time of this machine's processors other programs use, and which programs these are.

Source: proc(5), stat and pid/stat. The kernel counts in ticks of 10 ms; what a hypervisor gave to other virtual
machines is `steal`.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from firsttouch.machine.tree import Facts, Tree, format_ids, parse_ids, parse_int
from firsttouch.records.schema import BUSY, Struct

_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_TICK = 0.01
"""Seconds of a unit of /proc/stat (USER_HZ, always 100 for programs)."""
_ROUNDED = 0.03
"""Seconds that the counts of one processor are uncertain; those of several partly cancel out."""
PERIOD = 0.25
"""Seconds over which the load is read where nothing else takes that long."""


class ProcessorUse(Struct):
    """Seconds of processors' time: of all programs on `processors` (such as "0-3"), taken by the hypervisor, and of
    this process with the children that it has waited for. seconds: of the clock.
    """

    processors: str
    seconds: float
    user: float
    system: float
    stolen: float
    own_user: float
    own_system: float

    def since(self, before: ProcessorUse) -> ProcessorUse:
        """What was used from `before` until this."""
        amounts = {name: getattr(self, name) - getattr(before, name) for name in self.__struct_fields__[1:]}
        return ProcessorUse(processors=self.processors, **amounts)


def processor_use(tree: Tree, usable: Sequence[int]) -> ProcessorUse | None:
    """What was used of the processors `usable` since the machine started; None if the kernel does not state it."""
    user = system = stolen = idle = 0
    remaining = {f"cpu{n}" for n in usable}
    for line in tree.lines("proc/stat"):
        name, *numbers = line.split()
        if name not in remaining:
            continue
        remaining.discard(name)
        ticks = dict(zip(_FIELDS, (parse_int(number) or 0 for number in numbers), strict=False))
        user += ticks.get("user", 0) + ticks.get("nice", 0)
        system += ticks.get("system", 0)
        stolen += ticks.get("steal", 0)
        idle += ticks.get("idle", 0)
    if remaining or not usable or not user + system + idle:  # gVisor states zeros
        return None
    own_usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return ProcessorUse(
        processors=format_ids(usable),
        seconds=time.monotonic(),
        user=user * _TICK,
        system=system * _TICK,
        stolen=stolen * _TICK,
        own_user=sum(used.ru_utime for used in own_usage),
        own_system=sum(used.ru_stime for used in own_usage),
    )


def use_now() -> ProcessorUse | None:
    """`processor_use` of the processors that this process may use."""
    try:
        return processor_use(Tree(), sorted(os.sched_getaffinity(0)))
    except (AttributeError, OSError):
        return None


def others_share(uses: Iterable[ProcessorUse | None], own: float = 0.0, *, drivers: bool = False) -> float | None:
    """The part of the processors' time that other programs used; None where ticks are too coarse to tell.

    uses: of processes that worked at the same time, each since its start. own: further seconds that are not others'.
    drivers: what the kernel does is not counted, since threads of a GPU's driver work for this program.
    """
    known_uses = [use for use in uses if use is not None]
    sets = {use.processors: parse_ids(use.processors) for use in known_uses}
    if not known_uses or len({n for ids in sets.values() for n in ids}) < sum(map(len, sets.values())):
        return None  # nothing is known, or ranks share processors
    shares = [
        _share([use for use in known_uses if use.processors == processors], len(ids), own, drivers)
        for processors, ids in sets.items()
    ]
    return max((share for share in shares if share is not None), default=None)


def _share(uses: Sequence[ProcessorUse], processors: int, own_seconds: float, drivers: bool) -> float | None:
    longest = max(uses, key=lambda use: use.seconds)
    used = longest.user + longest.stolen + (0 if drivers else longest.system)
    own_seconds += sum(use.own_user + (0 if drivers else use.own_system) for use in uses)
    whole, uncertain = longest.seconds * processors, _ROUNDED * math.sqrt(processors)
    if whole <= 0:
        return None
    if (others_seconds := used - own_seconds) > uncertain:
        return min(1.0, others_seconds / whole)
    return 0.0 if uncertain < BUSY * whole else None


def shortest_period(processors: str) -> float:
    """The seconds within which ticks tell whether other programs disturb what is measured on `processors`."""
    return 1.05 * _ROUNDED / BUSY / math.sqrt(max(1, len(parse_ids(processors))))


def load_since(before: ProcessorUse | None) -> Facts:
    """The fact others_percent: what other programs used since `before`, of at least PERIOD; empty if not known."""
    if before is not None:
        time.sleep(max(0.0, before.seconds + PERIOD - time.monotonic()))
    share = share_since(before)
    return {} if share is None else {"others_percent": round(100 * share, 1)}


def share_since(before: ProcessorUse | None) -> float | None:
    """The part of the processors' time that other programs used since `before`; None if it is not known."""
    now = use_now()
    if before is None or now is None or now.processors != before.processors:
        return None
    return others_share([now.since(before)])


def busiest(tree: Tree, seconds: float, most: int = 3) -> list[str]:
    """The names of the programs outside this process that used most of the processors' time within `seconds`; those
    that used less than a twentieth of a processor are left out.
    """
    before = _by_process(tree)
    time.sleep(seconds)
    used: Counter[str] = Counter()
    for process, (name, ticks) in _by_process(tree).items():
        used[name] += ticks - before.get(process, (name, 0))[1]
    return [name for name, ticks in used.most_common(most) if ticks * _TICK > seconds / 20]


def _by_process(tree: Tree) -> dict[str, tuple[str, int]]:
    """The name and the ticks of every process but this one that /proc shows."""
    own_pid = str(os.getpid())
    processes = {}
    for pid in tree.names("proc"):
        if not pid.isdecimal() or pid == own_pid or len(fields := tree.stat(pid)) < 13:
            continue
        name = (tree.text(f"proc/{pid}/comm") or "?").partition("\n")[0]
        processes[pid] = name, sum(parse_int(field) or 0 for field in fields[11:13])
    return processes
