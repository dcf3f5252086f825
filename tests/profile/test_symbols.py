"""Functions and source lines of places in programs that compilers here make, and in files that are broken."""

from __future__ import annotations

import itertools
import os
import posixpath
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from tests.profile.targets import build

from firsttouch.profile.symbols import elf
from firsttouch.profile.symbols.elf import Elf
from firsttouch.profile.symbols.lines import SourceLine, find_lines
from firsttouch.profile.symbols.lookup import CodeLocation, symbolize

PROGRAM = r"""
#include <algorithm>
#include <cstdio>
#include <vector>
namespace app {
template <class T>
__attribute__((noinline)) void fill(std::vector<T>& values) {
    for (auto& value : values) value = 1;
    std::sort(values.begin(), values.end());
}
struct Field {
    __attribute__((noinline)) double sum(const std::vector<double>& values) const;
};
double Field::sum(const std::vector<double>& values) const {
    double all = 0;
    for (double value : values) all += value;  // line of sum
    return all;
}
}  // namespace app
int main(int count, char** words) {
    std::vector<double> values(count * 100);
    app::fill(values);
    std::printf("%s %f\n", words[0], app::Field().sum(values));
}
"""
FLAVOURS = {
    "dwarf-5": ["-gdwarf-5"],
    "dwarf-4": ["-gdwarf-4"],
    "dwarf-3": ["-gdwarf-3"],
    "compressed": ["-gz"],
    "at-a-fixed-place": ["-no-pie", "-Wl,-Ttext-segment=0x600000"],
    "in-one-segment": ["-Wl,-z,noseparate-code"],
    "by-function": ["-ffunction-sections", "-O2"],
}


LINKED = {"at-a-fixed-place", "in-one-segment"}
"""The flavours that only linking makes."""

Compiled = Callable[..., Path]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """compiled(*options): PROGRAM with these options, made once.

    A test that changes the file needs a copy of its own.
    """

    @cache
    def compile_with(*options: str) -> Path:
        return build(tmp_path_factory.mktemp("compiled"), "program", PROGRAM, *options, language="c++")

    return compile_with


@pytest.fixture(scope="module")
def linked(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """linked(*options): PROGRAM compiled once, and linked once with these options."""

    @cache
    def link_with(*options: str) -> Path:
        program = tmp_path_factory.mktemp("linked") / "program"
        subprocess.run([tool("g++"), compiled("-c"), *options, "-o", program], check=True)
        return program

    return link_with


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}")
    return path


def copy_of(program: Path, folder: Path) -> Path:
    return Path(shutil.copy2(program, folder))


def offsets_of_code(program: Path, step: int = 7) -> list[int]:
    text = Elf.open(program).sections[".text"]
    return list(range(text.offset, text.offset + text.size, step))


def expected(program: Path, offsets: list[int]) -> list[tuple[str, int]]:
    """What pyelftools reads: the source and the line, ('', 0) if there is none."""
    rows: list[tuple[int, int, str, int]] = []
    with program.open("rb") as stream:
        dwarf = ELFFile(stream).get_dwarf_info()
        for unit in dwarf.iter_CUs():
            lines = dwarf.line_program_for_CU(unit)
            directory = unit.get_top_DIE().attributes["DW_AT_comp_dir"].value
            old = lines.header.version < 5
            folders = [directory] * old + list(lines.header.include_directory)
            files = lines.header.file_entry
            states = [entry.state for entry in lines.get_entries() if entry.state is not None]
            for one, following in itertools.pairwise(states):
                if not one.end_sequence and one.line > 0:
                    file = files[one.file - old]
                    path = posixpath.join(directory, folders[file.dir_index], file.name).decode()
                    rows.append((one.address, following.address, posixpath.normpath(path), one.line))
    file = Elf.open(program)
    return [
        next(((path, line) for begin, end, path, line in rows if begin <= address < end), ("", 0))
        for address in map(file.address, offsets)
        if address is not None
    ]


