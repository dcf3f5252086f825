"""bfs: breadth-first search of a random graph, by the GPU or by both agents."""

from __future__ import annotations

import numpy as np

from firsttouch.harness.app import (
    App,
    Cpu,
    Gpu,
    Params,
    PublishedPlacement,
    View,
    buffer,
    i32,
    on_host,
    shared_kernels,
    u32,
    u64,
)
from firsttouch.program.execution.arrays import SCATTERED, Array, Scattered

TILE, THREADS = 1024, 256  # nodes and threads per group in bfs.c
LEVELS = 200  # more levels than a random graph has
MASK = "(n + 1023) // 1024 * 128"  # one byte per node, in 64-bit words, padded to whole tiles


class Bfs(App):
    """Levels of a random graph from node 0: each node has 2 to 10 edges (6 on average), stored at both ends."""

    name = "bfs"
    source = "Rodinia (Che et al., IISWC 2009), bfs; a level has one kernel, which stores it when a node is expanded"
    pattern = "irregular gather, a control word each level"
    sizes = {"tiny": {"n": 5003}, "default": {"n": 1_000_000}}
    expected_rounds = 11  # levels
    n: int

    nodes = buffer(u64, "n", role="input", starts_on="cpu")  # first edge; number of edges in the upper half
    edges = buffer(u32, "2 * (2 * n + n // 9 * 36 + n % 9 * (n % 9 - 1) // 2)", role="input", starts_on="cpu")
    mask = buffer(u64, MASK, role="inout", starts_on="cpu")
    updating = buffer(u64, MASK, role="inout", starts_on="cpu")  # the next mask; swapped with mask
    visited = buffer(u64, MASK, role="inout", starts_on="cpu")
    cost = buffer(i32, "n", role="inout", starts_on="cpu", ends_on="cpu")  # the level, -1 where unreached
    over = buffer(u32, 1, role="control", starts_on="cpu")  # the last level that has nodes
    told = buffer(u64, 1, role="scratch")
    published = PublishedPlacement(memory={"told": "device"})  # as in Schieffer et al., ICPP 2024
    tiles = buffer(u64, "(n + 1023) // 1024 + 1", role="scratch", starts_on="cpu")

    @classmethod
    def problem(cls, params: Params) -> str:
        if params["n"] >= 1 << 28:
            return f"{cls.name}: n must be below {1 << 28}, because edge numbers have 32 bits, not {params['n']}"
        return super().problem(params)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        n, bits, key = self.n, self.n.bit_length() // 2, self.edges.key
        cpu.launch("bfs_count", self.nodes, self.tiles, n, bits, key, over=n, writes=[self.nodes, self.tiles])
        tiles = cpu.updates(self.tiles)
        tiles[0] = 0
        np.cumsum(tiles, out=tiles)
        cpu.launch("bfs_connect", self.nodes, self.edges, self.tiles, n, bits, key, over=n, writes=[self.edges])
        for array in (self.mask, self.updating, self.visited):
            cpu.fill(array, 0)
        for array in (self.mask, self.visited):
            cpu.updates(array[0:1])[0] = 1
        cpu.fill(self.cost, -1)
        cpu.fill(self.over, 0)
        gpu.fill(self.told, 0)

    def passes(self) -> dict[Array, float]:
        """Of a level: the edges of a node count in one of them, and a random node is looked up for each."""
        looked_up = len(self.edges) * SCATTERED / self.visited.nbytes
        once = {self.nodes: 1.0, self.edges: 1.0, self.cost: 1.0, self.visited: looked_up}
        return {array: Scattered(times / self.expected_rounds) for array, times in once.items()}

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        for level in gpu.iterations(LEVELS):
            if int(cpu.reads(self.over)[0]) < level:
                break
            arrays = (self.nodes, self.edges, self.mask, self.visited, self.updating, self.cost, self.over, self.told)
            groups, passes = len(self.tiles) - 1, self.passes()
            gpu.launch("bfs_expand", *arrays, level, self.n, groups=groups, threads=THREADS, passes=passes)
            gpu.swap(self.mask, self.updating)

    def check(self, view: View) -> str:
        """Checks the levels of all nodes along all their edges."""
        wrong, graph = np.zeros(3, u64), (view(self.nodes), view(self.edges), view(self.cost))
        on_host(shared_kernels("levels"), "levels_wrong", *graph, wrong, self.n, len(self.edges))
        roots, wide, lost = wrong.tolist()
        if roots:
            return f"{roots} nodes have level 0, or should"
        wrong_ones = f"{wide} edges span more than a level, {lost} nodes have no neighbour one level up"
        return wrong_ones if wide + lost else ""


class BfsConcurrent(Bfs):
    """bfs with the first tiles of nodes on the GPU and the others on the CPU; in each level, each agent passes on the
    nodes that it found in the other's part.
    """

    name = "bfs_concurrent"
    source = f"{Bfs.source}; the division is this project's"
    pattern = "both agents at once on parts, exchanged each level"
    divided = True
    theirs = buffer(
        u64, MASK, role="inout", starts_on="cpu"
    )  # nodes that the CPU found; those that the GPU found are in `updating`
    news = buffer(u32, 1, role="scratch", starts_on="cpu")  # nonzero if the CPU found any

    @classmethod
    def problem(cls, params: Params) -> str:
        if params["n"] <= TILE:
            return f"{cls.name}: n must be above {TILE}, a tile for each agent, not {params['n']}"
        return super().problem(params)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        super().initialise(cpu, gpu)
        cpu.fill(self.theirs, 0)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        n, tiles, all_words = self.n, self.gpu_part(len(self.tiles) - 1), len(self.mask)
        cut, words = min(n, tiles * TILE), tiles * TILE // 8
        edge = int(cpu.reads(self.nodes[cut : cut + 1])[0]) & 0xFFFFFFFF if cut < n else len(self.edges)
        if edge < cut:  # each node has more than one edge: it is a dry run, which has no numbers
            edge = len(self.edges) * cut // n
        for level in gpu.iterations(LEVELS):
            if int(cpu.reads(self.over)[0]) < level and (level == 0 or not cpu.reads(self.news)[0]):
                break
            cpu.fill(self.news, 0)
            if cut > 0:
                gpu.fill(self.updating, 0)
                gpu.launch(
                    *("bfs_expand", self.nodes, self.edges, self.mask, self.visited, self.updating, self.cost),
                    *(self.over, self.told, level, cut),
                    groups=tiles,
                    threads=THREADS,
                    reads=[self.nodes[:cut], self.edges[:edge]],
                    updates=[self.mask[:words], self.visited[:words], self.cost[:cut]],
                    passes=self.passes(),
                )
            if cut < n:
                cpu.fill(self.theirs, 0)
                cpu.launch(
                    *("bfs_expand_half", self.nodes, self.edges, self.mask, self.visited, self.theirs, self.cost),
                    *(self.news, level, cut, n - cut),
                    over=n - cut,
                    reads=[self.nodes[cut:], self.edges[edge:]],
                    updates=[self.mask[words:], self.visited[words:], self.cost[cut:]],
                )
            for agent, own_mask, peer_mask, a, b in (
                (gpu, self.updating, self.theirs, 0, words),
                (cpu, self.theirs, self.updating, words, all_words),
            ):
                if a < b:
                    agent.launch(
                        *("bfs_exchange", self.mask, self.visited, own_mask, peer_mask, a, b - a),
                        over=b - a,
                        reads=[own_mask[a:b], peer_mask[a:b]],
                        updates=[self.visited[a:b]],
                        writes=[self.mask[a:b]],
                    )
