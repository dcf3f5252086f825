"""What stands between a program and unified memory, in traces made by hand: one scene for what is found, and one for
what only looks like it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.port.traces import KERNEL, PROGRAM, Calls
from tests.profile.profiles import write
from tests.texts import assert_states

from firsttouch.advice.port.found import found, program_state, search, unseen_use
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.advice.port.rule import FindingRow
from firsttouch.advice.port.wording import UnseenUse, unseen_sentences
from firsttouch.profile.reading import read
from firsttouch.profile.recorded import CallFrame
from firsttouch.profile.schema import TOUCH_GRANULE, Caller, LayerState, TouchSamples
from firsttouch.profile.symbols.names import function_name
from firsttouch.profile.touches import TouchIndex
from firsttouch.program.exact import told
from firsttouch.program.exact_run import ExactRun, UsedBlock, UsedPiece
from firsttouch.program.trace import TracedLaunch

KIB, MIB = 1 << 10, 1 << 20
READS = "_Z4sumsPKfPf"
"""A kernel that only reads what its first parameter points to."""


def names(functions: dict[int, str] | None = None) -> dict[tuple[str, int], Caller]:
    return {
        (PROGRAM, line): Caller(
            file=PROGRAM, offset=line, function=(functions or {}).get(line, "main"), source="/app/p.cu", number=line
        )
        for line in range(1, 100)
    }


def of(calls: Calls, functions: dict[int, str] | None = None) -> PortFindings:
    return found(calls.run, names(functions), command=["/app/p"])


def rows(calls: Calls, functions: dict[int, str] | None = None) -> list[FindingRow]:
    """The findings as data."""
    return search(program_state(calls.run, names(functions)))[0]


def unseen(calls: Calls) -> UnseenUse:
    return unseen_use(program_state(calls.run, names()), of(calls).blocks, 0)


def kinds(calls: Calls) -> list[tuple[str, str]]:
    return [(finding.kind, finding.certainty) for finding in of(calls).findings]


# ---------------------------------------------------------------------------------------------------- pairs and bytes


def test_half_of_what_is_copied_in_and_out_is_saved():
    calls = Calls()
    inputs, power, out = (calls.block(MIB, line=n) for n in (1, 2, 3))
    hosts = [calls.host(MIB) for _ in range(3)]
    calls.copy(inputs, hosts[0], MIB, line=4)
    calls.copy(power, hosts[1], MIB, line=5)
    calls.launch(inputs, power, out)
    calls.copy(hosts[2], out, MIB, line=6)
    port = of(calls)
    assert (port.saved.bytes, port.saved.of) == (3 * MIB, 6 * MIB)
    assert (port.copies, port.copied) == (3, 3 * MIB)
    assert [(b.place.line, b.into.copies, b.out.copies, b.saves) for b in port.blocks] == [
        (1, 1, 0, MIB), (2, 1, 0, MIB), (3, 0, 1, MIB)
    ]  # fmt: skip
    assert port.findings == []


def test_of_two_host_ranges_of_one_block_both_vanish_if_one_goes_in_and_the_other_comes_out():
    calls = Calls()
    block, first, second = calls.block(MIB), calls.host(MIB), calls.host(MIB)
    calls.copy(block, first, MIB)
    calls.copy(second, block, MIB)
    assert (of(calls).saved.bytes, of(calls).saved.of) == (2 * MIB, 3 * MIB)


def test_of_a_window_the_device_s_bytes_vanish():
    calls = Calls()
    frame = calls.block(64 * KIB)
    movie = calls.host(10 * 64 * KIB)
    for n in range(10):
        calls.copy(frame, movie + n * 64 * KIB, 64 * KIB)
        calls.launch(frame)
        calls.wait()
    port = of(calls)
    assert (port.saved.bytes, port.saved.of) == (64 * KIB, 11 * 64 * KIB)
    assert [(p.window, p.bytes) for p in port.blocks[0].partners] == [(True, 10 * 64 * KIB)]
    assert port.findings == []


def test_a_number_that_is_copied_elsewhere_is_no_window_of_its_array():
    calls = Calls()
    block, array, number = calls.block(MIB), calls.host(MIB), calls.host(4)
    for target, size in ((number, 4), (number, 4), (array, MIB)):
        calls.launch(block)
        calls.copy(target, block, size)
    port = of(calls)
    assert (port.saved.bytes, [p.window for p in port.blocks[0].partners]) == (MIB + 4, [False, False])
    assert [(f.kind, f.count) for f in port.findings] == [("partial", 2)]


def test_tiles_are_windows_although_the_last_one_is_smaller():
    calls = Calls()
    tile, array = calls.block(4096), calls.host(10000)
    for start in range(0, 10000, 4096):
        calls.copy(tile, array + start, min(4096, 10000 - start))
        calls.launch(tile)
        calls.wait()
    port = of(calls)
    assert (port.saved.bytes, port.saved.of, port.findings) == (4096, 14096, [])


def test_of_two_blocks_that_are_filled_from_one_range_one_takes_it():
    calls = Calls()
    first, second, volume = calls.block(MIB), calls.block(MIB), calls.host(MIB)
    calls.copy(first, volume, MIB)
    calls.copy(second, volume, MIB)
    assert (of(calls).saved.bytes, of(calls).saved.of) == (MIB, 3 * MIB)
    assert of(calls).needless == []


def test_what_is_never_alive_at_once_is_saved_once():
    calls = Calls()
    for _ in range(20):
        block, host = calls.block(MIB, line=1), calls.host(MIB)
        calls.copy(block, host, MIB)
        calls.free(block)
    port = of(calls)
    assert (port.saved.bytes, port.saved.of) == (MIB, 2 * MIB)
    assert [(b.allocations, b.into.copies) for b in port.blocks] == [(20, 20)]


def test_a_range_in_rows_is_joined_row_by_row():
    calls = Calls()
    block, host = calls.block(64 * KIB), calls.host(64 * KIB)
    calls.copy(block, host, 512, rows=64, source_pitch=1024, target_pitch=1024)
    assert of(calls).saved.bytes == 32 * KIB
    calls.copy(block, host, 512, rows=64, source_pitch=512, target_pitch=1024)
    assert of(calls).blocks[0].partners[0].window, "other bytes of the host come to the same place"


def test_more_rows_than_a_block_has_are_not_believed():
    calls = Calls()
    block, host = calls.block(64 * KIB), calls.host(64 * KIB)
    calls.copy(block, host, 8, rows=1 << 40, source_pitch=16, target_pitch=16)
    calls.copy(host, block, 1 << 60, rows=1 << 60, source_pitch=1 << 62, target_pitch=1 << 61)
    assert of(calls).blocks[0].into.bytes == 32 * KIB


def test_a_copy_in_rows_has_one_range_of_the_host():
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, 8, rows=4096, source_pitch=16, target_pitch=16)
    assert [partner.bytes for partner in of(calls).blocks[0].partners] == [32 * KIB]


@pytest.mark.parametrize(("allocations", "expected"), [(1, [128 * KIB]), (2, [64 * KIB, 64 * KIB])])
def test_neighbouring_allocations_of_the_host_are_partners_by_themselves(allocations: int, expected: list[int]):
    calls = Calls()
    block, host = calls.block(128 * KIB), calls.host(128 * KIB)
    for n in range(allocations):
        calls.block(128 * KIB // allocations, at_address=host + n * 64 * KIB, kind="pinned")
    for n in range(2):
        calls.copy(block + n * 64 * KIB, host + n * 64 * KIB, 64 * KIB, host="pinned")
    assert [partner.bytes for partner in of(calls).blocks[0].partners] == expected


def test_managed_memory_and_static_variables_are_no_pairs():
    calls = Calls()
    managed, host = calls.block(MIB, kind="managed"), calls.host(MIB)
    symbol = calls.block(KIB, kind="device_static", name="coefficients")
    calls.copy(managed, host, MIB)
    calls.copy(symbol, host, KIB)
    port = of(calls)
    assert (port.saved.bytes, port.copies) == (0, 0)


def test_what_is_not_needed_is_said():
    calls = Calls()
    never, silent, lost = (calls.block(MIB, line=n) for n in (1, 2, 3))
    host = calls.host(MIB)
    calls.copy(silent, host, MIB)
    calls.copy(lost, host + 2 * MIB, MIB)
    calls.launch(lost)
    assert never
    unused = {b.place.line: " ".join(b.unused) for b in of(calls).blocks}
    assert_states(unused[1], "no kernel", "not copied")
    assert_states(unused[2], "no kernel")
    assert_states(unused[3], "written", "never copied back")
    calls.calls.append(calls.calls[-1].__class__(t=1.0, correlation=99, arguments=None))
    assert [b.unused for b in of(calls).blocks if b.place.line == 1] == [[]], "an unknown launch may name it"


# ---------------------------------------------------------------------------------------------------- repeated copies


def again(
    kernel: str | None,
    *,
    second: int | None = 7,
    size: int = MIB,
    fill: bool = False,
    d2h: bool = False,
    back: bool = True,
) -> Calls:
    """A copy to the device that is made twice, with samples 7 and `second`. back: the block is copied back at last."""
    calls = Calls()
    block, host = calls.block(size), calls.host(size)
    calls.copy(block, host, size, sample=7, line=1)
    if kernel:
        calls.launch(block, kernel=kernel)
        calls.wait()
    if fill:
        calls.fill(block, size)
    if d2h:
        calls.copy(host, block, size, sample=8, before=7)
    calls.copy(block, host, size, sample=second, line=2)
    if back:
        calls.copy(calls.host(size), block, size, line=3)
    return calls


@pytest.mark.parametrize(
    ("made", "needless", "restoring"),
    [
        (lambda: again(READS), ["possible"], []),
        (lambda: again(None, size=8 * KIB), ["seen"], []),
        (lambda: again(READS, second=8), [], []),
        (lambda: again(READS, second=None), [], []),
        (lambda: again("_Z6updatePf"), [], ["likely"]),
        (lambda: again("_Z6updatePf", back=False), ["possible"], []),
        (lambda: again("_Z6updatePf", back=False, size=8 * KIB), ["possible"], []),
        (lambda: again(None, fill=True), [], ["likely"]),
        (lambda: again(None, fill=True, size=8 * KIB), [], ["seen"]),
        (lambda: again("_Z6updatePf", d2h=True), [], []),
        (lambda: again("_Z6updatePf", d2h=True, second=8), ["possible"], []),
    ],
    ids=[
        "equal",
        "few bytes",
        "changed",
        "unknown",
        "written",
        "written in vain",
        "few bytes written in vain",
        "filled",
        "filled, few bytes",
        "back",
        "back and in",
    ],
)
def test_a_copy_of_bytes_that_are_there_is_needless_and_one_of_overwritten_bytes_restores(
    made: Callable[[], Calls], needless: list[str], restoring: list[str]
):
    port = of(made())
    assert [row.certainty for row in port.needless] == needless
    assert [f.certainty for f in port.findings if f.kind == "restoring"] == restoring


@pytest.mark.parametrize(
    ("kernel", "needless", "restoring"),
    [("_Z6updatePfS_", 1, 0), ("_Z6updatePfPKf", 0, 1), ("_Z6updatePKfPf", 1, 0)],
    ids=["all may be written", "written, the other read only", "read only"],
)
def test_a_kernel_that_only_reads_another_buffer_is_taken_to_write_the_one_that_it_may_write(
    kernel: str, needless: int, restoring: int
):
    calls = Calls()
    block, other, host = calls.block(8 * KIB), calls.block(8 * KIB), calls.host(8 * KIB)
    for _ in range(2):
        calls.copy(block, host, 8 * KIB, sample=7, line=1)
        calls.launch(block, other, kernel=kernel)
        calls.wait()
    port = of(calls)
    assert sum(row.copies for row in port.needless) == needless
    assert sum(finding.kind == "restoring" for finding in port.findings) == restoring
    kernel_may_write = kernel != "_Z6updatePKfPf"
    assert [(row.fate, bool(row.unless)) for row in port.copy_calls] == (
        [("restoring", False)] if restoring else [("dropped", kernel_may_write)]
    )


def test_the_answer_counts_copies_that_are_dropped_only_if_nobody_needs_them():
    calls = again("_Z6updatePf", back=False, size=8 * KIB)
    assert_states(of(calls).summary, "needs up to 1 of the 2 copies")


def test_the_host_side_of_a_copy_to_a_variable_has_not_its_name():
    calls = Calls()
    symbol = calls.block(KIB, kind="device_static", name="coefficients")
    calls.copy(symbol, calls.host(KIB), KIB, host="static")
    run = calls.run
    found_rows, _ = search(program_state(run, names()))
    named = {row.variant: [run.blocks[number].name for number in row.blocks] for row in found_rows}
    assert named == {"device": ["coefficients"], "host": []}


def test_a_restoring_copy_names_the_kernel_and_the_copy_whose_bytes_it_has():
    (row,) = rows(again("_Z6updatePf"))
    assert (row.certainty, row.variant, row.count, row.bytes) == ("likely", "perhaps overwritten", 1, MIB)
    assert row.grounds == {"since": ":1", "part": " (32 KiB of 1 MiB compared)", "writer": "update"}
    assert [place.line for place, _ in row.places] == [2]


@pytest.mark.parametrize(
    ("start", "end", "writes", "expected"),
    [
        (0, MIB, True, [("likely", "overwritten")]),
        (0, MIB, False, []),
        (512 * KIB, MIB, True, [("likely", "perhaps overwritten")]),
    ],
    ids=["written", "read only", "written beside"],
)
def test_a_second_run_tells_whether_a_kernel_overwrote_what_a_copy_restores(
    start: int, end: int, writes: bool, expected: list[tuple[str, str]]
):
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    for _ in range(2):
        calls.copy(block, host, 512 * KIB, sample=7)
        calls.launch(block)
    calls.copy(calls.host(MIB), block, MIB)
    run = calls.run
    numbers = [number for number, step in enumerate(run.steps) if isinstance(step, TracedLaunch)]
    exact = ExactRun(2, uses={n: (UsedBlock(0, (UsedPiece(start, end, True, writes),)),) for n in numbers})
    found_rows, _ = search(program_state(told(run, exact), names()))
    assert [(row.certainty, row.variant) for row in found_rows if row.rule.name == "restoring"] == expected


def test_a_copy_back_is_needless_if_the_host_has_the_bytes_and_restores_if_the_cpu_overwrote_them():
    for before, expected in ((8, (["d2h"], [])), (9, ([], ["restoring"]))):
        calls = Calls()
        block, host = calls.block(64 * KIB), calls.host(64 * KIB)
        calls.copy(host, block, 64 * KIB, sample=8, before=7)
        calls.copy(host, block, 64 * KIB, sample=8, before=before)
        port = of(calls)
        assert ([row.direction for row in port.needless], [f.kind for f in port.findings]) == expected


def test_copies_of_parts_in_between_end_the_comparison():
    calls = again(None)
    block, host = calls.calls[0].address, calls.calls[1].source
    calls.copy(block, host, KIB, sample=1)
    calls.copy(block, host, MIB, sample=7)
    assert [row.copies for row in of(calls).needless] == [1]


@pytest.mark.parametrize(("first", "expected"), [(2048, []), (-2048, ["possible"])])
def test_a_copy_of_pages_that_the_cpu_was_seen_to_write_is_not_needless(first: int, expected: list[str]):
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB) + 2048
    calls.copy(block, host, MIB, sample=7)
    calls.host_use(host, MIB, writes=[(host + first, host + first + 4096)])  # a page, or one with other data too
    calls.copy(block, host, MIB, sample=7)
    port = of(calls)
    assert [row.certainty for row in port.needless] == expected
    assert unseen(calls).not_compared == ({} if expected else {"part": 1})


@pytest.mark.parametrize("reason", ["graph", "asynchronous", "launch", ""])
def test_check_copies_is_suggested_only_where_it_can_decide(reason: str):
    """Of a copy that has no sample, it takes none either."""
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    if reason == "asynchronous":  # back, to page-locked memory
        for _ in range(2):
            calls.copy(host, block, MIB, blocking=False, host="pinned")
    else:
        for _ in range(2):
            calls.copy(block, host, MIB, **({"graph": True} if reason == "graph" else {"sample": 7}))
            calls.launch(block, **({"arguments": None} if reason == "launch" else {}))
            if not reason:  # one number changed
                calls.host_use(host, MIB, writes=[(host + 4096, host + 8192)])
    told = unseen(calls).not_compared
    assert told == {{"launch": "launch", "": "part"}.get(reason, "no sample"): 1}
    assert any("--check-copies" in text for text in unseen_sentences(unseen(calls))) == (not reason)


def one_number_changed(calls: Calls, host: int) -> None:
    """In a page that holds other data too, so that the watch does not tell that it is the copy's."""
    calls.host_use(host, MIB, writes=[(host - 2048, host + 2048)])


