"""The interfaces by which programs use a device: by what a program shows that it uses one, and whether it is traced.

A new front of native/profile/inject is an entry of FRONTS.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firsttouch.machine.libraries import LIBRARIES, find_library
from firsttouch.records.text import join_names


@dataclass(frozen=True)
class Front:
    """An interface that programs use.

    libraries: names of its runtime's files, up to '.so'. sections: of a program that has the runtime in itself, and
    code for devices. drivers: the libraries of machine.libraries without which it does nothing, of which one is
    enough. traced: what is recorded, '' if nothing is. door: the variable by which the recorder gets into a program.
    around: libraries by which a program goes around the door. beneath: whether it may run on one that is traced.
    """

    api: str
    libraries: Sequence[str]
    sections: Sequence[str] = ()
    drivers: Sequence[str] = ()
    traced: str = ""
    door: str = ""
    around: Sequence[str] = ()
    beneath: bool = False


FRONTS = (
    Front(
        "CUDA",
        ["libcudart", "libcuda", "libcublas", "libcublasLt", "libcufft", "libcusparse", "libcudnn", "libnccl"],
        sections=[".nv_fatbin", "__nv_relfatbin"],
        drivers=["cuda"],
        traced="allocations, copies, kernels and unified-memory events of CUDA",
        door="CUDA_INJECTION64_PATH",
    ),
    Front(
        "OpenCL",
        ["libOpenCL"],
        drivers=["opencl-icd"],
        traced="buffers, copies, mappings and kernels of OpenCL",
        door="OPENCL_LAYERS",
        around=["libpocl", "libnvidia-opencl", "libamdocl64", "libigdrcl", "libintelocl", "libmali"],
    ),
    Front(
        "HIP",
        ["libamdhip64"],
        sections=[".hip_fatbin"],
        traced="allocations, copies, kernels and waits of HIP",
        door="LD_PRELOAD",
    ),
    Front(
        "OpenMP",
        ["libomptarget"],
        traced="target constructs of OpenMP (LLVM)",
        door="OMP_TOOL_LIBRARIES",
        sections=["omp_offloading_entries", "llvm_offload_entries", ".omp_offloading.entries"],
        beneath=True,
    ),
    Front("SYCL", ["libsycl", "libacpp-rt", "libhipSYCL-rt"], beneath=True),
    Front("Level Zero", ["libze_loader"]),
)
TRACED = [front for front in FRONTS if front.traced]
UNTRACED = [front for front in FRONTS if not front.traced]


def is_named(file: str, names: Iterable[str]) -> bool:
    """Whether a library is one of those, whatever version its name has. file: its name, or a path."""
    stem, suffix, _ = file.rpartition("/")[2].partition(".so")
    return bool(suffix) and any(stem == name or stem.startswith(f"{name}-") for name in names)


def is_of_front(path: str) -> bool:
    """Whether a file shows by what a process uses a device."""
    return any(is_named(path, [*front.libraries, *front.around]) for front in FRONTS)


def untraced_words(front: Front) -> str:
    """Of a front that is not traced."""
    if not front.beneath:
        return "which is not traced"
    return f"which is not traced itself: only what it does by {join_names([f.api for f in TRACED], 'or')} is"


def missing_driver(front: Front) -> str:
    """The driver without which a front does nothing, if there is none on this machine."""
    if not front.drivers or any(not find_library(name).reason for name in front.drivers):
        return ""
    return join_names([next(iter(LIBRARIES[name].sonames), "of any vendor") for name in front.drivers], "or")
