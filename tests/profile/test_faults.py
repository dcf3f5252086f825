"""Which code touched pages first, in which mappings: real programs, and records as the kernel tells them."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.profile.targets import as_nobody, build, held, opened, readable, running
from tests.texts import assert_states

from firsttouch.profile.faults import (
    AddressSpace,
    FaultRecorder,
    FaultRow,
    Mapped,
    estimated,
    fault_table,
    read_maps,
    seen_share,
)
from firsttouch.profile.perf import FaultSample, NameChange, NewMapping, PerfBatch, ProcessEnd, ProcessStart
from firsttouch.profile.schema import AnyLine, Faults, Site, Symbol
from firsttouch.profile.symbols import elf

TOUCH = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { page = 4096 };
static char* map(long pages) {
    char* block = mmap(0, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(block, pages * page, MADV_NOHUGEPAGE);
    return block;
}
__attribute__((noinline)) void often(volatile char* block, long pages) {
    for (long i = 0; i < 2 * pages; ++i)
        block[i * page] = 1;  // line of often
}
__attribute__((noinline)) void seldom(volatile char* block, long pages) {
    for (long i = 0; i < pages; ++i)
        block[i * page] = 1;  // line of seldom
}
int main(int count, char** words) {
    long pages = atol(words[1]);
    if (count > 2) {
        puts("ready");
        fflush(stdout);
        while (access(words[2], F_OK)) usleep(1000);
    }
    often(map(2 * pages), pages);
    seldom(map(pages), pages);
    return 0;
}
"""


def line_of(mark: str) -> int:
    return next(number for number, line in enumerate(TOUCH.splitlines(), 1) if mark in line)


@pytest.fixture(scope="module")
def touch() -> Iterator[Path]:
    with readable() as folder:
        yield build(folder, "touch", TOUCH)


def profiled(command: Sequence[str | Path], every: int) -> tuple[list[AnyLine], int, int]:
    """All lines of a profile of faults, the exact count in user mode, and all minor faults."""
    lines: list[AnyLine] = []
    with held(command) as process:
        events = opened(process.pid, every)
        recorder = FaultRecorder(every, {process.pid: 0}.get)
        process.release()
        while not process.ended():
            recorder.take(events.read())
            lines += recorder.flush(0.0)
            time.sleep(0.005)
        assert process.status == 0
        recorder.take(events.read(rest=True))
        lines += [*recorder.flush(0.0), *recorder.symbols()]
        counted = events.counted()
        assert counted is not None
        assert process.usage is not None
        return lines, counted, process.usage.ru_minflt


def of_functions(lines: Sequence[AnyLine]) -> dict[str, FaultRow]:
    return {row.function: row for row in fault_table(lines) if row.function in ("often", "seldom")}


def test_functions_that_touch_two_to_one(touch: Path) -> None:
    lines, counted, minor = profiled([touch, "3000"], every=1)
    rows = of_functions(lines)
    both = sum(row.faults for row in rows.values())
    assert (rows["often"].faults, rows["seldom"].faults) == (6000, 3000)
    assert [round(100 * rows[name].faults / both, 1) for name in ("often", "seldom")] == [66.7, 33.3]
    assert rows["often"].line == line_of("line of often;".rstrip(";"))
    assert rows["seldom"].line == line_of("line of seldom")
    assert all(row.source == str(touch.with_suffix(".c")) and row.file == str(touch) for row in rows.values())
    assert all(row.mappings == (("anonymous", row.faults),) for row in rows.values())
    assert all(line.rows[0][1] == 0 for line in lines if isinstance(line, Faults))

    assert estimated(lines) == counted
    assert sum(row.percent for row in fault_table(lines)) == pytest.approx(100)
    seen = seen_share(counted, minor)
    assert seen.share is not None
    assert 0.9 < seen.share <= 1
    assert_states(seen.sentence, f"{minor:,} page faults", "system calls")


def test_lines_are_valid_in_the_file(touch: Path) -> None:
    lines, _, _ = profiled([touch, "100"], every=1)
    kinds: set[str] = set()
    for line in lines:
        data = msgspec.json.encode(line)
        assert msgspec.json.decode(data, type=Site | Faults | Symbol) == line
        kinds.add(type(line).__name__)
    assert kinds == {"Site", "Faults", "Symbol"}


def test_every_64th_fault_estimates_the_count(touch: Path) -> None:
    lines, counted, _ = profiled([touch, "10000"], every=64)
    rows = of_functions(lines)
    rest = 64 * (1 + (os.cpu_count() or 1))  # at most one period for each thread and processor
    assert rows["often"].faults == pytest.approx(20000, abs=rest)
    assert rows["seldom"].faults == pytest.approx(10000, abs=rest)
    assert counted >= 30000
    assert 0 <= counted - estimated(lines) < rest


def test_an_ordinary_user_sees_the_same(touch: Path) -> None:
    assert elf.Elf  # this Python's library may be closed to that user, so that it is loaded before

    def faults() -> tuple[int, int]:
        rows = of_functions(profiled([touch, "1000"], every=1)[0])
        return rows["often"].faults, rows["seldom"].faults

    assert as_nobody(faults) == (2000, 1000)


