"""Counts what a program's memory does under a strategy on a machine: faults, moves and copies, without running it.

The program is replayed through the ledger of its strategy, as advice replays it; here its pages are kept one by one
(managed.py), and nothing is priced.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

from firsttouch.machine.allocators.properties import memory_of
from firsttouch.model.managed import PageMoves
from firsttouch.model.page_steps import NO_ACCESS, NO_LAUNCH, CountingSettings, PageSteps
from firsttouch.model.pages import Counts
from firsttouch.model.rules.uvm import BLOCK_BYTES, counted
from firsttouch.model.sharing import moves
from firsttouch.program import steps
from firsttouch.program.declarations import Agent
from firsttouch.program.ledger import Ledger
from firsttouch.program.program import Access, Launch, Program
from firsttouch.program.replay import Prepared, Replay
from firsttouch.program.strategies import Strategy, why_not_at_once
from firsttouch.records.schema import DeviceInfo

MoveCause = Literal["cpu_fault", "gpu_fault", "prefetch", "advice", "eviction"]


class CountedReplay(Replay):
    """Replays a program and counts.

    moves: by phase and cause. device_bytes: of its blocks of device memory. most_on_device: the most of them and of the
    memory of managed pages, as the vendor's library counts it; by_phase: at the end of each phase.
    """

    def __init__(self, program: Program, strategy: Strategy, device: DeviceInfo, settings: CountingSettings) -> None:
        ledger = Ledger(
            strategy,
            device,
            copy_control=settings.copy_control,
            guidance=settings.guidance,
            strict=False,
        )
        super().__init__(program, ledger, in_turns=bool(why_not_at_once(strategy, device)))
        self.strategy, self.device, self.settings = strategy, device, settings
        self.pages = PageSteps(settings)
        self.managed = self.pages.memory
        self.moves: dict[tuple[str, MoveCause], PageMoves] = {}
        self.device_bytes = 0
        self.most_on_device = 0
        self.by_phase: dict[str, int] = {}
        self._rounds: list[tuple[dict[tuple[str, MoveCause], PageMoves], dict[Agent, int]]] = []
        self._last = self._copy()
        self._launch_now = NO_LAUNCH
        self._access = NO_ACCESS

    # ------------------------------------------------------------------------------------------------ the replay

    def play(self, next_steps: Iterable[steps.Step]) -> None:
        self._launch_now, self._access = NO_LAUNCH, NO_ACCESS
        for step in next_steps:
            self._play(step)

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        self._launch_now = launch
        together: list[tuple[steps.Use, Access]] = []
        for access, access_steps in prepared:
            self._access = access
            for step in access_steps:
                if isinstance(step, steps.Use) and step.agent == "gpu" and step.buffer in self.managed.buffers:
                    together.append((step, access))
                else:
                    self._play(step)
        if together:
            self._use(together, launch, "gpu_fault")
            self._note_peak()

    def swap(self, first: int, second: int) -> None:
        self.managed.swap(first, second)

    def state(self) -> Hashable:
        return self.managed.state()

    def begin_round(self) -> None:
        self._rounds.append(self._copy())

    def end_round(self) -> None:
        self._last = self._rounds.pop()

    def add_again(self, times: int) -> None:
        moves, transferred = self._last
        for key, now in self.moves.items():
            was = moves.get(key, PageMoves(now.page))
            now.counts = now.counts.plus(now.counts.plus(was.counts, -1), times)
            now.blocks += times * (now.blocks - was.blocks)
        for agent, nbytes in self.ledger.transferred.items():
            self.ledger.transferred[agent] += times * (nbytes - transferred[agent])

    def _copy(self) -> tuple[dict[tuple[str, MoveCause], PageMoves], dict[Agent, int]]:
        return {key: replace(moves) for key, moves in self.moves.items()}, dict(self.ledger.transferred)

    # ------------------------------------------------------------------------------------------------ steps

    def _of(self, cause: MoveCause) -> PageMoves:
        return self.moves.setdefault((self.phase, cause), PageMoves(self.settings.kind.page))

    def _play(self, step: steps.Step) -> None:
        if isinstance(step, steps.Allocate):
            self._allocate(step)
        elif isinstance(step, steps.Free):
            self._free(step)
        elif step_buffer(step) in self.managed.buffers:
            self._play_managed(step)
        self._note_peak()

    def _play_managed(self, step: steps.Step) -> None:
        evicted = self._of("eviction")
        if isinstance(step, steps.Advise):
            self.managed.advise(step.buffer, step.hint, self._of("advice"))
        elif isinstance(step, steps.Prefetch):
            self.managed.prefetch(step.buffer, step.to, self._of("prefetch"), evicted)
        elif isinstance(step, steps.Prefault | steps.ReadPages | steps.CopyFile):
            self.pages.call(step, self._of("cpu_fault"), evicted)
        elif isinstance(step, steps.Use) and self.phase != "readback" and not self._is_copied_from_file(step):
            self._use([(step, self._access)], self._launch_now, "cpu_fault" if step.agent == "cpu" else "gpu_fault")

    def _is_copied_from_file(self, step: steps.Use) -> bool:
        """Whether a step that copies a file follows, which is counted."""
        return self._launch_now.by == "file" and self.ledger.declared[step.buffer].file

    def _use(self, uses: Sequence[tuple[steps.Use, Access]], launch: Launch, cause: MoveCause) -> None:
        for each in self.pages.use(uses, launch, self.phase, self._of("eviction")):
            self._of(cause).include(each)

    def _allocate(self, step: steps.Allocate) -> None:
        entry = self.device.allocator(step.allocator)
        if step.side == "device":
            self.device_bytes += -(-step.nbytes // BLOCK_BYTES) * BLOCK_BYTES
        elif entry is not None and step.side == "shared":
            if moves(entry, self.device):
                self.managed.allocate(step.buffer, step.nbytes)
            elif memory_of(entry) == "device":
                self.device_bytes += -(-step.nbytes // BLOCK_BYTES) * BLOCK_BYTES

    def _free(self, step: steps.Free) -> None:
        if step.buffer in self.managed.buffers:
            self.managed.free(step.buffer)

    def _note_peak(self) -> None:
        managed = self.managed.gpu_bytes
        in_use = self.device_bytes + (counted(managed) if self.settings.kind.release else managed)
        self.most_on_device = max(self.most_on_device, in_use)
        self.by_phase[self.phase] = in_use

    # ------------------------------------------------------------------------------------------------ results

    def total(self, *causes: MoveCause) -> Counts:
        """The counts of causes; of all if none is named."""
        total = Counts()
        for (_, cause), each in self.moves.items():
            if not causes or cause in causes:
                total = total.plus(each.counts)
        return total

    def counters(self) -> dict[str, int]:
        """The counters that the events of a measured run have (profile/events/sums.py), under the same names."""
        page, faults = self.settings.kind.page, self.total("cpu_fault", "gpu_fault")
        called, evicted, all_counts = self.total("prefetch"), self.total("eviction"), self.total()
        return {
            "copied_h2d_bytes": self.ledger.transferred["gpu"],
            "copied_d2h_bytes": self.ledger.transferred["cpu"],
            "peak_device_bytes": self.most_on_device,
            "um_h2d_migrations": all_counts.copies_to_gpu,
            "um_h2d_bytes": all_counts.to_gpu * page,
            "um_h2d_prefetch_bytes": called.to_gpu * page,
            "um_h2d_fault_bytes": faults.faulted_to_gpu * page,
            "um_h2d_speculative_bytes": (faults.to_gpu - faults.faulted_to_gpu) * page,
            "um_d2h_migrations": all_counts.copies_to_cpu,
            "um_d2h_bytes": all_counts.to_cpu * page,
            "um_d2h_prefetch_bytes": called.to_cpu * page,
            "um_d2h_fault_bytes": faults.faulted_to_cpu * page,
            "um_d2h_speculative_bytes": (faults.to_cpu - faults.faulted_to_cpu) * page,
            "um_d2h_eviction_bytes": evicted.to_cpu * page,
            "um_cpu_faults": self.total("cpu_fault").services,
            "um_gpu_fault_groups": self.total("gpu_fault").services,
            "um_gpu_faults": self.total("gpu_fault").faults,
        }


def step_buffer(step: steps.Step) -> int:
    """The buffer that a step is about; -1 if it is about none."""
    return getattr(step, "buffer", -1)
