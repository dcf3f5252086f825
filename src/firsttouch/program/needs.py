"""The memory that a program's buffers need under a strategy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from firsttouch.base.units import format_size
from firsttouch.machine.allocators.properties import may_oversubscribe
from firsttouch.program.declarations import Declaration
from firsttouch.program.guidance import BY_ITSELF, Placement
from firsttouch.program.ledger import Ledger
from firsttouch.program.steps import Allocate
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import AllocatorInfo, DeviceInfo


class MemoryNeeds(NamedTuple):
    """Bytes that the guard charges to host memory and to device memory, and bytes of all blocks, each counted once.

    fixed: the bytes of device memory that no driver moves.
    """

    host: int
    device: int
    blocks: int
    fixed: int = 0

    def on(self, device: DeviceInfo) -> tuple[int, int]:
        """Bytes of host memory and of device memory. All are the host's on a device that shares its memory."""
        return (self.blocks, 0) if device.capabilities.shares_host_memory else (self.host, self.device)


def memory_needs(
    declarations: Iterable[Declaration],
    strategy: Strategy,
    device: DeviceInfo,
    *,
    messages: str = "",
    guidance: Placement = BY_ITSELF,
) -> MemoryNeeds:
    """The needs of the blocks that the ledger allocates. Arguments are those of Ledger."""
    ledger = Ledger(strategy, device, messages=messages, guidance=guidance)
    for declared in declarations:
        ledger.allocate(declared)
    blocks = [block for contents in ledger.contents for block in contents.blocks]
    on_host = on_device = fixed = 0
    for block in blocks:
        entry = device.allocator(block.allocator)
        on_host += block.nbytes * (entry.host_memory if entry else block.side == "host")
        there = block.nbytes * (may_be_on_device(entry, block) if entry else block.side == "device")
        on_device += there
        fixed += 0 if may_oversubscribe(entry) else there
    return MemoryNeeds(on_host, on_device, sum(block.nbytes for block in blocks), fixed)


def may_be_on_device(entry: AllocatorInfo, block: Allocate) -> bool:
    """Whether a block counts against device memory. Pages of a file, or of what no kernel uses, stay on the host."""
    return entry.device_memory or (entry.migrates_on_fault and block.side != "host" and not block.file)


def why_too_large(subject: str, needed: int, limit: object, place: str, digits: int = 4) -> str:
    """Why so many bytes exceed a limit, in words, or ''. A limit that is not a number is none.

    subject: "hotspot needs". place: words between both sizes, such as "cuda:0, which has".
    """
    if not isinstance(limit, int) or needed <= limit:
        return ""
    return f"{subject} {format_size(needed, digits)} of {place} {format_size(limit, digits)}"
