"""Reading /proc and /sys, or a fabricated copy of them, without ever failing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from firsttouch.records.schema import Scalar

Facts: TypeAlias = dict[str, Scalar]

_READ_LIMIT = 1 << 20
_LARGEST = 2**63
_SIZE_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_MOST_CPUS = 1 << 16


class Tree:
    """The files under a root folder. What is missing, unreadable or garbage reads as None."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    @property
    def is_real(self) -> bool:
        """False for a fabricated tree, where the kernel must not be asked through system calls instead."""
        return self.root == Path("/")

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def bytes(self, name: str) -> bytes | None:
        try:
            with self.path(name).open("rb") as file:
                return file.read(_READ_LIMIT)
        except (OSError, ValueError):
            return None

    def text(self, name: str) -> str | None:
        """The stripped text; None where empty, so that a missing and an empty file mean the same."""
        raw = self.bytes(name)
        return (raw.decode(errors="replace").strip() or None) if raw is not None else None

    def lines(self, name: str) -> list[str]:
        return (self.text(name) or "").splitlines()

    def integer(self, name: str) -> int | None:
        return whole(self.text(name))

    def chosen(self, name: str) -> str | None:
        """The option in brackets of a file such as ``always [madvise] never``; a plain word stands for itself."""
        text = self.text(name) or ""
        inside = text.partition("[")[2].partition("]")[0]
        return inside or (text if text and len(text.split()) == 1 and "[" not in text else None)

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
        found = {}
        for line in self.lines(name):
            field, colon, rest = line.removeprefix(prefix).strip().partition(":")
            value = whole(rest.split()[0]) if colon and rest.split() else None
            if value is not None:
                found[field] = value * (1024 if rest.split()[-1] == "kB" else 1)
        return found


def whole(text: str | None) -> int | None:
    """The integer that ``text`` is, where it fits 64 bits."""
    try:
        value = int(text) if text is not None and text.isascii() else None
    except ValueError:
        return None
    return value if value is not None and -_LARGEST <= value < _LARGEST else None


def size_bytes(text: str | None) -> int | None:
    """Bytes of the kernel's own ``48K`` or ``1024M``."""
    if not text:
        return None
    unit = text[-1] if text[-1] in _SIZE_UNITS else ""
    value = whole(text.removesuffix(unit))
    return value * _SIZE_UNITS[unit] if value is not None and value > 0 else None


def id_list(text: str | None) -> list[int]:
    """The numbers of a kernel list such as ``0-3,8``; empty where it does not parse."""
    found: list[int] = []
    for part in (text or "").split(","):
        first, dash, last = part.strip().partition("-")
        low, high = whole(first), whole(last if dash else first)
        if low is None or high is None or not 0 <= low <= high < _MOST_CPUS:
            return []
        found.extend(range(low, high + 1))
    return found


def id_text(ids: Iterable[int]) -> str:
    """The reverse of `id_list`: 0, 1, 2, 8 is ``0-2,8``."""
    runs: list[list[int]] = []
    for i in sorted(set(ids)):
        if runs and i == runs[-1][-1] + 1:
            runs[-1][-1] = i
        else:
            runs.append([i, i])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def present(facts: Mapping[str, Scalar]) -> Facts:
    """Without the facts that could not be had."""
    return {key: value for key, value in facts.items() if value is not None}
