"""Buffers as an application declares them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from firsttouch.machine.allocators.properties import common_allocator

if TYPE_CHECKING:
    import numpy as np

Params: TypeAlias = Mapping[str, int]
"""Parameters of an application by name."""
Agent = Literal["cpu", "gpu"]
Role = Literal["input", "output", "inout", "constant", "control", "scratch", "exchange"]
ArraySides: TypeAlias = Literal["both", "host", "device"]
"""The arrays that a buffer has where it would have a host array and a device array."""
PLAIN = common_allocator("host")


@dataclass(frozen=True)
class Declaration:
    """One buffer as an application declares it.

    shape: items per dimension, slowest first; sides: the agents that use it; starts_on: the agent that initialises it;
    ends_on: the agent that needs the result; advice: replaces the hints that the role implies; file: its contents are
    those of a file. copies: two buffers that are swapped, of which the CPU fills one while kernels use the other, may
    be a host array and a device array where others have both; swapping them copies.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    role: Role
    sides: Literal["both", "cpu", "gpu"]
    starts_on: Agent | None = None
    ends_on: Agent | None = None
    advice: tuple[str, ...] | None = None
    file: bool = False
    copies: ArraySides = "both"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_result(self) -> bool:
        """Whether the application computes it for the CPU. Inputs may end there too, if the CPU reads them again."""
        return self.ends_on == "cpu" and self.role not in ("input", "constant")

    def is_interchangeable_with(self, other: Declaration) -> bool:
        """Whether the two have the same size, role and placement, so that they may be swapped."""
        return (self.nbytes, self.role, self.sides, self.advice) == (
            other.nbytes,
            other.role,
            other.sides,
            other.advice,
        )


def opposite(agent: Agent) -> Agent:
    return "gpu" if agent == "cpu" else "cpu"
