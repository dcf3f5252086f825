"""Two-dimensional Fourier transforms, by a vendor's library or by this project's kernels.

The kernels transform a dimension of 2^bits numbers in one pass over memory if a group of work-items can hold it.
Otherwise they need two (Bailey's four-step method without the transposition), which leave it in split order
(fft_conv.c). One more pass splits a dimension of odd 2^bits numbers into that many blocks. Transforms are not scaled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firsttouch.harness.random import F32
from firsttouch.program.execution.agents import Gpu
from firsttouch.program.execution.arrays import Array

TEXT = Path(__file__).parents[1].joinpath("fft.c").read_text(encoding="utf-8")
TILE, THREADS = 2048, 256  # numbers and work-items per group in fft.c
STEP = "(512 if n < 32763 else 1024)"
SIDE = f"(1 << (n + 5).bit_length() if n < 1019 else -(-(n + 6) // {STEP}) * {STEP})"
"""The side of transforms with room for n + 6: as in um-apps a power of two up to 1024, then a multiple of 512; above
2^15 of 1024, so that the odd factor is at most 63.
"""
LARGEST_N = 2**16 - 6
"""So that numbers of pairs of frequencies fit 32 bits."""
LONGEST = {"rows": 10, "columns": 8}
"""Bits of the longest transform in one pass, so that a tile holds several columns in whole memory sectors."""


@dataclass(frozen=True)
class Pass:
    """Arguments of fft_pass. outer: None stands for the pitch of the array."""

    outer: int | None
    inner: int
    step: int
    log_c: int
    lanes: int
    log_r: int
    turned: int
    bits: int
    first: int = 0

    def queue(self, gpu: Gpu, source: Array, target: Array, outer: Sequence[int], sign: float) -> None:
        shape = (self.inner, self.step, self.log_c, self.lanes, self.log_r, self.turned, self.bits, self.first, sign)
        numbers, writes = self.lanes << self.log_r, [target] if source is not target else []
        part = {a: min(1.0, numbers * 8 / a.nbytes) for a in (source, target)}
        n = math.ceil(numbers / TILE)
        gpu.launch("fft_pass", source, target, *outer, *shape, groups=n, threads=THREADS, writes=writes, passes=part)


@dataclass(frozen=True)
class OddPass:
    """Arguments of fft_odd. outer: None stands for the pitch of the array."""

    outer: int | None
    step: int
    c: int
    items: int
    odd: int
    turned: int
    bits: int

    def queue(self, gpu: Gpu, source: Array, target: Array, outer: Sequence[int], sign: float) -> None:
        shape = (self.step, self.c, self.items, self.odd, self.turned, self.bits, sign)
        writes = [target] if source is not target else []
        gpu.launch("fft_odd", source, target, *outer, *shape, over=self.items, writes=writes)


class OwnFft:
    """Transforms of odd 2^row_bits columns by odd 2^column_bits rows of c64.

    Args:
        pitch: numbers from one row of a spectrum to the next. Untransformed data have no gaps between rows.
    """

    def __init__(self, odd: int, column_bits: int, row_bits: int, pitch: int) -> None:
        self.odd, self.width, self.pitch = odd, odd << row_bits, pitch
        self.split_x = 0 if row_bits <= LONGEST["rows"] else row_bits // 2
        self.split_y = 0 if column_bits <= LONGEST["columns"] else column_bits // 2
        self._passes = [*self._rows(row_bits, odd << column_bits), *self._columns(column_bits, row_bits)]

    def _rows(self, bits: int, rows: int) -> list[Pass | OddPass]:
        split, rest, length = self.split_x, bits - self.split_x, 1 << bits
        passes: list[Pass | OddPass] = []
        if self.odd > 1:
            passes.append(OddPass(None, length, length, rows << bits, self.odd, 2, bits))
        for first in range(0, self.width, length):
            if split:
                passes.append(Pass(None, 1, 2**rest, rest, rows << rest, split, 2, bits, first))
            passes.append(Pass(None, 2**rest, 1, split, rows << split, rest, 0, bits, first))
        return passes

    def _columns(self, bits: int, row_bits: int) -> list[Pass | OddPass]:
        pitch, split, rest, length = self.pitch, self.split_y, bits - self.split_y, 1 << bits
        width, passes = 1 << row_bits, list[Pass | OddPass]()
        if self.odd > 1:
            passes.append(OddPass(pitch, pitch << bits, self.width, self.width << bits, self.odd, 1, bits))
        for y, x in itertools.product(range(self.odd), range(0, self.width, width)):
            first = pitch * length * y + x
            if split:
                passes.append(Pass(pitch, 1, pitch << rest, row_bits, width << rest, split, 1, bits, first))
            passes.append(Pass(pitch << rest, 1, pitch, row_bits, width << split, rest, 0, bits, first))
        return passes

    def forward(self, gpu: Gpu, plain: Array, spectrum: Array) -> None:
        """Transforms rows, then columns in place. The spectrum is in split order."""
        pitches = {id(plain): self.width, id(spectrum): self.pitch}
        self._queue(gpu, self._passes, [plain, *[spectrum] * len(self._passes)], pitches, -1)

    def backward(self, gpu: Gpu, spectrum: Array, plain: Array) -> None:
        """Transforms columns in place in split order, then rows. The result is scaled by the number of elements."""
        pitches = {id(plain): self.width, id(spectrum): self.pitch}
        self._queue(gpu, self._passes[::-1], [*[spectrum] * len(self._passes), plain], pitches, 1)

    @staticmethod
    def _queue(
        gpu: Gpu,
        passes: Sequence[Pass | OddPass],
        arrays: Sequence[Array],
        pitches: dict[int, int],
        sign: float,
    ) -> None:
        for index, p in enumerate(passes):
            source, target = arrays[index], arrays[index + 1]
            p.queue(
                gpu, source, target, [pitches[id(a)] if p.outer is None else p.outer for a in (source, target)], sign
            )


class RealFft:
    """Transforms of real arrays of side x side as complex rows of half as many packed numbers.

    Args:
        wanted: "own", or "auto" for a library if there is one.
        pitch: numbers from one row of a spectrum to the next.
        real: let a library transform real numbers to half spectra and back.
    """

    def __init__(self, gpu: Gpu, wanted: str, side: int, pitch: int, *, real: bool) -> None:
        library, self.title = gpu.library("fft", wanted)
        bits = (side & -side).bit_length() - 1
        self.own = None if library else OwnFft(side >> bits, bits, bits - 1, pitch)
        self.real = library is not None and real
        self.numbers = side**2 // (1 if self.real else 2)
        """The factor by which a forward and a backward transform scale the data."""
        self.order = (self.own.odd, bits, self.own.split_y, self.own.split_x) if self.own else (1, 31, 0, 0)
        """Of spectra: the arguments odd, bits, split_y and split_x of the kernels in fft_conv.c."""
        if library:
            self.forward_plan = library.plan("r2c", side, side) if real else library.plan("c2c", side, side // 2)
            self.backward_plan = library.plan("c2r", side, side) if real else self.forward_plan

    def forward(self, gpu: Gpu, plain: Array, spectrum: Array) -> None:
        if self.own:
            self.own.forward(gpu, plain, spectrum)
        else:
            gpu.call(self.forward_plan.execute, plain, spectrum, "forward", reads=[plain], writes=[spectrum])

    def backward(self, gpu: Gpu, spectrum: Array, plain: Array) -> None:
        """Backward transform. Overwrites the spectrum."""
        if self.own:
            self.own.backward(gpu, spectrum, plain)
        else:
            gpu.call(self.backward_plan.execute, spectrum, plain, "backward", updates=[spectrum], writes=[plain])


def direct_convolution(image: F32, taps: F32) -> F32:
    """The convolution of all places of an image at which the taps do not reach beyond it."""
    down, across = taps.shape
    rows, columns = len(image) - down + 1, image.shape[1] - across + 1
    result = np.zeros((rows, columns), np.float32)
    for (y, x), tap in np.ndenumerate(taps):
        result += tap * image[down - 1 - y :, across - 1 - x :][:rows, :columns]
    return result


def error_of_three(side: int) -> float:
    """What three transforms of side x side may be wrong by in f32, relative to the root mean square.

    Each of the levels adds independent errors of about two units, of a root and of rounding (Higham 2002, section
    24.1), and so does each term of a sum of an odd number. Ten times their standard deviation is allowed.
    """
    levels = math.log2(side) + side // (side & -side) - 1
    return 10 * 2 * 2.0**-24 * math.sqrt(3 * 2 * levels)
