"""Locates the vendors' libraries. Nothing is opened here: the core tries to dlopen the paths of `candidates` in order.

The order: FIRSTTOUCH_LIB_<NAME> (if set, nothing else is tried), the system's search (LD_LIBRARY_PATH, the ldconfig
cache), toolkit folders, the vendors' PyPI wheels.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from firsttouch.base.errors import UsageError
from firsttouch.base.files import open_regular, read_regular
from firsttouch.records.schema import Library

_CUDA = ("{CUDA_HOME}/lib64", "{CUDA_PATH}/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64")
_HPC_SDK = "/opt/nvidia/hpc_sdk/Linux_*/*"
_DRIVER = ("/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/usr/lib/aarch64-linux-gnu/nvidia", "/run/opengl-driver/lib")
_ROCM = ("{ROCM_PATH}/lib", "{ROCM_HOME}/lib", "/opt/rocm/lib", "/opt/rocm-*/lib")
_NVIDIA_DRIVER = "install NVIDIA's driver"
_ROCM_INSTALL = "install ROCm, or set ROCM_PATH"
_VENDORS = "/etc/OpenCL/vendors"


@dataclass(frozen=True)
class LibrarySpec:
    """How to find one library.

    sonames: newest first; toolkits: folders, where {NAME} is an environment variable; wheels: folders below
    site-packages; distributions: PyPI names of the wheels, to look up their version; remedy: completes 'not found: ...;
    '; versioned: whether the version in the toolkit's folder name is also the library's version.
    """

    sonames: Sequence[str]
    toolkits: Sequence[str] = ()
    wheels: Sequence[str] = ()
    distributions: Sequence[str] = ()
    remedy: str = ""
    versioned: bool = True


def _cuda_math(name: str, *majors: int) -> LibrarySpec:
    """A math library of NVIDIA, which has its own version numbers."""
    return LibrarySpec(
        [*(f"lib{name}.so.{major}" for major in majors), f"lib{name}.so"],
        [*_CUDA, f"{_HPC_SDK}/math_libs/lib64"],
        ["nvidia/cu[0-9]*/lib", f"nvidia/{name}/lib"],
        [f"nvidia-{name}", f"nvidia-{name}-cu12"],
        f"pip install nvidia-{name}, or set CUDA_HOME",
        versioned=False,
    )


def _rocm_math(name: str, *majors: int) -> LibrarySpec:
    """A math library of AMD, which has its own version numbers."""
    return LibrarySpec(
        [*(f"lib{name}.so.{major}" for major in majors), f"lib{name}.so"],
        _ROCM,
        ["_rocm_sdk_libraries*/lib"],
        ["rocm-sdk-libraries"],
        _ROCM_INSTALL,
        versioned=False,
    )


LIBRARIES: Mapping[str, LibrarySpec] = {
    "cuda": LibrarySpec(["libcuda.so.1", "libcuda.so"], _DRIVER, remedy=_NVIDIA_DRIVER),
    "nvml": LibrarySpec(["libnvidia-ml.so.1", "libnvidia-ml.so"], _DRIVER, remedy=_NVIDIA_DRIVER),
    "nvrtc": LibrarySpec(
        ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"],
        [*_CUDA, f"{_HPC_SDK}/cuda/lib64"],
        ["nvidia/cu[0-9]*/lib", "nvidia/cuda_nvrtc/lib"],
        ["nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu11"],
        "pip install nvidia-cuda-nvrtc, or set CUDA_HOME",
    ),
    "cupti": LibrarySpec(
        ["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"],
        [*_CUDA, *(f"{f.removesuffix('/lib64')}/extras/CUPTI/lib64" for f in _CUDA), f"{_HPC_SDK}/cuda/lib64"],
        ["nvidia/cu[0-9]*/lib", "nvidia/cuda_cupti/lib"],
        ["nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12", "nvidia-cuda-cupti-cu11"],
        "pip install nvidia-cuda-cupti, or set CUDA_HOME",
    ),
    "sanitizer": LibrarySpec(
        ["libsanitizer-public.so"],
        [
            *("{CUDA_HOME}/compute-sanitizer", "{CUDA_PATH}/compute-sanitizer", "/usr/local/cuda/compute-sanitizer"),
            *("/usr/local/cuda-*/compute-sanitizer", f"{_HPC_SDK}/cuda/compute-sanitizer"),
        ],
        ["nvidia/cu[0-9]*/compute-sanitizer", "nvidia/cu[0-9]*/lib", "nvidia/cuda_sanitizer_api/lib"],
        ["nvidia-cuda-sanitizer-api", "nvidia-cuda-sanitizer-api-cu12"],
        "pip install nvidia-cuda-sanitizer-api, or set CUDA_HOME",
    ),
    "cublas": _cuda_math("cublas", 13, 12),
    "cusparse": _cuda_math("cusparse", 12),
    "cufft": _cuda_math("cufft", 12, 11),
    "nccl": LibrarySpec(
        ["libnccl.so.2", "libnccl.so"],
        [*_CUDA, "{NCCL_HOME}/lib", f"{_HPC_SDK}/comm_libs/nccl/lib"],
        ["nvidia/nccl/lib"],
        ["nvidia-nccl-cu13", "nvidia-nccl-cu12"],
        "pip install nvidia-nccl-cu13",
        versioned=False,
    ),
    "hip": LibrarySpec(
        ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"],
        _ROCM,
        ["_rocm_sdk_core/lib"],
        ["rocm-sdk-core"],
        _ROCM_INSTALL,
    ),
    "hiprtc": LibrarySpec(
        # The last one is the runtime's library, which contained hipRTC before ROCm 6.
        ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so", "libamdhip64.so.5"],
        _ROCM,
        ["_rocm_sdk_core/lib"],
        ["rocm-sdk-core"],
        _ROCM_INSTALL,
    ),
    "hipblas": _rocm_math("hipblas", 3, 2),
    "hipsparse": _rocm_math("hipsparse", 4, 1),
    "hipfft": _rocm_math("hipfft", 0),
    "rccl": LibrarySpec(
        ["librccl.so.1", "librccl.so"],
        _ROCM,
        ["_rocm_sdk_libraries*/lib"],
        ["rocm-sdk-libraries"],
        _ROCM_INSTALL,
    ),
    "opencl": LibrarySpec(
        ["libOpenCL.so.1", "libOpenCL.so"],
        [*_CUDA, *_ROCM],
        remedy="install an OpenCL loader (ocl-icd-libopencl1); drivers that were found work without one",
        versioned=False,
    ),
    "opencl-icd": LibrarySpec(
        [],
        distributions=["pocl-binary-distribution"],
        remedy=f"install an OpenCL driver ({_VENDORS}), or pip install 'firsttouch[pocl]'",
    ),
    "pocl": LibrarySpec(
        ["libpocl-*.so", "libpocl.so*"],
        [],
        ["pyopencl/.libs", "pocl_binary_distribution/.libs"],
        ["pocl-binary-distribution"],
        "pip install 'firsttouch[pocl]'",
    ),
    "mpi": LibrarySpec(
        ["libmpi.so.40", "libmpi.so.12", "libmpi_cray.so.12", "libmpi.so"],
        ["{MPI_HOME}/lib", "{I_MPI_ROOT}/lib", "{I_MPI_ROOT}/lib/release", "{CRAY_MPICH_DIR}/lib", f"{sys.prefix}/lib"],
        remedy="install an MPI library, or set MPI_HOME",
    ),
}


def variable(name: str) -> str:
    """The environment variable that overrides a library's path, such as FIRSTTOUCH_LIB_OPENCL_ICD for 'opencl-icd'."""
    return f"FIRSTTOUCH_LIB_{name.upper().replace('-', '_')}"


