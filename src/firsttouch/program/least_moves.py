"""The bytes that a driver must move at least between host and device, from what an application declares.

The driver may drop records of what it moved. What is certain to have moved says how much of it at least is missing:

- a prefetch to the device moves the bytes that are valid on the CPU only
- an agent that uses every byte of a range gets those that are valid on the other side only

Not counted, because it may take place elsewhere or later: use of a part of a range, by CPU views, by both agents at
once, and of buffers whose advice lets the GPU use them where they are.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from firsttouch.program.guidance import Guidance
from firsttouch.program.ranges import Ranges
from firsttouch.records.schema import AllocatorInfo, DeviceInfo

if TYPE_CHECKING:
    from firsttouch.program.declarations import Agent  # loads numpy

IN_PLACE = {"preferred-cpu", "accessed-by-gpu"}
"""Advice by which a kernel may use pages that stay on the CPU."""


def must_move(entry: AllocatorInfo | None, device: DeviceInfo) -> bool:
    """Whether an agent cannot use pages of an allocator where they are: managed memory of a device with its own memory,
    which neither side reaches in place.
    """
    capabilities, facts = device.capabilities, device.facts
    in_place = facts.get("directManagedMemAccessFromHost") or facts.get("pageableMemoryAccessUsesHostPageTables")
    managed = entry is not None and entry.managed
    return managed and capabilities.page_migration and not capabilities.shares_host_memory and not in_place


class LeastMoves:
    """Adds up the least bytes to each agent, none if nothing has to move. Buffers are told apart by any key that stays
    with their memory.
    """

    def __init__(self, moves: bool) -> None:
        self._moves = moves
        self.bytes: dict[Agent, int] = {"cpu": 0, "gpu": 0}
        self._prefetched: dict[Hashable, Ranges] = {}

    def prefetch(self, memory: Hashable, valid: dict[Agent, Ranges], nbytes: int) -> None:
        """A prefetch of a whole buffer to the device."""
        if not self._moves:
            return
        arriving = self._prefetched.setdefault(memory, Ranges())
        for first, last in valid["gpu"].missing(0, nbytes):
            for start, end in valid["cpu"].common(first, last):
                self.bytes["gpu"] += end - start
                arriving.add(start, end)

    def use(self, memory: Hashable, agent: Agent, first: int, last: int, guidance: Guidance) -> None:
        """An agent uses every byte of a range that is valid on the other side only."""
        if not self._moves or (agent == "gpu" and IN_PLACE.intersection(guidance.advice)):
            return
        arriving = self._prefetched.get(memory)
        here = arriving.bytes_in(first, last) if arriving is not None and agent == "gpu" else 0
        self.bytes[agent] += last - first - here

    def write(self, memory: Hashable, agent: Agent, first: int, last: int) -> None:
        """An agent writes to a range: on the CPU, what was prefetched comes back first."""
        if agent == "cpu" and memory in self._prefetched:
            self._prefetched[memory].remove(first, last)
