"""Programs and libraries as ELF files: addresses of offsets, functions, debug sections, what the loader is asked for.
Source: elf(5).

The files are the target's and may be broken or hostile: everything is read through bounds, and a file that cannot be
understood raises one of `BROKEN`.
"""

from __future__ import annotations

import lzma
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firsttouch.base.errors import UsageError
from firsttouch.base.files import open_regular

BROKEN = (
    *(OSError, UsageError, ValueError, LookupError, ArithmeticError, MemoryError),
    *(struct.error, zlib.error, lzma.LZMAError),
)
LARGEST_UNPACKED = 256 << 20
"""Bytes that a compressed section may have when it is decompressed."""
DEBUG_FOLDER = Path("/usr/lib/debug")

_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NOBITS, _SYMTAB, _DYNSYM, _COMPRESSED = 8, 2, 11, 0x800
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_FUNCTION, _INDIRECT_FUNCTION, _LOCAL = 2, 10, 0
_LONGEST_NAME = 4096


def _fields(order: str, spec: str) -> np.dtype[Any]:
    """A structured type from "name:size ..."; the sizes are bytes of unsigned integers."""
    return np.dtype([(name, f"{order}u{size}") for name, size in (field.split(":") for field in spec.split())])


@dataclass(frozen=True)
class _Layout:
    header: str
    segment: str
    section: str
    symbol: str
    compression: str
    dynamic: str


_LAYOUTS = {
    1: _Layout(
        "type:2 machine:2 version:4 entry:4 phoff:4 shoff:4 flags:4 ehsize:2 phentsize:2 phnum:2 shentsize:2 shnum:2 "
        "shstrndx:2",
        "type:4 offset:4 vaddr:4 paddr:4 filesz:4 memsz:4 flags:4 align:4",
        "name:4 type:4 flags:4 addr:4 offset:4 size:4 link:4 info:4 addralign:4 entsize:4",
        "name:4 value:4 size:4 info:1 other:1 shndx:2",
        "type:4 size:4 addralign:4",
        "tag:4 value:4",
    ),
    2: _Layout(
        "type:2 machine:2 version:4 entry:8 phoff:8 shoff:8 flags:4 ehsize:2 phentsize:2 phnum:2 shentsize:2 shnum:2 "
        "shstrndx:2",
        "type:4 flags:4 offset:8 vaddr:8 paddr:8 filesz:8 memsz:8 align:8",
        "name:4 type:4 flags:8 addr:8 offset:8 size:8 link:4 info:4 addralign:8 entsize:8",
        "name:4 info:1 other:1 shndx:2 value:8 size:8",
        "type:4 reserved:4 size:8 addralign:8",
        "tag:8 value:8",
    ),
}
"""By the class of the file: 32 and 64 bits."""


@dataclass(frozen=True)
class ElfSection:
    """type, flags, link: as in the file. size: bytes in the file."""

    type: int
    flags: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Linking:
    """What a file asks of the loader. needed: names of libraries, in order; rpath: where they are searched first, in
    the file's own words; runpath: where after LD_LIBRARY_PATH. by_loader: whether a program names a loader at all.
    """

    needed: list[str]
    rpath: list[str]
    runpath: list[str]
    by_loader: bool


