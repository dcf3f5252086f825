"""pathfinder: the cheapest path down a grid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, PublishedPlacement, View, buffer, i32, in_pieces
from firsttouch.harness.random import below
from firsttouch.program.execution.agents import MAX_REPLAYS, Tile

TILE, THREADS = 512, 256  # columns of a group's tile in pathfinder.c, and threads per group
MAX_WALL = 9  # largest cost of a cell of the wall; the smallest is 0
UNREACHABLE = 1 << 30


class Pathfinder(App):
    """Dynamic programming down rows of int32 costs, `pyramid` rows per launch; each cost is read once."""

    name = "pathfinder"
    source = "Rodinia (Che et al., IISWC 2009), pathfinder; its 256 columns per group replaced by 512"
    pattern = "read-once stream, initialised on the CPU"
    sizes = {
        "tiny": {"cols": 1003, "rows": 61, "pyramid": 11},
        "default": {"cols": 100_000, "rows": 100, "pyramid": 20},
        "bytes": {"cols": 100_000, "pyramid": 20},
    }
    grows = "rows"
    tiled = ("wall",)
    cols: int
    rows: int
    pyramid: int

    wall = buffer(i32, "rows", "cols", role="input", starts_on="cpu")
    published = PublishedPlacement(memory={})  # in Schieffer et al., ICPP 2024, nothing is the GPU's alone
    cost = buffer(i32, "2", "cols", role="output", ends_on="cpu")  # cost to reach each column, in two alternating rows

    @classmethod
    def problem(cls, params: Params) -> str:
        if params["pyramid"] > TILE // 4:
            return f"pathfinder: pyramid must be at most {TILE // 4}, not {params['pyramid']}"
        if params["rows"] > UNREACHABLE // MAX_WALL:
            return f"pathfinder: the cost of {params['rows']} rows may not fit 32 bits"
        return super().problem(params)

    def defines(self) -> Mapping[str, object]:
        return {"PYRAMID": self.pyramid}

    def prepare(self, gpu: Gpu) -> None:
        """Record all launches. `replays` holds the first launch and the number of launches of each replay, by the first
        row of its tile.
        """
        each = gpu.tile_rows(self.wall)
        strips = {tile: [*self._strips(tile, min(self.rows, tile + each))] for tile in range(0, self.rows, each)}
        at_once = math.ceil((1 + sum(map(len, strips.values()))) / MAX_REPLAYS)
        groups = math.ceil(self.cols / (TILE - 2 * self.pyramid))
        self.launches, self.replays = gpu.sequence(), dict[int, list[tuple[int, int]]]()
        self.launches.add("pathfinder_begin", self.wall, self.cost, self.cols, over=self.cols)
        self.turns = self.last = 0  # launches, and the first row of the last
        for tile, rows in strips.items():
            start = len(self.launches) if tile else 0
            for row, count in rows:
                values = (self.wall, self.cost, self.cols, row - tile, count, self.turns % 2)
                self.launches.add("pathfinder_rows", *values, groups=groups, threads=THREADS)
                self.turns, self.last = self.turns + 1, row
            end = len(self.launches)
            self.replays[tile] = [(a, min(at_once, end - a)) for a in range(start, end, at_once)]

    def _strips(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """First row and number of rows of each launch of a tile."""
        for row in range(max(1, first), end, self.pyramid):
            yield row, min(self.pyramid, end - row)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.integers(self.wall, 0, MAX_WALL + 1)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        steps = gpu.iterations(sum(map(len, self.replays.values())))
        passes = {self.wall: TILE / (TILE - 2 * self.pyramid), self.cost: len(self.launches)}
        for _, (tile, first, count) in zip(steps, self._walk(gpu), strict=True):
            cost = {"updates": [self.cost]} if first else {"writes": [self.cost]}
            gpu.replay(self.launches, first=first, count=count, reads=[tile.of(self.wall)], passes=passes, **cost)

    def _walk(self, gpu: Gpu) -> Iterator[tuple[Tile, int, int]]:
        for tile in gpu.tiles(self.wall):
            for first, count in self.replays[tile.first]:
                yield tile, first, count

    def check(self, view: View) -> str:
        """Checks all walls against the generator, and the costs after the last two launches by the recurrence."""
        wall, costs = view(self.wall), view(self.cost)
        flat, key = wall.reshape(-1), self.wall.key
        wrong = in_pieces(
            lambda a, b: int(np.count_nonzero(flat[a:b] != below(key, np.arange(a, b), MAX_WALL + 1))),
            wall.size,
            1 << 18,
        )
        if different := sum(wrong):
            return f"{different} of {wall.size} walls differ from the generated ones"
        row = np.full(self.cols + 2, UNREACHABLE, np.int32)
        row[1:-1] = wall[0]
        best = np.empty(self.cols, np.int32)
        before = wall[0].copy()
        for i, walls in enumerate(wall[1:], 1):
            if i == self.last:
                before[:] = row[1:-1]
            np.minimum(row[:-2], row[2:], out=best)
            np.minimum(best, row[1:-1], out=best)
            np.add(best, walls, out=row[1:-1])
        for actual, right in ((costs[self.turns % 2], row[1:-1]), (costs[1 - self.turns % 2], before)):
            places = np.flatnonzero(actual != right)
            if places.size:
                j = int(places[0])
                return f"{places.size} of {self.cols} costs are wrong; column {j} costs {actual[j]}, not {right[j]}"
        return ""