def candidates(name: str) -> list[str]:
    """Arguments for dlopen to try, in order: sonames (for the system's search) and paths of existing files.

    'opencl' is the ICD loader. 'opencl-icd' are the drivers that it loads: several may be valid at once, each for
    another platform, and PyPI's PoCL comes last. 'pocl' is only PyPI's PoCL.

    Raises:
        KeyError: the name is not in LIBRARIES.
    """
    spec = LIBRARIES[name]
    if override := os.environ.get(variable(name)):
        return [override]
    if name == "opencl-icd":
        return _unique([*_vendor_drivers(_vendors()), *candidates("pocl")])
    system = [soname for soname in spec.sonames if "*" not in soname]
    return _unique(
        [*system, *_in_folders(spec.sonames, _toolkit_folders(spec)), *_in_folders(spec.sonames, _wheels(spec))]
    )


def find_libraries() -> list[Library]:
    """For each library of LIBRARIES, the first file that `candidates` leads to and its version, or why there is none.

    'opencl-icd' appears once for each driver. Versions are derived from the names of files, folders or wheels.
    """
    return [library for name in LIBRARIES for library in _find(name)]


def find_library(name: str) -> Library:
    """The first file that `candidates` leads to, or why there is none.

    Raises:
        KeyError: the name is not in LIBRARIES.
    """
    return next(_find(name))


def _find(name: str) -> Iterator[Library]:
    tried = candidates(name)
    resolved = [path for path in map(resolve, tried) if path is not None]
    for path in resolved if name == "opencl-icd" else resolved[:1]:
        yield Library(name=name, path=path, version=_version(Path(path), LIBRARIES[name]))
    if not resolved:
        yield Library(name=name, reason=_missing(name, tried))


def _missing(name: str, tried: Sequence[str]) -> str:
    if override := os.environ.get(variable(name)):
        return f"{variable(name)} names {override}, which is not a library for this machine"
    spec = LIBRARIES[name]
    places = ["the system's libraries"] if any("/" not in path for path in tried) else []
    places += [place for place in spec.toolkits if "{" not in place]
    places += [f"site-packages/{wheel}" for wheel in spec.wheels] + ([_vendors()] if name == "opencl-icd" else [])
    return f"not found: looked in {', '.join(places)}; {spec.remedy}"


