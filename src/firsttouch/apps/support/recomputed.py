"""The check of halo: sums over all cells, and every number of every field against the same scheme in numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol, TypeAlias

import numpy as np

from firsttouch.apps.support.staggered import FIELDS, HALO, REACH, STATE, Staggered, extra, initial
from firsttouch.harness.app import in_pieces
from firsttouch.harness.random import F64, I64
from firsttouch.program.execution.arrays import Array

WHOLE, STEPS = 1 << 20, 64  # cells times steps that are recomputed from the beginning, and steps
GROWTH = 1.25, 40  # of rounding errors in a step, of cells far from square, and the steps in which they grow
TILE = 384  # cells along each side of a part of which the last step is recomputed
ROUNDING = 1e-10  # of a number of a field; of a sum and of a step a tenth
VISCOSITY, SWITCHED = FIELDS.index("viscosity"), 10**6
"""A field of squares of small differences, and cells for each that rounding may turn from shrinking to growing."""
LOST = 0.05  # most of the energy: advection takes some from the motion of nodes, and never adds any
KINETIC: Mapping[tuple[int, int, int], float] = {
    (960, 960, 87): 1.19316898756307,
    (960, 960, 2955): 2.58984003503994,
    (3840, 3840, 87): 0.307475452287895,
    (3840, 3840, 2955): 4.85350315783719,
}
"""The kinetic energy that CloverLeaf's own tests 2 to 5 expect within 0.001 %, by cells along x and y, and steps."""
QUIET = np.errstate(all="ignore")
"""Numbers that are wrong may be infinite or none."""
Totals: TypeAlias = "tuple[list[float], list[float], int]"
"""Mass, internal and kinetic energy, volume, and pressure times volume, of a block and of all; and a digest."""


class GasBlock(Protocol):
    """What a process found: the lengths of the steps, and sums over its block of the grid and over all."""

    nx: int
    ny: int
    steps: int
    left: int
    bottom: int
    block: tuple[int, int]
    cell: tuple[float, float]
    near: dict[int, int]
    lengths: list[float]
    most: float
    rise: float
    begun: Totals
    ended: Totals

    @property
    def fields(self) -> Array: ...


