"""In which places of a buffer a pass touches it, by the word of the factor."""

from __future__ import annotations

from dataclasses import dataclass

from firsttouch.base.units import KiB, MiB


@dataclass(frozen=True)
class Touch:
    """A pass touches the first `run` bytes of every `stride` bytes."""

    run: int
    stride: int
    shuffled: bool = False

    def places(self, size: int) -> int:
        return size // self.stride


LINE = 128
"""Bytes of a line of a GPU's memory: what a touch of a few bytes reads and writes."""

TOUCHES = {
    "dense": Touch(LINE, LINE),
    "eighth": Touch(LINE, 8 * LINE),
    "random": Touch(LINE, LINE, shuffled=True),
    "per-4KiB": Touch(8, 4 * KiB),
    "per-64KiB": Touch(8, 64 * KiB),
    "per-2MiB": Touch(8, 2 * MiB),
}