def _unique(paths: Iterable[str]) -> list[str]:
    """The paths without later paths of the same file; symbolic links are resolved."""
    seen: set[str] = set()
    unique = []
    for path in paths:
        file = os.path.realpath(path) if "/" in path else path
        if file not in seen:
            seen.add(file)
            unique.append(path)
    return unique


def _toolkit_folders(spec: LibrarySpec) -> Iterator[str]:
    for pattern in spec.toolkits:
        with contextlib.suppress(KeyError):  # a variable that is not set
            yield from sorted(glob.glob(pattern.format_map(os.environ)), key=_by_version, reverse=True)


def _wheels(spec: LibrarySpec) -> Iterator[str]:
    sites = [entry for entry in dict.fromkeys(sys.path) if entry and os.path.isdir(entry)]
    for pattern in spec.wheels:
        for site in sites:
            yield from sorted(glob.glob(os.path.join(glob.escape(site), pattern)), key=_by_version, reverse=True)


def _in_folders(sonames: Sequence[str], folders: Iterable[str]) -> list[str]:
    return [
        path
        for folder in folders
        for soname in sonames
        for path in sorted(glob.glob(f"{glob.escape(folder)}/{soname}"))
    ]


def _by_version(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d{1,9}", path)]


def _vendors() -> str:
    """The folder of .icd files, or a single file: OCL_ICD_VENDORS as the Khronos loader and ocl-icd interpret it."""
    return os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OPENCL_VENDOR_PATH") or _VENDORS


def _vendor_drivers(vendors: str) -> Iterator[str]:
    place = Path(vendors)
    try:
        files = [place] if place.is_file() else sorted(place.glob("*.icd"))
    except OSError:
        return
    for file in files:
        if file.suffix == ".so" or ".so." in file.name:
            yield str(file)
            continue
        with contextlib.suppress(OSError, ValueError, UsageError):
            line = read_regular(file)[:4096].decode(errors="replace").strip().partition("\n")[0].strip()
            sibling = file.parent / line
            if line:
                yield str(sibling) if "/" not in line and sibling.is_file() else line


def resolve(candidate: str) -> str | None:
    """The file that dlopen would probably open."""
    if "/" in candidate:
        return candidate if _is_library(candidate) else None
    searched = (folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder)
    multiarch = f"{os.uname().machine}-linux-gnu"
    defaults = [f"{prefix}/{lib}" for prefix in ("", "/usr") for lib in (f"lib/{multiarch}", "lib64", "lib")]
    paths = [
        *(f"{folder}/{candidate}" for folder in searched),
        *loader_cache().get(candidate, ()),
        *(f"{folder}/{candidate}" for folder in defaults),
    ]
    return next(filter(_is_library, paths), None)


@cache
def loader_cache() -> dict[str, list[str]]:
    """Paths of libraries by soname, from `ldconfig -p`."""
    libraries: dict[str, list[str]] = {}
    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            listed = subprocess.run([program, "-p"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        for line in listed.decode(errors="replace").splitlines():
            soname, arrow, path = line.strip().partition(" => ")
            if arrow:
                libraries.setdefault(soname.split(" ")[0], []).append(path)
        break
    return libraries


@cache
def _own_header() -> bytes:
    """The first 20 bytes of an ELF file for this processor, with its class, byte order and machine."""
    return _header("/proc/self/exe") or _header(sys.executable)


def _header(path: str) -> bytes:
    try:
        with os.fdopen(open_regular(Path(path), os.O_RDONLY), "rb") as file:
            return file.read(20)
    except (OSError, ValueError, UsageError):
        return b""


def _is_library(path: str) -> bool:
    own_header, header = _own_header(), _header(path)
    return (
        header[:4] == b"\x7fELF"
        and len(header) == 20
        and (own_header[4:6], own_header[18:]) == (header[4:6], header[18:])
    )


def _version(path: Path, spec: LibrarySpec) -> str:
    """The version of the wheel, otherwise of the real file name (libcuda.so.580.95.05), otherwise of the folder
    (cuda-13.0).
    """
    real = Path(os.path.realpath(path))
    name = re.search(r"\.so\.(\d+(?:\.\d+)*)$", real.name)
    stated = name[1] if name else ""
    if _below_site(real):
        wheels = [version for version in map(_distribution_version, spec.distributions) if version]
        return next((v for v in wheels if v.partition(".")[0] == stated), wheels[0] if wheels else stated)
    folder = re.search(r"/(?:cuda|rocm|hpc_sdk/[^/]+)[-/](\d+(?:\.\d+)+)", str(real))
    return folder[1] if folder and spec.versioned and "." not in stated else stated


def _distribution_version(name: str) -> str:
    from importlib import metadata  # here, because loading it takes a fifth of the time in which a worker starts

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _below_site(path: Path) -> bool:
    return any(Path(entry) in path.parents for entry in map(os.path.realpath, filter(None, sys.path)))
