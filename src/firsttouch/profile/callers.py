"""Who called a function of the C library that touched a page: memset, calloc and their like keep no frame, so that the
return address is near the top of the stack.

A word of the stack is taken for a return address if it lies in a file that is not of the C or C++ library, behind a
call instruction. An old return address that was left on the stack could be mistaken for it; so what is found is
probable, not certain. x86-64 alone: other processors keep the return address in a register.
"""

from __future__ import annotations

import os
import platform
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress

_LIBRARY = re.compile(r"/(?:libc|libstdc\+\+|libc\+\+|libm|ld-linux[\w-]*|ld-musl[\w-]*)(?:[-.][\w.]*)?\.so[\w.]*$")
_VARIANT = re.compile(r"__(\w+?)_(?:avx|evex|sse|ssse|erms|unaligned|generic|aligned)")
_WORD = struct.Struct("<Q")
_BEFORE = 7
"""Bytes of the longest call instruction."""
_MOST = 1 << 16
KNOWN = platform.machine() in ("x86_64", "AMD64")
FileOffset = tuple[str, int]
"""A file and an offset in it."""


def is_of_the_c_library(file: str) -> bool:
    """Whether a file is the C or C++ library, or the loader."""
    return _LIBRARY.search(file) is not None


def plain_name(function: str) -> str:
    """The name under which programs call a function of the C library: memset of __memset_avx512_unaligned_erms."""
    match = _VARIANT.match(function)
    return match[1] if match else function


class Callers:
    """Looks for return addresses. Each file is looked at once."""

    def __init__(self) -> None:
        self._calls: dict[FileOffset, bool] = {}

    def find(self, stack: bytes, locate: Callable[[int], FileOffset | None]) -> FileOffset | None:
        """The call that is next to the top of the stack and in no C library. locate: the place of an address."""
        for word in self._words(stack) if KNOWN else ():
            place = locate(word)
            if place is not None and not is_of_the_c_library(place[0]) and self._follows_a_call(place):
                return place[0], place[1] - 1  # in the call itself
        return None

    def _words(self, stack: bytes) -> Iterator[int]:
        return (word for (word,) in _WORD.iter_unpack(stack[: len(stack) // _WORD.size * _WORD.size]) if word)

    def _follows_a_call(self, place: FileOffset) -> bool:
        if place not in self._calls:
            if len(self._calls) >= _MOST:
                self._calls.clear()
            self._calls[place] = is_behind_a_call(_bytes_before(place))
        return self._calls[place]


def _bytes_before(place: FileOffset) -> bytes:
    file, offset = place
    if offset < _BEFORE:
        return b""
    with suppress(OSError):
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, _BEFORE, offset - _BEFORE)
        finally:
            os.close(descriptor)
    return b""


def is_behind_a_call(code: bytes) -> bool:
    """Whether the bytes end with a call of x86-64: E8 and a distance, or FF /2 with each form of its operand. Source:
    Intel's manual, volume 2, CALL.
    """
    if len(code) < _BEFORE:
        return False
    return code[-5] == 0xE8 or any(code[-size] == 0xFF and code[1 - size] & 0x38 == 0x10 for size in (2, 3, 4, 6, 7))
