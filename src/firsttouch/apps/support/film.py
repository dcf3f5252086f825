"""The film of heartwall, as its kernels generate it: a still image that moves, under grain that changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from firsttouch.harness.random import F64, I64, Values, below, uniform_f32

MAX_DISPLACEMENT, MAX_STEP = 7, 4  # of the heart in pixels, from its first position and per frame
MARGIN = 64  # rows and columns that the still image and the grain have more than a frame


@dataclass(frozen=True)
class Film:
    """rows: of a frame. still, grain: the keys of the generators of both."""

    rows: int
    frames: int
    still: int
    grain: int

    @cached_property
    def path(self) -> I64:
        """Displacement of the still image in each frame, in rows and columns."""
        steps = below(self.still, np.arange(2 * self.frames), 2 * MAX_STEP + 1) - MAX_STEP
        path = np.zeros((self.frames, 2), np.int64)
        for i in range(1, self.frames):
            path[i] = np.clip(path[i - 1] + steps[2 * i : 2 * i + 2], -MAX_DISPLACEMENT, MAX_DISPLACEMENT)
        return path

    def origins(self, number: int) -> list[int]:
        """Row and column of the still image and of the grain at which a frame begins."""
        at_grain = below(self.grain, np.array([2 * number, 2 * number + 1]), MARGIN)
        return [*(MARGIN // 2 - self.path[number]).tolist(), *at_grain.tolist()]

    def patches(self, number: int, at: Values, side: int) -> F64:
        """The squares of pixels of a frame around some positions: point by column by row."""
        y, x, grain_y, grain_x = self.origins(number)
        row, col = (at[:, k, None] - side // 2 + np.arange(side) for k in (0, 1))
        place = (col[:, :, None] + grain_x) * (self.rows + MARGIN) + row[:, None] + grain_y
        return self._still_image(row + y, col + x, side) + uniform_f32(self.grain, place, -20, 20)

    def _still_image(self, row: Values, col: Values, side: int) -> F64:
        """Pixels of the still image, interpolated between random values at every fourth row and column."""
        i, j = col // 4, row // 4
        part_x, part_y = (col % 4 / 4)[:, :, None], (row % 4 / 4)[:, None]
        near = np.arange(side // 4 + 3)
        values = ((i[:, :1] + near)[:, :, None] << 32) + (j[:, :1] + near)[:, None]
        grid = uniform_f32(self.still, values, 0, 255)
        p, i, j = np.arange(len(row))[:, None, None], (i - i[:, :1])[:, :, None], (j - j[:, :1])[:, None]
        left = (1 - part_y) * grid[p, i, j] + part_y * grid[p, i, j + 1]
        right = (1 - part_y) * grid[p, i + 1, j] + part_y * grid[p, i + 1, j + 1]
        return np.asarray((1 - part_x) * left + part_x * right, np.float64)
