"""nw: the score table of Needleman and Wunsch for two sequences."""

from __future__ import annotations

import math

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, PublishedPlacement, View, buffer, i32, in_pieces
from firsttouch.harness.random import below
from firsttouch.program.execution.arrays import SCATTERED

SIDE, THREADS = 64, 128  # side of a tile of nw.c, and threads per group
ROWS = 16  # rows that the check computes at a time
# BLOSUM62 (Henikoff and Henikoff, PNAS 1992) of the amino acids R N D C Q E G H I L.
BLOSUM62 = np.array(
    [
        [5, 0, -2, -3, 1, 0, -2, 0, -3, -2],
        [0, 6, 1, -3, 0, 0, 0, 1, -3, -3],
        [-2, 1, 6, -3, 0, 2, -1, -1, -3, -4],
        [-3, -3, -3, 9, -3, -4, -3, -3, -1, -1],
        [1, 0, 0, -3, 5, 2, -2, 0, -3, -2],
        [0, 0, 2, -4, 2, 5, -2, 0, -3, -3],
        [-2, 0, -1, -3, -2, -2, 6, -2, -4, -4],
        [0, 1, -1, -3, 0, 0, -2, 8, -3, -3],
        [-3, -3, -3, -1, -3, -3, -4, -3, 4, 2],
        [-2, -3, -4, -1, -2, -3, -4, -3, 2, 4],
    ],
    np.int32,
)


class Nw(App):
    """Global alignment of two random sequences of n letters, tile by tile along anti-diagonals."""

    name = "nw"
    source = "Rodinia (Che et al., IISWC 2009), nw (needle); its 16 x 16 tiles replaced by 64 x 64"
    pattern = "wavefront in place, little parallelism at both ends"
    sizes = {"tiny": {"n": 300, "penalty": 10}, "default": {"n": 2048, "penalty": 10}}
    strided = ("ref", "score")  # the tiles of an anti-diagonal
    n: int
    penalty: int

    ref = buffer(i32, "n + 1", "n + 1", role="input", starts_on="cpu")  # score of letters i and j
    score = buffer(i32, "n + 1", "n + 1", role="inout", starts_on="cpu", ends_on="cpu")
    published = PublishedPlacement(memory={})  # in Schieffer et al., ICPP 2024, nothing is the GPU's alone
    profile = buffer(i32, len(BLOSUM62), "n + 1", role="scratch", starts_on="cpu")  # scores of each letter by column

    @classmethod
    def problem(cls, params: Params) -> str:
        if params["n"] * max(params["penalty"], int(BLOSUM62.max())) >= 1 << 30:
            return f"nw: scores of n = {params['n']} and penalty {params['penalty']} may not fit 32 bits"
        return super().problem(params)

    def prepare(self, gpu: Gpu) -> None:
        tiles = math.ceil(self.n / SIDE)
        self.launches = gpu.sequence()
        for diagonal in range(2 * tiles - 1):
            top, bottom = max(0, diagonal - tiles + 1), min(diagonal, tiles - 1)
            values = (self.ref, self.score, self.n, diagonal, top, self.penalty)
            self.launches.add("nw_tiles", *values, groups=bottom - top + 1, threads=THREADS)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        profile = cpu.writes(self.profile)
        profile[:, 0] = 0
        profile[:, 1:] = BLOSUM62[:, below(self.profile.key, np.arange(1, self.n + 1), len(BLOSUM62))]
        values = (self.profile, self.ref, self.score, self.n, self.ref.key, self.penalty)
        cpu.launch("nw_begin", *values, over=(self.n + 1) ** 2, writes=[self.ref, self.score])

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        # Each score is written once; of each tile the row above it is read, and the column beside it at random.
        passes = {self.ref: 1, self.score: 1 + (4 + SCATTERED) / (4 * SIDE)}
        gpu.replay_all(self.launches, reads=[self.ref], updates=[self.score], passes=passes)

    def check(self, view: View) -> str:
        """Checks the borders and, with regenerated letters, the recurrence at every cell, which implies all cells."""
        n, penalty, score = self.n, self.penalty, view(self.score)
        border = -penalty * np.arange(n + 1)
        if not (np.array_equal(score[0], border) and np.array_equal(score[:, 0], border)):
            return "the borders are not multiples of the penalty"
        letters = below(self.profile.key, np.arange(1, n + 1), len(BLOSUM62))
        profile = BLOSUM62[:, letters]
        rows = below(self.ref.key, np.arange(1, n + 1), len(BLOSUM62))

        def wrong(first: int, last: int) -> tuple[int, str]:
            """The number of wrong cells in rows after `first` up to `last`, and the first of them."""
            scores = score[first : last + 1]
            expected = np.maximum(scores[:-1, 1:], scores[1:, :-1]) - penalty
            np.maximum(expected, scores[:-1, :-1] + profile[rows[first:last]], out=expected)
            places = np.argwhere(scores[1:, 1:] != expected)
            if not len(places):
                return 0, ""
            i, j = places[0]
            return len(places), f"({first + 1 + i}, {1 + j}) is {scores[i + 1, j + 1]}, not {expected[i, j]}"

        pieces = [piece for piece in in_pieces(wrong, n, ROWS) if piece[0]]
        return f"{sum(count for count, _ in pieces)} of {n * n} cells are wrong; {pieces[0][1]}" if pieces else ""
