"""What each step of the ledger does to the pages of managed memory: which parts threads touch, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firsttouch.base.units import parse_size
from firsttouch.model.managed import ManagedMemory, PageMoves
from firsttouch.model.pages import IN_ORDER, PARALLEL, SCATTERED, Kind, shares
from firsttouch.model.rules.releases import parse_release
from firsttouch.model.rules.uvm import BLOCK_BYTES
from firsttouch.program import steps
from firsttouch.program.guidance import BY_ITSELF, Placement
from firsttouch.program.phase_threads import EVERY_THREAD, PhaseThreads
from firsttouch.program.program import RANDOM, SMALL_LAUNCH, Access, Launch
from firsttouch.records.schema import DeviceInfo, Machine, as_number

SLICES = 256
"""Parts into which the accesses of a kernel are cut where they compete for memory, so that buffers take turns."""
LEAST_SLICE = 4 * BLOCK_BYTES
"""The least bytes of a slice of the largest access."""
SMALLEST_PAGE = 4096
"""Bytes of a page where the records do not say."""
NO_LAUNCH = Launch("cpu", ())
NO_ACCESS = Access(0, 0, 0, False, False)
SPARSE = "per-"
"""Begins the name of a touch of a few bytes in each stretch, such as per-64KiB (experiment migration)."""


@dataclass(frozen=True)
class CountingSettings:
    """What decides counts besides program, strategy and device.

    threads: of the host. kind: of managed memory. capacity: bytes of device memory that managed pages may have; None:
    enough. phase_threads: of those that carry out each phase.
    """

    threads: int
    kind: Kind
    capacity: int | None = None
    guidance: Placement = BY_ITSELF
    copy_control: bool = False
    phase_threads: PhaseThreads = EVERY_THREAD


def host_page(machine: Machine) -> int:
    """Bytes of a base page of a machine's host."""
    return int(as_number(machine.facts.get("memory", {}).get("page_bytes")) or SMALLEST_PAGE)


def stated_settings(machine: Machine, device: DeviceInfo) -> CountingSettings:
    """What a machine states of its host, its driver and its device."""
    nvidia, cpu = (machine.facts.get(topic, {}) for topic in ("nvidia", "cpu"))
    kind = Kind(
        host_page(machine),
        parse_release(str(nvidia.get("driver") or "0")),
        coherent=device.facts.get("directManagedMemAccessFromHost") is True,
    )
    return CountingSettings(int(as_number(cpu.get("cores_usable")) or 1), kind)


class PageSteps:
    """The pages of managed memory, and what steps do to them."""

    def __init__(self, settings: CountingSettings) -> None:
        self.settings = settings
        capacity = settings.capacity
        self.memory = ManagedMemory(settings.kind, None if capacity is None else capacity // BLOCK_BYTES)

    def call(
        self, step: steps.Prefault | steps.ReadPages | steps.CopyFile, moves: PageMoves, evicted: PageMoves
    ) -> None:
        """Touches of a whole buffer by all threads of the CPU: of each page, or a copy into it."""
        copies = isinstance(step, steps.CopyFile)
        threads = (step.threads if isinstance(step, steps.CopyFile) else 0) or self.settings.threads
        parts = shares(step.nbytes, threads, 1 if copies else self.settings.kind.page)
        writes = not isinstance(step, steps.ReadPages)
        self.memory.touch(step.buffer, "cpu", parts, moves, evicted, writes=writes)

    def use(
        self,
        uses: Sequence[tuple[steps.Use, Access]],
        launch: Launch,
        phase: str,
        evicted: PageMoves,
    ) -> list[PageMoves]:
        """Uses of a launch, one after the other; of a kernel that competes for the GPU's memory, in slices in turn.
        Returns what moved for each.
        """
        slices = self._slices([step for step, _ in uses])
        moves = [PageMoves(self.settings.kind.page) for _ in uses]
        if slices == 1:
            for (step, access), each in zip(uses, moves, strict=True):
                if step.start < step.end:
                    self._use(step, access, self._parts(step, access, launch, phase), launch, each, evicted)
            return moves
        bounds = [[_slice_start(step, number, slices) for number in range(slices + 1)] for step, _ in uses]
        for number in range(slices):
            for (step, access), each, starts in zip(uses, moves, bounds, strict=True):
                part = starts[number], starts[number + 1]
                if part[0] < part[1]:
                    self._use(step, access, [part], launch, each, evicted)
        return moves

    def _slices(self, uses: Sequence[steps.Use]) -> int:
        """Into how many slices uses are cut: into one where they do not compete, or none faults."""
        if self.settings.capacity is None or len(uses) < 2 or uses[0].agent == "cpu":
            return 1
        if not any(self.memory.faults(step.buffer, "gpu", step.start, step.end, step.writes) for step in uses):
            return 1
        return max(1, min(SLICES, max(step.end - step.start for step in uses) // LEAST_SLICE))

    def _use(
        self,
        step: steps.Use,
        access: Access,
        parts: Sequence[tuple[int, int]],
        launch: Launch,
        moves: PageMoves,
        evicted: PageMoves,
    ) -> None:
        spread = access.spread
        stride = parse_size(spread.removeprefix(SPARSE)) if spread.startswith(SPARSE) else 0
        order = SCATTERED if spread == RANDOM else IN_ORDER
        if step.agent == "gpu" and launch.threads != 1:
            order = PARALLEL
        self.memory.touch(
            step.buffer, step.agent, parts, moves, evicted, writes=step.writes, order=order, stride=stride
        )

    def _parts(self, step: steps.Use, access: Access, launch: Launch, phase: str) -> list[tuple[int, int]]:
        """The part of each thread."""
        nbytes = step.end - step.start
        if step.agent == "gpu" or launch.by != "kernel" or launch.threads <= SMALL_LAUNCH:
            return [(step.start, step.end)]
        threads = self.settings.phase_threads.of(phase) or self.settings.threads
        each, items = nbytes // access.rows, launch.items
        item = each // items if items and each % items == 0 else 1
        begins = (step.start + row * each for row in range(access.rows))
        parts = shares(each, threads, item)
        return [(begin + a, begin + b) for begin in begins for a, b in parts]


def _slice_start(step: steps.Use, number: int, slices: int) -> int:
    """Where a slice of a use begins: where a block does."""
    if number in (0, slices):
        return step.end if number else step.start
    offset = step.start + (step.end - step.start) * number // slices
    return max(step.start, offset // BLOCK_BYTES * BLOCK_BYTES)
