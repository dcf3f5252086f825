"""The buffers of a running application: Array, and the memory that it has at the moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from firsttouch import _core
from firsttouch.program.declarations import Declaration


class Memory:
    """The memory of one buffer: what the CPU uses and what kernels use. It is the same object if they share it, and
    None for an agent that never uses it. mapped: the CPU's address while the memory is mapped.
    """

    def __init__(self, host: _core.Buffer | None = None, device: _core.Buffer | None = None) -> None:
        self.host, self.device = host, device
        self.mapped: int | None = None

    @property
    def shared(self) -> bool:
        return self.host is self.device

    @property
    def address(self) -> int:
        """The CPU's current address of the first byte."""
        assert self.host is not None
        return self.mapped if self.mapped is not None else self.host.address


class Array:
    """A declared buffer of a running application. `array[a:b]` is a slice of rows of its first dimension."""

    def __init__(self, declaration: Declaration, key: int) -> None:
        self.declaration, self.key = declaration, key
        self.name, self.dtype, self.shape = declaration.name, declaration.dtype, declaration.shape
        self.nbytes = declaration.nbytes
        self.row_bytes = self.nbytes // max(1, self.shape[0])
        self.memory = Memory()
        self.number = -1
        """Its position among the buffers of a Workspace."""
        self.file = -1
        """Descriptor of the open file, if it is declared with file=True."""
        self.deferred = False
        """Whether it has no memory of its own, because Gpu.messages allocates some each time."""

    def __repr__(self) -> str:
        return f"buffer {self.name}"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> ArraySlice:
        start, stop, step = rows.indices(self.shape[0])
        if step != 1:
            raise ValueError(f"a slice of {self.name} must be contiguous rows, without a step")
        return ArraySlice(self, start * self.row_bytes, max(start, stop) * self.row_bytes)

    @property
    def start(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return self.nbytes

    @property
    def array(self) -> Array:
        return self


@dataclass(frozen=True)
class ArraySlice:
    """A run of bytes [start, end) of an array."""

    array: Array
    start: int
    end: int


ByteRange: TypeAlias = Array | ArraySlice
Passes: TypeAlias = "Mapping[Array, float]"
"""How often a kernel takes the bytes of an array from memory, where that is not once: more often if groups of threads
read the same bytes, or bytes at random; less if it uses a part of them. It changes nothing but advice, and what the
driver must move at least.
"""
NO_PASSES: Passes = {}


class Scattered(float):
    """Passes over bytes that a kernel picks here and there, so that it may not use some of them at all."""


class Strided(float):
    """Passes over bytes in so many places, which are `apart` bytes from each other, such as the ends of rows."""

    places: int
    apart: int

    def __new__(cls, passes: float, places: int, apart: int) -> Strided:
        strided = super().__new__(cls, passes)
        strided.places, strided.apart = places, apart
        return strided


SCATTERED = 64
"""Bytes that a GPU takes from memory for an access at random: what its cache fetches at once, by CUDA's default."""
