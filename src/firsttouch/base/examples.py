"""The scripts and results that the docs use, as they are installed with this package. `examples.txt` lists them, with
their paths in the repository; CMake installs them.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from firsttouch.base.errors import UsageError
from firsttouch.base.files import as_usage_error

_PACKAGE = Path(__file__).parents[1]
_INSTALLED = _PACKAGE / "share"
DIRECTORY = "firsttouch-examples"
"""The directory that they are copied to if the call names none."""


@dataclass(frozen=True)
class Example:
    """A folder of the repository. path: relative to it, and to the directory that it is copied to."""

    path: str
    about: str


def examples() -> list[Example]:
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    return [Example(path, about) for path, about in (line.split(": ", 1) for line in lines)]


def copy_examples(directory: Path) -> list[Example]:
    """Copies all examples into a directory, under the paths that the docs name. Nothing is overwritten."""
    source = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parents[1]  # a checkout
    copied = examples()
    if not all((source / example.path).is_dir() for example in copied):
        raise UsageError("this installation of firsttouch has no examples; install it from a wheel or a clone")
    for example in copied:
        if os.path.lexists(target := directory / example.path):
            raise UsageError(f"{target} exists; give a directory that has no {example.path}, such as {DIRECTORY}-2")
    with as_usage_error("write", directory, "a directory that can be written"):
        for example in copied:
            _copy(source, directory, example.path)
    return copied


def _copy(source: Path, directory: Path, path: str) -> None:
    """Copies an example without the modes of its files, since installed files may be read-only."""
    for file in sorted((source / path).rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            target = directory / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
