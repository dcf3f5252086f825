"""What `port` sees of programs, by what they are written with. The pages and `port --help` have their tables from here.

Only what ran is said to have run: evidence/porting.md and evidence/profiles.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ProgramKind:
    """fronts: the interfaces that it may use, of fronts.FRONTS. seen, unseen: phrases. ran: where it was tried."""

    name: str
    fronts: Sequence[str]
    seen: str
    unseen: str
    ran: str
    command: str = "firsttouch port -- ./app"


_NEVER = "never tried"
_SCRIPT = "firsttouch port -- python app.py"
KINDS = (
    ProgramKind(
        "CUDA",
        ["CUDA"],
        "allocations, copies, kernels and waits, by line",
        "which bytes kernels access (`--exact` records it)",
        "H100, H200",
    ),
    ProgramKind(
        "OpenCL",
        ["OpenCL"],
        "buffers, copies, mappings, kernels and waits, by line",
        "times of copies and kernels; a program linked with a vendor's library in place of the loader",
        "PoCL; no GPU",
    ),
    ProgramKind(
        "HIP",
        ["HIP"],
        "memory of the host and its first touches",
        "allocations, copies and kernels",
        "no AMD GPU",
        "firsttouch profile --faults -- ./app",
    ),
    ProgramKind(
        "OpenMP offload",
        ["OpenMP offload", "CUDA"],
        "what its runtime does by CUDA",
        "target constructs; all of it on AMD GPUs",
        _NEVER,
    ),
    ProgramKind("OpenACC", ["CUDA"], "what its runtime does by CUDA", "its constructs; all of it on AMD GPUs", _NEVER),
    ProgramKind(
        "Fortran",
        ["CUDA", "OpenCL"],
        "calls of CUDA and OpenCL, by line",
        "constructs of OpenMP and OpenACC",
        _NEVER,
    ),
    ProgramKind(
        "Kokkos", ["CUDA", "HIP"], "what its CUDA backend does", "names of views; its HIP and SYCL backends", _NEVER
    ),
    ProgramKind("RAJA", ["CUDA", "HIP"], "what its CUDA backend does", "its HIP and SYCL backends", _NEVER),
    ProgramKind(
        "SYCL",
        ["SYCL", "Level Zero", "CUDA", "OpenCL"],
        "what its runtime does by CUDA or OpenCL",
        "buffers and accessors; all of it by Level Zero or HIP",
        _NEVER,
    ),
    ProgramKind(
        "PyTorch", ["CUDA", "HIP"], "calls of CUDA, by line of the script", "its build for ROCm", "H200", _SCRIPT
    ),
    ProgramKind("CuPy", ["CUDA", "HIP"], "calls of CUDA, by line of the script", "its build for ROCm", "H200", _SCRIPT),
    ProgramKind(
        "JAX",
        ["CUDA", "HIP"],
        "calls of CUDA; copies by the line that launched kernels",
        "waits in its own threads; its build for ROCm",
        "H200",
        _SCRIPT,
    ),
    ProgramKind("numba", ["CUDA"], "calls of CUDA, by line of the script", "", _NEVER, _SCRIPT),
    ProgramKind(
        "Triton", ["CUDA", "HIP"], "calls of CUDA, by line of the script", "its build for ROCm", "H200", _SCRIPT
    ),
    ProgramKind(
        "MPI",
        ["CUDA", "OpenCL", "HIP"],
        "each rank, as above, and all together",
        "copies between GPUs with some versions of CUPTI; `--exact`",
        "Open MPI and MPICH on one host; NCCL on two H200s",
        "mpirun -n 2 firsttouch port --out DIR -- ./app",
    ),
)
_HEADS = ("your program is", "what to type", "what is seen", "what is not", "it ran on")


def markdown() -> str:
    """The table of the pages."""
    rows = [[kind.name, f"`{kind.command}`", kind.seen, kind.unseen or "nothing known", kind.ran] for kind in KINDS]
    return "\n".join(f"| {' | '.join(row)} |" for row in [[*_HEADS], ["---"] * len(_HEADS), *rows])


def help_text() -> str:
    """The table of --help: a row for each program, as it is printed."""
    width = max(len(kind.name) for kind in KINDS)
    return "\n".join(f"{kind.name:<{width}}  {kind.seen}" for kind in KINDS)
