"""The ledger: turns an application's declared accesses into steps. Read this first.

An application declares its buffers once, and for each launch on either agent the byte ranges that it reads and writes.
For each buffer the ledger keeps the ranges that are valid for the CPU and for the GPU, and which of them queued work
still uses. It knows no device, no address and no time. From these it decides:

=================  =====================================================================================
before             what happens
=================  =====================================================================================
an agent reads     ranges that are valid only on the other side are transferred: duplicated buffers are copied; for
                   others the driver moves pages, or the agent reads them remotely
the CPU accesses   it waits for queued work that still writes (or, if the CPU writes, reads) the same bytes; memory that
                   must be mapped is mapped; memory that only one side may use at a time waits for queued work that
                   uses the buffer (so does memory whose strategy says `wait`), and on a device without concurrent
                   managed access for all queued work
the GPU accesses   memory that is mapped for the CPU is unmapped; `flush`: the CPU's stores leave its write-combining
                   buffers
the first launch   buffers whose guidance says so are prefetched to the GPU in a separate stream, which the launch waits
                   for unless the strategy says `overlap`
readback           buffers whose guidance says so are prefetched back before they are read
=================  =====================================================================================

Which buffers are advised and prefetched is in guidance.py: read-mostly after initialisation, other advice after
allocation. It also says which buffers between kernels are device memory; by themselves, those of the role scratch. The
rest of what only the GPU uses is placed by the strategy, without a host array if it is `duplicated`. With
`copy_control`, buffers of the role `control` are copied under every strategy. Buffers of the role `exchange` are memory
of an allocator of their own, whatever the strategy; both sides use the same if the CPU packs and unpacks messages.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from firsttouch.base.errors import Unsupported
from firsttouch.machine.allocators.properties import (
    allows_concurrent_parts,
    coherence,
    common_allocator,
    is_plain_host,
    needs_idle_device,
    needs_mapping,
)
from firsttouch.program.declarations import PLAIN, Agent, Declaration, opposite
from firsttouch.program.guidance import BY_ITSELF, Guidance, Placement
from firsttouch.program.least_moves import LeastMoves, must_move
from firsttouch.program.placement import Place, placement
from firsttouch.program.ranges import Ranges
from firsttouch.program.steps import (
    Advise,
    Allocate,
    Copy,
    CopyFile,
    EndPrefetches,
    Flush,
    Free,
    Join,
    Map,
    MapFile,
    Prefault,
    Prefetch,
    ReadPages,
    Step,
    Unmap,
    Use,
    Wait,
)
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import DeviceInfo


@dataclass(eq=False, slots=True)
class Contents:
    """The memory of one buffer, and which bytes of it are valid for each agent. Swapped buffers exchange theirs.

    host, device: whether the CPU and kernels have memory of it; shared: the same memory. window: offset in bytes of the
    part that a streamed buffer's device memory holds.
    """

    place: Place
    blocks: tuple[Allocate, ...]
    must_map: bool = False
    disjoint: bool = False
    concurrent: bool = False
    needs_idle_device: bool = False
    valid: dict[Agent, Ranges] = field(default_factory=lambda: {"cpu": Ranges(), "gpu": Ranges()})
    busy_read: Ranges = field(default_factory=Ranges)
    busy_written: Ranges = field(default_factory=Ranges)
    """Ranges of the CPU's memory that queued device work still reads or writes."""
    mapped: bool = False
    window: int = 0
    host: bool = field(init=False)
    device: bool = field(init=False)
    shared: bool = field(init=False)

    def __post_init__(self) -> None:
        sides = {block.side for block in self.blocks}
        self.shared = "shared" in sides
        self.host, self.device = self.shared or "host" in sides, self.shared or "device" in sides

    def is_copied_from(self, other: Contents) -> bool:
        """Whether this is a device array alone, and the other a host array alone."""
        return self.place == other.place == "copies" and not (self.host or other.device)

    def state(self) -> Hashable:
        """What later steps depend on."""
        ranges = (self.valid["cpu"], self.valid["gpu"], self.busy_read, self.busy_written)
        return (*map(tuple, ranges), self.mapped, self.window)