def test_a_running_process(touch: Path, tmp_path: Path) -> None:
    with running([touch, "1000", tmp_path / "go"], tmp_path) as process:
        events = opened(process.pid, 1, enable_on_exec=False)
        recorder = FaultRecorder(1, {process.pid: 0}.get, events.attached)
        (tmp_path / "go").touch()
        process.wait()
        recorder.take(events.read(rest=True))
        rows = of_functions([*recorder.flush(0.0), *recorder.symbols()])
    assert (rows["often"].faults, rows["seldom"].faults) == (2000, 1000)
    assert rows["often"].line == line_of("line of often")


def test_kinds_of_memory_have_names(tmp_path: Path) -> None:
    source = r"""
    #include <fcntl.h>
    #include <malloc.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <sys/wait.h>
    #include <unistd.h>
    enum { pages = 200, bytes = pages << 12 };
    static inline __attribute__((always_inline))
    void touch(volatile char* block) { for (long i = 0; i < pages; ++i) block[i << 12] = 1; }
    #define IN(name) __attribute__((noinline)) void name(void* block) { touch(block); __asm__(""); }
    IN(in_heap) IN(in_shared) IN(in_file) IN(in_child)
    __attribute__((noinline)) void in_stack(void) { volatile char block[bytes]; touch(block); }
    int main(int count, char** words) {
        mallopt(M_MMAP_THRESHOLD, 1 << 30);
        in_heap(malloc(bytes));
        in_shared(mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        int file = open(words[1], O_RDWR | O_CREAT, 0600);
        if (ftruncate(file, bytes)) return 1;
        in_file(mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
        in_stack();
        void* ours = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (fork() == 0) {
            in_child(ours);
            _exit(0);
        }
        wait(0);
    }"""
    program = build(tmp_path, "kinds", source)
    lines, _, _ = profiled([program, tmp_path / "data"], every=1)
    mappings: dict[str, Counter[str]] = {}
    for row in fault_table(lines):
        mappings.setdefault(row.function, Counter()).update(dict(row.mappings))
    expected = {
        "in_heap": "[heap]",
        "in_shared": "shared anonymous",
        "in_file": str(tmp_path / "data"),
        "in_stack": "[stack]",
        "in_child": "anonymous",
    }
    for function, name in expected.items():
        assert mappings[function].most_common(1)[0][0] == name
        assert mappings[function][name] >= 10  # files are mapped around a fault


def test_code_of_a_just_in_time_compiler(tmp_path: Path) -> None:
    source = r"""
    #include <string.h>
    #include <sys/mman.h>
    __attribute__((noinline)) void touch(volatile char* block) {
        for (long i = 0; i < 500; ++i) block[i << 12] = 1;
    }
    void after(void) {}
    int main() {
        void* code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        void* block = mmap(0, 500 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(code, (void*)touch, 256);
        __builtin___clear_cache(code, (char*)code + 256);
        ((void (*)(void*))code)(block);
    }"""
    lines, _, _ = profiled([build(tmp_path, "jit", source, "-fno-stack-protector")], every=1)
    rows = {row.file: row for row in fault_table(lines)}
    assert rows["anonymous executable memory"].faults == 500
    assert rows["anonymous executable memory"].mappings == (("anonymous", 500),)


# ---------------------------------------------------------------------------------------- records, without the kernel


def batch(*records: object, lost: int = 0) -> PerfBatch:
    kinds = (ProcessStart, NameChange, ProcessEnd, NewMapping, FaultSample)
    return PerfBatch(*([r for r in records if isinstance(r, kind)] for kind in kinds), lost)  # type: ignore[arg-type]


def counts(recorder: FaultRecorder) -> dict[tuple[str, int, str], int]:
    """By file and offset of the code, and mapping."""
    lines = recorder.flush(1.0)
    sites = {line.site: line for line in lines if isinstance(line, Site)}
    return {
        (sites[site].file, sites[site].offset, mapping): count
        for line in lines
        if isinstance(line, Faults)
        for site, _, mapping, count in line.rows
    }


def test_children_have_their_parents_mappings_until_they_execute() -> None:
    recorder = FaultRecorder(1, lambda pid: None)
    first, second = 4_194_301, 4_194_302  # no such processes
    recorder.take(
        batch(
            NameChange(1.0, first, "a", True),
            NewMapping(1.1, first, 0x1000, 0x1000, 0x4000, "/bin/a"),
            NewMapping(1.2, first, 0x9000, 0x1000, 0, "//anon"),
            ProcessStart(2.0, second, first),
            FaultSample(2.1, second, second, 0x1010, 0x9000),
            NewMapping(2.2, second, 0x9000, 0x1000, 0, "/data"),
            FaultSample(2.3, second, second, 0x1010, 0x9000),
            FaultSample(2.3, first, first, 0x1010, 0x9000),
            NameChange(2.4, second, "b", True),
            NewMapping(2.5, second, 0x1000, 0x1000, 0, "/bin/b"),
            FaultSample(2.6, second, second, 0x1010, 0x9000),
            FaultSample(2.7, first, first, 0x1010, 0x9000),
            ProcessEnd(2.8, second),
        )
    )
    assert counts(recorder) == {
        ("/bin/a", 0x4010, "anonymous"): 3,
        ("/bin/a", 0x4010, "/data"): 1,
        ("/bin/b", 0x10, "unknown"): 1,
    }
    assert recorder.flush(2.0) == []