@pytest.mark.parametrize(
    ("between", "certainty", "compared"),
    [
        (one_number_changed, "possible", 32 * KIB),
        (lambda calls, host: None, "possible", 32 * KIB),  # nobody looked
        (lambda calls, host: calls.host_use(host, MIB, late=True), "possible", 32 * KIB),
        (lambda calls, host: calls.host_use(host, MIB // 2), "possible", 32 * KIB),
        (lambda calls, host: calls.host_use(host, MIB), "seen", MIB),  # no page was written
        (lambda calls, host: calls.host_use(host, MIB, read=MIB), "seen", MIB),
    ],
)
def test_a_sample_of_a_copy_does_not_make_it_needless_but_pages_that_nobody_wrote_do(
    between: Callable[[Calls, int], None], certainty: str, compared: int
):
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB) + 2048
    calls.copy(block, host, MIB, sample=7)
    between(calls, host)
    calls.copy(block, host, MIB, sample=7)
    (row,) = of(calls).needless
    assert (row.certainty, row.compared, row.each) == (certainty, compared, MIB)
    assert ("--check-copies" in row.reading) == (certainty == "possible")


def test_all_bytes_that_were_compared_make_a_copy_needless():
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    for _ in range(2):
        calls.copy(block, host, MIB, sample=7, sampled_whole=True)
    assert [row.certainty for row in of(calls).needless] == ["seen"]


def test_bytes_that_other_buffers_get_too_are_unwritten_since_the_first_copy():
    calls = Calls()
    first, second, host = calls.block(MIB), calls.block(MIB), calls.host(MIB)
    for block in (first, second, first):
        calls.copy(block, host, MIB, sample=7)
        calls.host_use(host, MIB)
    assert [row.certainty for row in of(calls).needless] == ["seen"]


def test_copies_that_no_unified_buffer_replaces_are_told():
    calls = Calls()
    device, managed = calls.block(MIB), calls.block(MIB, kind="managed")
    for _ in range(60):
        calls.copy(device, managed, MIB)  # to the device
        calls.copy(managed, calls.host(MIB), MIB)
    port = of(calls)
    (row,) = port.other_copies
    assert (port.copies, row.of, row.copies, row.bytes) == (0, "managed", 120, 120 * MIB)
    assert_states(port.summary, "120 copies", "120 MiB", "managed memory")


def test_a_program_that_copies_nothing_is_told_so():
    calls = Calls()
    calls.launch(calls.block(MIB, kind="managed"))
    port = of(calls)
    assert port.other_copies == []
    assert_states(port.summary, "copies no buffer between host and device")


def test_chunks_that_are_copied_back_are_not_needless():
    calls = Calls()
    block, host = calls.block(64 * KIB), calls.host(64 * KIB)
    for _ in range(2):
        for n in range(4):
            calls.launch(block + n * 16 * KIB)
            calls.copy(host + n * 16 * KIB, block + n * 16 * KIB, 16 * KIB, sample=5, before=5, blocking=False)
    assert of(calls).needless == []
    assert of(calls).findings == []


# ---------------------------------------------------------------------------------------------------- hazards


def concurrent(*, watched: bool = False, wait: bool = False, sample: int = 2, inside: bool = True) -> Calls:
    """A buffer that the CPU prepares again while, or after, a kernel uses what was copied of it."""
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB, sample=1)
    calls.launch(block, kernel=READS, line=3)
    if wait:
        calls.wait()
    if watched:
        start = host if inside else host + MIB
        calls.host_use(host, MIB, [(start, start + 8 * KIB)])
    calls.copy(block, host, MIB, sample=sample)
    return calls


