"""Reads /proc and /sys, or a test's copy of them, without ever failing."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, TypeAlias

from firsttouch.records.schema import Scalar

Facts: TypeAlias = dict[str, Scalar]

READ_LIMIT = 1 << 20
"""Bytes of a file that are read at once. Files that grow with a process, such as smaps, are read by `Tree.stream`."""
_LARGEST = 2**63
_SIZE_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_MOST_CPUS = 1 << 16


class Tree:
    """The files under a root folder. Missing, unreadable and malformed files read as None."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    @property
    def is_real(self) -> bool:
        """False for a test's copy, for which system calls must not be used."""
        return self.root == Path("/")

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def bytes(self, name: str) -> bytes | None:
        """At most the first READ_LIMIT bytes, as in all methods but `stream`."""
        try:
            with self.path(name).open("rb") as file:
                return file.read(READ_LIMIT)
        except (OSError, ValueError):
            return None

    def stream(self, name: str) -> Iterator[builtins.bytes] | None:
        """The lines of the whole file, which are read as they are used; None if it cannot be opened.

        The lines end where the file cannot be read any further, as when the process that it describes has ended.
        """
        try:
            return _lines(self.path(name).open("rb"))
        except (OSError, ValueError):
            return None

    def text(self, name: str) -> str | None:
        """The stripped text; None where empty, so that a missing and an empty file mean the same."""
        raw = self.bytes(name)
        return (raw.decode(errors="replace").strip() or None) if raw is not None else None

    def lines(self, name: str) -> list[str]:
        return (self.text(name) or "").splitlines()

    def integer(self, name: str) -> int | None:
        return parse_int(self.text(name))

    def selected(self, name: str) -> str | None:
        """The option in brackets in a file such as ``always [madvise] never``, or the only word of the file."""
        text = self.text(name) or ""
        inside = text.partition("[")[2].partition("]")[0]
        return inside or (text if text and len(text.split()) == 1 and "[" not in text else None)

    def stat(self, pid: int | str) -> list[str]:
        """The fields of /proc/PID/stat after the name, the state first; empty if it cannot be read. Source: proc(5)."""
        return (self.text(f"proc/{pid}/stat") or "").rpartition(")")[2].split()

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(entry.name for entry in self.path(folder).iterdir())
        except (OSError, ValueError):
            return []

    def exists(self, name: str) -> bool:
        try:
            return self.path(name).exists()
        except (OSError, ValueError):
            return False

    def kibibytes(self, name: str, prefix: str = "") -> dict[str, int]:
        """Bytes by field of a file in the form of /proc/meminfo (``[prefix]Field:  123 kB``)."""
        sizes = {}
        for line in self.lines(name):
            field, colon, rest = line.removeprefix(prefix).strip().partition(":")
            value = parse_int(rest.split()[0]) if colon and rest.split() else None
            if value is not None:
                sizes[field] = value * (1024 if rest.split()[-1] == "kB" else 1)
        return sizes


def _lines(file: BinaryIO) -> Iterator[bytes]:
    with file, contextlib.suppress(OSError):
        yield from file


def parse_int(text: str | None) -> int | None:
    """The integer in ``text``; None if it is not an integer of at most 64 bits."""
    try:
        value = int(text) if text is not None and text.isascii() else None
    except ValueError:
        return None
    return value if value is not None and -_LARGEST <= value < _LARGEST else None


def parse_kernel_size(text: str | None) -> int | None:
    """Bytes of a size in the kernel's format, such as ``48K`` or ``1024M``."""
    if not text:
        return None
    unit = text[-1] if text[-1] in _SIZE_UNITS else ""
    value = parse_int(text.removesuffix(unit))
    return value * _SIZE_UNITS[unit] if value is not None and value > 0 else None


def parse_ids(text: str | None) -> list[int]:
    """The numbers of a kernel list such as ``0-3,8``; empty if it is malformed."""
    numbers: list[int] = []
    for part in (text or "").split(","):
        first, dash, last = part.strip().partition("-")
        low, high = parse_int(first), parse_int(last if dash else first)
        if low is None or high is None or not 0 <= low <= high < _MOST_CPUS:
            return []
        numbers.extend(range(low, high + 1))
    return numbers


def format_ids(ids: Iterable[int]) -> str:
    """The inverse of `parse_ids`: 0, 1, 2, 8 become ``0-2,8``."""
    runs: list[list[int]] = []
    for i in sorted(set(ids)):
        if runs and i == runs[-1][-1] + 1:
            runs[-1][-1] = i
        else:
            runs.append([i, i])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def drop_missing(facts: Mapping[str, Scalar]) -> Facts:
    """The facts without those that are None."""
    return {key: value for key, value in facts.items() if value is not None}


def named(names: Mapping[int, Scalar], value: int | None) -> Scalar:
    """The word for a number that a file holds; None if it has none."""
    return names.get(value) if value is not None else None
