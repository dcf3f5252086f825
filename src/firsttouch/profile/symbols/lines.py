"""Source lines of addresses, from the line programs of DWARF. Sources: DWARF 4 and 5, sections 6.1.2, 6.2 and 2.17.

Only the compilation units that contain an address are read: those that .debug_aranges names or, where a compiler wrote
none, those whose own ranges contain it. pyelftools reads more and keeps an object for each row, abbreviation and
file name, and took fifteen times as long for 200 addresses of the C library.
"""

from __future__ import annotations

import posixpath
import struct
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from firsttouch.profile.symbols.elf import Elf

_LONGEST_PATH = 4096


class SourceLine(NamedTuple):
    """A file as the compiler named it, made absolute with its working directory; '' and 0 if unknown. near: it is that
    of the code before.
    """

    file: str = ""
    line: int = 0
    near: bool = False


def find_lines(
    elf: Elf, addresses: Sequence[int], until: float, begins: Mapping[int, int] = MappingProxyType({})
) -> dict[int, list[SourceLine]]:
    """The source lines of addresses of a file, the most important first. Those for which there is no time remain
    unknown. The last line of each is its own; before it, of inlined code, those of the calls, the outermost first.

    until: a reading of time.monotonic(). begins: where the functions begin that have the addresses. Compilers give some
    code no line, such as the calls that clang makes of a target construct: there, the nearest code before it in its
    function counts. Raises one of BROKEN if the debug information is broken.
    """
    chains: dict[int, list[SourceLine]] = {}
    for unit, inside in _units(elf, addresses, until):
        if unit.lines is not None:
            program = _LineProgram(elf, unit.lines, unit.directory)
            chains |= {address: [line] for address, line in _lines(program, inside, until, begins).items()}
            for address, places in unit.calls(inside, until).items():
                calls = [SourceLine(program.path(file), line) for file, line in places if line > 0]
                chains[address] = [*calls, *chains.get(address, [SourceLine()])]
        if time.monotonic() > until:
            break
    return chains


def _units(elf: Elf, addresses: Sequence[int], until: float) -> Iterator[tuple[_Unit, list[int]]]:
    """The units that contain the addresses, each with its own; those of the first addresses come first."""
    rest = set(addresses)
    sorted_addresses = sorted(rest)
    by_unit: dict[int, set[int]] = {}
    for unit, begin, end in _aranges(elf):
        inside = sorted_addresses[bisect_left(sorted_addresses, begin) : bisect_left(sorted_addresses, end)]
        if inside:
            by_unit.setdefault(unit, set()).update(inside)
    rank = {address: place for place, address in enumerate(addresses)}
    for offset, ours in sorted(by_unit.items(), key=lambda unit: min(rank[address] for address in unit[1])):
        rest -= ours
        yield _Unit(elf, offset), sorted(ours)
    unplaced = sorted(rest)
    at, size = 0, len(elf.content(".debug_info"))
    while unplaced and at < size and time.monotonic() < until:
        next_unit = _Unit(elf, at)
        ranges = next_unit.ranges() if at not in by_unit else ()
        at = next_unit.end
        ours = {
            address
            for begin, end in ranges
            for address in unplaced[bisect_left(unplaced, begin) : bisect_left(unplaced, end)]
        }
        if ours:
            yield next_unit, sorted(ours)
            unplaced = [address for address in unplaced if address not in ours]


