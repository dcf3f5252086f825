"""Compilers of device code that need no device: NVRTC, and clang for AMD GPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NoReturn

import pytest

from firsttouch import _core
from firsttouch.machine.libraries import candidates


def skip_missing_compiler(reason: str) -> NoReturn:
    """Skip the test if a compiler is missing; fail in CI, where all compilers must be installed."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def compile_sm_90(text: str, name: str) -> tuple[bytes, str]:
    """The cubin and the PTX of a translation unit."""
    _core.set_library_paths("nvrtc", candidates("nvrtc"))
    try:
        cubin, ptx, _ = _core.nvrtc_compile(text, name, "sm_90")
    except _core.Unavailable as reason:
        skip_missing_compiler(f"{reason} (pip install nvidia-cuda-nvrtc)")
    return cubin, ptx


def compile_amdgpu(text: str, target: str) -> str:
    """The assembly of a translation unit for an AMD GPU, by clang alone, without ROCm."""
    clang = shutil.which("clang-19")
    if clang is None:
        skip_missing_compiler("clang-19 is not installed")
    options = ["-x", "hip", "--cuda-device-only", f"--offload-arch={target}", "-nogpuinc", "-nogpulib", "-S", "-O3"]
    done = subprocess.run(
        [clang, *options, "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unused-variable", "-", "-o", "-"],
        input=text,
        text=True,
        capture_output=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
