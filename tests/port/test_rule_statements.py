"""Statements of `port` that were found false of programs which others wrote: what is said instead, and beside each
case one that only looks like it, of which the statement is true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.port.journals import profile
from tests.port.test_port_findings import KIB, MIB, READS, again, names, of, rows
from tests.port.traces import KERNEL, PROGRAM, Calls
from tests.texts import assert_states

from firsttouch.advice.port.found import found
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.advice.port.reading import findings_of, traced_run
from firsttouch.cli.ported import lines
from firsttouch.profile.calls import BlockCall
from firsttouch.profile.reading import read
from firsttouch.profile.recorded import CallFrame
from firsttouch.profile.schema import TOUCH_GRANULE, Site, Symbol, TouchSamples
from firsttouch.profile.touches import TouchIndex
from firsttouch.program.trace import trace
from firsttouch.report.ported import ported_page


def shown(port: PortFindings) -> str:
    """The terminal's text, on one line."""
    return " ".join(" ".join(lines(port)).split())


# ------------------------------------------------------------------------------------------------ partial transfers


def parts(
    starts: Sequence[int], each: int = 16 * KIB, *, launched: bool = True, whole_between: bool = False, way: str = "d2h"
) -> Calls:
    """Parts of a block of 64 KiB that are copied from one host array."""
    calls = Calls()
    block, host = calls.block(64 * KIB), calls.host(64 * KIB)
    for start in starts:
        if launched:
            calls.launch(block)
        sides = (host + start, block + start) if way == "d2h" else (block + start, host + start)
        calls.copy(*sides, each, blocking=False)
        if whole_between:
            calls.copy(host, block, 64 * KIB)
    return calls


QUARTERS = [0, 16 * KIB, 32 * KIB, 48 * KIB]


@pytest.mark.parametrize(
    ("made", "partial"),
    [
        (lambda: parts(QUARTERS), 0),
        (lambda: parts(QUARTERS, way="h2d"), 0),
        (lambda: parts(QUARTERS * 3), 0),
        (lambda: parts(QUARTERS[::-1]), 0),
        (lambda: parts([0, 15 * KIB, 30 * KIB, 45 * KIB], 19 * KIB), 0),  # which overlap at their ends
        (lambda: parts(range(0, 64 * KIB, 256), 256, launched=False), 0),
        (lambda: parts([16 * KIB] * 4), 4),
        (lambda: parts(QUARTERS[:3]), 3),
        (lambda: parts([*QUARTERS, 0, 0]), 2),
        (lambda: parts(QUARTERS, whole_between=True), 4),
        (lambda: parts(range(0, 64 * KIB, 256), 256), 256),  # pages go back and forth for each
    ],
    ids=[
        "quarters",
        "to the device",
        "again and again",
        "backwards",
        "overlapping",
        "small ones",
        "the same one",
        "not the last one",
        "all, then one",
        "each after all",
        "small ones between kernels",
    ],
)
def test_parts_that_are_all_of_a_buffer_together_are_no_partial_transfers(made: Callable[[], Calls], partial: int):
    assert sum(row.count for row in rows(made()) if row.rule.name == "partial") == partial


def test_parts_of_a_buffer_s_next_life_are_counted_anew():
    calls = Calls()
    for halves in ((0, 1), (1, 0)):
        block, host = calls.block(64 * KIB), calls.host(64 * KIB)
        calls.copy(host, block + halves[0] * 32 * KIB, 32 * KIB)
        calls.free(block)
    assert sum(row.count for row in rows(calls) if row.rule.name == "partial") == 2


# --------------------------------------------------------------------------------------------------- memory pools

REDUCES = "_ZN3cub18DeviceReduceKernelIPfEEvT_S1_"
THRUST = {70: "thrust::detail::allocate(unsigned long)", 71: "void thrust::detail::release<float>(float*)"}


def temporary(
    *,
    kernel: str = REDUCES,
    functions: dict[int, str] = THRUST,
    freed: tuple[int, ...] = (71, 5),
    file: str = PROGRAM,
    rounds: int = 1,
) -> PortFindings:
    """Storage of which kernels get two parts, and one of them is copied back. freed: the frames where it is freed."""
    calls = Calls()
    data = calls.block(MIB, line=1)
    calls.copy(data, calls.host(MIB), MIB, line=2)
    for _ in range(rounds):
        storage = calls.block(64 * KIB, site=(CallFrame(file, 70), CallFrame(PROGRAM, 5)))
        calls.launch(data, storage, storage + 4 * KIB, kernel=kernel, line=5)
        calls.copy(0x7FFF0000, storage + 4 * KIB, 4, host="stack", line=5)
        if freed:
            calls.free(storage)
            place = next(n for n in (-1, -2) if isinstance(calls.calls[n], BlockCall))
            site = tuple(CallFrame(PROGRAM, line) for line in freed)
            calls.calls[place] = msgspec.structs.replace(calls.calls[place], site=site)
    known = {key: caller for key, caller in names(functions).items() if file == PROGRAM or key[1] != 70}
    known[PROGRAM, 80] = msgspec.structs.replace(known[PROGRAM, 5], offset=80)  # inlined in the line that calls it
    return found(trace(calls.traced, names=known), known, command=["/app/p"])


