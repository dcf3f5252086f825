"""halo: the hydrodynamics of CloverLeaf on a staggered grid, whose blocks exchange their borders."""

from __future__ import annotations

import numpy as np

from firsttouch.apps.support.borders import exchange_halos
from firsttouch.apps.support.domains import behind_faces, block_of, blocks_along, share_of
from firsttouch.apps.support.recomputed import differences
from firsttouch.apps.support.staggered import FIELDS, SIDE, bits
from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f64, u64
from firsttouch.harness.random import U64
from firsttouch.program.execution.arrays import ArraySlice

BEFORE = bits("density0", "energy0", "pressure", "xvel0", "yvel0")
CELLS = bits("density1", "energy1")
LATE = CELLS | bits("xvel1", "yvel1", "mass_flux_x", "mass_flux_y")
THREADS, GROUPS, SUMMED = 256, 1024, 6  # of a reduction: threads of a group, most groups, words of each
LONGEST = 3.84  # most of a step, in cells: 0.04 on 960 of them


class Halo(App):
    """Compressible gas in a box of nx x ny cells, 15 fields; six halo exchanges and a common minimum in each step."""

    name = "halo"
    source = (
        "CloverLeaf (Mallinson et al., CUG 2013), its problem of two states in a box of 10 x 10; density and energy "
        "differ by up to a part in 200,000 from cell to cell, volumes are not stored, and nothing is reverted"
    )
    pattern = "sweeps over 15 fields, with borders to the neighbours six times and a minimum once in each step"
    sizes = {
        "tiny": {"nx": 22, "ny": 17, "steps": 3},
        "default": {"nx": 960, "ny": 960, "steps": 87},
        "bytes": {"steps": 21},
    }
    grows = "nx ny"
    more_kernels = ("lagrangian", "advection")
    exchanges = True
    nx: int
    ny: int
    steps: int
    width: int  # cells of this block, and those at the left of it and below it
    height: int
    left: int
    bottom: int
    capacity: int  # numbers in the largest message to one side

    fields = buffer(f64, len(FIELDS), "height + 5", "width + 5", role="inout", starts_on="gpu", sides="gpu")
    work = buffer(f64, 4, "height + 5", "width + 5", role="scratch")
    sums = buffer(u64, GROUPS, SUMMED, role="control")
    outgoing = buffer(f64, "2 * capacity", role="exchange")
    incoming = buffer(f64, "2 * capacity", role="exchange")

    @classmethod
    def blocks(cls, params: Params, ranks: int) -> tuple[int, ...]:
        """The number of blocks along x and y: more along the longer side."""
        return blocks_along(ranks, 2)[:: 1 if params["ny"] >= params["nx"] else -1]

    @classmethod
    def part(cls, params: Params, rank: int, ranks: int) -> Params:
        blocks = cls.blocks(params, ranks)
        (left, width), (bottom, height) = map(share_of, (params["nx"], params["ny"]), blocks, block_of(rank, blocks))
        capacity = len(FIELDS) * 2 * (max(width, height) + 5) if ranks > 1 else 1
        return {**params, "width": width, "height": height, "left": left, "bottom": bottom, "capacity": capacity}

    @classmethod
    def problem(cls, params: Params) -> str:
        return super().problem(params) or cls.why_not_divided(params, 1)

    @classmethod
    def why_not_divided(cls, params: Params, ranks: int) -> str:
        least = min(params[side] // n for side, n in zip(("nx", "ny"), cls.blocks(params, ranks), strict=True))
        return "" if least >= 4 else f"halo: a block must have 4 cells along each side, not {least}"

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        self.block, self.cell = (self.width, self.height), (SIDE / self.nx, SIDE / self.ny)
        self.near = behind_faces(self.rank, self.blocks(vars(self), self.ranks))
        self.most, self.rise = LONGEST * min(self.cell), 1.5  # most of a step, and over the step before
        where = *self.block, self.left, self.bottom, self.nx, self.ny, self.fields.key
        gpu.launch("halo_begin", self.fields, *where, over=self.fields.nbytes // 8, writes=[self.fields])
        self.begun = self.summary(cpu, gpu, 0)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        self.lengths: list[float] = []  # of the steps
        for step in gpu.iterations(self.steps):
            if step:
                self.run(gpu, "advection_reset", uses=8)
            self.run(gpu, "lagrangian_gas", 0, uses=4)
            exchange_halos(self, gpu, BEFORE, 1)
            self.run(gpu, "lagrangian_viscosity", *self.cell, uses=5)
            exchange_halos(self, gpu, bits("viscosity"), 1)
            admitted = self.reduce(cpu, gpu, "lagrangian_timestep", *self.cell, uses=5).view(f64)[:, 0].min()
            risen = self.rise * self.lengths[-1] if step else self.most
            self.lengths.append(gpu.exchanges.least(min(float(admitted), risen, self.most)))
            self.advance(gpu, step, self.lengths[-1])
        self.ended = self.summary(cpu, gpu, 1)
        exchange_halos(self, gpu, bits(*FIELDS), 2)
        self.used["fields_digest"] = f"{self.ended[2]:016x}"
        self.used["field_summary"] = "mass {:.12g}, internal energy {:.12g}, kinetic energy {:.12g}".format(
            *self.ended[1]
        )

    def advance(self, gpu: Gpu, step: int, time: float) -> None:
        self.run(gpu, "lagrangian_work", *self.cell, time / 2, 0, uses=8)
        self.run(gpu, "lagrangian_gas", 1, uses=4)
        exchange_halos(self, gpu, bits("pressure"), 1)
        self.run(gpu, "lagrangian_accelerate", *self.cell, time, uses=7, more=1)
        self.run(gpu, "lagrangian_work", *self.cell, time, 1, uses=10)
        self.run(gpu, "advection_volumes", *self.cell, time, uses=6, more=1)
        exchange_halos(self, gpu, CELLS | bits("vol_flux_x", "vol_flux_y"), 2)
        volume, moved, nodes, momentum = self.cell[0] * self.cell[1], self.work[:1], self.work[:2], self.work[2:]
        for second in (0, 1):
            vertical = (step + second) % 2
            self.run(gpu, "advection_faces", volume, vertical, second, uses=5, writes=[moved])
            self.run(gpu, "advection_cells", volume, vertical, second, uses=7, reads=[moved])
            exchange_halos(self, gpu, LATE, 2)
            self.run(gpu, "advection_nodes", volume, vertical, second, uses=3, writes=[nodes], more=1)
            self.run(gpu, "advection_momentum", vertical, uses=2, reads=[nodes], writes=[momentum], more=1)
            self.run(gpu, "advection_velocities", vertical, uses=4, reads=[nodes, momentum], more=1)

    def run(self, gpu: Gpu, kernel: str, *numbers: float, uses: int, more: int = 0, **works: list[ArraySlice]) -> None:
        """Launch a kernel over all cells, or over all nodes, which uses so many fields and reads and writes works."""
        arrays, over = [self.fields, self.work][: 1 + bool(works)], (self.width + more) * (self.height + more)
        reads, writes, passes = works.get("reads", []), works.get("writes", []), {self.fields: uses / len(FIELDS)}
        gpu.launch(kernel, *arrays, *self.block, *numbers, over=over, reads=reads, writes=writes, passes=passes)

    def reduce(self, cpu: Cpu, gpu: Gpu, kernel: str, *numbers: float, uses: int) -> U64:
        """The words that a kernel leaves for each of its groups."""
        groups = min(GROUPS, -(-self.width * self.height // THREADS))
        arrays, part, passes = (self.fields, self.sums), self.sums[:groups], {self.fields: uses / len(FIELDS)}
        gpu.launch(kernel, *arrays, *self.block, *numbers, groups=groups, threads=THREADS, writes=[part], passes=passes)
        return np.ascontiguousarray(cpu.reads(part))

    def summary(self, cpu: Cpu, gpu: Gpu, late: int) -> tuple[list[float], list[float], int]:
        """Sums over the cells of this block and over all, and a digest of all that does not depend on the blocks."""
        self.run(gpu, "lagrangian_gas", late, uses=4)
        block_arguments = self.left, self.bottom, self.nx, self.cell[0] * self.cell[1], late
        words = self.reduce(cpu, gpu, "halo_summary", *block_arguments, uses=5)
        own_sums = [float(total) for total in words[:, :-1].copy().view(f64).sum(axis=0)]
        return own_sums, [gpu.exchanges.fixed_sum(part) for part in own_sums], gpu.total(int(words[:, -1].sum()))

    def check(self, view: View) -> str:
        """Compares sums, and every number of every field with numpy's: after all steps, or of a large grid the last."""
        return differences(self, view(self.fields))
