"""producer_consumer: both agents use the same memory at the same time."""

from __future__ import annotations

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, in_pieces, u64
from firsttouch.harness.random import mix64, words
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import DeviceInfo

ROUNDS, THREADS = 2, 256  # passes around the ring per iteration; threads of the only group
SECONDS, POLLS = 5, 1 << 32  # time without progress after which the GPU gives up, and polls after which the CPU does


class ProducerConsumer(App):
    """The CPU produces items into a ring while a kernel answers each in place, ordered by system-scope atomics."""

    name = "producer_consumer"
    source = "this project; possible only with unified memory"
    pattern = "concurrent access in both directions"
    sizes = {
        "tiny": {"slots": 5, "words": 37, "iterations": 3},
        "default": {"slots": 256, "words": 512, "iterations": 20},
        "bytes": {"iterations": 1},
    }
    grows = "slots"
    slots: int
    words: int
    iterations: int

    ring = buffer(u64, "slots", "words", role="inout", starts_on="cpu")
    board = buffer(u64, 96, role="control", starts_on="cpu")  # produced, answered, given up
    sums = buffer(u64, f"{ROUNDS} * slots", role="scratch", starts_on="cpu")  # of the answers of an iteration
    seconds, polls = SECONDS, POLLS

    @classmethod
    def refuses(cls, strategy: Strategy, device: DeviceInfo) -> str | None:
        if strategy.duplicated:
            return "both agents use one ring at the same time, but copies are made only between kernels"
        entry = device.allocator(strategy.allocator)
        if entry is None or entry.concurrent is not True or strategy.coherence:
            return "in this memory the CPU and a running kernel do not see each other's stores"
        return None

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.fill(self.ring, 0)
        cpu.fill(self.board, 0)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        items = ROUNDS * self.slots
        patience = int(self.seconds * 1e9)
        for i in gpu.iterations(self.iterations):
            shape = (self.slots, self.words, i * items, (i + 1) * items)
            gpu.launch("ring_consume", self.ring, self.board, *shape, patience, groups=1, threads=THREADS)
            cpu.launch(
                *("ring_produce", self.ring, self.board, self.sums, *shape, self.ring.key, self.polls),
                over=1,
                concurrent_with_gpu=True,
            )
            if cpu.reads(self.board)[64]:
                break

    def check(self, view: View) -> str:
        """Checks the sums of all answers of the last iteration, and those that the ring still holds word by word."""
        produced, answered, items = int(view(self.board)[0]), int(view(self.board)[32]), ROUNDS * self.slots
        if produced != answered or answered != self.iterations * items:
            return f"{answered} of {self.iterations * items} items were answered before one agent gave up"
        sums, ring = view(self.sums), view(self.ring)

        def wrong(first: int, last: int) -> list[int]:
            number = np.arange(first, last, dtype=np.uint64)[:, None] + np.uint64((self.iterations - 1) * items)
            inside = number * np.uint64(self.words) + np.arange(self.words, dtype=np.uint64)
            answers = mix64(words(self.ring.key, inside) ^ number)
            different = sums[first:last] != answers.sum(axis=1, dtype=np.uint64)
            kept = max(first, items - self.slots)  # the first item that was not overwritten
            if kept < last:
                held = ring[kept - items + self.slots : last - items + self.slots]
                different[kept - first :] |= (held != answers[kept - first :]).any(axis=1)
            return [int(at) + first for at in np.flatnonzero(different)]

        places = [at for part in in_pieces(wrong, items, max(1, (1 << 18) // self.words)) for at in part]
        return f"{len(places)} of {items} items have a wrong answer, such as item {places[0]}" if places else ""
