"""Functions and source lines of places in programs and libraries.

A file that is missing, stripped or broken gives what can be known of it, at worst nothing, and never an error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from firsttouch import _core

if TYPE_CHECKING:
    from firsttouch.profile.symbols.elf import Elf
    from firsttouch.profile.symbols.lines import SourceLine

TIME_LIMIT = 5.0
"""Seconds after which only functions are looked up."""


_SYSTEM = re.compile(r"^/(?:usr/)?(?:lib(?:32|64|x32|exec)?|include)/|^/(?:usr/local|opt)/(?:cuda|nvidia|rocm)[\w.-]*/"
                     r"|/include/c\+\+/|/lib/python\d[\w.]*/|^<frozen ")  # fmt: skip


def is_of_the_system(file: str) -> bool:
    """Whether a file, such as a header, belongs to the system, a compiler, a vendor's toolkit or Python."""
    return _SYSTEM.search(file) is not None


class CodeLocation(NamedTuple):
    """function: demangled; source: the file and number the line in it. '' and 0: unknown. near: its own line is that of
    the code before, as this has none.

    Of inlined code, such as that of a std::fill, the line is that of the call, and of several the outermost that is not
    in a header of the system. headers: the other headers of the system that the code is inlined from, or into.
    """

    function: str = ""
    source: str = ""
    number: int = 0
    headers: tuple[str, ...] = ()
    near: bool = False


def symbolize(
    code_places: Iterable[tuple[str, int]], limit: float = TIME_LIMIT, root: Path = Path("/")
) -> dict[tuple[str, int], CodeLocation]:
    """The place of each (file, offset in the file), the most important first. limit: seconds for source lines.

    root: the folder in which the paths are looked up, for a target that has another root folder.
    """
    offsets: dict[str, list[int]] = {}
    for file, offset in code_places:
        offsets.setdefault(file, []).append(offset)
    until = time.monotonic() + limit
    places: dict[tuple[str, int], CodeLocation] = {}
    for file, list_of_offsets in offsets.items():
        locations = _in_file(root / file.lstrip("/"), list_of_offsets, until) if file.startswith("/") else {}
        places |= {(file, offset): locations.get(offset, CodeLocation()) for offset in list_of_offsets}
    return places


def _in_file(path: Path, offsets: list[int], until: float) -> dict[int, CodeLocation]:
    from firsttouch.profile.symbols.elf import BROKEN, Elf

    try:
        elf = Elf.open(path)
        addresses = {offset: address for offset in offsets if (address := elf.address(offset)) is not None}
        functions = elf.functions()
        names = {address: _core.demangle(functions.at(address)) for address in addresses.values()}
        begins = {address: begin for address in names if (begin := functions.begin(address)) is not None}
    except BROKEN:
        return {}
    lines = _lines(elf, list(names), until, begins)
    return {
        offset: _location(names[address], lines[address]) if address in lines else CodeLocation(names[address])
        for offset, address in addresses.items()
    }


def _location(function: str, chain: Sequence[SourceLine]) -> CodeLocation:
    """chain: of `lines.find_lines`."""
    place = next((line for line in chain if line.line and not is_of_the_system(line.file)), chain[0])
    headers = dict.fromkeys(line.file for line in chain if is_of_the_system(line.file))
    others = tuple(file for file in headers if file != place.file)
    return CodeLocation(function, place.file, place.line, others, chain[-1].near)


def _lines(elf: Elf, addresses: list[int], until: float, begins: Mapping[int, int]) -> dict[int, list[SourceLine]]:
    from firsttouch.profile.symbols.elf import BROKEN
    from firsttouch.profile.symbols.lines import find_lines

    if not addresses or time.monotonic() > until:
        return {}
    try:
        detailed = elf if ".debug_line" in elf.sections else elf.debug_file()
        return find_lines(detailed, addresses, until, begins) if detailed is not None else {}
    except BROKEN:
        return {}