@pytest.mark.parametrize(
    ("made", "copies"),
    [(temporary, 1), (lambda: temporary(rounds=3), 3), (lambda: temporary(freed=(80,)), 1)],
    ids=["once", "three times", "inlined"],
)
def test_temporary_storage_of_a_library_s_call_is_no_pool(made: Callable[[], PortFindings], copies: int):
    port = made()
    assert [block.in_pool for block in port.blocks] == [""] * 2
    assert (port.findings, "pool" in shown(port), port.copies) == ([], False, 1)
    assert [(row.of, row.copies) for row in port.other_copies] == [("stack", copies)]


@pytest.mark.parametrize(
    "made",
    [
        lambda: temporary(kernel=KERNEL),  # the program's own kernels get it
        lambda: temporary(freed=(71, 6)),  # a container or an allocator, which ends elsewhere
        lambda: temporary(freed=()),  # an allocator that keeps it
        lambda: temporary(functions={}),  # of a function of the program
        lambda: temporary(file="/site-packages/torch/lib/libc10_cuda.so", freed=()),
    ],
    ids=["other kernels", "freed elsewhere", "kept", "the program's own", "PyTorch"],
)
def test_what_an_allocator_divides_stays_a_pool(made: Callable[[], PortFindings]):
    assert "part" in {block.in_pool for block in made().blocks}


# ---------------------------------------------------------------------------------------------- host arrays in turn


def in_turn(arrays: int, each: int, *, size: int = 64 * KIB) -> Calls:
    """Host arrays that are copied into one buffer, in parts of its size."""
    calls = Calls()
    block = calls.block(size)
    for _ in range(arrays):
        host = calls.host(each)
        for start in range(0, each, size):
            calls.copy(block, host + start, size)
            calls.launch(block)
            calls.wait()
    return calls


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: in_turn(1, 640 * KIB), "parts of a host array of 640 KiB in turn"),
        (lambda: in_turn(3, 640 * KIB), "parts of 3 host arrays (1.88 MiB) in turn"),
        (lambda: in_turn(2, 64 * KIB), ", 2 host arrays (128 KiB) in turn"),  # as a whole
        (lambda: in_turn(120, 64 * KIB), "at least 100 host arrays"),
    ],
)
def test_of_arrays_that_take_turns_in_a_buffer_their_number_is_told(made: Callable[[], Calls], said: str):
    assert said in shown(of(made()))


# -------------------------------------------------------------------------------------------- what the watch can see


def of_both_sides(kind: Any, *, launched: bool = True, **more: Any) -> Calls:
    """A copied buffer, and memory of a kind, which kernels get or not."""
    calls = Calls()
    copied, other = calls.block(MIB), calls.block(MIB, kind=kind, **more)
    calls.copy(copied, calls.host(MIB), MIB)
    calls.launch(*([copied, other] if launched else [copied]))
    return calls


@pytest.mark.parametrize(
    ("made", "searched"),
    [
        (lambda: of_both_sides("managed"), False),
        (lambda: of_both_sides("managed_static", name="counter"), False),
        (lambda: of_both_sides("pinned"), False),
        (lambda: of_both_sides("pinned", registered=True), False),
        (lambda: of_both_sides("pinned", launched=False), True),
        (lambda: of_both_sides("managed", launched=False), True),
        (lambda: of_both_sides("device"), True),
    ],
)
def test_of_memory_that_nobody_watched_it_is_not_said_that_no_one_used_it_at_once(
    made: Callable[[], Calls], searched: bool, tmp_path: Path
):
    port = of(made())
    (row,) = (row for row in port.searched if row.kind == "concurrent")
    assert (row.searched, row.limit == "unified") == (searched, not searched)
    assert (
        "unseen concurrent access: 1 buffer of memory that both sides use, which nobody watched" in shown(port)
    ) == (not searched)
    page = ported_page(read(profile(tmp_path / "p", made().traced, callers=names())))
    assert page is not None
    (cells,) = (cells for table in page.tables if table.anchor == "hazards" for cells in table.rows[:1])
    assert cells[:2] == ["concurrent access", "none" if searched else "unseen"]


def test_what_is_seen_beside_unwatched_memory_is_still_told():
    calls = Calls()
    block, managed, host = calls.block(MIB), calls.block(MIB, kind="managed"), calls.host(MIB)
    calls.copy(block, host, MIB, sample=1)
    calls.launch(block, managed, kernel=READS)
    calls.host_use(host, MIB, [(host, host + 8 * KIB)])
    calls.copy(block, host, MIB, sample=2)
    assert [(row.kind, row.certainty) for row in of(calls).counted] == [("concurrent", "seen")]


# --------------------------------------------------------------------------------------------------- first touches


