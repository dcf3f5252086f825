"""halo: the fields of a hydrodynamics code on a staggered grid, whose blocks exchange their borders."""

from __future__ import annotations

import numpy as np

from firsttouch.apps.support.domains import block_of, blocks_along, extent_of, rank_of
from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f64, in_pieces
from firsttouch.harness.random import F64, unit_f64
from firsttouch.workspace.arrays import SCATTERED

FIELDS = (
    "density0", "energy0", "pressure", "viscosity", "xvel0", "yvel0", "density1", "energy1", "xvel1", "yvel1",
    "mass_flux_x", "mass_flux_y", "vol_flux_x", "vol_flux_y", "soundspeed",
)  # fmt: skip
DENSITY0, ENERGY0, PRESSURE, VISCOSITY = (1 << i for i in range(4))
NEAR = 0b000000000111111  # the first six, which are exchanged to a depth of one cell
ENERGIES1, LATE, FLUXES, ALL = 0b11 << 6, 0b111111 << 6, 0b11 << 12, (1 << len(FIELDS)) - 1
SOUND = len(FIELDS) - 1
DIRECTIONS = (1, 1), (1, -1), (-1, -1), (-1, 1)


class Halo(App):
    """Halo exchanges of 15 fields on n x n cells, six in each step, between blocks of a periodic grid."""

    name = "halo"
    source = (
        "CloverLeaf (Mallinson et al., CUG 2013): its fields, exchanges and ideal gas; a move of the fields by whole "
        "cells, which is exact, stands for its hydrodynamics, and the grid is periodic"
    )
    pattern = "borders of a grid to the neighbours, six times in each step"
    sizes = {"tiny": {"n": 22, "steps": 3}, "default": {"n": 960, "steps": 87}, "bytes": {"steps": 21}}
    exchanges = True
    n: int
    steps: int
    nx: int  # cells of this block, and those at the left of it and below it
    ny: int
    left: int
    bottom: int
    capacity: int  # numbers in the largest message to one side

    fields = buffer(f64, len(FIELDS), "ny + 5", "nx + 5", role="inout", starts_on="gpu", ends_on="cpu")
    next = buffer(f64, len(FIELDS), "ny + 5", "nx + 5", role="inout")  # swapped with fields
    outgoing = buffer(f64, "2 * capacity", role="exchange")
    incoming = buffer(f64, "2 * capacity", role="exchange")

    @classmethod
    def part(cls, params: Params, rank: int, ranks: int) -> Params:
        (left, bottom), (nx, ny) = extent_of(params["n"], rank, ranks, 2)
        capacity = len(FIELDS) * 2 * (max(nx, ny) + 5)
        return {**params, "nx": nx, "ny": ny, "left": left, "bottom": bottom, "capacity": capacity}

    @classmethod
    def problem(cls, params: Params) -> str:
        return super().problem(params) or cls.why_not_divided(params, 1)

    @classmethod
    def why_not_divided(cls, params: Params, ranks: int) -> str:
        least = params["n"] // max(blocks_along(ranks, 2))
        return "" if least >= 4 else f"halo: a block must have 4 cells along each side, not {least}"

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        where = self.nx, self.ny, self.left, self.bottom, self.n, self.fields.key
        gpu.launch("halo_begin", self.fields, *where, over=self.fields.nbytes // 8, writes=[self.fields])
        self.gas(gpu)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        self.moved = {NEAR: [0, 0], LATE: [0, 0], FLUXES: [0, 0]}
        for step in gpu.iterations(self.steps):
            self.exchange(gpu, NEAR - VISCOSITY, 1)
            self.exchange(gpu, VISCOSITY, 1)
            self.gas(gpu)
            self.exchange(gpu, PRESSURE, 1)
            self.exchange(gpu, ENERGIES1 | FLUXES, 2)
            self.exchange(gpu, LATE, 2)
            self.move(gpu, 0, LATE, *DIRECTIONS[step % 4])
            self.exchange(gpu, LATE, 2)
            self.move(gpu, NEAR, LATE | FLUXES, *DIRECTIONS[(step + 1) % 4])
        self.gas(gpu)
        self.exchange(gpu, ALL, 2)

    def gas(self, gpu: Gpu) -> None:
        gpu.launch(
            "halo_gas", self.fields, self.nx, self.ny, over=self.nx * self.ny, passes={self.fields: 4 / len(FIELDS)}
        )

    def move(self, gpu: Gpu, near: int, far: int, right: int, up: int) -> None:
        where = self.nx, self.ny, near, far, right, up
        gpu.launch("halo_move", self.fields, self.next, *where, over=self.fields.nbytes // 8, writes=[self.next])
        gpu.swap(self.fields, self.next)
        for group, by in self.moved.items():
            cells = 1 if group & near else 2 if group & far else 0
            by[0], by[1] = by[0] + cells * right, by[1] + cells * up

    def exchange(self, gpu: Gpu, flagged: int, depth: int) -> None:
        """Fill the halos of fields: those at the left and right first, then those below and above with the corners."""
        blocks = blocks_along(self.ranks, 2)
        x, y = block_of(self.rank, blocks)
        with gpu.exchange():
            for vertical, near in enumerate((((x - 1, y), (x + 1, y)), ((x, y - 1), (x, y + 1)))):
                low, high = (rank_of(place, blocks) for place in near)
                count = flagged.bit_count() * depth * (self.nx + 1 + 2 * depth if vertical else self.ny + 1)
                about, over = (count, self.nx, self.ny, flagged, depth, vertical), 2 * count
                sent, come = self.outgoing, self.incoming
                passes = {self.fields: over * (8 if vertical else SCATTERED) / self.fields.nbytes}
                gpu.launch("halo_pack", self.fields, sent, *about, over=over, writes=[sent[:over]], passes=passes)
                # What leaves at one side arrives at the other side of the neighbour, which both sides may have.
                gpu.send_and_receive(
                    [(low, sent[:count]), (high, sent[count:over])], [(high, come[count:over]), (low, come[:count])]
                )
                gpu.launch("halo_unpack", self.fields, come, *about, over=over, reads=[come[:over]], passes=passes)

    def check(self, view: View) -> str:
        """Compares every cell of every field, halos and corners included, with that of which it must be a copy."""
        for field, (name, actual) in enumerate(zip(FIELDS, view(self.fields), strict=True)):
            more = [name[1:4] == "vel" or name.endswith(end) for end in ("_x", "_y")]  # on nodes or faces
            own = self.nx + 4 + more[0]

            def wrong(first: int, last: int, actual: F64 = actual, field: int = field, own: int = own) -> int:
                rows = slice(first, last)
                return int((actual[rows, :own] != self.expected(field, rows)[:, :own]).sum())

            if count := sum(in_pieces(wrong, self.ny + 4 + more[1], 512)):
                return f"{count} cells of {name} differ from those that they must be copies of"
        return ""

    def expected(self, field: int, rows: slice) -> F64:
        """Rows of a field: pressure and speed of sound by the ideal gas, otherwise what was there at first, moved."""
        if field == SOUND:
            return np.asarray(np.sqrt(1.4 * self.expected(2, rows) / self.expected(0, rows)))
        if field == 2:
            return np.asarray(0.4 * self.expected(0, rows) * self.expected(1, rows))
        right, up = next(by for group, by in self.moved.items() if group >> field & 1)
        x = (np.arange(self.nx + 5) - 2 + self.left - right) % self.n
        y = (np.arange(rows.start, rows.stop) - 2 + self.bottom - up) % self.n
        return np.asarray(1.0 + unit_f64(self.fields.key, (field * self.n + y[:, None]) * self.n + x))
