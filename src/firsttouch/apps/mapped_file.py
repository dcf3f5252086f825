"""mapped_file: a file mapped into memory and read by the GPU."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from firsttouch.apps.support.files import unnamed_file
from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, in_pieces, on_host, u64

GROUPS, THREADS = 1024, 256  # groups of a launch, and threads per group as in mapped_file.c
CHUNK = 4 * GROUPS * THREADS  # words that the check reads at a time: each thread sums up four of them


class MappedFile(App):
    """Checksum of a file of n random 64-bit words, repeated `iterations` times. A GPU that can access plain host memory
    reads the mapping itself; otherwise the file is first copied into memory that the GPU can access.
    """

    name = "mapped_file"
    source = "this project; the checksum is compared with that of the file as returned by read()"
    pattern = "a file mapped with mmap, read by the GPU"
    sizes = {
        "tiny": {"n": 300_007, "iterations": 2},
        "default": {"n": 1 << 27, "iterations": 4},
    }
    tiled = ("words",)
    n: int
    iterations: int

    words = buffer(u64, "n", role="input", starts_on="cpu", file=True)
    partial = buffer(u64, GROUPS, role="output", ends_on="cpu")

    def arrange(self) -> None:
        """Write the file."""
        self.words.file = unnamed_file(self, self.words.nbytes)
        with mmap.mmap(self.words.file, self.words.nbytes) as mapping:
            on_host(self.kernels, "mapped_file_words", np.frombuffer(mapping, u64), self.n, self.words.key)

    def prepare(self, gpu: Gpu) -> None:
        self.rows = gpu.tile_rows(self.words)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.load(self.words)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        for _ in gpu.iterations(self.iterations):
            for tile in gpu.tiles(self.words):
                gpu.launch(
                    *("mapped_file_sum", self.words, self.partial, tile.offset, tile.first, tile.count),
                    *(int(tile.first == 0),),
                    groups=GROUPS,
                    threads=THREADS,
                    reads=[tile.of(self.words)],
                    updates=[] if tile.first == 0 else [self.partial],
                    writes=[self.partial] if tile.first == 0 else [],
                )

    def check(self, view: View) -> str:
        """Compares each group's checksum with that of its words of the file as returned by read()."""
        expected, chunks = np.zeros(GROUPS, u64), list[tuple[int, int]]()
        for tile in range(0, self.n, self.rows):
            end = min(self.n, tile + self.rows)
            chunks += [(first, min(end, first + CHUNK)) for first in range(tile, end, CHUNK)]
        for sums in in_pieces(lambda i, _: self._sums(*chunks[i]), len(chunks), 1):
            expected += sums
        wrong = np.flatnonzero(view(self.partial) != expected)
        return f"{len(wrong)} of {GROUPS} checksums differ from those of the file" if len(wrong) else ""

    def _sums(self, first: int, last: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """The sums by group, of words of which group 0 has the first."""
        words = np.frombuffer(os.pread(self.words.file, 8 * (last - first), 8 * first), u64)
        values = np.zeros(CHUNK, u64)
        values[: len(words)] = words * (2 * np.arange(first, last, dtype=u64) + u64.type(1))
        return np.asarray(values.reshape(-1, GROUPS, THREADS).sum(axis=(0, 2), dtype=u64))
