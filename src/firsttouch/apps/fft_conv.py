"""fft_conv: 2-D convolution by Fourier transforms, in three variants."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np

from firsttouch.apps.support import fft, um_apps
from firsttouch.harness.app import App, Cpu, Gpu, Params, PublishedPlacement, View, buffer, c64, f32, in_pieces
from firsttouch.harness.random import below
from firsttouch.program.execution.agents import KernelFile
from firsttouch.program.execution.arrays import Array

DOWN, ACROSS, CENTRE_Y, CENTRE_X = 7, 6, 3, 4  # the taps, and the one at the pixel itself
DIGITS, MEAN = 16, 2363.0  # values of a pixel and of a tap; mean of 42 products of two of them
SIDE = fft.SIDE


class _FftConv(App):
    """Convolution of n x n digits with 7 x 6 taps, with clamped borders. With start=original the CPU clears the padded
    data before, as the managed originals do.
    """

    source = "um-apps (Chien et al., MCHPC 2019), convolutionFFT2D"
    pattern = "large GPU-only buffers, each swept a few times"
    sizes = {"tiny": {"n": 260, "iterations": 2}, "default": {"n": 8000, "iterations": 1}, "bytes": {"iterations": 10}}
    options = {"library": ("auto", "own"), "start": um_apps.START}
    same_kernels = ("start",)
    real: ClassVar[bool] = False  # whether a library transforms real data
    n: int
    iterations: int
    library: str
    start: str

    data = buffer(f32, "n", "n", role="input", starts_on="cpu")
    taps = buffer(f32, DOWN, ACROSS, role="input", starts_on="cpu")
    padded = buffer(f32, SIDE, SIDE, role="inout", ends_on="cpu")  # the result at the end
    padded_taps = buffer(f32, SIDE, SIDE, role="inout", sides="gpu")
    # Packed complex rows; in r2c the half spectrum has one column more.
    spectrum = buffer(c64, SIDE, f"{SIDE} // 2", role="inout", sides="gpu")
    spectrum_of_taps = buffer(c64, SIDE, f"{SIDE} // 2", role="inout", sides="gpu")
    published = PublishedPlacement(um_apps.FFT_CONV)

    @classmethod
    def problem(cls, params: Params) -> str:
        large = params["n"] > fft.LARGEST_N
        return f"{cls.name}: n must be at most {fft.LARGEST_N}" if large else super().problem(params)

    def defines(self) -> Mapping[str, object]:
        return {"GROUP_THREADS": fft.THREADS, "GROUPS_TOGETHER": 6}

    @cached_property
    def kernels(self) -> KernelFile:
        return KernelFile("fft_conv", fft.TEXT + self.kernel_path().read_text(encoding="utf-8"), self.defines())

    def prepare(self, gpu: Gpu) -> None:
        self.side = len(self.padded)
        self.fft = fft.RealFft(gpu, self.library, self.side, self.spectrum.shape[1], real=self.real)
        self.used["library"] = self.fft.title

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        for array in (self.data, self.taps):
            cpu.launch("fill_digits", array, array.nbytes // 4, array.key, over=array.nbytes // 4, writes=[array])
        if self.start == um_apps.ORIGINAL:
            cpu.fill(self.padded, 0)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        points = self.side**2
        gpu.launch("pad_taps", self.taps, self.padded_taps, self.side, over=points, writes=[self.padded_taps])
        self.fft.forward(gpu, self.padded_taps, self.spectrum_of_taps)
        self.unpack(gpu, self.spectrum_of_taps)
        for _ in gpu.iterations(self.iterations):
            gpu.launch("pad_data", self.data, self.padded, self.n, self.side, over=points // 4, writes=[self.padded])
            self.fft.forward(gpu, self.padded, self.spectrum)
            self.unpack(gpu, self.spectrum)
            self.multiply(gpu)
            self.fft.backward(gpu, self.spectrum, self.padded)

    def unpack(self, gpu: Gpu, spectrum: Array) -> None:
        """Called after each forward transform."""

    def multiply(self, gpu: Gpu) -> None:
        """Multiply the data's spectrum by the taps' spectrum and by 1 / (number of elements)."""
        raise NotImplementedError

    def product(self, gpu: Gpu, a: Array, b: Array) -> None:
        gpu.launch("multiply", a, b, a.nbytes // 16, 1 / self.fft.numbers, over=a.nbytes // 16)

    def pairs(self, gpu: Gpu, kernel: str, source: Array, target: Array) -> None:
        """Launch unpack or repack, in place or from one array to another."""
        shape = (source.shape[1], target.shape[1], self.side, *self.fft.order)
        writes = [target] if source is not target else []
        gpu.launch(kernel, source, target, *shape, over=self.side**2 // 4, writes=writes)

    def check(self, view: View) -> str:
        """Compares every element of the result with the direct convolution, which is exact in f32."""
        n, result = self.n, view(self.padded)
        allowed = fft.error_of_three(self.side) * MEAN
        taps = below(self.taps.key, np.arange(DOWN * ACROSS), DIGITS).astype(np.float32).reshape(DOWN, ACROSS)
        x = np.arange(CENTRE_X - ACROSS + 1, n + CENTRE_X).clip(0, n - 1)

        def largest(first: int, last: int) -> float:
            y = np.arange(first - CENTRE_Y, last + CENTRE_Y).clip(0, n - 1)
            digits = below(self.data.key, y[:, None] * n + x, DIGITS).astype(np.float32)
            return float(np.abs(result[first:last, :n] - fft.direct_convolution(digits, taps)).max())

        worst = float(np.max(in_pieces(largest, n, max(1, 2**19 // n))))
        return "" if worst <= allowed else f"an element differs from the direct convolution by {worst:.3g}"


class FftConvFused(_FftConv):
    """FFT convolution of packed complex rows; one kernel unpacks, multiplies and repacks in place."""

    name = "fft_conv_fused"

    def multiply(self, gpu: Gpu) -> None:
        shape = (self.side, *self.fft.order, 1 / self.fft.numbers)
        gpu.launch("convolve", self.spectrum, self.spectrum_of_taps, *shape, over=self.side**2 // 4)


class FftConvC2C(_FftConv):
    """FFT convolution of packed complex rows; three kernels unpack, multiply and repack."""

    name = "fft_conv_c2c"
    unpacked = buffer(c64, SIDE, f"{SIDE} // 2 + 16", role="inout", sides="gpu")
    unpacked_taps = buffer(c64, SIDE, f"{SIDE} // 2 + 16", role="inout", sides="gpu")
    published = PublishedPlacement(um_apps.FFT_CONV_C2C)

    def unpack(self, gpu: Gpu, spectrum: Array) -> None:
        self.pairs(gpu, "unpack", spectrum, self.unpacked if spectrum is self.spectrum else self.unpacked_taps)

    def multiply(self, gpu: Gpu) -> None:
        self.product(gpu, self.unpacked, self.unpacked_taps)
        self.pairs(gpu, "repack", self.unpacked, self.spectrum)


class FftConvR2C(_FftConv):
    """FFT convolution between real data and half spectra."""

    name = "fft_conv_r2c"
    real = True
    spectrum = buffer(c64, SIDE, f"{SIDE} // 2 + 1", role="inout", sides="gpu")
    spectrum_of_taps = buffer(c64, SIDE, f"{SIDE} // 2 + 1", role="inout", sides="gpu")

    def unpack(self, gpu: Gpu, spectrum: Array) -> None:
        if not self.fft.real:
            self.pairs(gpu, "unpack", spectrum, spectrum)

    def multiply(self, gpu: Gpu) -> None:
        self.product(gpu, self.spectrum, self.spectrum_of_taps)
        if not self.fft.real:
            self.pairs(gpu, "repack", self.spectrum, self.spectrum)