class Functions:
    """The functions of a symbol table, by address."""

    def __init__(self, symbols: NDArray[Any], names: memoryview) -> None:
        kind, binding = symbols["info"] & 15, symbols["info"] >> 4
        chosen = ((kind == _FUNCTION) | (kind == _INDIRECT_FUNCTION)) & (symbols["shndx"] != 0)
        # Of several names of one address the last is taken: global before local, long before short.
        symbols = symbols[chosen]
        order = np.lexsort((symbols["size"], binding[chosen] != _LOCAL, symbols["value"]))
        self._symbols = symbols[order]
        self._values = self._symbols["value"].astype(np.uint64)
        self._names = names

    def __len__(self) -> int:
        return len(self._values)

    def at(self, address: int) -> str:
        """The name of the function that contains an address, '' if none does."""
        place = self._find(address)
        return "" if place is None else self._name(int(self._symbols["name"][place]))

    def begin(self, address: int) -> int | None:
        """Where the function begins that contains an address."""
        place = self._find(address)
        return None if place is None else int(self._values[place])

    def _find(self, address: int) -> int | None:
        last = int(np.searchsorted(self._values, np.uint64(address), "right")) - 1
        for place in range(last, max(last - 8, -1), -1):  # a short function may lie within a longer one
            begin, size = int(self._values[place]), int(self._symbols["size"][place])
            if address < begin + size or (size == 0 and place == last):
                return place
        return None

    def _name(self, start: int) -> str:
        text = bytes(self._names[start : start + _LONGEST_NAME])
        return text.partition(b"\0")[0].decode(errors="backslashreplace")


