"""What is alive, by address: blocks of memory that begin and end while a program runs."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Generic, Protocol, TypeVar


class HasBytes(Protocol):
    @property
    def nbytes(self) -> int: ...


Of = TypeVar("Of", bound=HasBytes)


class Living(Generic[Of]):
    """What is alive, by address."""

    def __init__(self) -> None:
        self.at: dict[int, Of] = {}
        self._begins: list[int] = []

    def add(self, address: int, block: Of) -> None:
        """A block begins, in place of one that began at the same address."""
        if address not in self.at:
            insort(self._begins, address)
        self.at[address] = block

    def remove(self, address: int) -> Of | None:
        block = self.at.pop(address, None)
        if block is not None:
            del self._begins[bisect_right(self._begins, address) - 1]
        return block

    def find(self, address: int) -> tuple[Of, int] | None:
        """The block that has an address, and the offset in it."""
        index = bisect_right(self._begins, address) - 1
        if index < 0:
            return None
        block = self.at[self._begins[index]]
        offset = address - self._begins[index]
        return (block, offset) if offset < block.nbytes else None

    def within(self, address: int, nbytes: int) -> list[int]:
        """The addresses of blocks that have any of some bytes."""
        index = bisect_right(self._begins, address) - 1
        begins = []
        if index >= 0 and self._begins[index] + self.at[self._begins[index]].nbytes > address:
            begins.append(self._begins[index])
        return begins + self._begins[index + 1 : bisect_right(self._begins, address + nbytes - 1)]
