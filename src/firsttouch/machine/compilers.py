"""Compilers of device code for GPUs that need not be here: NVRTC, clang and hipRTC. None of them opens a device."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.base.processes import python_module
from firsttouch.machine.devices import show_libraries
from firsttouch.machine.tools import ask

MISSING = 3
"""The exit status of the process that runs hipRTC if the library was not found."""


@dataclass(frozen=True)
class Compiled:
    """The result for one target. kind: that of the code, as Device.compile() names it. code is empty if the compiler
    wrote assembly alone, and assembly is empty if it wrote code alone. compiler: its name and version.
    """

    kind: str
    code: bytes
    assembly: str
    compiler: str


def llvm_tools(name: str) -> list[str]:
    """Paths of a tool of LLVM in the order to try: ROCm's supports its GPUs, others may be too old for them."""
    folder = os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "llvm/bin")
    names = [*(f"{name}-{version}" for version in range(25, 14, -1)), name]
    tools = [shutil.which(name, path=folder), *map(shutil.which, names)]
    return [tool for tool in tools if tool is not None]


def _nvrtc(text: str, name: str, target: str) -> Compiled:
    show_libraries()
    code, ptx, _ = _core.nvrtc_compile(text, name, target)
    version = re.search(r"Cuda compilation tools, release \S+, V(\S+)", ptx)
    return Compiled("cubin", code, ptx, f"NVRTC {version[1]}" if version else "NVRTC")


def _clang(text: str, name: str, target: str) -> Compiled:
    options = ["-x", "hip", "--cuda-device-only", f"--offload-arch={target}", "-nogpuinc", "-nogpulib", "-S", "-O3"]
    refusals = []
    for tool in llvm_tools("clang"):
        result = ask([tool, *options, "-", "-o", "-"], text)
        if result.returncode == 0:
            version = re.search(r'\.ident\s+"(.*)"', result.stdout)
            return Compiled("hsaco", b"", result.stdout, version[1] if version else tool)
        refusals.append(result.stderr.strip().partition("\n")[0] or f"{tool} ended with status {result.returncode}")
    raise Unsupported(refusals[0]) if refusals else _core.Unavailable("clang was not found")


def _hiprtc(text: str, name: str, target: str) -> Compiled:
    """In a separate process, because hipRTC may crash on a target that it does not know."""
    command = python_module("firsttouch.machine.compilers", name, target)
    result = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if result.returncode == MISSING:
        raise _core.Unavailable("hipRTC was not found")
    if result.returncode != 0:
        raise Unsupported("hipRTC crashed" if result.returncode < 0 else result.stderr.decode(errors="replace").strip())
    return Compiled("hsaco", result.stdout, "", "hipRTC")


def _main(name: str, target: str) -> None:
    """Writes the code object of the text on stdin to stdout."""
    show_libraries()
    try:
        sys.stdout.buffer.write(_core.hiprtc_compile(sys.stdin.read(), name, target)[0])
    except _core.Unavailable:
        sys.exit(MISSING)
    except _core.VendorError as error:
        sys.exit(str(error))


@dataclass(frozen=True)
class _Vendor:
    """How to compile for the GPUs of one vendor.

    targets: a regular expression for their names; language: that of the kernels' prelude; compilers: in the order to
    try; remedy: what to install if none of them is here.
    """

    targets: str
    language: str
    compilers: Sequence[Callable[[str, str, str], Compiled]]
    remedy: str


_VENDORS = (
    _Vendor(r"sm_[0-9]{2,3}[af]?", "cuda", (_nvrtc,), "pip install nvidia-cuda-nvrtc"),
    _Vendor(r"gfx[0-9]{1,2}[0-9a-f]{2}(:[a-z]+[-+])*", "hip", (_clang, _hiprtc), "install clang 19 or newer, or ROCm"),
)
TARGETS = "|".join(vendor.targets for vendor in _VENDORS)
"""A regular expression for the names of targets, as their compilers spell them."""


@cache
def compile_for(target: str, name: str) -> Compiled:
    """Compiles an embedded kernel file for a target that matches TARGETS.

    Raises:
        Unsupported: no compiler here compiles for the target; the text says why, and what to install.
    """
    vendor = next(vendor for vendor in _VENDORS if re.fullmatch(vendor.targets, target))
    text = _core.translation_unit(name, vendor.language)
    refusals = []
    for compiler in vendor.compilers:
        try:
            return compiler(text, name, target)
        except _core.Unavailable:
            continue
        except (Unsupported, _core.VendorError) as error:
            refusals.append(f"{' '.join(str(error).split()):.300}")
    if refusals:
        raise Unsupported(f"no compiler here compiles for {target}: {'; '.join(refusals)}")
    raise Unsupported(f"no compiler for {target} was found; {vendor.remedy}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
