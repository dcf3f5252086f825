"""What stands for memory and for numbers in a dry run: zeros, and after kernels what lets loops go on for a while."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Hashable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from firsttouch.base.files import anonymous_file

REAL = 32 << 20
"""The most bytes of memory that stand for a block."""
LARGE = 1 << 20
"""Numbers of this many bytes or more take no memory if they are only read, from a block that CPU code has not written.
"""
FIXED, NO_RESERVE = 0x10, 0x4000
"""Flags of mmap(2) on Linux that Python does not name in all versions."""
SMALL = 1e-30
"""The number that stands for one near zero, by which others may be divided."""
_INNER = (__name__, "firsttouch.program.dry_run", "firsttouch.program.execution.agents")
"""Modules between the code of an application and the stand-ins."""


Elements: TypeAlias = np.ndarray[Any, Any]


class Zeros:
    """Zeros instead of a block, mapped when an address is needed. A large block is one piece of memory over and over,
    so that it takes no more than REAL even where code writes all of it.
    """

    allocator = ""

    def __init__(self, size: int) -> None:
        self.size = size
        self.computed = False
        """Whether kernels have written it."""
        self._mapping: mmap.mmap | None = None

    @property
    def address(self) -> int:
        if self._mapping is None:
            self._mapping = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
            if self.size > REAL:
                _repeat(ctypes.addressof(ctypes.c_char.from_buffer(self._mapping)), self.size)
        return ctypes.addressof(ctypes.c_char.from_buffer(self._mapping))

    device_address = address

    @cached_property
    def _bytes(self) -> Elements:
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.address))

    def numbers(self, dtype: np.dtype[Any], start: int, end: int, number: float | None, *, writes: bool) -> Elements:
        """The array in bytes [start, end). number: that all of them are. writes: whether code may write them."""
        if not writes and end - start > LARGE and self._mapping is None:
            return as_strided(np.array([number or 0], dtype), ((end - start) // dtype.itemsize,), (0,))
        numbers = self._bytes[start:end].view(dtype)
        if number is not None:  # what a larger block has again and again
            numbers[: REAL // dtype.itemsize] = number
        return numbers


def _repeat(address: int, size: int) -> None:
    """Replaces a mapping by REAL bytes of memory, over and over."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    file = anonymous_file("firsttouch")
    try:
        os.ftruncate(file, REAL)
        for offset in range(0, size, REAL):
            flags, access = mmap.MAP_SHARED | FIXED, mmap.PROT_READ | mmap.PROT_WRITE
            if libc.mmap(address + offset, min(REAL, size - offset), access, flags, file, 0) != address + offset:
                raise OSError(ctypes.get_errno(), "mmap failed")
    finally:
        os.close(file)


class StandIns:
    """What stands for numbers that kernels would have written and CPU code reads.

    number: of all of them. Without one, they are 1, and after `rounds` rounds of a loop 0 where the same line of code
    reads them, or `last` if they are no integers: loops end when nothing is left to do or what is left is small. A line
    is in a loop as long as each other line reads at most once between two of its reads.
    """

    def __init__(self, number: int | None = None, rounds: int = 0, last: float = SMALL) -> None:
        self.number, self.rounds, self.last = number, rounds, last
        self.used_last = False
        """Whether code has read `last`."""
        self._counts: dict[Hashable, int] = {}
        self._reads, self._repeated = 0, 0
        """How many reads there were, and which was the latest after which the same line has read again."""
        self._last_reads: dict[Hashable, int] = {}
        """Which read was the last of a line, counted from 1."""

    def number_for(self, dtype: np.dtype[Any], place: Hashable) -> float | None:
        """What stands for numbers that a line of code reads; None: what they are. place: which they are."""
        if self.number is not None:
            return self.number or None
        if not self._is_last_round((place, _line())):
            return 1
        if dtype.kind not in "fc":
            return 0
        self.used_last = True
        return self.last

    def _is_last_round(self, site: Hashable) -> bool:
        self._reads += 1
        last = self._last_reads.get(site, 0)
        if 0 < last < self._repeated:  # another line has read twice since
            self._counts[site] = 0
        self._repeated, self._last_reads[site] = max(self._repeated, last), self._reads
        self._counts[site] = (self._counts.get(site, 0) + 1) % self.rounds
        return self._counts[site] == 0


def _line() -> Hashable:
    """The line of an application's code that is being executed."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _INNER:
        frame = frame.f_back
    return frame.f_code, frame.f_lineno