def alternating(*, written: int) -> Calls:
    """Two frames take turns in one block. The CPU writes one of them while a kernel uses the second."""
    calls = Calls()
    block, frames = calls.block(MIB), [calls.host(MIB) for _ in range(2)]
    for n in range(4):
        calls.copy(block, frames[n % 2], MIB, sample=n)
        calls.wait()
        calls.launch(block, kernel=READS, line=3)
        if n == 1:
            calls.host_use(frames[written], MIB, [(frames[written], frames[written] + MIB)])
        calls.wait()
    return calls


def free_memory(*, vendor: bool = False) -> Calls:
    calls = Calls()
    calls.query(1, 2, line=7, vendor=vendor)
    calls.block(MIB, line=8)
    return calls


def partial(size: int, *, rows: int = 1) -> Calls:
    calls = Calls()
    block, host = calls.block(64 * KIB), calls.host(64 * KIB)
    calls.copy(block, host, 64 * KIB)
    calls.launch(block)
    pitch = {"rows": rows, "source_pitch": 1024, "target_pitch": size} if rows > 1 else {}
    calls.copy(host, block, size, **pitch)
    return calls


def stack(**more: object) -> Calls:
    calls = Calls()
    block = calls.block(4)
    calls.copy(block, 0x7FFF0000, 4, host="stack", **more)
    calls.launch(block)
    calls.wait(stack=0x7FFF1000)
    return calls


