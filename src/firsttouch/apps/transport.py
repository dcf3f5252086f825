"""transport: neutrons that fly through a box, whose blocks send those that leave to their neighbours."""

from __future__ import annotations

import math

import numpy as np

from firsttouch.apps.support import neutrons
from firsttouch.apps.support.crossings import Crossings, arrange
from firsttouch.apps.support.domains import blocks_along, extent_of, neighbours, packed, share_of
from firsttouch.apps.support.histories import CUTOFF, GROUPS, PROBLEMS, REACTIONS, TRACED, Histories
from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f64, u32, u64
from firsttouch.harness.exchanging import OPTIONS
from firsttouch.harness.random import unit_f64


class Transport(App):
    """Monte Carlo transport of `particles` neutrons through cells x cells x cells cubes, by blocks of the box."""

    name = "transport"
    source = "Quicksilver (Richards et al., IEEE Cluster 2017), CORAL-2 problems 1 and 2, with cubes for cells"
    pattern = "particles gather and scatter; those that leave a block go to the neighbour, in messages of varying size"
    sizes = {
        "tiny": {"particles": 1280, "cells": 4, "steps": 3, "batches": 1},
        "default": {"particles": 163_840, "cells": 16, "steps": 10, "batches": 1},
    }
    grows = "particles"
    options = {"problem": tuple(PROBLEMS), "facets": ("6", "24"), **OPTIONS}
    more_kernels = ("population", "crossing")
    exchanges = True
    particles: int
    cells: int
    steps: int
    batches: int  # parts of a block's particles, each followed by messages
    capacity: int  # particles in each buffer of them
    room: int  # in the queue and the messages of each neighbour

    now = buffer(u64, "capacity", neutrons.WORDS, role="inout")
    fresh = buffer(u64, "capacity", neutrons.WORDS, role="inout")  # for the next round; swapped with now
    census = buffer(u64, "capacity", neutrons.WORDS, role="inout")
    queue = buffer(u32, "faces * room + 1", role="scratch")
    outgoing = buffer(u64, "faces * room + 1", neutrons.WORDS, role="exchange")
    incoming = buffer(u64, "faces * room + 1", neutrons.WORDS, role="exchange")
    control = buffer(u64, neutrons.CONTROL, role="control", starts_on="cpu")
    flux = buffer(f64, "held", GROUPS, role="inout", starts_on="gpu", ends_on="cpu")
    paths = buffer(f64, 128, role="inout", starts_on="gpu")
    edges = buffer(f64, GROUPS + 1, role="constant", starts_on="cpu")
    cross = buffer(f64, REACTIONS, GROUPS, role="constant", starts_on="cpu")
    totals = buffer(f64, GROUPS, role="constant", starts_on="cpu")

    @classmethod
    def part(cls, params: Params, rank: int, ranks: int) -> Params:
        capacity, faces = 2 * math.ceil(params["particles"] / ranks) + 4096, len(neighbours(rank, ranks, 3))
        held = math.prod(extent_of(params["cells"], rank, ranks, 3)[1])
        room = min(capacity // 2, neutrons.MOST_IN_MESSAGE)
        return {**params, "capacity": capacity, "faces": faces, "room": room, "held": held}

    @classmethod
    def why_not_divided(cls, params: Params, ranks: int) -> str:
        most = max(blocks_along(ranks, 3))
        return "" if params["cells"] >= most else f"transport: {params['cells']} cells cannot be divided by {most}"

    def arrange(self) -> None:
        arrange(vars(self), self.queue, self.outgoing, self.incoming)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        self.material = PROBLEMS[vars(self)["problem"]]  # App.problem is a method
        cross = self.material.cross()
        cpu.writes(self.edges)[:] = self.material.edges()
        cpu.writes(self.cross)[:] = np.resize(cross, self.cross.shape)
        cpu.writes(self.totals)[:] = cross.sum(axis=0)
        cpu.writes(self.control)[:] = 0
        self.first, self.extent = extent_of(self.cells, self.rank, self.ranks, 3)
        near = neighbours(self.rank, self.ranks, 3)
        self.slots = sum(slot << 4 * face for slot, face in enumerate(near))
        lists = self.queue, self.outgoing, self.incoming, self.control
        self.crossings = Crossings.of(vars(self), cpu, gpu, [*near.values()], *lists)
        for tally in self.flux, self.paths:
            gpu.fill(tally, 0)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        self.each = max(1, self.particles // (10 * self.cells**3))
        self.weight = 1e10 * self.material.side**3 * self.material.duration / self.each
        self.every = max(1, self.particles // TRACED)  # of so many source particles one is traced
        self.wrong, self.count, self.factors = "", 0, list[float]()
        for step in gpu.iterations(self.steps):
            self.step(cpu, gpu, step)
        gpu.launch("crossing_digest", self.census, self.control, self.count, over=self.count)
        self.used["census"] = str(gpu.total(self.count))
        self.digest = self.counted(cpu)[neutrons.DIGEST]
        self.used["census_digest"] = f"{gpu.total(self.digest):016x}"

    def step(self, cpu: Cpu, gpu: Gpu, step: int) -> None:
        """One step, which begins and ends with particles at census."""
        m, source = self.material, math.prod(self.extent) * self.each
        block = packed(self.extent), packed(self.first), self.cells
        begun = min(self.count + source, self.capacity)
        made = self.count, self.capacity, source, self.each, *block, step, m.side, self.weight, m.duration, self.now.key
        lists = self.census, self.edges, self.control
        gpu.launch("population_source", *lists, *made, over=source, writes=[self.census])
        self.factors.append(self.particles / gpu.total(begun))
        kept = begun, self.capacity, self.factors[-1], CUTOFF * self.weight, CUTOFF, m.duration
        gpu.launch("population_control", self.census, self.now, self.control, *kept, over=begun, writes=[self.now])
        became, arrived = self.counted(cpu), 0
        tracked, self.count = min(became[neutrons.NEXT], self.capacity), 0
        while gpu.total(tracked):
            fresh = 0
            for batch in range(self.batches):
                first, part = share_of(tracked, self.batches, batch)
                self.crossings.post()
                counts = self.track(cpu, gpu, first, part, fresh, block)
                self.count, fresh = counts[neutrons.CENSUS], counts[neutrons.NEXT]
                came = self.crossings.carry(self.now[first : first + part], counts[neutrons.QUEUED], self.fresh, fresh)
                fresh, arrived = fresh + came, arrived + came
                became = [a + b for a, b in zip(became, counts, strict=True)]
            gpu.swap(self.now, self.fresh)
            tracked = min(fresh, self.capacity)
        became = [a + b for a, b in zip(became, self.counted(cpu), strict=True)]
        lost = gpu.total((became[neutrons.SENT] - became[neutrons.RECEIVED]) % 2**64)
        self.wrong = self.wrong or neutrons.wrong_balance(became, begun + arrived, self.count, lost)

    def track(self, cpu: Cpu, gpu: Gpu, first: int, count: int, fresh: int, block: tuple[int, ...]) -> list[int]:
        """Track some particles, behind so many fresh ones. Returns what became of them."""
        m, written = self.material, (self.fresh, self.census, self.queue)
        data = self.control, self.flux, self.paths, self.edges, self.cross, self.totals
        sizes = first, count, self.capacity, self.room, *block
        physics = m.side, m.isotopes * m.reactions, m.mass, m.yield_, self.slots, self.every, int(vars(self)["facets"])
        words = cpu.updates(self.control)
        words[neutrons.NEXT], words[neutrons.CENSUS] = fresh, self.count  # the places of the next ones
        into = self.fresh[fresh:], self.census[self.count :], self.queue
        gpu.launch("transport_track", self.now, *written, *data, *sizes, *physics, over=count + 1, writes=into)
        return self.counted(cpu)

    def counted(self, cpu: Cpu) -> list[int]:
        """What kernels have counted since the last call."""
        words = cpu.updates(self.control)
        counts, words[:] = [int(word) for word in words], 0
        return counts

    def check(self, view: View) -> str:
        """Compares flux and census with the ways and source particles of all, and some histories with numpy's."""
        flux, sums = view(self.flux).reshape(-1), view(self.paths)
        way, traced = float(sums.sum()), float(sums[64:].sum())
        named = float(flux @ (1.0 + unit_f64(0, np.arange(len(flux)))))
        if self.wrong or not abs(named - way) <= 1e-9 * way:
            return self.wrong or f"the flux in all cells is {named:.12g}, not the {way:.12g} of the particles"
        box = self.every, self.cells, self.each, self.weight, self.now.key, tuple(self.first), tuple(self.extent)
        return Histories(self.material, *box).differ(self.factors, view(self.census[: self.count]), self.digest, traced)
