"""fft_conv: 2-D convolution by Fourier transforms, in three variants."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from firsttouch.apps import fft
from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, c64, f32, sample
from firsttouch.harness.random import below
from firsttouch.workspace.agents import KernelFile
from firsttouch.workspace.workspace import Array

DOWN, ACROSS, CENTRE_Y, CENTRE_X, DIGITS = 7, 6, 3, 4, 16
SIDE = "2**(n + 5).bit_length()"  # of the transforms: the smallest power of two that is at least n + 6


class _FftConv(App):
    """Convolution of n x n digits with 7 x 6 taps, with clamped borders."""

    source = "um-apps (Chien et al., MCHPC 2019), convolutionFFT2D; transform sizes are powers of two"
    pattern = "large GPU-only buffers, each swept a few times"
    sizes = {"tiny": {"n": 260, "iterations": 2}, "default": {"n": 8000, "iterations": 1}, "bytes": {"iterations": 10}}
    options = {"library": ("auto", "own")}
    real: ClassVar[bool] = False  # whether a library transforms real data
    n: int
    iterations: int
    library: str

    data = buffer(f32, "n", "n", role="input", starts_on="cpu")
    taps = buffer(f32, DOWN, ACROSS, role="input", starts_on="cpu")
    padded = buffer(f32, SIDE, SIDE, role="inout", ends_on="cpu")  # the result at the end
    padded_taps = buffer(f32, SIDE, SIDE, role="inout", sides="gpu")
    # Packed complex rows; in r2c the half spectrum has one column more.
    spectrum = buffer(c64, SIDE, f"{SIDE} // 2", role="inout", sides="gpu")
    spectrum_of_taps = buffer(c64, SIDE, f"{SIDE} // 2", role="inout", sides="gpu")

    def defines(self) -> Mapping[str, object]:
        return {"GROUP_THREADS": fft.THREADS, "GROUPS_TOGETHER": 6}

    @cached_property
    def kernels(self) -> KernelFile:
        text = fft.TEXT + self.kernel_path().read_text(encoding="utf-8")
        return KernelFile("fft_conv", text, self.defines())

    def prepare(self, gpu: Gpu) -> None:
        self.side, self.bits = len(self.padded), len(self.padded).bit_length() - 1
        self.fft = fft.Fft(gpu, self.library, self.bits, self.spectrum.shape[1], real=self.real)
        self.used["library"] = self.fft.title

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        for array in (self.data, self.taps):
            count = array.nbytes // 4
            cpu.launch("fill_digits", array, count, array.key, over=count, writes=[array])

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        points = self.side**2
        gpu.launch("pad_taps", self.taps, self.padded_taps, self.bits, over=points, writes=[self.padded_taps])
        self.fft.forward(gpu, self.padded_taps, self.spectrum_of_taps)
        self.unpack(gpu, self.spectrum_of_taps)
        for _ in gpu.iterations(self.iterations):
            gpu.launch("pad_data", self.data, self.padded, self.n, self.bits, over=points // 4, writes=[self.padded])
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
        shape = (source.shape[1], target.shape[1], self.bits, *self.fft.splits)
        writes = [target] if source is not target else []
        gpu.launch(kernel, source, target, *shape, over=self.side**2 // 4, writes=writes)

    def check(self, view: View) -> str:
        """Checks that all elements are nearly integers, and that samples equal the direct convolution exactly."""
        n, result = self.n, view(self.padded)[: self.n, : self.n]
        for rows in (result[first : first + 256] for first in range(0, n, 256)):
            error = float(np.abs(rows - np.rint(rows)).max())
            if not error < 0.25:
                return f"an element differs from the nearest integer by {error:.3g}"
        edge = sample(n, 1000, self.seed)
        at = np.concatenate([sample(n * n, 70_000, self.seed), edge, edge * n, edge * n + n - 1, n * (n - 1) + edge])
        wrong = int((np.rint(result[at // n, at % n]) != self.direct(at // n, at % n)).sum())
        return f"{wrong} of {len(at)} elements differ from the direct convolution" if wrong else ""

    def direct(self, rows: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        taps = below(self.taps.key, np.arange(DOWN * ACROSS), DIGITS).reshape(DOWN, ACROSS)
        total = np.zeros(len(rows), np.int64)
        for (down, across), tap in np.ndenumerate(taps):
            y = np.clip(rows + CENTRE_Y - down, 0, self.n - 1)
            x = np.clip(columns + CENTRE_X - across, 0, self.n - 1)
            total += tap * below(self.data.key, y * self.n + x, DIGITS)
        return total


class FftConvFused(_FftConv):
    """FFT convolution of packed complex rows; one kernel unpacks, multiplies and repacks in place."""

    name = "fft_conv_fused"

    def multiply(self, gpu: Gpu) -> None:
        shape = (self.bits, *self.fft.splits, 1 / self.fft.numbers)
        gpu.launch("convolve", self.spectrum, self.spectrum_of_taps, *shape, over=self.side**2 // 4)


class FftConvC2C(_FftConv):
    """FFT convolution of packed complex rows; three kernels unpack, multiply and repack."""

    name = "fft_conv_c2c"
    unpacked = buffer(c64, SIDE, f"{SIDE} // 2 + 16", role="inout", sides="gpu")
    unpacked_taps = buffer(c64, SIDE, f"{SIDE} // 2 + 16", role="inout", sides="gpu")

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
