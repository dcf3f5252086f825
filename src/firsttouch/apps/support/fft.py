"""Two-dimensional Fourier transforms, by a vendor's library or by this project's kernels.

The kernels transform a dimension of 2^bits numbers in one pass over memory if a group of work-items can hold it.
Otherwise they need two (Bailey's four-step method without the transposition), which leave it in split order
(fft_conv.c). Transforms are not scaled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firsttouch.harness.random import F32
from firsttouch.workspace.agents import Gpu
from firsttouch.workspace.arrays import Array, ByteRange

TEXT = Path(__file__).parents[1].joinpath("fft.c").read_text(encoding="utf-8")
TILE, THREADS = 2048, 256  # numbers and work-items per group in fft.c
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


class OwnFft:
    """Transforms of 2^row_bits columns by 2^column_bits rows of c64.

    Args:
        pitch: numbers from one row of a spectrum to the next. Untransformed data have no gaps between rows.
    """

    def __init__(self, column_bits: int, row_bits: int, pitch: int) -> None:
        self.width, self.pitch = 2**row_bits, pitch
        self.split_x = 0 if row_bits <= LONGEST["rows"] else row_bits // 2
        self.split_y = 0 if column_bits <= LONGEST["columns"] else column_bits // 2
        self._passes = [*self._rows(row_bits, 2**column_bits), *self._columns(column_bits, row_bits)]

    def _rows(self, bits: int, rows: int) -> list[Pass]:
        split, rest = self.split_x, bits - self.split_x
        first = Pass(None, 1, 2**rest, rest, rows << rest, split, 2, bits)
        return [first] * bool(split) + [Pass(None, 2**rest, 1, split, rows << split, rest, 0, bits)]

    def _columns(self, bits: int, row_bits: int) -> list[Pass]:
        pitch, width, split, rest = self.pitch, self.width, self.split_y, bits - self.split_y
        first = Pass(pitch, 1, pitch << rest, row_bits, width << rest, split, 1, bits)
        return [first] * bool(split) + [Pass(pitch << rest, 1, pitch, row_bits, width << split, rest, 0, bits)]

    def forward(self, gpu: Gpu, plain: Array, spectrum: Array) -> None:
        """Transforms rows, then columns in place. The spectrum is in split order."""
        pitches = {id(plain): self.width, id(spectrum): self.pitch}
        self._queue(gpu, self._passes, [plain, *[spectrum] * len(self._passes)], pitches, -1)

    def backward(self, gpu: Gpu, spectrum: Array, plain: Array) -> None:
        """Transforms columns in place in split order, then rows. The result is scaled by the number of elements."""
        pitches = {id(plain): self.width, id(spectrum): self.pitch}
        self._queue(gpu, self._passes[::-1], [*[spectrum] * len(self._passes), plain], pitches, 1)

    @staticmethod
    def _queue(gpu: Gpu, passes: Sequence[Pass], arrays: Sequence[Array], pitches: dict[int, int], sign: float) -> None:
        for index, p in enumerate(passes):
            source, target = arrays[index], arrays[index + 1]
            outer = [pitches[id(a)] if p.outer is None else p.outer for a in (source, target)]
            shape = (p.inner, p.step, p.log_c, p.lanes, p.log_r, p.turned, p.bits, sign)
            groups, writes = math.ceil((p.lanes << p.log_r) / TILE), list[ByteRange]([target])
            gpu.launch(
                "fft_pass",
                source,
                target,
                *outer,
                *shape,
                groups=groups,
                threads=THREADS,
                writes=() if source is target else writes,
            )


class RealFft:
    """Transforms of real arrays of side x side, a power of two, as complex rows of half as many packed numbers.

    Args:
        wanted: "own", or "auto" for a library if there is one.
        pitch: numbers from one row of a spectrum to the next.
        real: let a library transform real numbers to half spectra and back.
    """

    def __init__(self, gpu: Gpu, wanted: str, bits: int, pitch: int, *, real: bool) -> None:
        library, self.title = gpu.library("fft", wanted)
        self.own = None if library else OwnFft(bits, bits - 1, pitch)
        self.real = library is not None and real
        self.numbers = 4**bits // (1 if self.real else 2)
        """The factor by which a forward and a backward transform scale the data."""
        self.splits = (self.own.split_y, self.own.split_x) if self.own else (0, 0)
        """Split bits of the order of rows and of columns."""
        if library:
            side = 2**bits
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
