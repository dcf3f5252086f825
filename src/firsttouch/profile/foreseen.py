"""What of a program will not be traced, as far as its files tell before it runs."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from firsttouch.machine.libraries import resolve
from firsttouch.profile.fronts import FRONTS, Front, is_named, missing_driver, untraced_words
from firsttouch.profile.symbols.elf import BROKEN, Elf, Linking

_MOST_FILES = 400
"""How many libraries of a program are read."""


@dataclass(frozen=True)
class _Use:
    """That a program uses a front. by: the library that shows it; '' if the program has the runtime in itself.
    through: the library that is linked with that one, '' if the program itself is.
    """

    front: Front
    by: str
    through: str = ""
    is_around: bool = False

    @property
    def shown(self) -> str:
        if not self.by:
            return self.front.api
        return f"{self.front.api} ({self.by}{f', which {self.through} needs' if self.through else ''})"


def foreseen(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """What will not be traced of a program, in a sentence without a full stop, as far as its files tell; '' if nothing.

    A script, or a program that opens its libraries itself, tells nothing.
    """
    found = shutil.which(command[0], path=environment.get("PATH"))
    if found is None:
        return ""
    path, name = Path(found), Path(command[0]).name
    linking, uses = None, list[_Use]()
    try:
        linking, uses = _read(path, environment)
    except PermissionError:  # it may be executed, but not read
        pass
    except BROKEN:
        return ""
    if secure := _why_secure(path):
        return f"{name} {secure}, so nothing is loaded into it, and nothing of it is traced"
    if linking and not linking.by_loader:
        return f"{name} is linked statically, so nothing can be loaded into it: only programs that it starts are traced"
    return "; ".join(_sentences(name, uses))


def _why_secure(path: Path) -> str:
    """Why the loader takes nothing from the environment, or ''. Source: ld.so(8), secure-execution mode."""
    with suppress(OSError):
        if os.statvfs(path).f_flag & os.ST_NOSUID:
            return ""
        status = path.stat()
        is_users = status.st_mode & stat.S_ISUID and status.st_uid != os.getuid()
        is_groups = status.st_mode & stat.S_ISGID and status.st_gid != os.getgid()
        if is_users or is_groups:
            return "runs as another user or group"
        if os.getuid() != 0 and os.getxattr(path, "security.capability"):
            return "has file capabilities"
    return ""


def _read(path: Path, environment: Mapping[str, str]) -> tuple[Linking, list[_Use]]:
    """What a program asks of the loader, and the fronts that it and its libraries are linked with. Raises BROKEN."""
    elf = Elf.open(path)
    linking = elf.linking()
    uses = {front.api: _Use(front, "") for front in FRONTS if any(name in elf.sections for name in front.sections)}
    waiting, seen = [(path, linking, "")], set[str]()
    while waiting and len(seen) < _MOST_FILES:
        file, asked, name = waiting.pop(0)
        for needed in asked.needed:
            if needed in seen:
                continue
            seen.add(needed)
            for front in FRONTS:
                is_around = is_named(needed, front.around)
                if is_around or is_named(needed, front.libraries):
                    uses.setdefault(front.api, _Use(front, needed, name, is_around))
            try:
                library = _library(needed, file, asked, environment)
                if library is not None:
                    waiting.append((library, Elf.open(library).linking(), needed))
            except BROKEN:
                continue
    return linking, list(uses.values())


def _library(name: str, of: Path, asked: Linking, environment: Mapping[str, str]) -> Path | None:
    """The file that the loader would take, by ld.so(8), but for the folders that libraries inherit from each other."""
    searched = [] if asked.runpath else asked.rpath
    searched = [*searched, *filter(None, environment.get("LD_LIBRARY_PATH", "").split(":")), *asked.runpath]
    origin = str(of.resolve().parent)
    for folder in searched if "/" not in name else [""]:
        place = Path(folder.replace("$ORIGIN", origin).replace("${ORIGIN}", origin), name)
        if place.is_file():
            return place
    found = resolve(name)
    return Path(found) if found else None


def _sentences(name: str, uses: Sequence[_Use]) -> Iterator[str]:
    for use in uses:
        front, what = use.front, f"{name} is linked with {use.shown}"
        if use.is_around:
            yield f"{what} in place of the loader of {front.api}, so that its calls are not traced"
        elif not front.traced:
            yield f"{what}, {untraced_words(front)}"
        elif driver := missing_driver(front):
            yield f"{what}, but no driver was found here ({driver}): nothing of {front.api} will be traced"