def static(kind: str, **more: object) -> Calls:
    calls = Calls()
    calls.copy(calls.block(KIB, kind=kind, name="table"), calls.host(KIB), KIB, **more)
    return calls


def adjacent(gap: int, place: str = "other") -> Calls:
    calls = Calls()
    first, second, host = calls.block(64 * KIB), calls.block(KIB), calls.host(MIB)
    calls.copy(first, host, 64 * KIB, host=place)
    calls.copy(second, host + 64 * KIB + gap, KIB, host=place)
    return calls


def page_locked(*, allocations: int, kind: str = "pinned") -> Calls:
    """Two blocks of the device that are filled from neighbouring halves of the host's memory, in one or two blocks."""
    calls, place = Calls(), {"pinned": "pinned", "registered": "registered"}[kind]
    blocks, host = [calls.block(64 * KIB, line=n) for n in (1, 2)], calls.host(128 * KIB)
    for n in range(allocations):
        size = 128 * KIB // allocations
        calls.block(size, at_address=host + n * size, kind="pinned", registered=kind == "registered")
    for n, block in enumerate(blocks):
        calls.copy(block, host + n * 64 * KIB, 64 * KIB, host=place)
    return calls


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: concurrent(watched=True), [("concurrent", "seen")]),
        (lambda: concurrent(watched=True, inside=False), []),
        (lambda: concurrent(watched=True, wait=True), []),
        (concurrent, [("concurrent", "likely")]),
        (lambda: concurrent(wait=True), []),
        (lambda: concurrent(sample=1), []),
        (lambda: alternating(written=0), []),
        (lambda: alternating(written=1), [("concurrent", "seen")]),
        (free_memory, [("free-memory", "likely")]),
        (lambda: free_memory(vendor=True), []),
        (lambda: partial(4), [("partial", "seen")]),
        (lambda: partial(64 * KIB - 512), []),
        (lambda: partial(16, rows=64), [("partial", "seen")]),
        (lambda: partial(1000, rows=64), []),
        (lambda: adjacent(0), [("partial", "likely")]),
        (lambda: adjacent(16), []),
        (lambda: adjacent(0, "static"), [("static", "seen"), ("partial", "possible")]),
        (lambda: page_locked(allocations=1), [("partial", "likely")]),
        (lambda: page_locked(allocations=2), []),
        (lambda: page_locked(allocations=1, kind="registered"), [("partial", "likely")]),
        (lambda: page_locked(allocations=2, kind="registered"), [("partial", "likely")]),
        (stack, [("stack", "seen")]),
        (lambda: stack(blocking=False), [("stack", "seen")]),
        (lambda: static("device_static"), [("static", "seen")]),
        (lambda: static("device", host="static"), [("static", "seen")]),
        (lambda: static("managed_static"), []),
        (lambda: static("device"), []),
    ],
)
def test_each_hazard_is_found_and_nothing_that_only_looks_like_it(
    made: Callable[[], Calls], expected: list[tuple[str, str]]
):
    assert kinds(made()) == expected


