"""The borders of blocks of a grid: what neighbours send, and what walls reflect."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Protocol

from firsttouch.harness.app import Gpu
from firsttouch.program.execution.arrays import SCATTERED, Array, Strided


class Bordered(Protocol):
    """A block of cells, with the process behind each of its faces (domains.behind_faces) that is no wall."""

    block: tuple[int, int]
    near: dict[int, int]

    @property
    def fields(self) -> Array: ...
    @property
    def outgoing(self) -> Array: ...
    @property
    def incoming(self) -> Array: ...


def exchange_halos(grid: Bordered, gpu: Gpu, flagged: int, depth: int) -> None:
    """Fill the halos of flagged fields: those at the left and right first, then those below and above with the corners.
    This is an exchange if there is another block.
    """
    with gpu.exchange() if grid.near else nullcontext():
        for vertical in (0, 1):
            _fill(grid, gpu, flagged, depth, vertical)


def _fill(grid: Bordered, gpu: Gpu, flagged: int, depth: int, vertical: int) -> None:
    """Fill halos at the left and right, or, if vertical, below and above.

    Messages to the lower side are in the first half of the buffers, those to the higher side behind them.
    """
    sides = {high: grid.near[2 * vertical + high] for high in (0, 1) if 2 * vertical + high in grid.near}
    count = flagged.bit_count() * depth * (grid.block[0] + 1 + 2 * depth if vertical else grid.block[1] + 1)
    about = count, *grid.block, flagged, depth, vertical
    first, n = count * min(sides, default=0), count * len(sides)
    part = count * (8 if vertical else SCATTERED) / grid.fields.nbytes
    rows, apart = (0, 0) if vertical else (flagged.bit_count() * (grid.block[1] + 1), 8 * (grid.block[0] + 5))
    if sides:
        packed, sent = (grid.fields, grid.outgoing, *about, first, n), grid.outgoing[first : first + n]
        packs = {grid.fields: Strided(len(sides) * part, len(sides) * rows, apart)}
        gpu.launch("halo_pack", *packed, over=n, writes=[sent], passes=packs)
        gpu.send_and_receive(
            [(peer, grid.outgoing[high * count : (high + 1) * count]) for high, peer in sides.items()],
            [(peer, grid.incoming[high * count : (high + 1) * count]) for high, peer in sides.items()],
        )
    walls, come = sum(1 << high for high in (0, 1) if high not in sides), grid.incoming[first : first + n]
    filled = {grid.fields: Strided(2 * part, 2 * rows, apart) if grid.near else 2 * part}
    gpu.launch("halo_fill", grid.fields, grid.incoming, *about, walls, over=2 * count, reads=[come], passes=filled)