def test_lost_records_are_told() -> None:
    recorder = FaultRecorder(64, lambda pid: None)
    recorder.take(batch(lost=7))
    assert recorder.flush(1.0) == [Faults(t=1.0, every=64, rows=[], lost=7)]


def test_process_keys() -> None:
    keys: dict[int, int] = {}
    recorder = FaultRecorder(1, keys.get)
    pid = 4_194_301
    recorder.take(batch(FaultSample(1.0, pid, pid, 1, 1)))
    keys[pid] = 5
    recorder.take(batch(FaultSample(2.0, pid, pid, 1, 1)))
    recorder.take(batch(ProcessEnd(3.0, pid)))
    keys[pid] = 6
    recorder.take(batch(FaultSample(4.0, pid, pid, 1, 1)))
    (line,) = (line for line in recorder.flush(1.0) if isinstance(line, Faults))
    assert sorted(row[1] for row in line.rows) == [-1, 5, 6]


def test_names_that_are_no_text_can_be_written() -> None:
    recorder = FaultRecorder(1, lambda pid: None)
    pid = 4_194_301
    recorder.take(
        batch(
            NewMapping(1.0, pid, 0x1000, 0x1000, 0, "/tmp/\udcff\n<b>"),
            FaultSample(1.1, pid, pid, 0x1001, 0x1002),
        )
    )
    lines = recorder.flush(1.0)
    assert b"\\\\xff" in msgspec.json.encode(lines)
    assert recorder.symbols() == []


def test_mappings_replace_those_below() -> None:
    """Compared with a list of all pages."""
    generator = random.Random(1)
    for _ in range(50):
        space, pages = AddressSpace(), [("", 0)] * 100
        for number in range(60):
            begin = generator.randrange(100)
            end = generator.randrange(begin, 101)
            space.add(Mapped(begin, end, 1000 * number, str(number)))
            pages[begin:end] = [(str(number), 1000 * number + i) for i in range(end - begin)]
            for page, (name, offset) in enumerate(pages):
                found = space.at(page)
                assert (found is None) == (name == "")
                if found is not None:
                    assert (found.name, found.offset + page - found.begin) == (name, offset)


def test_maps_of_this_process() -> None:
    rows = read_maps(os.getpid())
    assert any(row.name == "[stack]" for row in rows)
    assert any(row.name.endswith(".so") or ".so." in row.name for row in rows)
    assert read_maps(4_194_301) == []


def test_many_samples_and_processes_take_little_memory() -> None:
    import tracemalloc

    recorder = FaultRecorder(1, lambda pid: None)
    root = 10_000_000  # above the largest pid
    maps = [NewMapping(0.0, root, i << 20, 1 << 20, 0, f"/lib/{i}") for i in range(200)]
    recorder.take(batch(*maps))
    tracemalloc.start()
    for number in range(20):
        first = root + 1 + 1000 * number
        recorder.take(
            batch(
                *(ProcessStart(1.0, first + i, root) for i in range(1000)),
                *(
                    FaultSample(2.0 + j, first + i, 1, (i % 50 << 20) + j, i % 100 << 20)
                    for i in range(1000)
                    for j in range(2)
                ),
                *(ProcessEnd(100.0, first + i) for i in range(1000)),
            )
        )
        lines = recorder.flush(1.0)
        assert sum(row[3] for line in lines if isinstance(line, Faults) for row in line.rows) == 2000
    assert tracemalloc.get_traced_memory()[0] < 1 << 20
    tracemalloc.stop()


def test_rows_of_the_table_join_sites_of_one_line() -> None:
    lines: list[AnyLine] = [
        *(Site(site=i, file="/bin/a", offset=i) for i in range(4)),
        Symbol(site=0, function="f", source="/a.c", number=3),
        Symbol(site=1, function="f", source="/a.c", number=3),
        Symbol(site=2, function="f", source="/a.c", number=4),
        Faults(t=1.0, every=64, rows=[(0, 1, "anonymous", 1), (1, 1, "[heap]", 2), (2, 1, "anonymous", 3)]),
        Faults(t=2.0, every=64, rows=[(0, 2, "anonymous", 3), (3, 2, "anonymous", 1)]),
    ]
    assert fault_table(lines) == [
        FaultRow("f", "/a.c", 3, "/bin/a", 384, 60.0, (("anonymous", 256), ("[heap]", 128))),
        FaultRow("f", "/a.c", 4, "/bin/a", 192, 30.0, (("anonymous", 192),)),
        FaultRow("", "", 0, "/bin/a", 64, 10.0, (("anonymous", 64),)),
    ]
    assert fault_table([]) == []
    assert seen_share(0, 0).share is None