def test_a_stack_variable_whose_function_ended_before_the_wait_is_told_from_others():
    variants = [[row.variant for row in rows(stack(blocking=blocking))] for blocking in (True, False)]
    assert variants == [["blocking"], ["ended"]]


def test_a_program_that_asks_and_then_allocates_likely_sizes_by_it():
    assert [row.variant for row in rows(free_memory())] == ["allocates"]
    assert [row.variant for row in rows(free_memory(), {7: "log"})] == ["asked"]


def test_the_srad_pattern_is_two_hazards_each_iteration():
    calls = Calls()
    sums, image = calls.block(MIB), calls.block(MIB)
    host = calls.host(MIB)
    calls.copy(image, host, MIB)
    for _ in range(5):
        calls.launch(image, sums)
        calls.copy(0x7FFF0000, sums, 4, host="stack", line=9)
    assert [(f.kind, f.count, f.bytes) for f in of(calls).findings] == [("partial", 5, 20), ("stack", 5, 20)]


def test_no_strategy_is_given_for_what_is_only_possible_and_all_that_counts_has_one():
    for made in (concurrent, free_memory, stack, lambda: partial(4), lambda: again("_Z6updatePf")):
        port = of(made())
        assert all(f.strategy and f.link for f in port.findings if f.certainty != "possible")
        assert all(not f.strategy for f in port.findings if f.certainty == "possible")
        assert all(bool(f.reading) == (f.certainty == "likely") for f in port.findings)