def agree(program: Path) -> int:
    """Compares all of a program's code with pyelftools and returns how many places have a line."""
    offsets = offsets_of_code(program)
    file = Elf.open(program)
    addresses = [file.address(offset) or 0 for offset in offsets]
    end = time.monotonic() + 60
    found = find_lines(file.debug_file() or file, addresses, end)
    known = 0
    for address, line in zip(addresses, expected(program, offsets), strict=True):
        assert found.get(address, [SourceLine()])[-1] == (*line, False), hex(address)
        known += line[1] > 0
    return known


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_lines_are_those_of_pyelftools(compiled: Compiled, linked: Compiled, flavour: str) -> None:
    make = linked if flavour in LINKED else compiled
    assert agree(make(*FLAVOURS[flavour])) > 50


@pytest.mark.parametrize("option", ["-gsplit-dwarf", "-gdwarf64"])  # the rest in other files; offsets of 64 bits
def test_forms_that_pyelftools_does_not_read(compiled: Compiled, option: str) -> None:
    def lines(*options: str) -> set[SourceLine]:
        program = compiled(*options)
        folder = str(program.parent)
        file = Elf.open(program)
        addresses = [file.address(offset) or 0 for offset in offsets_of_code(program, 1)]
        found = find_lines(file, addresses, time.monotonic() + 60).values()
        return {SourceLine(chain[-1].file.replace(folder, ""), chain[-1].line) for chain in found}

    assert lines(option) == lines()
    assert len(lines()) > 50


def test_lines_without_a_table_of_ranges(tmp_path: Path) -> None:
    """clang writes no .debug_aranges."""
    compiler = next(filter(None, map(shutil.which, ("clang++", "clang++-19"))), None)
    if compiler is None:
        pytest.skip("needs clang++")
    (tmp_path / "program.cpp").write_text(PROGRAM)
    for version in ("-gdwarf-5", "-gdwarf-4"):
        program = tmp_path / f"program{version}"
        command = [compiler, "-O1", version, "-ffunction-sections", tmp_path / "program.cpp", "-o", program]
        subprocess.run(command, check=True)
        assert agree(program) > 50


WITHOUT_LINES = """volatile int value;
int first() {
    value = 3;
    value = 4;
    return value;
}
int second() { return value; }
int third() {
    return value;
}
int main() { return first() + second() + third(); }
"""


def test_code_of_no_line_has_that_of_the_code_before_it_in_its_function(tmp_path: Path) -> None:
    """Of a function that has no line at all, nothing of the function before it counts."""
    compiler = next(filter(None, map(shutil.which, ("clang++", "clang++-19"))), None)
    if compiler is None:
        pytest.skip("needs clang++: GNU's assembler writes no line 0")
    source, assembly, program = (tmp_path / name for name in ("code.cpp", "code.s", "code"))
    source.write_text(WITHOUT_LINES)
    subprocess.run([compiler, "-g", "-O0", "-S", source, "-o", assembly], check=True)
    assembly.write_text(re.sub(r"(\.loc\s+\d+) [47] ", r"\1 0 ", assembly.read_text()))
    subprocess.run([compiler, assembly, "-o", program], check=True)
    lines: dict[str, set[int]] = {}
    near: dict[str, set[int]] = {}
    for place in symbolize([(str(program), offset) for offset in offsets_of_code(program, 1)]).values():
        lines.setdefault(place.function, set()).add(place.number)
        if place.near:
            near.setdefault(place.function, set()).add(place.number)
    assert lines["first()"] - {6} == {2, 3, 5}
    assert lines["second()"] == {0}
    assert lines["third()"] >= {8, 9}
    assert near == {"first()": {3}}