class Ledger:
    """The contents of an application's buffers under one strategy on one device.

    Args:
        info: the device's properties.
        copy_control: buffers of the role `control` are a host array and a device array under every strategy.
        guidance: where the advice and the prefetches of each buffer come from, and the memory of those between kernels.
        messages: the allocator of buffers of the role `exchange`; '' for device memory.
        strict: reading bytes that nobody has written is an error. Otherwise a range is transferred whole if a part of
            it was written, because a program whose data are not known may miss writes.
    """

    def __init__(
        self,
        strategy: Strategy,
        info: DeviceInfo,
        *,
        copy_control: bool = False,
        guidance: Placement = BY_ITSELF,
        messages: str = "",
        strict: bool = True,
    ) -> None:
        self.strategy, self.info = strategy, info
        self.copy_control, self.guidance, self.strict = copy_control, guidance, strict
        self.messages = messages or common_allocator("device")
        self.declared: list[Declaration] = []
        self.contents: list[Contents] = []
        self.transferred: dict[Agent, int] = {"cpu": 0, "gpu": 0}
        """Bytes transferred to each agent: copied if `duplicated`, else expected to migrate or be read remotely."""
        self.moves = must_move(info.allocator(strategy.allocator), info)
        """Whether the driver has to move the pages of shared buffers."""
        self.least = LeastMoves(self.moves)
        self._busy: set[Contents] = set()
        self._prefetching = self._stores_to_flush = False

    def state(self) -> Hashable:
        """All that later steps depend on. Where it recurs, the same accesses lead to the same steps."""
        return (*(contents.state() for contents in self.contents), self._prefetching, self._stores_to_flush)

    # ------------------------------------------------------------------------------------------------ allocation

    def allocate(self, declared: Declaration, device_bytes: int | None = None) -> list[Step]:
        """Add a buffer, whose number is the next one. device_bytes: of its device memory, if it is streamed."""
        buffer = len(self.declared)
        contents = self._placed(buffer, declared, declared.nbytes if device_bytes is None else device_bytes)
        self.declared.append(declared)
        self.contents.append(contents)
        return [*contents.blocks, *self._at_allocation(buffer)]

    def _at_allocation(self, buffer: int) -> list[Step]:
        """What follows the allocation of a buffer."""
        steps, declared, contents = list[Step](), self.declared[buffer], self.contents[buffer]
        if contents.shared and contents.place != "exchange":
            steps += [Advise(buffer, hint) for hint in self._guidance(buffer).at_allocation]
            if self.strategy.prefault:
                steps.append(Prefault(buffer, declared.nbytes, declared.file))
        return steps

    def _placed(self, buffer: int, declared: Declaration, device_bytes: int) -> Contents:
        strategy, nbytes = self.strategy, declared.nbytes
        place = placement(declared, strategy, self.guidance, copy_control=self.copy_control)
        on_device = strategy.allocator if strategy.duplicated else common_allocator("device")
        if place == "cpu":
            return Contents(place, (Allocate(buffer, "host", PLAIN, nbytes),))
        if place == "exchange":
            return self._of_messages(buffer, declared)
        if place == "gpu":
            return Contents(place, (Allocate(buffer, "device", on_device, nbytes),))
        mapped = self._maps_file(declared)
        if place == "copies":
            host = Allocate(buffer, "host", strategy.host_arrays, nbytes, mapped)
            blocks = {"host": host, "device": Allocate(buffer, "device", on_device, device_bytes)}
            return Contents(place, tuple(b for side, b in blocks.items() if declared.copies in ("both", side)))
        entry = self.info.allocator(strategy.allocator)
        assert entry is not None
        return Contents(
            place,
            (Allocate(buffer, "shared", strategy.allocator, nbytes, mapped),),
            must_map=needs_mapping(entry),
            concurrent=coherence(entry) == "kernel" and not strategy.coherence,
            disjoint=allows_concurrent_parts(entry) is True and strategy.coherence != "wait",
            needs_idle_device=needs_idle_device(entry),
        )

    def _of_messages(self, buffer: int, declared: Declaration) -> Contents:
        if declared.sides == "gpu":
            return Contents("exchange", (Allocate(buffer, "device", self.messages, declared.nbytes),))
        entry = self.info.allocator(self.messages)
        assert entry is not None
        side: Literal["host", "shared"] = "host" if entry.gpu == "none" else "shared"
        return Contents(
            "exchange",
            (Allocate(buffer, side, self.messages, declared.nbytes),),
            must_map=needs_mapping(entry),
            disjoint=allows_concurrent_parts(entry) is True,
            needs_idle_device=needs_idle_device(entry),
        )

    def _maps_file(self, declared: Declaration) -> bool:
        """Whether the CPU's memory of a buffer is a mapping of its file: under strategies of plain host memory."""
        plain = self.strategy.host_arrays if self.strategy.duplicated else self.strategy.allocator
        return declared.file and is_plain_host(plain)

    def load(self, buffer: int, threads: int = 0) -> list[Step]:
        """Make the contents of its file available to the CPU in a buffer declared with file=True."""
        nbytes = self.declared[buffer].nbytes
        if self._maps_file(self.declared[buffer]):
            self.contents[buffer].valid["cpu"].add(0, nbytes)
            return []
        steps = self.touch("cpu", buffer, 0, nbytes, reads=False, writes=True)
        return [MapFile(buffer, nbytes), *steps, CopyFile(buffer, nbytes, threads)]

    def free(self) -> list[Step]:
        """Wait, and return all memory."""
        steps: list[Step] = [*self.join_prefetches(), *self.wait()]
        for buffer, contents in enumerate(self.contents):
            self._unmap(steps, buffer)
            steps += [Free(buffer, *block[1:]) for block in contents.blocks]
        self.declared.clear()
        self.contents.clear()
        return steps

    def renew(self, buffer: int) -> tuple[list[Step], list[Step]]:
        """The steps that return the memory of a buffer, and those that obtain it again. Its contents are lost."""
        freed, contents = list[Step](), self.contents[buffer]
        if contents in self._busy:
            self._wait(freed)
        self._unmap(freed, buffer)
        freed += [Free(buffer, *block[1:]) for block in contents.blocks]
        for valid in contents.valid.values():
            valid.clear()
        return freed, [*contents.blocks, *self._at_allocation(buffer)]

    def release(self, first: int) -> list[Step]:
        """Return the memory of a buffer and of all that were added after it, and forget them."""
        steps: list[Step] = []
        if self._busy.intersection(self.contents[first:]):
            self._wait(steps)
        for buffer in range(first, len(self.contents)):
            self._unmap(steps, buffer)
            steps += [Free(buffer, *block[1:]) for block in self.contents[buffer].blocks]
        del self.declared[first:], self.contents[first:]
        return steps

    # ------------------------------------------------------------------------------------------------ roles

    def _guidance(self, buffer: int) -> Guidance:
        return self.guidance.of(self.declared[buffer], self.strategy)

    def _shared(self) -> list[int]:
        return [buffer for buffer, contents in enumerate(self.contents) if contents.shared]

    def after_initialise(self) -> list[Step]:
        """Advise read-mostly where the guidance says so, at the end of the phase initialise."""
        return [Advise(b, hint) for b in self._shared() for hint in self._guidance(b).after_initialise]

    def before_compute(self) -> list[Step]:
        """Prefetch to the GPU where the guidance says so, before the first launch of the phase compute.

        With `overlap` launches do not wait for the prefetches: a kernel faults on pages that have not arrived.
        """
        buffers = [b for b in self._shared() if "gpu" in self._guidance(b).prefetch]
        if not buffers:
            return []
        self._prefetching = True
        for b in buffers:
            self.least.prefetch(self.contents[b], self.contents[b].valid, self.declared[b].nbytes)
        prefetches = [Prefetch(b, self.declared[b].nbytes, "gpu") for b in buffers]
        return [*prefetches, EndPrefetches(), *(() if self.strategy.overlap else self.join_prefetches())]

    def join_prefetches(self) -> list[Step]:
        """Make later work and waits wait for the prefetches, at the end of the phase compute, which contains them."""
        joins: list[Step] = [Join()] if self._prefetching else []
        self._prefetching = False
        return joins

    def read_back(self, buffers: Sequence[int]) -> list[Step]:
        """Transfer whole buffers to the CPU, which then reads one byte of each page."""
        steps: list[Step] = []
        for b in buffers:
            if self.contents[b].shared and "cpu" in self._guidance(b).prefetch:
                steps.append(Prefetch(b, self.declared[b].nbytes, "cpu"))
        for b in buffers:
            nbytes = self.declared[b].nbytes
            steps += [*self.touch("cpu", b, 0, nbytes, reads=True, writes=False), ReadPages(b, nbytes)]
        return steps

    # ------------------------------------------------------------------------------------------------ accesses

    def touch(
        self, agent: Agent, buffer: int, start: int, end: int, *, reads: bool, writes: bool, whole: bool = True
    ) -> list[Step]:
        """The steps before an agent's use of a range, and the use. whole: it is known to use every byte.

        Raises ValueError if the agent has no memory of the buffer or, if `strict`, reads what nobody has written.
        """
        if start >= end:
            return []
        contents, steps = self.contents[buffer], list[Step]()
        if not (contents.host if agent == "cpu" else contents.device):
            raise ValueError(f"{self.declared[buffer].name} is not declared for use by the {agent}")
        if reads:
            self._make_valid(steps, buffer, start, end, agent, whole)
        if agent == "cpu":
            self._prepare_cpu_access(steps, buffer, start, end, writes)
        else:
            self._unmap(steps, buffer)
            if self._stores_to_flush:
                self._stores_to_flush = False
                steps.append(Flush())
            if contents.shared:
                self._note_busy(contents, start, end, reads=reads, writes=writes)
        if writes:
            contents.valid[agent].add(start, end)
            contents.valid[opposite(agent)].remove(start, end)
            self.least.write(contents, agent, start, end)
        steps.append(Use(buffer, agent, start, end, reads, writes))
        return steps

    def touch_at_once(self, buffer: int) -> list[Step]:
        """The CPU's use of a whole buffer while kernels use it, or of a CPU-only buffer, which is overwritten.

        Raises Unsupported if the CPU can't access the memory while a kernel runs.
        """
        declared, contents = self.declared[buffer], self.contents[buffer]
        if declared.sides == "cpu":
            return self.touch("cpu", buffer, 0, declared.nbytes, reads=False, writes=True)
        if not (contents.shared and contents.concurrent):
            raise Unsupported(f"under {self.strategy.name} the CPU cannot access {declared.name} while a kernel runs")
        return [Use(buffer, "cpu", 0, declared.nbytes, reads=True, writes=True, at_once=True)]

    def lend(self, buffer: int, start: int, end: int, *, arrives: bool) -> list[Step]:
        """The steps before bytes of a message leave a buffer, or arrive in it."""
        contents = self.contents[buffer]
        if not contents.host:
            return self.touch("gpu", buffer, start, end, reads=not arrives, writes=arrives)
        steps: list[Step] = []
        self._unmap(steps, buffer)
        for agent in contents.valid if arrives and start < end else ():
            contents.valid[agent].add(start, end)
        return steps

    def _make_valid(self, steps: list[Step], buffer: int, start: int, end: int, agent: Agent, whole: bool) -> None:
        contents, away = self.contents[buffer], self.contents[buffer].valid[opposite(agent)]
        for first, last in contents.valid[agent].missing(start, end):
            if self.strict and away.missing(first, last):
                name = self.declared[buffer].name
                raise ValueError(f"bytes {first} to {last} of {name} are read before they are written")
            if self.strict or away.overlaps(first, last):
                self.transferred[agent] += last - first
                if not contents.shared:
                    self._copy(steps, buffer, first, last, agent)
                elif whole:
                    self.least.use(contents, agent, first, last, self._guidance(buffer))
            contents.valid[agent].add(first, last)

    def _copy(self, steps: list[Step], buffer: int, start: int, end: int, to: Agent) -> None:
        contents = self.contents[buffer]
        if to == "gpu" and contents.busy_written.overlaps(start, end):
            self._wait(steps)
        steps.append(Copy(buffer, start, end, to, contents.window))
        self._note_busy(contents, start, end, reads=to == "gpu", writes=to == "cpu")

    def _prepare_cpu_access(self, steps: list[Step], buffer: int, start: int, end: int, writes: bool) -> None:
        """Wait for queued work that conflicts with a CPU access, and map the memory if needed."""
        contents = self.contents[buffer]
        conflicts = contents.busy_written.overlaps(start, end) or (writes and contents.busy_read.overlaps(start, end))
        independent = contents.disjoint or not contents.shared
        busy = not independent and bool(contents.busy_read or contents.busy_written)
        if conflicts or busy or contents.needs_idle_device:
            self._wait(steps)
        if contents.must_map and not contents.mapped:
            if contents in self._busy:
                self._wait(steps)
            steps.append(Map(buffer))
            contents.mapped = True
        self._stores_to_flush |= writes and contents.shared and self.strategy.coherence == "flush"

    def _unmap(self, steps: list[Step], buffer: int) -> None:
        if self.contents[buffer].mapped:
            self.contents[buffer].mapped = False
            steps.append(Unmap(buffer))

    def _note_busy(self, contents: Contents, start: int, end: int, *, reads: bool, writes: bool) -> None:
        if reads:
            contents.busy_read.add(start, end)
        if writes:
            contents.busy_written.add(start, end)
        self._busy.add(contents)

    def _wait(self, steps: list[Step]) -> None:
        steps.append(Wait())
        for contents in self._busy:
            contents.busy_read.clear()
            contents.busy_written.clear()
        self._busy.clear()

    def wait(self) -> list[Step]:
        """Wait until all queued work has ended."""
        steps: list[Step] = []
        self._wait(steps)
        return steps

    def swap(self, first: int, second: int) -> list[Step]:
        """Exchange the memory of two buffers, or, of a device array and a host array, copy. Returns the steps of the
        copy. Raises ValueError unless they have the same size, role and placement.
        """
        a, b = self.declared[first], self.declared[second]
        if not a.is_interchangeable_with(b):
            raise ValueError(f"{a.name} and {b.name} cannot be swapped: their size, role or placement differs")
        contents = self.contents
        if contents[first].is_copied_from(contents[second]):
            return self._copy_from(first, second)
        contents[first], contents[second] = contents[second], contents[first]
        return []

    def _copy_from(self, buffer: int, source: int) -> list[Step]:
        """Copy what is valid of a host array to the device array of another buffer, and wait, as a copy of pageable
        memory does: the CPU may then overwrite the host array while kernels use the other.
        """
        contents, steps = self.contents[buffer], list[Step]()
        for start, end in self.contents[source].valid["cpu"]:
            self.transferred["gpu"] += end - start
            steps.append(Copy(buffer, start, end, "gpu", source=source))
            contents.valid["gpu"].add(start, end)
        self._wait(steps)
        return steps

    def forget(self, buffers: Iterable[int]) -> None:
        """Take buffers as never written."""
        for buffer in buffers:
            for valid in self.contents[buffer].valid.values():
                valid.clear()

    # ------------------------------------------------------------------------------------------------ tiles

    def move_window(self, buffer: int, start: int) -> list[Step]:
        """Move the device part of a streamed buffer to offset `start`, after copying data that only the device holds to
        the host.
        """
        contents, steps = self.contents[buffer], list[Step]()
        if contents.window == start:
            return steps
        on_host, on_device = contents.valid["cpu"], contents.valid["gpu"]
        for first, last in [*on_device]:
            for gap in on_host.missing(first, last):
                self.transferred["cpu"] += gap[1] - gap[0]
                self._copy(steps, buffer, *gap, "cpu")
                on_host.add(*gap)
        on_device.clear()
        contents.window = start
        return steps