def test_calls_without_lines_are_told_apart_by_their_offsets():
    calls = Calls()
    for line in (16, 32):
        calls.copy(calls.block(MIB, line=line), calls.host(MIB), MIB)
    port = found(calls.run, {}, command=["/app/p"])
    assert [block.place.file for block in port.blocks] == [f"{PROGRAM}+0x10", f"{PROGRAM}+0x20"]


def test_a_block_that_an_allocator_divides_is_told_and_its_parts_are_no_partial_transfers():
    calls = Calls()
    pool = calls.block(2 * MIB)
    for n in range(9):
        calls.copy(pool + 1024 * n, calls.host(512), 512)
    assert of(calls).findings == []
    assert (unseen(calls).parts, unseen(calls).pooled) == (9, 0)


def test_a_block_that_is_not_used_any_more_when_most_is_held_is_told():
    calls = Calls()
    first, host = calls.block(MIB, line=1), calls.host(MIB)
    calls.copy(first, host, MIB)
    calls.launch(first)
    second = calls.block(MIB, line=2)
    calls.launch(second)
    calls.free(first)
    unused = {b.place.line: b.unused for b in of(calls).blocks}
    written, idle = unused[1]
    assert_states(written, "never copied back")
    assert_states(idle, "no longer used", "peak")
    assert not unused[2]


def test_what_is_captured_counts_when_its_graph_is_launched():
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB, captured=True, blocking=False)
    calls.launch(block, captured=True)
    for _ in range(3):
        calls.copy(block, host, MIB, graph=True, blocking=False)
        calls.launch(block, graph=True)
    port = of(calls)
    assert (port.copies, port.blocks[0].launches) == (3, 3)


def test_what_a_library_of_the_vendor_allocates_is_not_the_program_s_to_change():
    calls = Calls()
    site = (CallFrame("/usr/lib/libcufft.so.12", 4), CallFrame(PROGRAM, 5))
    table = calls.block(MIB)
    calls.calls[-1] = msgspec.structs.replace(calls.calls[-1], site=site)
    calls.copy(table, calls.host(MIB), MIB, host="static", site=site)
    calls.copy(calls.block(8, kind="device_static", name="lut"), calls.host(8), 8, site=site)
    calls.launch(table)
    port = of(calls)
    assert (port.findings, port.copies, port.saved.bytes) == ([], 0, 0)
    assert [list(block.unused) for block in port.blocks] == [[], []]
    own = calls.block(MIB, line=1)
    calls.copy(own, calls.host(MIB), MIB, site=site)
    assert of(calls).copies == 1, "as cublasSetVector does for the program"