INLINED = r"""
static inline __attribute__((always_inline)) void one(volatile char* at) {
    *at = 1;
}
static inline __attribute__((always_inline)) void all(volatile char* block, long n) {
    for (long i = 0; i < n; ++i)
        one(block + i);
}
__attribute__((noinline)) void first(volatile char* block, long n) {
    all(block, n);  // the call in first
}
__attribute__((noinline)) void second(volatile char* block, long n) {
    if (n > 5) {
        all(block + 1, n);  // the call in second
    }
}
int main(int n, char** block) {
    first(*block, n);
    second(*block, n);
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("options", [["-gdwarf-5"], ["-gdwarf-4"], ["-gdwarf-5", "-O2", "-ffunction-sections"]])
def test_inlined_code_has_the_line_of_its_call(tmp_path: Path, compiler: str, options: list[str]) -> None:
    source, program = tmp_path / "inlined.c", tmp_path / "inlined"
    source.write_text(INLINED)
    subprocess.run([tool(compiler), "-g", "-O1", *options, source, "-o", program], check=True)
    found = symbolize([(str(program), offset) for offset in offsets_of_code(program, 1)]).values()
    for function in ("first", "second"):
        begin, call = (
            next(number for number, line in enumerate(INLINED.splitlines(), 1) if mark in line)
            for mark in (f"void {function}(", f"the call in {function}")
        )
        lines = {place.number for place in found if place.function == function}
        assert call in lines
        assert all(begin <= line <= call + 2 for line in lines if line)
        assert {place.source for place in found if place.function == function and place.number} == {str(source)}


def test_of_inlined_calls_the_outermost_in_own_code_is_told(tmp_path: Path) -> None:
    """The standard library calls the program, and is called by it."""
    source = r"""
    #include <algorithm>
    #include <vector>
    __attribute__((noinline)) void fill(std::vector<int>& values, int n) {
        std::fill(values.begin(), values.end(), n);  // fills
    }
    __attribute__((noinline)) void sort(std::vector<int>& values, int n) {
        std::for_each(values.begin(), values.end(), [&](int& value) {
            value = n * n;  // within for_each
        });
    }
    int main(int n, char**) {
        std::vector<int> values(n);
        fill(values, n);
        sort(values, n);
        return values[0];
    }"""
    program = build(tmp_path, "program", source, "-O2", language="c++")
    found = symbolize([(str(program), offset) for offset in offsets_of_code(program, 1)]).values()
    for function in ("fill", "sort"):
        places = {place for place in found if place.function.startswith(f"{function}(") and place.number}
        assert {place.source for place in places} == {str(program.with_suffix(".cpp"))}
    line = next(number for number, line in enumerate(source.splitlines(), 1) if "// fills" in line)
    assert line in {place.number for place in found if place.function.startswith("fill(")}


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("options", [["-O2", "-gdwarf-5"], ["-O3", "-gdwarf-4"], ["-O2", "-g1"]])
def test_inlined_containers_are_told_by_their_headers(tmp_path: Path, compiler: str, options: list[str]) -> None:
    """So are algorithms; a function of the program has none, however it is called."""
    source = r"""
    #include <algorithm>
    #include <vector>
    static void resize(float* block, int n) {
        for (int i = 0; i < n; ++i) block[i] = n;  // none
    }
    int main(int n, char**) {
        float* block = new float[n];
        resize(block, n);  // own
        std::vector<int> values;
        values.resize(n);  // stl_vector.h
        std::vector<float> sized(n, 3.0f);  // stl_vector.h
        for (int i = 0; i < n; ++i)
            values.push_back(i);  // stl_vector.h
        std::fill(block + n / 2, block + n, (float)n);  // stl_algobase.h
        return (int)block[n - 1] + values[n] + (int)sized[n - 1];
    }"""
    (tmp_path / "program.cpp").write_text(source)
    program = tmp_path / "program"
    subprocess.run([tool(compiler), *options, tmp_path / "program.cpp", "-o", program], check=True)
    headers: dict[int, set[str]] = {}
    for place in symbolize([(str(program), offset) for offset in offsets_of_code(program, 1)]).values():
        if place.function == "main" and place.source == str(tmp_path / "program.cpp"):
            headers.setdefault(place.number, set()).update(posixpath.basename(header) for header in place.headers)
    for number, line in enumerate(source.splitlines(), 1):
        expected = line.partition("// ")[2]
        if expected in ("none", "own"):
            assert headers.get(number, set()) == set()
        elif expected:
            assert expected in headers[number]
            assert ("stl_vector.h" in headers[number]) == (expected != "stl_algobase.h")


def test_a_split_part_of_a_function_has_its_own_lines(tmp_path: Path) -> None:
    """GCC splits the body off a function that may return at its beginning, and inlines it again."""
    source = r"""
    #include <stdio.h>
    #include <stdlib.h>
    __attribute__((noinline)) void* obtain(size_t n) { return malloc(n); }
    void go(int count, char** arguments) {
        if (count != 1) {
            printf("%s", arguments[0]);
            exit(0);
        }
        char* block = obtain(count);  // obtains
        for (int i = 0; i < count; ++i) block[i] = (char)(i * count);
    }
    int main(int count, char** arguments) {
        go(count, arguments);
        return 0;
    }"""
    program = build(tmp_path, "program", source, "-O2")
    places = symbolize([(str(program), offset) for offset in offsets_of_code(program, 1)]).values()
    line = next(number for number, line in enumerate(source.splitlines(), 1) if "// obtains" in line)
    assert line in {place.number for place in places if place.function == "go"}


def places_of(program: Path, **more: float) -> dict[str, CodeLocation]:
    """By function."""
    found = symbolize([(str(program), offset) for offset in offsets_of_code(program)], **more)
    return {place.function: place for place in found.values()}


def test_functions_have_their_names_in_the_program(linked: Compiled) -> None:
    places = places_of(linked())
    assert {"main", "_start"} <= places.keys()
    assert "app::Field::sum(std::vector<double, std::allocator<double> > const&) const" in places
    assert "void app::fill<double>(std::vector<double, std::allocator<double> >&)" in places


def test_stripped_files(tmp_path: Path) -> None:
    library = build(tmp_path, "library.so", PROGRAM, "-shared", "-fPIC", language="c++")
    subprocess.run([tool("strip"), library], check=True)
    places = places_of(library)
    assert "main" in places  # exported
    assert {place.number for place in places.values()} == {0}
    assert "" in places  # register_tm_clones is not, and is not taken for its neighbour


@pytest.mark.parametrize("kind", ["link beside it", "link in .debug", "build-id"])
def test_separate_debug_files(tmp_path: Path, linked: Compiled, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    program = copy_of(linked("-Wl,--build-id=0x0123456789abcdef0123"), tmp_path)
    whole = places_of(program)
    folder = {"link beside it": ".", "link in .debug": ".debug", "build-id": "debug/.build-id/01"}[kind]
    debug = tmp_path / folder / ("23456789abcdef0123.debug" if kind == "build-id" else "program.debug")
    debug.parent.mkdir(parents=True, exist_ok=True)
    objcopy = tool("objcopy")
    subprocess.run([objcopy, "--only-keep-debug", program, debug], check=True)
    link = [] if kind == "build-id" else [f"--add-gnu-debuglink={debug}"]
    subprocess.run([objcopy, "--strip-all", *link, program], check=True)
    monkeypatch.setattr(elf, "DEBUG_FOLDER", tmp_path / "debug")
    assert places_of(program) == whole
    assert any(place.number for place in whole.values())


def test_a_symbol_table_within_a_stripped_file(tmp_path: Path, linked: Compiled) -> None:
    """As Fedora's packages have it."""
    program = copy_of(linked(), tmp_path)
    functions = places_of(program).keys()
    table = tmp_path / "table"
    objcopy = tool("objcopy")
    subprocess.run([objcopy, "--strip-debug", "--only-keep-debug", program, table], check=True)
    subprocess.run([tool("xz"), table], check=True)
    subprocess.run([objcopy, "--strip-all", f"--add-section=.gnu_debugdata={table}.xz", program], check=True)
    assert places_of(program).keys() == functions


