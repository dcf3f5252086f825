"""graph500_bfs: breadth-first searches of a Kronecker graph."""

from __future__ import annotations

import math

import numpy as np

from firsttouch.apps.support import um_apps
from firsttouch.experiments.analysis.graphs import levels_of_tree, neighbours, wrong_levels
from firsttouch.harness.app import App, Cpu, Gpu, Params, PublishedPlacement, View, buffer, i32, in_pieces, u32, u64
from firsttouch.harness.random import words

WIDE, HIGH, PARTS, THREADS = 8192, 2048, 8, 256  # vertices per group top-down and bottom-up; groups that share a hub
CHUNKS, EDGES = 64, 1 << 19  # chunks of edges in kronecker.c; edges that a thread checks at a time
TOP_DOWN_DIVISOR = 16  # top-down while the frontier has less than 1/16 of all edges


class Graph500Bfs(App):
    """Breadth-first search trees from several roots, switching direction with the size of the frontier."""

    name = "graph500_bfs"
    source = "Graph500 specification (graph500.org); direction by Beamer et al., SC 2012; as in um-apps (2019)"
    pattern = "irregular gather, a control word each level"
    sizes = {
        "tiny": {"n": 2048, "factor": 6, "iterations": 3},
        "default": {"n": 1 << 20, "factor": 28, "iterations": 16},
        "bytes": {"factor": 28, "iterations": 8},
    }
    power_of_two = True
    more_kernels = ("kronecker",)
    expected_rounds = 7  # levels of a search
    n: int
    factor: int
    iterations: int

    row = buffer(u64, "n + 1", role="input", starts_on="cpu")  # first edge of each vertex
    col = buffer(u32, "2 * factor * n", role="input", starts_on="cpu")  # target of each edge
    parent = buffer(i32, "n", role="output", starts_on="gpu", ends_on="cpu")
    frontier = buffer(u32, "n // 32", role="scratch")
    next = buffer(u32, "n // 32", role="scratch")
    visited = buffer(u32, "n // 32", role="scratch")
    found = buffer(u64, 2, role="scratch")
    counters = buffer(u64, 2, role="control", ends_on="cpu")  # vertices found in a level, and their edges
    published = PublishedPlacement(um_apps.GRAPH500_BFS)
    # Position of each chunk's edges in each bucket of vertices, and the edges of the buckets being sorted.
    cursors = buffer(u64, f"{CHUNKS} << (n.bit_length() - 1) // 2", role="scratch", starts_on="cpu")
    pairs = buffer(u64, "factor * (n // 32 + 4096)", role="scratch", starts_on="cpu")

    @classmethod
    def problem(cls, params: Params) -> str:
        if not 32 <= params["n"] <= 1 << 31:
            return f"{cls.name}: n must be from 32 to {1 << 31}, not {params['n']}"
        return super().problem(params)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        edges = self.factor * self.n
        graph = (edges, self.n.bit_length() - 1, self.col.key)
        deal = ("kronecker_deal", self.cursors, self.col, *graph)
        cpu.launch(*deal, 0, over=edges, writes=[self.cursors, self.col], scattered=[self.col])
        cursors = cpu.updates(self.cursors).reshape(CHUNKS, -1)
        counts = cursors.T.ravel()
        cursors[:] = (np.cumsum(counts) - counts).reshape(-1, CHUNKS).T
        cpu.launch(*deal, 1, over=edges, writes=[self.col], scattered=[self.col])
        ends = cpu.reads(self.cursors).reshape(CHUNKS, -1)[-1]
        first, begin, size = 0, 0, self.n // len(ends)
        cpu.writes(self.row[0:1])[0] = 0
        while first < len(ends):  # as many buckets at a time as `pairs` can hold
            last = int(np.searchsorted(ends, begin + len(self.pairs), side="right"))
            if last == first:
                raise ValueError(f"bucket {first} has {ends[first] - begin} edges, more than {len(self.pairs)}")
            arrays = (self.row, self.col, self.cursors, self.pairs)
            over = int(ends[last - 1]) - begin
            written = [self.row[first * size + 1 : last * size + 1], self.pairs[:over]]
            cpu.launch("kronecker_sort", *arrays, *graph, first, last - first, over=over, writes=written)
            first, begin = last, begin + over
        self.roots = self.choose(cpu.reads(self.row))
        gpu.fill(self.found, 0)

    def choose(self, row: np.ndarray) -> list[int]:
        """Random vertices with edges, as roots."""
        candidates = (words(self.row.key, np.arange(64 * self.iterations)) % np.uint64(self.n)).astype(np.int64)
        connected = candidates[row[candidates + 1] > row[candidates]]
        return [int(connected[i % len(connected)]) if len(connected) else 0 for i in range(self.iterations)]

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        self.found_by = [self.search(cpu, gpu, self.roots[i]) for i in gpu.iterations(self.iterations)]

    def search(self, cpu: Cpu, gpu: Gpu, root: int) -> tuple[int, int]:
        """Finds a tree. Returns the number of vertices that it found from the root, and that of their edges."""
        n, total, edges = self.n, 0, 0
        initialised = [self.parent, self.visited, self.frontier]
        gpu.launch("graph_setup", *initialised, n, root, over=n, writes=initialised)
        vertices, arcs = 1, 0
        while vertices:
            arrays = (self.row, self.col, self.frontier, self.next, self.visited, self.parent, self.found, n)
            passes = dict.fromkeys(arrays[:2], 1 / self.expected_rounds)  # a vertex's edges count in one level
            if arcs * TOP_DOWN_DIVISOR < len(self.col):
                gpu.fill(self.next, 0)
                groups = math.ceil(n / WIDE) * PARTS
                gpu.launch("graph_down", *arrays, PARTS, groups=groups, threads=THREADS, passes=passes)
            else:
                groups = math.ceil(n / HIGH)
                gpu.launch("graph_up", *arrays, groups=groups, threads=THREADS, writes=[self.next], passes=passes)
            gpu.launch("graph_report", self.found, self.counters, over=2, writes=[self.counters])
            gpu.swap(self.frontier, self.next)
            vertices, arcs = (int(word) for word in cpu.reads(self.counters))
            total, edges = total + vertices, edges + arcs
        return total, edges

    def check(self, view: View) -> str:
        """Checks the rules of Graph500 for the last tree: (1) the root is its own parent, (2) no cycles, (3) parents
        are one level up, (4) edges span at most one level, or join unreached vertices, (5) tree edges are in the graph.
        All searches from its vertices must have found as many vertices and edges.
        """
        row, col, parent, root = view(self.row), view(self.col), view(self.parent), self.roots[-1]
        if not ((parent >= -1) & (parent < self.n)).all():
            return "a parent is no vertex"
        level = levels_of_tree(parent, root)
        if lost := int(np.count_nonzero((level < 0) & (parent >= 0))):
            return f"{lost} vertices have a parent but no path to the root"
        pieces = [*np.unique(np.searchsorted(row, np.arange(0, row[-1], EDGES))).tolist(), self.n]

        def wrong(piece: int, _: int) -> str:
            at = np.arange(*pieces[piece : piece + 2])
            starts, degrees = row[at].astype(np.int64), (row[at + 1] - row[at]).astype(np.int64)
            node_of_edge, ends = neighbours(starts, degrees, col)
            joined = np.zeros(len(at), bool)
            joined[node_of_edge[ends == parent[at][node_of_edge]]] = True
            if missing := int(np.count_nonzero((parent[at] >= 0) & (at != root) & ~joined)):
                return f"{missing} of {len(at)} parents are not neighbours"
            return wrong_levels(at, starts, degrees, col, level, root)

        if error := next((error for error in in_pieces(wrong, len(pieces) - 1, 1) if error), ""):
            return error
        vertices, edges = int(np.count_nonzero(level >= 0)), int(np.diff(row)[level >= 0].sum())
        for at, counts in zip(self.roots, self.found_by, strict=True):
            if level[at] >= 0 and counts != (vertices - 1, edges - int(row[at + 1] - row[at])):
                return f"the search from {at} found {counts[0]} vertices with {counts[1]} edges"
        return ""