def test_what_the_trace_cannot_tell_is_said():
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB)
    calls.launch(block)
    told = unseen(calls)
    assert (told.named, told.unrecorded, told.is_exact, told.unknown, told.not_compared) == (1, 1, False, 0, {})
    assert {row.kind: row.searched for row in of(calls).searched}["hidden"] is False


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("(anonymous namespace)::run(float const*)", "run"),
        ("void std::vector<float, std::allocator<float> >::_M_realloc_insert<float>(int (*)(char), float&&)",
         "std::vector::_M_realloc_insert"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator()"),
        ("decltype(auto) g<int>(int)", "g"),
        ("a::operator bool() const", "a::operator bool"),
        ("Sum::operator()(int) const", "Sum::operator()"),
        ("main", "main"),
        ("a::start()", "a::start"),
        ("operator new(unsigned long)", "operator new"),
        ("unsigned int a::operator<< <int>(a::B<int>, int)", "a::operator<<"),
        ("std::vector<int>::iterator::operator->() const", "std::vector::iterator::operator->"),
        ("", ""),
    ],
)  # fmt: skip
def test_functions_are_named_without_parameters_and_arguments_of_templates(name: str, short: str):
    assert function_name(name) == short


# --------------------------------------------------------------------------------------------------------- frees


def freed_while_a_kernel_runs(*, waits: bool, kind: str = "device") -> Calls:
    """Another block is freed after a launch. Then the CPU prepares the next data for the launched one's buffer."""
    calls = Calls()
    block, other, host = calls.block(MIB), calls.block(MIB, kind=kind), calls.host(MIB)
    calls.copy(block, host, MIB, blocking=False, host="pinned", sample=1)
    calls.launch(block)
    calls.free(other, waits=waits)
    calls.host_use(host, MIB, writes=[(host, host + MIB)])
    calls.copy(block, host, MIB, blocking=False, host="pinned", sample=2)
    calls.wait()
    return calls


@pytest.mark.parametrize("kind", ["device", "managed", "pinned"])
def test_a_free_is_a_wait_if_the_driver_waits_there(kind: str):
    assert kinds(freed_while_a_kernel_runs(waits=True, kind=kind)) == []
    assert kinds(freed_while_a_kernel_runs(waits=False, kind=kind)) == [("concurrent", "seen")]


def test_a_launch_is_pending_after_the_block_was_freed_and_allocated_anew_in_the_order_of_a_stream():
    calls = Calls()
    host = calls.host(MIB)
    for n in range(2):
        block = calls.block(MIB)
        calls.copy(block, host, MIB, blocking=False, host="pinned", sample=n)
        calls.launch(block)
        if not n:
            calls.free(block, waits=False)
    calls.host_use(host, MIB, writes=[(host, host + MIB)])
    calls.copy(block, host, MIB, blocking=False, host="pinned", sample=2)
    assert kinds(calls) == [("concurrent", "seen")]


def test_what_runs_on_after_a_free_in_the_order_of_a_stream_is_not_that_of_the_freed_block():
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB, blocking=False, host="pinned", sample=1)
    calls.launch(block)
    calls.free(block, waits=False)
    calls.host_use(host, MIB, writes=[(host, host + MIB)])
    calls.wait()
    assert kinds(calls) == []


# ---------------------------------------------------------------------------------------------------- coverage


def coverage_of(name: str, calls: Calls, **more: Any) -> tuple[bool, str]:
    _, hazards = search(program_state(calls.run, names(), **more))
    (found,) = (hazard.coverage() for hazard in hazards if hazard.name == name)
    return found.searched, found.limit


def touch_index(
    tmp_path: Path, *, sampled: bool, rows: Sequence[tuple[int, int, int, int, int, int]] = ()
) -> TouchIndex:
    layers = [LayerState("faults", True)] if sampled else []
    lines = [TouchSamples(t=1.0, every=8, rows=list(rows))] if rows else []
    return TouchIndex(read(write(tmp_path / "p", *lines, layers=layers)), 100)