def test_functions_only_when_the_time_is_over(linked: Compiled) -> None:
    places = places_of(linked(), limit=-1.0)
    assert "main" in places
    assert {place.number for place in places.values()} == {0}


def test_other_roots(linked: Compiled) -> None:
    program = linked()
    offset = offsets_of_code(program)[0]
    assert symbolize([("/program", offset)], root=program.parent)["/program", offset].function == "_start"


def test_the_largest_library_of_the_interpreter() -> None:
    """Symbols of large files are read as arrays."""
    import numpy as np

    files = [*Path(np.__file__).parent.glob("**/*.so"), Path(sys.executable).resolve()]
    largest = max(files, key=lambda file: file.stat().st_size)
    offsets = offsets_of_code(largest)[::5000]
    assert symbolize([(str(largest), offset) for offset in offsets]).keys() == {(str(largest), o) for o in offsets}


def test_what_is_no_program(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("#!/bin/sh\n" * 100)
    names = ["fifo", "empty", "text", "absent", ""]
    files = [*(str(tmp_path / name) for name in names), "[vdso]", "//anon", "anonymous executable memory", "relative"]
    files += ["/dev/zero", "/memfd:code (deleted)", "/a\0b"]
    assert set(symbolize([(file, 64) for file in files]).values()) == {CodeLocation()}
    assert symbolize([]) == {}


def broken_copies(data: bytes, count: int) -> list[bytes]:
    generator = random.Random(4)
    copies = [data[: generator.randrange(len(data))] for _ in range(count // 4)]
    file = bytearray(data)
    for _ in range(count):
        copy = bytearray(file)
        for _ in range(generator.choice((1, 10, 300))):
            copy[generator.randrange(len(copy))] = generator.choice((0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)))
        copies.append(bytes(copy))
    for _ in range(count):  # the headers, which lead everywhere
        copy = bytearray(file)
        for _ in range(generator.choice((1, 4))):
            copy[generator.randrange(4, 64)] = generator.randrange(256)
        copies.append(bytes(copy))
    return copies


@pytest.mark.parametrize("options", [["-gdwarf-5"], ["-gdwarf-4"], ["-gz"]], ids=["5", "4", "compressed"])
def test_broken_files_give_nothing_or_something_but_no_error(tmp_path: Path, options: list[str]) -> None:
    program = build(
        tmp_path, "program", "int main(void) { return 0; }\nint other(int a) { return a + main(); }", *options
    )
    offsets = offsets_of_code(program)
    copy = tmp_path / "copy"
    for data in broken_copies(program.read_bytes(), 150):
        copy.write_bytes(data)
        found = symbolize([(str(copy), offset) for offset in [*offsets, 0, 1 << 40, (1 << 64) - 1]], limit=1.0)
        assert all(isinstance(place.function, str) and place.number >= 0 for place in found.values())


def test_broken_debug_sections(tmp_path: Path, compiled: Compiled) -> None:
    """Random bytes in the sections themselves, so that the headers lead there."""
    program = compiled("-gdwarf-5")
    data, offsets = program.read_bytes(), offsets_of_code(program)
    sections = Elf.open(program).sections
    generator = random.Random(5)
    copy = tmp_path / "copy"
    for name in (".debug_info", ".debug_abbrev", ".debug_line", ".debug_aranges", ".debug_rnglists", ".symtab"):
        section = sections[name]
        for _ in range(10):
            changed = bytearray(data)
            for _ in range(generator.choice((1, 30, 1000))):
                place = section.offset + generator.randrange(min(section.size, generator.choice((64, section.size))))
                changed[place] = generator.randrange(256)
            copy.write_bytes(changed)
            symbolize([(str(copy), offset) for offset in offsets[::10]], limit=1.0)
