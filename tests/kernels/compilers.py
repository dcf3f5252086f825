"""Compilers of device code that need no device: NVRTC, and clang for AMD GPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import NoReturn

import pytest

from firsttouch import _core
from firsttouch.machine.libraries import candidates


def absent(reason: str) -> NoReturn:
    """A missing compiler is a reason to skip on a user's machine, and an error where it was to be installed."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def compile_sm_90(text: str, name: str) -> tuple[bytes, str]:
    """The cubin and the PTX of a translation unit."""
    _core.set_library_paths("nvrtc", candidates("nvrtc"))
    try:
        cubin, ptx, _ = _core.nvrtc_compile(text, name, "sm_90")
    except _core.Unavailable as reason:
        absent(f"{reason} (pip install nvidia-cuda-nvrtc)")
    return cubin, ptx


def compile_amdgpu(text: str, target: str) -> str:
    """The assembly of a translation unit for an AMD GPU, by clang alone: no ROCm."""
    clang = shutil.which("clang-19")
    if clang is None:
        absent("clang-19 is not installed")
    options = ["-x", "hip", "--cuda-device-only", f"--offload-arch={target}", "-nogpuinc", "-nogpulib", "-S", "-O3"]
    made = subprocess.run(
        [clang, *options, "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unused-variable", "-", "-o", "-"],
        input=text,
        text=True,
        capture_output=True,
        timeout=100,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout
