"""transport: neutrons that fly through a box, whose blocks send those that leave to their neighbours."""

from __future__ import annotations

import math

import numpy as np

from firsttouch.apps.support.domains import blocks_along, extent_of, neighbours, packed
from firsttouch.apps.support.histories import CUTOFF, GROUPS, PROBLEMS, REACTIONS, Histories, every_of
from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f64, u32, u64
from firsttouch.harness.random import unit_f64

WORDS, CONTROL = 17, 17  # of a particle, and of `control` (neutron.h)
NEXT, CENSUS, OVERFLOW, QUEUED, SENT, RECEIVED, DIGEST = 0, 1, 2, slice(3, 9), 9, 10, 11
ABSORBED, FISSIONED, PRODUCED, KILLED, SPLIT = range(12, 17)


class Transport(App):
    """Monte Carlo transport of `particles` neutrons through cells x cells x cells cubes, by blocks of the box."""

    name = "transport"
    source = "Quicksilver (Richards et al., IEEE Cluster 2017), CORAL-2 problems 1 and 2; cubes replace its 24 facets"
    pattern = "particles gather and scatter; those that leave a block go to the neighbour, in messages of any size"
    sizes = {
        "tiny": {"particles": 1280, "cells": 4, "steps": 3},
        "default": {"particles": 163_840, "cells": 16, "steps": 10},
    }
    grows = "particles"
    options = {"problem": tuple(PROBLEMS)}
    more_kernels = ("population", "crossing")
    exchanges = True
    particles: int
    cells: int
    steps: int
    capacity: int  # particles in each buffer of them

    now = buffer(u64, "capacity", WORDS, role="inout")
    fresh = buffer(u64, "capacity", WORDS, role="inout")  # for the next round; swapped with now
    census = buffer(u64, "capacity", WORDS, role="inout")
    queue = buffer(u32, "faces * capacity // 2 + 1", role="scratch")
    outgoing = buffer(u64, "faces * capacity // 2 + 1", WORDS, role="exchange")
    incoming = buffer(u64, "faces * capacity // 2 + 1", WORDS, role="exchange")
    control = buffer(u64, CONTROL, role="control", starts_on="cpu")
    flux = buffer(f64, "held", GROUPS, role="inout", starts_on="gpu", ends_on="cpu")
    paths = buffer(f64, 128, role="inout", starts_on="gpu")
    edges = buffer(f64, GROUPS + 1, role="constant", starts_on="cpu")
    cross = buffer(f64, REACTIONS, GROUPS, role="constant", starts_on="cpu")
    totals = buffer(f64, GROUPS, role="constant", starts_on="cpu")

    @classmethod
    def part(cls, params: Params, rank: int, ranks: int) -> Params:
        capacity, faces = 2 * math.ceil(params["particles"] / ranks) + 4096, len(neighbours(rank, ranks, 3))
        held = math.prod(extent_of(params["cells"], rank, ranks, 3)[1])
        return {**params, "capacity": capacity, "faces": faces, "held": held}

    @classmethod
    def why_not_divided(cls, params: Params, ranks: int) -> str:
        most = max(blocks_along(ranks, 3))
        return "" if params["cells"] >= most else f"transport: {params['cells']} cells cannot be divided by {most}"

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        self.material = PROBLEMS[vars(self)["problem"]]  # App.problem is a method
        cross = self.material.cross()
        cpu.writes(self.edges)[:] = self.material.edges()
        cpu.writes(self.cross)[:] = np.resize(cross, self.cross.shape)
        cpu.writes(self.totals)[:] = cross.sum(axis=0)
        cpu.writes(self.control)[:] = 0
        self.first, self.extent = extent_of(self.cells, self.rank, self.ranks, 3)
        self.near, self.room = neighbours(self.rank, self.ranks, 3), self.capacity // 2  # in a neighbour's queue
        self.slots = sum(slot << 4 * face for slot, face in enumerate(self.near))
        for tally in self.flux, self.paths:
            gpu.fill(tally, 0)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        self.each = max(1, self.particles // (10 * self.cells**3))
        self.weight = 1e10 * self.material.side**3 * self.material.duration / self.each
        self.every = every_of(self.cells, self.each)
        self.wrong, self.count, self.factors = "", 0, list[float]()
        for step in gpu.iterations(self.steps):
            self.step(cpu, gpu, step)
        gpu.launch("crossing_digest", self.census, self.control, self.count, over=self.count)
        self.used["census"] = str(gpu.total(self.count))
        self.digest = self.counted(cpu)[DIGEST]
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
        became = self.counted(cpu)
        tracked, self.count, moved = min(became[NEXT], self.capacity), 0, 0
        while gpu.total(tracked):
            written = self.fresh, self.census, self.queue
            data = self.control, self.flux, self.paths, self.edges, self.cross, self.totals
            sizes = tracked, self.count, self.capacity, self.room, *block
            physics = m.side, m.isotopes * m.reactions, m.mass, m.yield_, self.slots, self.every
            gpu.launch("transport_track", self.now, *written, *data, *sizes, *physics, over=tracked + 1, writes=written)
            counts = self.counted(cpu)
            received = self.exchange(cpu, gpu, counts) if self.near else 0
            moved += received - sum(counts[QUEUED])
            self.count, tracked = self.count + counts[CENSUS], min(counts[NEXT] + received, self.capacity)
            became = [a + b for a, b in zip(became, counts, strict=True)]
            gpu.swap(self.now, self.fresh)
        gains = begun + became[SPLIT] + became[PRODUCED] + moved
        losses = self.count + became[ABSORBED] + became[FISSIONED] + became[KILLED]
        if became[OVERFLOW] or gains != losses:
            self.wrong = f"step {step}: {gains} particles came and {losses} went; {became[OVERFLOW]} had no room"

    def counted(self, cpu: Cpu) -> list[int]:
        """What kernels have counted since the last call."""
        words = cpu.updates(self.control)
        counts, words[:] = [int(word) for word in words], 0
        return counts

    def exchange(self, cpu: Cpu, gpu: Gpu, counts: list[int]) -> int:
        """Send the particles in the queues, and put those that arrive behind other fresh ones. Returns how many."""
        others, sent, at = [*self.near.values()], counts[QUEUED][: len(self.near)], counts[NEXT]
        lists, into = (self.now, self.queue, self.outgoing, self.control), (self.incoming, self.fresh, self.control)
        with gpu.exchange():
            for first, n in zip(range(0, len(self.outgoing), self.room), sent, strict=False):
                part = self.outgoing[first : first + n]
                gpu.launch("crossing_pack", *lists, first, n, over=n + 1, writes=[part])
            come = gpu.send_rows(self.outgoing, self.incoming, others, sent, self.room)
            for first, n in zip(range(0, len(self.incoming), self.room), come, strict=False):
                part = self.incoming[first : first + n]
                gpu.launch("crossing_unpack", *into, first, n, at, self.capacity, over=n + 1, reads=[part])
                at += n
        ids = self.counted(cpu)
        if gpu.total((ids[SENT] - ids[RECEIVED]) % 2**64):
            self.wrong = "the ids of particles that arrived are not those of the particles that were sent"
        return sum(come)

    def check(self, view: View) -> str:
        """Compares flux and census with the ways and source particles of all, and some histories with numpy's."""
        flux, sums = view(self.flux).reshape(-1), view(self.paths)
        way, traced = float(sums.sum()), float(sums[64:].sum())
        named = float(flux @ (1.0 + unit_f64(0, np.arange(len(flux)))))
        if self.wrong or not abs(named - way) <= 1e-9 * way:
            return self.wrong or f"the flux in all cells is {named:.12g}, not the {way:.12g} of the particles"
        box = self.cells, self.each, self.weight, self.now.key, (self.first, self.extent)
        return Histories(self.material, *box).differ(self.factors, view(self.census[: self.count]), self.digest, traced)