def _aranges(elf: Elf) -> Iterator[tuple[int, int, int]]:
    """(offset of the unit, begin, end) of each range in .debug_aranges."""
    data = elf.content(".debug_aranges")
    order = "<" if elf.little_endian else ">"
    at = 0
    while at + 12 <= len(data):
        length, version, unit, size, segment = struct.unpack_from(f"{order}IHIBB", data, at)
        end = at + 4 + length
        if length >= 0xFFFFFFF0 or version != 2 or size not in (4, 8) or segment != 0 or end > len(data):
            return  # 64-bit DWARF or broken: the units' own ranges serve
        begin = at + 12 + (-12 % (2 * size))
        pairs = np.frombuffer(data[begin:end], f"{order}u{size}", max(0, end - begin) // (2 * size) * 2).reshape(-1, 2)
        for start, extent in pairs.tolist():
            if extent:
                yield unit, start, start + extent
        at = end


_Values: TypeAlias = dict[str, tuple[int, "bytes | int"]]
"""Attributes of an entry: (form, value)."""


class _Abbreviation(NamedTuple):
    """What an abbreviation stands for. attributes: (name, form, implicit constant)."""

    tag: int
    children: bool
    attributes: list[tuple[int, int, int]]


class _Unit:
    """A compilation unit. Sources: DWARF 5, 7.5 and, of ranges, 7.25; DWARF 4, 2.17.3 and 7.5.

    lines: the offset of its line program, None without one; directory: the compiler's working directory.
    """

    _NAMES = {
        0x01: "sibling",
        0x10: "lines",
        0x11: "low",
        0x12: "high",
        0x1B: "directory",
        0x31: "origin",
        0x55: "ranges",
    }
    _NAMES |= {0x58: "call_file", 0x59: "call_line", 0x72: "strings", 0x73: "addresses", 0x74: "lists"}
    _INLINED, _FUNCTION = 0x1D, 0x2E

    def __init__(self, elf: Elf, offset: int) -> None:
        self._elf, self._offset = elf, offset
        reader = self._reader = _DebugReader(elf, elf.content(".debug_info"))
        reader.at = offset
        self.end = reader.length()
        self._version = version = reader.unsigned(2)
        if not 2 <= version <= 5:
            raise ValueError(f"version {version} of a compilation unit")
        kind = reader.unsigned(1) if version == 5 else 1
        if version == 5:
            self._address_bytes = reader.unsigned(1)
        abbreviations = reader.unsigned(reader.offset_bytes)
        if version < 5:
            self._address_bytes = reader.unsigned(1)
        reader.address_bytes = self._address_bytes
        self.lines: int | None = None
        self.directory = b""
        self._attributes: _Values = {}
        self._abbreviations: dict[int, _Abbreviation] = {}
        self._declarations = self._read_declarations(abbreviations)
        if kind not in (1, 3, 4):  # compile, partial, skeleton; types have no code
            return
        if kind == 4:
            reader.at += 8
        self._begin = reader.at
        declaration = self._declaration(reader.uleb())
        if declaration is not None:
            self._attributes = self._read(declaration)
        if "lines" in self._attributes:
            self.lines = _number(self._attributes, "lines")
        self.directory = self._directory()

    def _declaration(self, code: int) -> _Abbreviation | None:
        """Reads no more of the table than is needed: the first entry is mostly the unit's."""
        while code not in self._abbreviations:
            following = next(self._declarations, None)
            if following is None:
                return None
            self._abbreviations[following[0]] = following[1]
        return self._abbreviations[code]

    def _read_declarations(self, offset: int) -> Iterator[tuple[int, _Abbreviation]]:
        reader = _DebugReader(self._elf, self._elf.content(".debug_abbrev"))
        reader.at = offset
        while (code := reader.uleb()) != 0:
            tag, children = reader.uleb(), reader.unsigned(1) != 0
            attributes = []
            while True:
                name, form = reader.uleb(), reader.uleb()
                constant = reader.sleb() if form == 0x21 else 0  # DW_FORM_implicit_const
                if name == form == 0:
                    break
                attributes.append((name, form, constant))
            yield code, _Abbreviation(tag, children, attributes)

    def _read(self, declaration: _Abbreviation) -> _Values:
        reader, names, values = self._reader, self._NAMES, {}
        for name, form, constant in declaration.attributes:
            value = constant if form == 0x21 else reader.form(form)
            if name in names:
                values[names[name]] = (form, value)
        return values

    def _directory(self) -> bytes:
        form, value = self._attributes.get("directory", (0, b""))
        if isinstance(value, bytes):
            return value
        offsets = _DebugReader(self._elf, self._elf.content(".debug_str_offsets"))  # value is a place in this table
        width = self._reader.offset_bytes
        offsets.at = _number(self._attributes, "strings", 8 if width == 4 else 16) + value * width
        return _text_at(self._elf.content(".debug_str"), offsets.unsigned(width)) if form in _INDEXED_STRINGS else b""

    def calls(self, addresses: list[int], until: float) -> dict[int, list[tuple[int, int]]]:
        """Of addresses in inlined code: (number of the file, line) of the calls that were inlined, the outermost first.

        A part of a function that the compiler split off and inlined again is no call. addresses: sorted.
        """
        inlined: dict[int, list[tuple[int, int]]] = {}
        origins: dict[int, int] = {}  # of the innermost function that each address is in
        reader = self._reader
        reader.at, depth, count = self._begin, 0, 0
        while reader.at < self.end:
            count += 1
            if count % 1024 == 0 and time.monotonic() > until:
                break
            code = reader.uleb()
            if code == 0:
                depth -= 1
                if depth <= 0:
                    break
                continue
            declaration = self._declaration(code)
            if declaration is None:
                break
            values = self._read(declaration)
            has_code = declaration.tag in (self._INLINED, self._FUNCTION)
            inside: set[int] = set()
            if has_code:
                for begin, end in self._ranges_of(values):
                    inside.update(addresses[bisect_left(addresses, begin) : bisect_left(addresses, end)])
            origin = _number(values, "origin")
            for address in inside:
                if declaration.tag == self._INLINED and origin != origins.get(address):
                    place = _number(values, "call_file"), _number(values, "call_line")
                    inlined.setdefault(address, []).append(place)
                origins[address] = origin
            if declaration.children:
                sibling = self._offset + _number(values, "sibling")
                if has_code and not inside and sibling > reader.at:
                    reader.at = sibling
                else:
                    depth += 1
        return inlined

    def _address(self, place: int) -> int:
        """An address of the unit's table of addresses."""
        table = _DebugReader(self._elf, self._elf.content(".debug_addr"))
        table.at = _number(self._attributes, "addresses", 8) + place * self._address_bytes
        return table.unsigned(self._address_bytes)

    def ranges(self) -> Iterator[tuple[int, int]]:
        return self._ranges_of(self._attributes)

    def _low(self, values: _Values) -> int:
        low = _number(values, "low")
        return self._address(low) if values.get("low", (0, 0))[0] in _INDEXED_ADDRESSES else low

    def _ranges_of(self, values: _Values) -> Iterator[tuple[int, int]]:
        if "ranges" in values:
            base = self._low(self._attributes)
            yield from self._list(values["ranges"][0], _number(values, "ranges"), base)
        elif "high" in values:
            low, form, high = self._low(values), values["high"][0], _number(values, "high")
            yield low, high if form == 0x01 else self._address(high) if form in _INDEXED_ADDRESSES else low + high

    def _list(self, form: int, place: int, base: int) -> Iterator[tuple[int, int]]:
        return self._new_list(form, place, base) if self._version == 5 else self._old_list(place, base)

    def _old_list(self, place: int, base: int) -> Iterator[tuple[int, int]]:
        reader = _DebugReader(self._elf, self._elf.content(".debug_ranges"))
        reader.at = place
        last = (1 << 8 * self._address_bytes) - 1
        while True:
            begin, end = reader.unsigned(self._address_bytes), reader.unsigned(self._address_bytes)
            if begin == end == 0:
                return
            if begin == last:
                base = end
            else:
                yield base + begin, base + end

    def _new_list(self, form: int, place: int, base: int) -> Iterator[tuple[int, int]]:
        reader = _DebugReader(self._elf, self._elf.content(".debug_rnglists"))
        reader.at = place
        if form == 0x23:  # DW_FORM_rnglistx: a place in the unit's table of lists
            lists, width = _number(self._attributes, "lists"), self._reader.offset_bytes
            reader.at = lists + place * width
            reader.at = lists + reader.unsigned(width)
        while (kind := reader.unsigned(1)) != 0:
            if kind == 1:  # DW_RLE_base_addressx
                base = self._address(reader.uleb())
            elif kind == 2:  # startx_endx
                yield self._address(reader.uleb()), self._address(reader.uleb())
            elif kind == 3:  # startx_length
                begin = self._address(reader.uleb())
                yield begin, begin + reader.uleb()
            elif kind == 4:  # offset_pair
                yield base + reader.uleb(), base + reader.uleb()
            elif kind == 5:  # base_address
                base = reader.unsigned(self._address_bytes)
            elif kind == 6:  # start_end
                yield reader.unsigned(self._address_bytes), reader.unsigned(self._address_bytes)
            elif kind == 7:  # start_length
                begin = reader.unsigned(self._address_bytes)
                yield begin, begin + reader.uleb()
            else:
                raise ValueError(f"kind {kind} of a range")


def _number(values: _Values, name: str, otherwise: int = 0) -> int:
    value = values.get(name, (0, otherwise))[1]
    return value if isinstance(value, int) else otherwise


def _lines(
    program: _LineProgram, addresses: list[int], until: float, begins: Mapping[int, int]
) -> dict[int, SourceLine]:
    """Runs a line program and keeps the lines of the wanted addresses, which are sorted. begins: as of `find_lines`."""
    numbered: dict[int, tuple[int, int, bool]] = {}
    last: tuple[int, int, int] | None = None
    near: tuple[int, int, int] | None = None
    """The last row of this sequence that has a line: line 0 is code of no line, which the compiler added."""
    for count, (address, file, line, ends) in enumerate(program.rows()):
        if last is not None and last[0] < address:
            for sought in addresses[bisect_left(addresses, last[0]) : bisect_left(addresses, address)]:
                is_near = not last[2] and near is not None and near[0] >= begins.get(sought, inf)
                row = near if is_near and near is not None else last
                numbered.setdefault(sought, (row[1], row[2], is_near))
        last = None if ends else (address, file, line)
        near = None if ends else last if line else near
        if count % 4096 == 0 and time.monotonic() > until:
            break
    return {
        address: SourceLine(program.path(file), line, near)
        for address, (file, line, near) in numbered.items()
        if line > 0
    }


class _DebugReader:
    """Reads values of DWARF one after the other. Raises IndexError at the end. Source: DWARF 5, 7.5.6 and 7.6."""

    def __init__(self, elf: Elf, data: memoryview) -> None:
        self.data, self.at = data, 0
        self.order: Literal["little", "big"] = "little" if elf.little_endian else "big"
        self.offset_bytes, self.address_bytes = 4, elf.bits // 8
        self._strings = {0x0E: elf.content(".debug_str"), 0x1F: elf.content(".debug_line_str")}

    def unsigned(self, size: int) -> int:
        self.at += size
        if self.at > len(self.data):
            raise IndexError("the section ends within a number")
        return int.from_bytes(self.data[self.at - size : self.at], self.order)

    def length(self) -> int:
        """Reads the length of a unit, which also tells the size of offsets in it, and returns where the unit ends."""
        length = self.unsigned(4)
        if length == 0xFFFFFFFF:
            self.offset_bytes = 8
            length = self.unsigned(8)
        return self.at + length

    def uleb(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def sleb(self) -> int:
        begin = self.at
        value = self.uleb()
        bits = 7 * (self.at - begin)
        return value - (1 << bits) if value >> (bits - 1) else value

    def text(self) -> bytes:
        text = _text_at(self.data, self.at)
        self.at += len(text) + 1
        return text

    def form(self, form: int) -> bytes | int:
        """A value of a form: text, or a number. Of a block, the number means nothing."""
        if form == 0x16:  # DW_FORM_indirect
            form = self.uleb()
        if form == 0x08:  # DW_FORM_string
            return self.text()
        if form in self._strings:
            return _text_at(self._strings[form], self.unsigned(self.offset_bytes))
        if form in _ULEB_FORMS:
            return self.uleb()
        if form == 0x0D:  # DW_FORM_sdata
            return self.sleb()
        if form == 0x19:  # DW_FORM_flag_present
            return 1
        if form in _BLOCK_FORMS:
            size = self.uleb() if _BLOCK_FORMS[form] == 0 else self.unsigned(_BLOCK_FORMS[form])
            self.at += size
            return 0
        size = _SIZES.get(form) or {0x01: self.address_bytes}.get(form) or self.offset_bytes * (form in _OFFSET_FORMS)
        if size == 0:
            raise ValueError(f"form {form} of an attribute")
        return self.unsigned(size)


_SIZES = {0x0B: 1, 0x0C: 1, 0x11: 1, 0x25: 1, 0x29: 1, 0x05: 2, 0x12: 2, 0x26: 2, 0x2A: 2, 0x27: 3, 0x2B: 3}
_SIZES |= {0x06: 4, 0x13: 4, 0x28: 4, 0x2C: 4, 0x1C: 4, 0x07: 8, 0x14: 8, 0x20: 8, 0x24: 8, 0x1E: 16}
"""Bytes of the forms of fixed size."""
_ULEB_FORMS = {0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02}
_OFFSET_FORMS = {0x10, 0x17, 0x1D, 0x1F20, 0x1F21}
_BLOCK_FORMS = {0x09: 0, 0x18: 0, 0x0A: 1, 0x03: 2, 0x04: 4}
"""The bytes of the block's length; 0: a number of variable length."""
_INDEXED_STRINGS = {0x1A, 0x25, 0x26, 0x27, 0x28}
_INDEXED_ADDRESSES = {0x1B, 0x29, 0x2A, 0x2B, 0x2C}


def _text_at(data: memoryview, at: int) -> bytes:
    return bytes(data[at : at + _LONGEST_PATH]).partition(b"\0")[0]


class _LineProgram:
    """A line program. Sources: DWARF 5, 6.2.4 and 6.2.5; DWARF 4, 6.2.4."""

    def __init__(self, elf: Elf, offset: int, directory: bytes) -> None:
        """directory: the compiler's working directory."""
        reader = self._reader = _DebugReader(elf, elf.content(".debug_line")[offset:])
        reader.data = reader.data[: reader.length()]
        self._version = reader.unsigned(2)
        if not 2 <= self._version <= 5:
            raise ValueError(f"version {self._version} of the line table")
        if self._version == 5:
            reader.unsigned(2)  # sizes of an address and of a segment
        header = reader.unsigned(reader.offset_bytes)
        self._begin = reader.at + header
        self._least = reader.unsigned(1)
        if self._version >= 4:
            reader.unsigned(1)  # operations per instruction, of VLIW machines
        reader.unsigned(1)  # whether a row begins a statement
        self._base = (reader.unsigned(1) ^ 128) - 128
        self._span, self._opcodes = reader.unsigned(1), reader.unsigned(1)
        self._operands = [reader.unsigned(1) for _ in range(self._opcodes - 1)]
        # Before version 5, files and directories are counted from 1; directory 0 is the working directory.
        if self._version == 5:
            self._folders = [name for name, _ in self._entries()]
            self._files = self._entries()
        else:
            self._folders = [directory, *iter(reader.text, b"")]
            self._files = [(b"", 0)]
            while name := reader.text():
                self._files.append((name, reader.uleb()))
                reader.uleb(), reader.uleb()  # time and size
        self._directory = directory

    def _entries(self) -> list[tuple[bytes, int]]:
        """(name, number of the directory) of each entry of a table of version 5."""
        reader = self._reader
        formats = [(reader.uleb(), reader.uleb()) for _ in range(reader.unsigned(1))]
        entries = []
        for _ in range(reader.uleb() if formats else 0):
            values = {content: reader.form(form) for content, form in formats}
            name, folder = values.get(1, b""), values.get(2, 0)
            entries.append((name if isinstance(name, bytes) else b"", folder if isinstance(folder, int) else 0))
        return entries

    def path(self, file: int) -> str:
        if file >= len(self._files):
            return ""
        name, folder = self._files[file]
        parts = (self._directory, self._folders[folder] if folder < len(self._folders) else b"", name)
        return posixpath.normpath(posixpath.join(*(part.decode(errors="backslashreplace") for part in parts)))

    def rows(self) -> Iterator[tuple[int, int, int, bool]]:
        """(address, file, line, whether the sequence ends) of each row."""
        reader, least, base, span, opcodes = self._reader, self._least, self._base, self._span, self._opcodes
        data = reader.data = memoryview(bytes(reader.data[self._begin :]))
        reader.at = 0
        address, file, line = 0, 1, 1
        while reader.at < len(data):
            opcode = data[reader.at]
            reader.at += 1
            if opcode >= opcodes:
                step, more = divmod(opcode - opcodes, span)
                address += step * least
                line += base + more
                yield address, file, line, False
            elif opcode == 0:
                size = reader.uleb()
                end = reader.at + size
                extended = reader.unsigned(1) if size else 0
                if extended == 1:
                    yield address, file, line, True
                    address, file, line = 0, 1, 1
                elif extended == 2:
                    address = reader.unsigned(size - 1)
                reader.at = end
            elif opcode == 1:
                yield address, file, line, False
            elif opcode == 2:
                address += reader.uleb() * least
            elif opcode == 3:
                line += reader.sleb()
            elif opcode == 4:
                file = reader.uleb()
            elif opcode == 8:
                address += (255 - opcodes) // span * least
            elif opcode == 9:
                address += reader.unsigned(2)
            else:
                for _ in range(self._operands[opcode - 1]):
                    reader.uleb()
