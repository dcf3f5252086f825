"""nn: the records nearest to a location."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, f32, i64, in_pieces, u8
from firsttouch.harness.random import F32, F64, below

MAX_NEIGHBOURS = 64


class Nn(App):
    """The GPU computes the distances of all records, the CPU finds the k smallest."""

    name = "nn"
    source = "Rodinia (Che et al., IISWC 2009), nn; random records, and the k nearest found in one pass"
    pattern = "read-once stream, initialised by the CPU"
    sizes = {
        "tiny": {"n": 10_007, "k": 5, "latitude": 30, "longitude": 90},
        "default": {"n": 42_764, "k": 5, "latitude": 30, "longitude": 90},
    }
    tiled = ("locations", "distances")
    n: int
    k: int
    latitude: int
    longitude: int

    records = buffer(u8, "n", 57, role="scratch", starts_on="cpu")  # 53 bytes of text and a distance
    locations = buffer(f32, "n", 2, role="input", starts_on="cpu")  # latitude, longitude
    distances = buffer(f32, "n", role="output", ends_on="cpu")
    nearest = buffer(f32, "(n + 4095) // 4096", "k", role="scratch", starts_on="cpu")  # of blocks of 4096
    which = buffer(i64, "(n + 4095) // 4096", "k", role="scratch", starts_on="cpu")

    @classmethod
    def problem(cls, params: Params) -> str:
        n, k = params["n"], params["k"]
        if k > min(n, MAX_NEIGHBOURS):
            return f"nn: k must be at most {MAX_NEIGHBOURS} and at most n, not {k} of {n}"
        return super().problem(params)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        generated = [self.records, self.locations]
        cpu.launch("nn_records", *generated, self.n, self.locations.key, over=self.n, writes=generated)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        place = (float(self.latitude), float(self.longitude))
        for tile in gpu.tiles(self.locations, self.distances):
            gpu.launch(
                *("nn_distances", self.locations, self.distances, tile.offset, tile.count, *place),
                over=math.ceil(tile.count / 2),
                reads=[tile.of(self.locations)],
                writes=[tile.of(self.distances)],
            )
        outputs = [self.nearest, self.which]
        cpu.launch("nn_nearest", self.distances, *outputs, self.n, self.k, over=self.n, writes=outputs)
        nearest, which = (cpu.reads(buffer).reshape(-1) for buffer in outputs)
        order = np.lexsort((which, nearest))[: self.k]
        self.chosen = which[order].tolist()
        for at, distance in zip(self.chosen, nearest[order], strict=True):
            if at >= 0:  # it is -1 if fewer than k distances are numbers
                cpu.updates(self.records[at : at + 1])[0, 53:] = np.frombuffer(distance.tobytes(), np.uint8)

    def check(self, view: View) -> str:
        """Checks all locations and distances, the k nearest, and their text."""
        locations, distances, records = view(self.locations), view(self.distances), view(self.records)
        if not all(in_pieces(lambda a, b: np.array_equal(locations[a:b], self._generated(a, b)), self.n, 2**16)):
            return "the locations differ from the generated ones"
        worst = np.max(in_pieces(lambda a, b: self._largest_error(locations[a:b], distances[a:b]), self.n, 2**16))
        # In units of 2^-24: 1 for the differences, 1 for the squares and their sum, 6 for a root right to 3 ulp.
        if not worst <= 10 * 2.0**-24:
            return f"the relative error of a distance is {worst:.3g}"
        # The records found must be all that are not farther than the last of them, except for later ties.
        last = distances[self.chosen[-1]]
        nearer = np.flatnonzero(distances <= last)
        expected = nearer[np.lexsort((nearer, distances[nearer]))][: self.k].tolist()
        if self.chosen != expected:
            return f"the {self.k} nearest are {expected}, not {self.chosen}"
        for at in self.chosen:
            text, place = bytes(records[at, 33:51]).decode(errors="replace"), self._degrees(at)
            if text != (right := "{:08.5f} {:09.5f}".format(*place)):
                return f"the text of record {at} is {text!r}, but its place is {right}"
            if records[at, 53:].view(np.float32)[0] != distances[at]:
                return f"record {at} does not hold its distance"
        return ""

    def _generated(self, first: int, last: int) -> F32:
        return self._degrees(np.arange(first, last)).astype(np.float32)

    def _degrees(self, at: Any) -> F64:
        """Latitude and longitude of records, in steps of 1e-5."""
        key = self.locations.key
        pair = (700_000 + below(key, 6 * at, 6_300_000), below(key, 6 * at + 1, 35_800_000))
        return np.stack(pair, axis=-1) / 1e5

    def _largest_error(self, locations: F32, distances: F32) -> float:
        """The largest difference from f64, relative except near zero."""
        y, x = (locations.astype(np.float64) - (self.latitude, self.longitude)).T
        true = np.hypot(y, x)
        return float((np.abs(distances - true) / np.maximum(true, 1e-3)).max())