@pytest.mark.parametrize(
    ("sampled", "touched", "place", "expected"),
    [
        (False, False, "other", (False, "not sampled")),
        (True, False, "other", (False, "none sampled")),
        (True, True, "other", (True, "")),
        (True, False, "pinned", (True, "")),  # which the program allocated through CUDA itself
    ],
)
def test_where_page_faults_were_sampled_nobody_is_told_to_sample_them(
    tmp_path: Path, sampled: bool, touched: bool, place: str, expected: tuple[bool, str]
):
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB, host=place)
    rows = [(0, 0, 0, host // TOUCH_GRANULE, MIB // TOUCH_GRANULE, 4)] if touched else []
    touches = touch_index(tmp_path, sampled=sampled, rows=rows)
    assert coverage_of("hidden", calls, touches=touches) == expected


def test_without_copied_buffers_no_allocator_hides(tmp_path: Path):
    calls = Calls()
    calls.launch(calls.block(MIB, kind="managed"))
    assert coverage_of("hidden", calls, touches=touch_index(tmp_path, sampled=True)) == (True, "")


@pytest.mark.parametrize(("watched", "limit"), [(False, "not watched"), (True, "nothing recorded")])
def test_where_the_host_was_watched_nobody_is_told_to_watch_it(watched: bool, limit: str):
    calls = Calls()
    calls.copy(calls.block(MIB), calls.host(MIB), MIB)
    assert coverage_of("concurrent", calls, watched=watched) == (True, limit)


# ------------------------------------------------------------------------------------------ what a dropped copy did


def waits(calls: Calls) -> list[tuple[str, int, int]]:
    return [(wait.before, wait.copy.line, wait.work.line) for wait in of(calls).waits]


def one_round(*, wait: str = "", kernel: str = KERNEL, blocking: bool = True, sample: int = 2) -> Calls:
    """A block is copied in at line 1, a kernel gets it at line 2, and it comes back at line 3; then it goes in again at
    line 4. wait: what the program waits for before the copy back, if for anything.
    """
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB, line=1, sample=1)
    calls.launch(block, kernel=kernel, line=2)
    if wait:
        calls.wait(wait)
    calls.copy(host, block, MIB, line=3, blocking=blocking, host="other" if blocking else "pinned")
    calls.copy(block, host, MIB, line=4, sample=sample)
    return calls


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (one_round, [("reads", 3, 2)]),
        (lambda: one_round(wait="context"), []),
        (lambda: one_round(wait="event"), []),
        (lambda: one_round(kernel=READS, sample=1), []),  # as the CPU does
        (lambda: one_round(kernel=READS), [("writes", 4, 2)]),  # and the CPU then writes
        (lambda: one_round(blocking=False), [("reads", 4, 2)]),  # where the program waited for it
        (concurrent, [("writes", 0, 3)]),
        (lambda: concurrent(sample=1), []),  # the CPU wrote nothing
        (lambda: concurrent(wait=True), []),
    ],
    ids=[
        "no wait",
        "context",
        "event",
        "reads only",
        "reads only, then written",
        "not blocking",
        "written anew",
        "unchanged",
        "written later",
    ],
)
def test_where_a_dropped_copy_was_the_only_wait_one_is_needed(
    made: Callable[[], Calls], expected: list[tuple[str, int, int]]
):
    assert waits(made()) == expected


def test_a_copy_of_a_variable_of_the_stack_stays_and_waits():
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB, line=1)
    calls.launch(block, line=2)
    calls.copy(0x7FFF0000, block, 4, host="stack", line=3)
    calls.copy(host, block, MIB, line=4)
    assert waits(calls) == []
    assert [(row.fate, row.place.line) for row in of(calls).copy_calls] == [("dropped", 1), ("dropped", 4)]


def test_a_free_is_no_wait_if_the_buffer_replaces_a_host_array_that_is_still_used():
    for paired, expected in ((True, [("reads", 3, 2)]), (False, [])):
        calls = Calls()
        block, other, host = calls.block(MIB), calls.block(MIB), calls.host(MIB)
        if paired:
            calls.copy(other, calls.host(MIB), MIB)
        calls.copy(block, host, MIB, line=1)
        calls.launch(block, line=2)
        calls.free(other)
        calls.copy(host, block, MIB, line=3)
        assert waits(calls) == expected, paired


def test_frames_that_take_turns_may_be_written_while_a_kernel_uses_another_one():
    calls = Calls()
    frame, movie = calls.block(64 * KIB), calls.host(4 * 64 * KIB)
    for n in range(4):
        calls.copy(frame, movie + n * 64 * KIB, 64 * KIB, line=1, sample=n)
        calls.launch(frame, line=2)
    assert waits(calls) == []


def test_an_array_that_comes_back_from_another_buffer_is_still_copied():
    calls = Calls()
    first, second, host = calls.block(MIB), calls.block(MIB), calls.host(MIB)
    calls.copy(first, host, MIB, line=1)
    calls.launch(first, second, line=2)
    calls.copy(host, second, MIB, line=3)
    assert [(row.fate, row.place.line) for row in of(calls).copy_calls] == [("dropped", 1), ("shared", 3)]
    assert waits(calls) == [("reads", 3, 3)]
    apart = Calls()
    for line in (1, 3):
        block = apart.block(MIB)
        apart.copy(block, host, MIB, line=line)
        apart.free(block)
    assert {row.fate for row in of(apart).copy_calls} == {"dropped"}, "the first buffer is gone"


def test_a_needless_copy_may_be_the_only_wait_for_another_one():
    for blocking, expected in ((False, [True]), (True, [False])):
        calls = Calls()
        block, table, host = calls.block(MIB), calls.block(8 * KIB), calls.host(8 * KIB)
        calls.copy(table, host, 8 * KIB, sample=7)
        calls.copy(calls.host(MIB), block, MIB, blocking=blocking, host="other" if blocking else "pinned")
        calls.copy(table, host, 8 * KIB, sample=7)
        assert [row.only_wait for row in of(calls).needless] == expected