def differences(run: GasBlock, fields: F64) -> str:
    """What is wrong, in one sentence, or ''. fields: those that a run left."""
    if wrong := _of_totals(run) or _of_sums(run, fields):
        return wrong
    limit = ROUNDING
    if run.steps <= min(STEPS, WHOLE // (run.nx * run.ny)):
        limit *= GROWTH[0] ** min(run.steps, GROWTH[1])
        grid, lengths = _from_the_beginning(run)
        rows, columns = (slice(at, at + n + 5) for at, n in zip((run.bottom, run.left), run.block[::-1], strict=True))
        counts = _wrong(run, fields, grid.values[:, rows, columns], (True, True), limit)
    else:
        counts, lengths = _last_step(run, fields)
    if len(lengths) != len(run.lengths) or not np.allclose(run.lengths, lengths, rtol=limit / 10, atol=0):
        return f"the last of {run.steps} steps took {run.lengths[-1]}, in numpy {lengths[-1]}"
    counts[VISCOSITY] -= min(counts[VISCOSITY], math.prod(run.block) // SWITCHED)
    name, count = max(zip(FIELDS, counts, strict=True), key=lambda pair: int(pair[1]))
    return f"{count} numbers of {name} differ from those of the same scheme in numpy" if count else ""


def _of_totals(run: GasBlock) -> str:
    (mass, internal, kinetic, volume, _), (mass_then, internal_then, kinetic_then, volume_then, _) = (
        run.begun[1],
        run.ended[1],
    )
    if not abs(mass_then - mass) <= ROUNDING / 10 * mass:
        return f"the mass of all cells was {mass}, and is {mass_then}"
    before, after = internal + kinetic, internal_then + kinetic_then
    if not (1 - LOST) * before <= after <= (1 + ROUNDING) * before:
        return f"the energy of all cells was {before}, and is {after}"
    expected = KINETIC.get((run.nx, run.ny, run.steps), kinetic_then)
    if not abs(kinetic_then - expected) <= 1e-5 * expected:
        return f"the kinetic energy is {kinetic_then}, in CloverLeaf {expected}"
    right = math.isclose(volume, volume_then) and math.isclose(volume, run.cell[0] * run.nx * run.cell[1] * run.ny)
    return "" if right else f"the volume of all cells is {volume_then}"


def _of_sums(run: GasBlock, fields: F64) -> str:
    """Compares the sums over a block with those of its fields, and of what was in them at first."""
    (width, height), volume = run.block, run.cell[0] * run.cell[1]
    density, energy, pressure, u, v = (
        fields[FIELDS.index(f)] for f in ("density1", "energy1", "pressure", "xvel1", "yvel1")
    )
    columns = slice(HALO, HALO + width)

    @QUIET
    def sums(first: int, last: int) -> list[float]:
        rows = slice(HALO + first, HALO + last)
        mass = density[rows, columns] * volume
        nodes = sum(
            part[HALO + first + up : HALO + last + up, HALO + right : HALO + right + width] ** 2
            for part in (u, v)
            for up in (0, 1)
            for right in (0, 1)
        )
        at_first = initial(
            range(run.left, run.left + width),
            range(run.bottom + first, run.bottom + last),
            (run.nx, run.ny),
            run.fields.key,
        )
        then = at_first[0] * volume, at_first[0] * at_first[1] * volume
        now = (
            mass,
            mass * energy[rows, columns],
            mass * nodes / 8,
            np.full(mass.shape, volume),
            pressure[rows, columns] * volume,
        )
        return [float(part.sum()) for part in (*then, *now)]

    right = np.sum(in_pieces(sums, height, max(1, (1 << 18) // width)), axis=0)
    sums_of_run = [*run.begun[0][:2], *run.ended[0]]
    off = np.abs(np.array(sums_of_run) - right) <= ROUNDING / 10 * right + 1e-20
    return "" if off.all() else f"sums over cells are {sums_of_run}, not {right.tolist()}"


def _from_the_beginning(run: GasBlock) -> tuple[Staggered, list[float]]:
    """The whole grid after all steps, and their lengths."""
    grid, lengths = Staggered(run.nx, run.ny, *run.cell), list[float]()
    grid.start(initial(range(run.nx), range(run.ny), (run.nx, run.ny), run.fields.key))
    for step in range(run.steps):
        if step:
            for name in STATE:
                grid[name][:] = grid[name[:-1] + "1"]
        longest = grid.begin_step()
        lengths.append(min(longest, run.rise * lengths[-1] if step else run.most, run.most))
        grid.step(step, lengths[-1])
    grid.end()
    return grid, lengths


def _last_step(run: GasBlock, fields: F64) -> tuple[I64, list[float]]:
    """How many numbers of each field differ from the last step once more from the state before it, and the lengths of
    the steps, the last as its cells admit. What depends on cells of other blocks is left out.
    """
    walls = [[2 * axis + high not in run.near for high in (0, 1)] for axis in (0, 1)]
    starts = [
        range(0 if low else REACH, n - (0 if high else REACH), TILE)
        for n, (low, high) in zip(run.block, walls, strict=True)
    ]
    tiles = [(x, y) for y in starts[1] for x in starts[0]]

    @QUIET
    def recompute(index: int, _: int) -> tuple[I64, float]:
        first = tiles[index]
        last = [min(a + TILE, r.stop) for a, r in zip(first, starts, strict=True)]
        outer = [(max(0, a - REACH), min(n, b + REACH)) for a, b, n in zip(first, last, run.block, strict=True)]
        (left, right), (bottom, top) = outer
        grid = Staggered(right - left, top - bottom, *run.cell)
        inner = fields[:, HALO + bottom : HALO + top + 1, HALO + left : HALO + right + 1]
        grid.start([inner[FIELDS.index(name)] for name in STATE])
        ends = [b == n for b, n in zip(last, run.block, strict=True)]
        at = [slice(a - o, b - o) for a, b, (o, _) in zip(first, last, outer, strict=True)]
        longest = grid.begin_step(at[1], at[0])
        grid.step(run.steps - 1, run.lengths[-1])
        grid.end()
        window = [
            slice(0 if a == 0 else a + HALO, b + 2 * HALO + 1 if end else b + HALO)
            for a, b, end in zip(first, last, ends, strict=True)
        ]
        inner_part = [slice(w.start - o, w.stop - o) for w, (o, _) in zip(window, outer, strict=True)]
        return _wrong(
            run, fields[:, window[1], window[0]], grid.values[:, inner_part[1], inner_part[0]], (ends[0], ends[1])
        ), longest

    parts = in_pieces(recompute, len(tiles), 1)
    longest = min((length for _, length in parts), default=math.inf)
    before = run.lengths[-2] * run.rise if run.steps > 1 else run.most
    last = min(longest, before, run.most)
    if run.near:  # a cell that was left out may admit less
        last = min(last, run.lengths[-1])
    return np.sum([counts for counts, _ in parts], axis=0, dtype=np.int64), [*run.lengths[:-1], last]


@QUIET
def _wrong(run: GasBlock, actual: F64, expected: F64, ends: tuple[bool, bool], limit: float = ROUNDING) -> I64:
    """How many numbers of each field differ by more than rounding. ends: whether there is a last column, and a last
    row, that only fields on nodes and faces have.
    """
    counts = np.zeros(len(FIELDS), np.int64)
    for field, name in enumerate(FIELDS):
        columns, rows = (
            n - (end and not more) for n, end, more in zip(actual.shape[:0:-1], ends, extra(name), strict=True)
        )
        right = expected[field, :rows, :columns]
        scale = run.cell[0] * run.cell[1] if "flux" in name else 1e4 * right if field == VISCOSITY else 1.0
        counts[field] = np.count_nonzero(~(np.abs(actual[field, :rows, :columns] - right) <= limit * scale + 1e-20))
    return counts
