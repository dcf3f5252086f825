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


_NEVER, _TRIED = "never tried", "H200; not its build for ROCm"
_BY_SCRIPT = "calls of CUDA or HIP, by line of the script"
_USES = "which bytes kernels access (`--exact` records it with CUDA)"
_POOLS = f"which part of a memory pool is whose, which is assumed; {_USES}"
_SCRIPT = "firsttouch port -- python app.py"
KINDS = (
    ProgramKind(
        "CUDA",
        ["CUDA"],
        "allocations, copies, kernels and waits, by line",
        _USES,
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
        "allocations, copies, kernels and waits, by line",
        "times of copies and kernels; which bytes kernels access",
        "a stand-in for the runtime; no AMD GPU",
    ),
    ProgramKind(
        "OpenMP",
        ["OpenMP", "CUDA"],
        "target constructs: allocations, copies, regions and waits, by line",
        "which bytes regions access; GCC's runtime; times of copies and regions",
        "LLVM 19 with the processor as the device; no GPU",
    ),
    ProgramKind("OpenACC", ["CUDA"], "what its runtime does by CUDA", "its constructs; all of it on AMD GPUs", _NEVER),
    ProgramKind(
        "Fortran",
        ["CUDA", "OpenCL", "HIP", "OpenMP"],
        "calls of CUDA, HIP, OpenCL and constructs of OpenMP (LLVM), by line",
        "constructs of OpenACC",
        _NEVER,
    ),
    ProgramKind(
        "Kokkos", ["CUDA", "HIP"], "what its CUDA and HIP backends do", "names of views; its SYCL backend", _NEVER
    ),
    ProgramKind("RAJA", ["CUDA", "HIP"], "what its CUDA and HIP backends do", "its SYCL backend", _NEVER),
    ProgramKind(
        "SYCL",
        ["SYCL", "Level Zero", "CUDA", "OpenCL", "HIP"],
        "what its runtime does by CUDA, HIP or OpenCL",
        "buffers and accessors; all of it by Level Zero",
        _NEVER,
    ),
    ProgramKind(
        "PyTorch",
        ["CUDA", "HIP"],
        "calls of CUDA or HIP, by line of the script",
        "",
        _TRIED,
        _SCRIPT,
    ),
    ProgramKind(
        "CuPy",
        ["CUDA", "HIP"],
        "calls of CUDA or HIP, by line of the script",
        "",
        _TRIED,
        _SCRIPT,
    ),
    ProgramKind(
        "JAX",
        ["CUDA", "HIP"],
        "calls of CUDA or HIP; copies by the line that launched kernels",
        f"waits in its own threads; {_POOLS}",
        _TRIED,
        _SCRIPT,
    ),
    ProgramKind("numba", ["CUDA"], "calls of CUDA, by line of the script", _USES, _NEVER, _SCRIPT),
    ProgramKind(
        "Triton",
        ["CUDA", "HIP"],
        "calls of CUDA or HIP, by line of the script",
        "",
        _TRIED,
        _SCRIPT,
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
    rows = [[kind.name, f"`{kind.command}`", kind.seen, kind.unseen, kind.ran] for kind in KINDS]
    return "\n".join(f"| {' | '.join(row)} |" for row in [[*_HEADS], ["---"] * len(_HEADS), *rows])


def help_text() -> str:
    """The table of --help: a row for each program, as it is printed."""
    width = max(len(kind.name) for kind in KINDS)
    return "\n".join(f"{kind.name:<{width}}  {kind.seen}" for kind in KINDS)
