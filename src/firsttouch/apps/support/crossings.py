"""How the particles of transport cross from one block to another: packed, sent, received and unpacked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from firsttouch.harness.exchanging import PACKING, RECEIVES, SEND_BUFFERS
from firsttouch.program.execution.agents import Cpu, Gpu
from firsttouch.program.execution.arrays import Array, ByteRange


def arrange(options: Mapping[str, Any], queue: Array, outgoing: Array, incoming: Array) -> None:
    """Declare the buffers of messages as the options say, before anything is allocated."""
    outgoing.deferred = options[SEND_BUFFERS] == "allocated"
    for array in (queue, outgoing, incoming) if options[PACKING] == "cpu" else ():
        array.declaration = replace(array.declaration, sides="both")


@dataclass
class Crossings:
    """The messages between a process and those of the blocks beside its own.

    packer: the agent that packs and unpacks. others: the processes beside; each has a queue and a message of at most
    `room` particles. allocated: the memory of each message that leaves is allocated for it, and freed when all have
    arrived. posted: receives begin before particles are tracked.
    """

    gpu: Gpu
    packer: Cpu | Gpu
    others: Sequence[int]
    room: int
    allocated: bool
    posted: bool
    queue: Array
    outgoing: Array
    incoming: Array
    control: Array

    @classmethod
    def of(cls, options: Mapping[str, Any], cpu: Cpu, gpu: Gpu, others: Sequence[int], *buffers: Array) -> Crossings:
        """options: those of the application, and its parameter `room`. buffers: the last four fields."""
        allocated, posted = options[SEND_BUFFERS] == "allocated", options[RECEIVES] == "posted"
        packer = cpu if options[PACKING] == "cpu" else gpu
        return cls(gpu, packer, others, options["room"], allocated, posted, *buffers)

    def post(self) -> None:
        """Called before particles are tracked."""
        if self.posted and self.others:
            self.gpu.receive_rows(self.incoming, self.others, self.room)

    def carry(self, particles: ByteRange, queued: Sequence[int], fresh: Array, at: int) -> int:
        """Send the particles in the queues, and put those that arrive behind `at` fresh ones. Returns how many."""
        if not self.others:
            return 0
        packer, start, queued = self.packer, at, queued[: len(self.others)]
        with self.gpu.exchange(), self._messages(queued) as parts:
            for first, n, part in zip(self._starts(), queued, parts, strict=True):
                packer.launch(
                    *("crossing_pack", particles.array, self.queue, part.array, self.control),
                    *(first, part.start // part.array.row_bytes, n),
                    over=n + 1,
                    reads=[particles, self.queue[first : first + n]],
                    writes=[part],
                )
            come = self.gpu.send_rows(parts, self.incoming, self.others, self.room)
            for first, n in zip(self._starts(), come, strict=True):
                packer.launch(
                    *("crossing_unpack", self.incoming, fresh, self.control, first, n, at, len(fresh)),
                    over=n + 1,
                    reads=[self.incoming[first : first + n]],
                    writes=[fresh[at : at + n]],
                )
                at += n
        return at - start

    def _starts(self) -> range:
        """The first particle of each queue, and of each message that arrives."""
        return range(0, self.room * len(self.others), self.room)

    @contextmanager
    def _messages(self, counts: Sequence[int]) -> Iterator[Sequence[ByteRange]]:
        if self.allocated:
            with self.gpu.messages(self.outgoing, counts) as parts:
                yield parts
        else:
            yield [self.outgoing[at : at + n] for at, n in zip(self._starts(), counts, strict=True)]
