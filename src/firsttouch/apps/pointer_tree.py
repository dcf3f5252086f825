"""pointer_tree: a linked structure that one agent builds and the other traverses."""

from __future__ import annotations

import numpy as np

from firsttouch.base.errors import Unsupported
from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, in_pieces, u64
from firsttouch.harness.random import words
from firsttouch.program.execution.arrays import SCATTERED, Scattered
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import DeviceInfo


class PointerTree(App):
    """A balanced search tree linked by addresses, built by all CPU threads and searched in place by the GPU."""

    name = "pointer_tree"
    source = "this project; possible only with unified memory"
    pattern = "pointer chasing in a structure built by the CPU"
    sizes = {
        "tiny": {"n": 3001, "searches": 2500, "iterations": 3},
        "default": {"n": 4_000_000, "searches": 1_000_000, "iterations": 10},
    }
    n: int
    searches: int
    iterations: int

    nodes = buffer(u64, "n", 4, role="input", starts_on="cpu")  # left, right, key, value
    root = buffer(u64, 1, role="constant", starts_on="cpu")
    sums = buffer(u64, "searches", role="output", starts_on="gpu", ends_on="cpu")  # of the values found

    @classmethod
    def refuses(cls, strategy: Strategy, device: DeviceInfo) -> str | None:
        if strategy.duplicated:
            return "the pointers in a copy would still point into the original"
        return None

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        host_address, block = cpu.writes(self.nodes).ctypes.data, self.nodes.memory.device
        if block is None or block.device_address != host_address:
            raise Unsupported(
                "CPU and GPU use different addresses for this memory, so its pointers are not valid on both"
            )
        shape = (self.n, self.n.bit_length(), self.nodes.key)
        cpu.launch("tree_grow", self.nodes, self.root, *shape, over=self.n, writes=[self.nodes, self.root])
        gpu.fill(self.sums, 0)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        # Each search goes down the levels of the tree, to a node at random in each.
        passes = {self.nodes: Scattered(self.searches * (self.n.bit_length() - 1) * SCATTERED / self.nodes.nbytes)}
        for i in gpu.iterations(self.iterations):
            first = i * self.searches
            shape = (self.n, self.searches, first, self.nodes.key)
            gpu.launch("tree_search", self.nodes, self.root, self.sums, *shape, over=self.searches, passes=passes)

    def check(self, view: View) -> str:
        """Checks the result of each search, which follows from its number."""
        sums, key = view(self.sums), self.nodes.key

        def wrong(first: int, last: int) -> int:
            expected = np.zeros(last - first, np.uint64)
            for i in range(self.iterations):
                rank = words(key + 2, np.arange(first, last) + i * self.searches) % np.uint64(self.n) + np.uint64(1)
                expected += words(key + 1, rank) | np.uint64(1)
            return int(np.count_nonzero(sums[first:last] != expected))

        count = sum(in_pieces(wrong, self.searches, 1 << 16))
        return f"{count} of {self.searches} searches found a wrong value" if count else ""