class Elf:
    """One file, mapped. data: the file, or what was unpacked from one.

    Raises one of BROKEN, as do all methods.
    """

    def __init__(self, data: mmap.mmap | bytes, path: Path | None = None) -> None:
        self.path = path
        self._contents: dict[str, memoryview] = {}
        self.data = memoryview(data)
        if bytes(self.data[:4]) != b"\x7fELF":
            raise ValueError("not an ELF file")
        self.bits, self.little_endian = {1: 32, 2: 64}[self.data[4]], {1: True, 2: False}[self.data[5]]
        self._layout = _LAYOUTS[self.data[4]]
        self._order = "<" if self.little_endian else ">"
        header = self._table(self._layout.header, 16, 1)[0]
        self.machine = int(header["machine"])
        segments = self._table(self._layout.segment, int(header["phoff"]), int(header["phnum"]))
        self._segments = segments[segments["type"] == _LOAD]
        self._others = {int(segment["type"]): segment for segment in segments[segments["type"] != _LOAD]}
        self._all, self.sections = self._read_sections(header)

    @classmethod
    def open(cls, path: Path) -> Elf:
        """Maps a file. It must be a regular one."""
        descriptor = open_regular(path, os.O_RDONLY)
        try:
            return cls(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ), path)
        finally:
            os.close(descriptor)

    def _table(self, spec: str, offset: int, count: int) -> NDArray[Any]:
        dtype = _fields(self._order, spec)
        return np.frombuffer(self.data, dtype, count, offset) if count else np.empty(0, dtype)

    def _read_sections(self, header: Any) -> tuple[list[ElfSection], dict[str, ElfSection]]:
        """All sections, and those with names."""
        offset, count, names = int(header["shoff"]), int(header["shnum"]), int(header["shstrndx"])
        if offset == 0:
            return [], {}
        first = self._table(self._layout.section, offset, 1)[0]  # has what the header has no room for
        table = self._table(self._layout.section, offset, count or int(first["size"]))
        sections = [
            ElfSection(type, flags, begin, 0 if type == _NOBITS else size, link)
            for type, flags, begin, size, link in table[["type", "flags", "offset", "size", "link"]].tolist()
        ]
        strings = sections[int(first["link"]) if names == 0xFFFF else names]
        text = self.data[strings.offset : strings.offset + strings.size]
        return sections, {
            bytes(text[start : start + 64]).partition(b"\0")[0].decode("ascii", "replace"): section
            for start, section in zip(table["name"].tolist(), sections, strict=True)
        }

    def address(self, offset: int) -> int | None:
        """The address at which the loader puts an offset of the file, before it moves the whole file."""
        for segment in self._segments:
            if 0 <= offset - int(segment["offset"]) < int(segment["filesz"]):
                return offset - int(segment["offset"]) + int(segment["vaddr"])
        return None

    def linking(self) -> Linking:
        """What the file asks of the loader."""
        texts: dict[int, list[str]] = {_NEEDED: [], _RPATH: [], _RUNPATH: []}
        if (segment := self._others.get(_DYNAMIC)) is not None:
            dtype = _fields(self._order, self._layout.dynamic)
            entries = self._table(
                self._layout.dynamic, int(segment["offset"]), int(segment["filesz"]) // dtype.itemsize
            ).tolist()
            strings = self._offset(dict(entries).get(_STRINGS, 0))
            for tag, value in entries:
                if tag in texts:
                    texts[tag].append(self._text_at(strings + value))
        folders = {tag: [part for text in texts[tag] for part in text.split(":") if part] for tag in (_RPATH, _RUNPATH)}
        return Linking(texts[_NEEDED], folders[_RPATH], folders[_RUNPATH], _INTERPRETER in self._others)

    def _offset(self, address: int) -> int:
        """Where in the file is what the loader puts at an address."""
        for segment in self._segments:
            if 0 <= address - int(segment["vaddr"]) < int(segment["filesz"]):
                return address - int(segment["vaddr"]) + int(segment["offset"])
        raise ValueError("an address that no segment holds")

    def _text_at(self, offset: int) -> str:
        text = bytes(self.data[offset : offset + _LONGEST_NAME])
        return text.partition(b"\0")[0].decode(errors="backslashreplace")

    def content(self, name: str) -> memoryview:
        """A section's bytes, decompressed; empty if there is none."""
        if name not in self._contents:
            self._contents[name] = self._unpacked(name)
        return self._contents[name]

    def _unpacked(self, name: str) -> memoryview:
        section = self.sections.get(name)
        if section is None:
            return memoryview(b"")
        raw = self._bytes(section)
        if not section.flags & _COMPRESSED:
            return raw
        dtype = _fields(self._order, self._layout.compression)
        head = np.frombuffer(raw, dtype, 1)[0]
        size = int(head["size"])
        if head["type"] != 1 or not 0 < size <= LARGEST_UNPACKED:
            raise ValueError("compressed by another method than zlib, or too large")
        return memoryview(zlib.decompressobj().decompress(raw[dtype.itemsize :], size))

    def _bytes(self, section: ElfSection) -> memoryview:
        return self.data[section.offset : section.offset + section.size]

    def functions(self) -> Functions:
        """Those of .symtab or, in a stripped file, of separate debug information; else those that it exports."""
        for find in (lambda: self, self.debug_file, self._embedded_table):
            try:
                elf = find()
                table = elf and elf._functions(_SYMTAB)
            except BROKEN:
                continue
            if table:
                return table
        return self._functions(_DYNSYM)

    def _functions(self, kind: int) -> Functions:
        dtype = _fields(self._order, self._layout.symbol)
        for section in self._all:
            if section.type == kind:
                raw = self._bytes(section)
                symbols = np.frombuffer(raw, dtype, len(raw) // dtype.itemsize)
                return Functions(symbols, self._bytes(self._all[section.link]))
        return Functions(np.empty(0, dtype), memoryview(b""))

    def _embedded_table(self) -> Elf | None:
        """Fedora and its relatives keep a compressed symbol table in stripped files (MiniDebugInfo)."""
        packed = self.content(".gnu_debugdata")
        return Elf(lzma.LZMADecompressor().decompress(packed, LARGEST_UNPACKED)) if packed else None

    def debug_file(self) -> Elf | None:
        """The separate file with the debug information of this one, where GDB would find it too."""
        for path in self._debug_paths():
            try:
                return Elf.open(path)
            except BROKEN:
                continue
        return None

    def _debug_paths(self) -> Iterator[Path]:
        note = self.content(".note.gnu.build-id")
        if len(note) > 16:
            word = f"{self._order}I"
            size = struct.unpack_from(word, note, 4)[0]
            number = bytes(note[16 : 16 + size]).hex()
            yield DEBUG_FOLDER / ".build-id" / number[:2] / f"{number[2:]}.debug"
        name = bytes(self.content(".gnu_debuglink")).partition(b"\0")[0].decode("ascii", "replace")
        if name and "/" not in name and self.path is not None:
            folder = self.path.parent
            for place in (folder, folder / ".debug", DEBUG_FOLDER / folder.relative_to("/")):
                yield place / name
