"""Files of applications in the folder for temporary files (TMPDIR): unnamed ones, and the phases input and output."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from firsttouch.base.errors import Unsupported
from firsttouch.harness.app import View
from firsttouch.program.execution.agents import Cpu
from firsttouch.program.execution.arrays import Array

FILES = ("none", "used")
"""The values of an option `files`: the input is generated and the output stays in memory; or they are in files."""


def unnamed_file(owner: object, nbytes: int) -> int:
    """The descriptor of a file of so many bytes, which lasts as long as its owner. It has no name, so it is removed
    when this process ends, even if it crashes.
    """
    file = tempfile.TemporaryFile()  # noqa: SIM115 - stays open as long as its owner
    weakref.finalize(owner, file.close)
    try:
        os.posix_fallocate(file.fileno(), 0, nbytes)
    except OSError as error:
        raise Unsupported(
            f"not enough space for a file of {nbytes} bytes in {tempfile.gettempdir()}: {error.strerror}"
        ) from error
    return file.fileno()


class WithFiles:
    """What an application with the option `files` does in the phases input and output: it reads one buffer from a file
    that is on the disk only, and writes one to a file.
    """

    files: str

    def of_files(self) -> tuple[Array, Array]:
        """The buffer that is read from a file, and the one that is written to a file."""
        raise NotImplementedError

    def generate(self, values: np.ndarray[Any, Any]) -> None:
        """Generate the bytes of the file that is read."""
        raise NotImplementedError

    def has_files(self) -> bool:
        return self.files == "used"

    def read_from_files(self) -> Sequence[Array]:
        return self.of_files()[:1] if self.has_files() else ()

    def arrange(self) -> None:
        if not self.has_files():
            return
        self._read, self._written = (unnamed_file(self, array.nbytes) for array in self.of_files())
        with mmap.mmap(self._read, self.of_files()[0].nbytes) as mapping:
            self.generate(np.frombuffer(mapping, np.uint8))
        os.fsync(self._read)
        os.posix_fadvise(self._read, 0, 0, os.POSIX_FADV_DONTNEED)  # so that reading it reads the disk

    def read_files(self, cpu: Cpu) -> None:
        left, at = cpu.writes(self.of_files()[0]).reshape(-1).view(np.uint8).data, 0
        while at < len(left):  # a call reads at most 2 GiB
            at += _some(os.preadv(self._read, [left[at:]], at))

    def write_files(self, cpu: Cpu) -> None:
        left, at = cpu.reads(self.of_files()[1]).reshape(-1).view(np.uint8).data, 0
        while at < len(left):
            at += _some(os.pwritev(self._written, [left[at:]], at))

    def wrong_files(self, view: View) -> str:
        """What is wrong with the buffer that was read or with the file that was written, or ''."""
        if not self.has_files():
            return ""
        source, target = self.of_files()
        right = np.empty(source.nbytes, np.uint8)
        self.generate(right)
        if (view(source).reshape(-1).view(np.uint8) != right).any():
            return f"{source.name} differs from its file"
        with mmap.mmap(self._written, target.nbytes, prot=mmap.PROT_READ) as mapping:
            same = np.array_equal(np.frombuffer(mapping, np.uint8), view(target).reshape(-1).view(np.uint8))
        return "" if same else f"the file of {target.name} differs from it"


def _some(count: int) -> int:
    if count < 1:
        raise OSError("a file is shorter than its array")
    return count