@pytest.mark.parametrize(
    ("every", "samples", "line"),
    [
        (8, [(0.5, 1, 2), (1.0, 2, 60)], 11),  # fewer, but earlier
        (8, [(0.5, 2, 60), (1.0, 1, 2)], 12),
        (8, [(1.0, 1, 2), (1.0, 2, 60)], 12),  # read together
        (1, [(0.5, 1, 2), (1.0, 2, 60)], 11),
    ],
)
def test_the_first_touch_is_the_earliest_sample_and_is_called_sampled(
    every: int, samples: Sequence[tuple[float, int, int]], line: int, tmp_path: Path
):
    calls = Calls(pid=100)
    block, host = calls.block(MIB, line=1), calls.host(MIB)
    calls.copy(block, host, MIB, line=2)
    touched = [
        *(Site(site=n, file="/app/program", offset=n) for n in (1, 2)),
        *(Symbol(site=n, function=f"f{n}", source="/app/p.cu", number=10 + n) for n in (1, 2)),
        *(
            TouchSamples(t=t, every=every, rows=[(n, 0, 0, host // TOUCH_GRANULE, MIB // TOUCH_GRANULE, count)])
            for t, n, count in samples
        ),
    ]
    content = read(profile(tmp_path / "p", calls.traced, callers=names(), lines=touched))
    port = found(calls.run, names(), touches=TouchIndex(content, 100))
    (partner,) = port.blocks[0].partners
    assert partner.touched is not None
    assert (partner.touched.line, partner.every) == (line, every)
    page = ported_page(content)
    assert page is not None
    ((cell,),) = ([row[4] for row in table.rows] for table in page.tables if table.anchor == "unified-memory")
    assert ("as far as was sampled" in cell) == (every > 1)


# ---------------------------------------------------------------------------------------- what has to be fixed first


def on_stack(*, blocking: bool) -> Calls:
    calls = Calls()
    block = calls.block(4)
    calls.copy(block, 0x7FFF0000, 4, host="stack", blocking=blocking, line=5)
    calls.launch(block)
    calls.wait(stack=0x7FFF1000)
    return calls


def queried(*sizes: int, free: int = 8 * MIB, freed: bool = False, function: str = "main") -> PortFindings:
    """A function asks how much is free and allocates."""
    calls = Calls()
    calls.query(free, 16 * MIB, line=7)
    for nbytes in sizes:
        block = calls.block(nbytes, line=8)
        if freed:
            calls.free(block)
    return of(calls, {8: function})


@pytest.mark.parametrize(
    ("port", "fix", "note"),
    [
        (lambda: of(again("_Z6updatePf")), "", "restoring copy"),
        (lambda: of(on_stack(blocking=True)), "", "stack variable"),
        (lambda: of(on_stack(blocking=False)), "fix 1 hazard first", ""),
        (lambda: queried(MIB), "", "free memory"),
        (lambda: queried(6 * MIB), "fix 1 hazard first", ""),
        (lambda: queried(MIB, MIB, 512 * KIB), "fix 1 hazard first", ""),  # together
        (lambda: queried(*[MIB] * 10, freed=True), "", "free memory"),  # never together
        (lambda: queried(6 * MIB, function="other"), "", "free memory"),
    ],
)
def test_only_what_has_to_be_fixed_is_counted_and_the_rest_is_named(
    port: Callable[[], PortFindings], fix: str, note: str
):
    found_in = port()
    assert (fix or "nothing has to be fixed first") in found_in.summary
    assert ("to note: " + note in found_in.summary) if note else "to note" not in found_in.summary
    assert {row.to_fix for row in found_in.counted} == {bool(fix)}
    shown = lines(found_in)
    for head, is_there in (("fix first ", bool(fix)), ("notes ", bool(note))):
        assert any(line.startswith(head) for line in shown) == is_there


def test_hazards_and_notes_are_told_apart_everywhere(tmp_path: Path):
    calls = again("_Z6updatePf")
    calls.pid = 100
    calls.copy(calls.block(KIB, kind="device_static", name="table"), calls.host(KIB), KIB, line=9)
    content = read(profile(tmp_path / "p", calls.traced, callers=names()))
    port = findings_of(content, traced_run(content))
    assert_states(port.summary, "fix 1 hazard first", "to note: restoring copy")
    assert {row.kind: row.to_fix for row in port.counted} == {"static": True, "restoring": False}
    page = ported_page(content)
    assert page is not None
    tables = {table.anchor: table.rows for table in page.tables}
    kinds = [[row[1] for row in tables[anchor]] for anchor in ("solve-first", "notes")]
    assert kinds == [["static variable"], ["restoring copy"]]


# --------------------------------------------------------------------------------------------------- failed programs


def test_that_a_program_copied_nothing_is_said_with_its_failure():
    calls = Calls()
    calls.launch(calls.block(MIB))
    for status in (1, 134):
        summary = found(calls.run, names(), command=["/app/p"], status=status).summary
        assert_states(summary, "copies no buffer", f"exit status {status}", "unknown")
        assert "saves nothing" not in summary
    for status in (0, None):
        summary = found(calls.run, names(), command=["/app/p"], status=status).summary
        assert ("saves nothing" in summary, "status" in summary) == (True, False)


def test_a_program_that_failed_after_its_copies_has_its_answer():
    assert "saves at most" in found(again(None).run, names(), command=["/app/p"], status=1).summary
