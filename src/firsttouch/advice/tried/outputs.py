"""What a run of a program puts out, and whether two runs put out the same: status, standard output, and files."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

_WORD = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[^\s\d.+-]+|\S")
_MOST_FILES, _MOST_COMPARED = 10_000, 256 << 20
"""How many files of a folder are looked at, and up to how many bytes of one numbers are compared, not only digests."""
STDOUT, STATUS = "standard output", "the exit status"


class FileState(NamedTuple):
    bytes: int
    modified: int


def files_in(folder: Path, beside: Path) -> dict[str, FileState]:
    """The files in a folder, by their paths in it, but for those in `beside`: as many as may be looked at."""
    found: dict[str, FileState] = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if Path(parent, name) != beside and not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            try:
                status = path.stat()
            except OSError:
                continue
            found[str(path.relative_to(folder))] = FileState(status.st_size, status.st_mtime_ns)
            if len(found) >= _MOST_FILES:
                return found
    return found


@dataclass(frozen=True)
class RunOutputs:
    """files: where copies of the files are that the run has written, by their paths."""

    status: int
    stdout: Path
    files: Mapping[str, Path]

    @property
    def names(self) -> list[str]:
        return [STATUS, STDOUT, *self.files]

    def path_of(self, name: str) -> Path | None:
        return self.stdout if name == STDOUT else self.files.get(name)


def keep_outputs(status: int, stdout: Path, folder: Path, written: Sequence[str], kept: Path) -> RunOutputs:
    """Copies the files in `folder` that a run has written to `kept`, since the next run overwrites them."""
    files: dict[str, Path] = {}
    for number, name in enumerate(written):
        kept.mkdir(parents=True, exist_ok=True)
        target = kept / str(number)
        try:
            shutil.copyfile(folder / name, target)
        except OSError:
            continue
        files[name] = target
    return RunOutputs(status, stdout, files)


class OutputDifference(NamedTuple):
    """Where two runs differ. name: of the output; text: in words."""

    name: str
    text: str


class OutputJudge:
    """Compares runs with plain ones. What differs among these proves nothing: whole outputs whose form differs, and
    otherwise numbers and words at their places.

    tolerance: the share by which numbers may differ.
    """

    def __init__(self, plain: Sequence[RunOutputs], tolerance: float = 0.0) -> None:
        self._plain, self._tolerance = plain, tolerance
        self._varying: dict[str, frozenset[int] | None] = {}
        for name in self.names:
            self._varying[name] = self._vary(name)

    @property
    def names(self) -> list[str]:
        return [*dict.fromkeys(name for outputs in self._plain for name in outputs.names)]

    def compared(self, name: str) -> Literal["all", "part", "nothing"]:
        """How much of an output is compared."""
        varying, path = self._varying[name], self._plain[0].path_of(name)
        if varying is None:
            return "nothing"
        if not varying or path is None:
            return "all"
        return "part" if len(varying) < len(_words(path)) else "nothing"

    def _vary(self, name: str) -> frozenset[int] | None:
        if name == STATUS:
            return frozenset() if len({outputs.status for outputs in self._plain}) == 1 else None
        paths = [path for outputs in self._plain if (path := outputs.path_of(name)) is not None]
        if len(paths) < len(self._plain):
            return None
        if len({*map(_digest, paths)}) == 1:
            return frozenset()
        first, *others = (_words(path) for path in paths)
        if any(len(words) != len(first) for words in others):
            return None
        return frozenset(n for n, words in enumerate(zip(first, *others, strict=True)) if len({*words}) > 1)

    def difference(self, outputs: RunOutputs) -> OutputDifference | None:
        """The first difference from the plain runs that is none among them."""
        for name in dict.fromkeys([*self.names, *outputs.names]):
            if name not in self._varying:
                return OutputDifference(name, f"{name} is written, which plain runs do not")
            if (varying := self._varying[name]) is None:
                continue
            if name == STATUS:
                if outputs.status != self._plain[0].status:
                    text = f"the exit status is {outputs.status}, not {self._plain[0].status}"
                    return OutputDifference(name, text)
                continue
            plain, found = self._plain[0].path_of(name), outputs.path_of(name)
            assert plain is not None
            if found is None:
                return OutputDifference(name, f"{name} is not written")
            if _digest(plain) != _digest(found) and (text := self._first(name, plain, found, varying)):
                return OutputDifference(name, text)
        return None

    def _first(self, name: str, plain: Path, found: Path, varying: frozenset[int]) -> str:
        if max(plain.stat().st_size, found.stat().st_size) > _MOST_COMPARED:
            return f"{name} differs"
        for number, (one, other) in enumerate(zip_longest(_words(plain), _words(found))):
            if number in varying or one == other:
                continue
            if one is None or other is None:
                return f"{name} has {'more' if one is None else 'fewer'} words"
            if not self._is_near(one, other):
                a, b = (word.decode(errors="replace")[:40] for word in (one, other))
                return f"{name} has {b} in place of {a}"
        return ""

    def _is_near(self, one: bytes, other: bytes) -> bool:
        if not self._tolerance:
            return False
        try:
            return math.isclose(float(one), float(other), rel_tol=self._tolerance)
        except ValueError:
            return False


def _words(path: Path) -> list[bytes]:
    return _WORD.findall(path.read_bytes())


def _digest(path: Path) -> bytes:
    digest = hashlib.blake2b()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.digest()
