"""dwt2d: wavelet transform of a colour image."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from firsttouch.apps.support.files import FILES, WithFiles
from firsttouch.apps.support.lifting import join
from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, i32, in_pieces, on_host, u8
from firsttouch.harness.random import Values
from firsttouch.program.execution.arrays import Array

THREADS, SIDE = 256, 64  # of a group, and of its tile with the halo, as in dwt2d.c
HALO = {"5/3": 2, "9/7": 4}
WINDOW = 512  # about the side of the windows in which the image is restored
# Error of a pixel per level of 9/7: eight lifting steps and two gains round values below 2, by up to 2^-24 each, and
# the inverse amplifies an error at most three times.
ROUNDING = 30 * 2.0**-24


class Dwt2d(WithFiles, App):
    """Levels of the reversible 5/3 integer transform, or of the 9/7 transform in floating point; with files=used the
    image comes from a file, and the bands go into one.
    """

    name = "dwt2d"
    source = "Rodinia (Che et al., IISWC 2009), dwt2d; rounding down as in JPEG 2000, not towards zero"
    pattern = "read-once stream, scratch on the GPU, read at the end"
    sizes = {
        "tiny": {"rows": 187, "cols": 301, "levels": 3},
        "default": {"rows": 1024, "cols": 1024, "levels": 3},
        "bytes": {"rows": 16_384},
    }
    grows = "cols"
    options = {"wavelet": ("5/3", "9/7"), "files": FILES}
    same_kernels = ("files",)
    rows: int
    cols: int
    levels: int
    wavelet: str

    image = buffer(u8, "rows", "cols", 3, role="input", starts_on="cpu")
    planes = buffer(i32, 3, "rows", "cols", role="scratch")  # i32 or f32, like the next two
    halves = buffer(i32, 3, "(rows + 1) // 2", "(cols + 1) // 2", role="scratch")  # low band of every other level
    bands = buffer(i32, 3, "rows", "cols", role="output", ends_on="cpu")

    @classmethod
    def problem(cls, params: Params) -> str:
        if params["levels"] > 30:
            return f"dwt2d: levels must be at most 30, not {params['levels']}"
        return super().problem(params)

    def defines(self) -> Mapping[str, object]:
        return {"REAL": int(self.wavelet == "9/7")}

    def sizes_of_levels(self) -> list[tuple[int, int]]:
        """Rows and columns of the image and of the low band after each level."""
        return [(-(-self.rows >> level), -(-self.cols >> level)) for level in range(self.levels + 1)]

    def of_files(self) -> tuple[Array, Array]:
        return self.image, self.bands

    def generate(self, values: Values) -> None:
        on_host(self.kernels, "dwt2d_image", values, self.rows, self.cols, self.image.key)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        rows, cols, key = self.rows, self.cols, self.image.key
        if not self.has_files():
            cpu.launch("dwt2d_image", self.image, rows, cols, key, over=rows * cols, writes=[self.image])

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        n, sizes = self.rows * self.cols, self.sizes_of_levels()
        inner = SIDE - 2 * HALO[self.wavelet]
        gpu.launch("dwt2d_split", self.image, self.planes, n, over=n, writes=[self.planes])
        source, low = self.planes, self.halves
        for level in gpu.iterations(self.levels):
            height, width = sizes[level]
            if level + 1 == self.levels:
                to, plane = self.bands, n
            else:
                to, plane = low, math.prod(sizes[level + 1])
            left = 0 if to is self.bands else plane  # what the next level goes on with
            gpu.launch(
                *("dwt2d_level", source, to, self.bands, height, width, plane, n),
                groups=3 * math.ceil(height / inner) * math.ceil(width / inner),
                threads=THREADS,
                writes=[to, self.bands],
                passes={self.bands: (height * width - left) / n},
            )
            source, low = low, source

    def check(self, view: View) -> str:
        """Restores all pixels by the inverse transform in numpy: exactly for 5/3, within rounding for 9/7."""
        real = self.wavelet == "9/7"
        image, windows = view(self.image), list(self.windows())
        bands = view(self.bands).view(np.float32 if real else np.int32).reshape(3, -1)

        def error(number: int, _: int) -> float:
            rows, cols, inside = windows[number]
            pixels = image[rows.start : rows.stop, cols.start : cols.stop].astype(np.int32)
            true = pixels / 255 - 0.5 if real else pixels - 128
            restored = np.stack([self._inverse(plane, rows, cols) for plane in bands], axis=2)
            return float(np.abs(restored - true)[inside].max())

        worst, limit = float(np.max(in_pieces(error, len(windows), 1))), ROUNDING * self.levels if real else 0
        return (
            self.wrong_files(view) if worst <= limit else f"the inverse transform differs from the image by {worst:.3g}"
        )

    def windows(self) -> Iterator[tuple[range, range, tuple[slice, slice]]]:
        """Rows and columns of windows, and the part of each that does not depend on pixels outside: together all."""
        side, rim = max(WINDOW >> self.levels, 8) << self.levels, 8 << self.levels

        def along(n: int) -> Iterator[tuple[range, slice]]:
            for start in range(0, n, side):
                window = range(max(0, start - rim), min(n, start + side + rim))
                yield window, slice(start - window.start, min(n, start + side) - window.start)

        for (rows, down), (cols, right) in itertools.product(along(self.rows), along(self.cols)):
            yield rows, cols, (down, right)

    def _inverse(self, plane: Values, rows: range, cols: range) -> Values:
        """The pixels of a window from the bands of one plane."""
        low: Values | None = None
        for level in range(self.levels, 0, -1):
            height, width = self.sizes_of_levels()[level - 1]
            four, start = [], 0
            for high_y, high_x in ((0, 0), (0, 1), (1, 0), (1, 1)):
                down, across = (height + 1 - high_y) // 2, (width + 1 - high_x) // 2
                band = plane[start : start + down * across].reshape(down, across)
                ys, xs = (
                    slice(r.start >> level, (-(-r.stop >> (level - 1)) + 1 - high) // 2)
                    for r, high in ((rows, high_y), (cols, high_x))
                )
                four.append(band[ys, xs].astype(np.float64 if self.wavelet == "9/7" else np.int32))
                start += down * across
            lowest, right, below, both = four
            low = lowest if low is None else low
            if self.wavelet == "9/7":  # the inverse starts with the direction transformed last
                low = join(join(low, below), join(right, both), axis=1)
            else:
                low = join(join(low, right, axis=1), join(below, both, axis=1))
        return np.asarray(low)
