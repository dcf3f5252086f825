"""NumPy implementations of the interfaces to vendors' libraries. They test how applications use a library on devices
that have none: which buffers they pass in which order, and which accesses they declare to the workspace.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firsttouch import _core
from firsttouch.program.execution.agents import Gpu

f32, c64, i32 = np.dtype(np.float32), np.dtype(np.complex64), np.dtype(np.int32)


def as_array(memory: _core.Buffer, dtype: np.dtype[Any], *shape: int) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(memory.read(0, count), dtype).reshape(shape)


class Blas:
    title = "NumPy"

    def gemm(self, a: _core.Buffer, b: _core.Buffer, c: _core.Buffer, m: int, n: int, k: int) -> None:
        c.write(0, (as_array(a, f32, m, k) @ as_array(b, f32, k, n)).tobytes())


class Sparse:
    title = "NumPy"

    def plan(
        self,
        pointers: _core.Buffer,
        columns: _core.Buffer,
        values: _core.Buffer,
        rows: int,
        width: int,
        nonzeros: int,
    ) -> Any:
        class Plan:
            def multiply(self, x: _core.Buffer, y: _core.Buffer) -> None:
                starts = as_array(pointers, i32, rows + 1)
                terms = as_array(values, f32, nonzeros) * as_array(x, f32, width)[as_array(columns, i32, nonzeros)]
                y.write(0, np.add.reduceat(terms, starts[:-1]).astype(f32).tobytes())

        return Plan()


class Fft:
    title = "NumPy"

    def plan(self, transform: str, height: int, width: int) -> Any:
        class Plan:
            def execute(self, source: _core.Buffer, target: _core.Buffer, direction: str) -> None:
                scale = height * width
                if transform == "r2c":
                    result = np.fft.rfft2(as_array(source, f32, height, width))
                elif transform == "c2r":
                    half = as_array(source, c64, height, width // 2 + 1)
                    result = np.fft.irfft2(half, (height, width)) * scale
                else:
                    transforms = {"forward": np.fft.fft2, "backward": lambda z: np.fft.ifft2(z) * scale}
                    result = transforms[direction](as_array(source, c64, height, width))
                target.write(0, result.astype(f32 if transform == "c2r" else c64).tobytes())

        return Plan()


LIBRARIES = {"blas": Blas, "sparse": Sparse, "fft": Fft}


def use_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every library available to applications under "auto"."""

    def library(gpu: Gpu, kind: str, wanted: str = "auto") -> tuple[Any, str]:
        return (LIBRARIES[kind](), "NumPy") if wanted == "auto" else (None, "own kernels")

    monkeypatch.setattr(Gpu, "library", library)
