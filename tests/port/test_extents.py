"""Which blocks a program has where they are not its allocations: ranges that are mapped in pieces, and pools. Each case
has one beside it that only looks like it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

import pytest
from tests.port.traces import PROGRAM, Calls

from firsttouch.advice.port.found import found
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.profile.recorded import CallFrame
from firsttouch.program.trace import TracedAllocation, TracedLaunch
from firsttouch.program.traced import program_of_trace

KIB, MIB = 1 << 10, 1 << 20
BASE, PIECE = 0x7F1000000000, 20 * MIB


def of(calls: Calls) -> PortFindings:
    return found(calls.run, {})


def mapped(order: Iterable[int], reserved: int | None = 1, calls: Calls | None = None) -> Calls:
    """Pieces of 20 MiB at adjacent addresses, mapped in this order. reserved: their range."""
    calls = calls or Calls()
    for n in order:
        calls.block(PIECE, at_address=BASE + n * PIECE, reserved=reserved, line=n + 1)
    return calls


def copied_in_and_out(calls: Calls) -> Calls:
    host = calls.host(3 * PIECE)
    calls.copy(BASE, host, 3 * PIECE)
    calls.launch(BASE)
    calls.copy(host, BASE, 3 * PIECE)
    return calls


# ---------------------------------------------------------------------------------------------------- mapped in pieces


@pytest.mark.parametrize("reserved", [1, None], ids=["recorded", "an older journal"])
@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_pieces_that_adjoin_are_one_block_in_whatever_order_they_are_mapped(order: Sequence[int], reserved: int | None):
    port = of(copied_in_and_out(mapped(order, reserved)))
    assert (port.saved.bytes, port.saved.of) == (3 * PIECE, 6 * PIECE)
    assert [(b.bytes, b.launches, b.into.copies, b.out.copies, b.unused) for b in port.blocks] == [
        (3 * PIECE, 1, 1, 1, [])
    ]
    assert port.findings == []


def test_allocations_that_happen_to_adjoin_stay_what_they_are():
    apart = copied_in_and_out(mapped(range(3), reserved=0))
    assert [block.bytes for block in of(apart).blocks] == [PIECE] * 3, "as cudaMalloc makes them"
    calls = Calls()
    for n in range(3):
        mapped([n], n + 1, calls)
    assert [block.bytes for block in of(copied_in_and_out(calls)).blocks] == [PIECE] * 3, "each in a range of its own"
    calls = mapped(range(3), None)
    for n in range(3):
        calls.copy(BASE + n * PIECE, calls.host(PIECE), PIECE)
    assert [block.bytes for block in of(calls).blocks] == [PIECE] * 3, "nothing shows that they are pieces"


@pytest.mark.parametrize(
    ("reserved", "sizes", "partial"),
    [
        (1, [200_000], 0),
        (1, [200_000, 4], 1),
        (1, [200_000 - 4096, 4096], 1),
        (0, [200_000], 1),
    ],
    ids=["all that is used", "a part of that", "another part", "not mapped"],
)
def test_memory_that_is_rounded_up_to_a_granule_is_copied_whole(reserved: int, sizes: list[int], partial: int):
    """As vectorAddMMAP of the CUDA samples: 200,000 B in 2 MiB. What is smaller than all that is used is a part."""
    calls = Calls()
    calls.block(2 * MIB, at_address=BASE, reserved=reserved)
    for number, size in enumerate(sizes):
        calls.copy(BASE, calls.host(size), size, line=number + 1, sample=number)
        calls.launch(BASE)
    assert len([finding for finding in of(calls).findings if finding.kind == "partial"]) == partial


def test_a_part_of_mapped_memory_that_leaves_granules_is_one():
    calls = Calls()
    calls.block(8 * MIB, at_address=BASE, reserved=1)
    calls.copy(BASE, calls.host(MIB), MIB)
    calls.launch(BASE)
    assert [finding.kind for finding in of(calls).findings] == ["partial"]


def test_pieces_with_a_gap_between_them_are_two_blocks():
    calls = mapped([0, 2])
    assert [block.bytes for block in of(calls).blocks] == [PIECE] * 2


def test_a_block_grows_and_shrinks_while_it_is_alive():
    calls = mapped([0])
    host = calls.host(3 * PIECE)
    calls.copy(BASE, host, PIECE)
    mapped([1, 2], calls=calls)
    calls.copy(BASE, host, 3 * PIECE)
    calls.free(BASE + PIECE)
    scratch = calls.block(30 * PIECE)
    calls.launch(BASE, scratch)
    port = of(calls)
    assert (port.saved.bytes, port.saved.device) == (3 * PIECE, 32 * PIECE), "30, and 2 that are still mapped"
    assert [(b.bytes, b.allocations) for b in port.blocks] == [(3 * PIECE, 1), (30 * PIECE, 1)]


def test_a_range_ends_with_its_last_piece_and_begins_again():
    calls = mapped(range(3))
    copied_in_and_out(calls)
    for n in (1, 0, 2):
        calls.free(BASE + n * PIECE)
    copied_in_and_out(mapped(range(3), calls=calls))
    assert [(block.bytes, block.allocations) for block in of(calls).blocks] == [(3 * PIECE, 2)]
    ends = [step for step in calls.run.steps if isinstance(step, TracedAllocation) and not step.begins]
    assert len(ends) == 1


@pytest.mark.parametrize(("remapped", "needless"), [(False, ["h2d"]), (True, [])])
def test_what_a_piece_held_is_gone_when_other_memory_is_mapped_there(remapped: bool, needless: list[str]):
    calls = mapped(range(3))
    host = calls.host(3 * PIECE)
    for n in range(2):
        calls.copy(BASE, host, 3 * PIECE, sample=7)
        if remapped and not n:
            calls.free(BASE + PIECE)
            mapped([1], calls=calls)
    calls.launch(BASE, kernel="_Z4readPKf")
    assert [row.direction for row in of(calls).needless] == needless


# --------------------------------------------------------------------------------------------------------------- pools


def tensors(calls: Calls, pool: int, count: int, each: int = 100 * KIB) -> list[int]:
    """Tensors in a pool that are filled from memory of their own, and that kernels get."""
    made = [pool + n * 128 * KIB for n in range(count)]
    for tensor in made:
        calls.copy(tensor, calls.host(each), each)
        calls.launch(tensor)
    return made


def test_the_parts_of_a_pool_are_the_unit():
    calls = Calls()
    pool = calls.block(20 * MIB, line=1)
    made = tensors(calls, pool, 9)
    calls.copy(calls.host(100 * KIB), made[3], 100 * KIB)
    port = of(calls)
    assert (port.findings, port.saved.bytes) == ([], 10 * 100 * KIB)
    assert {block.in_pool for block in port.blocks} == {"part"}
    assert sorted((b.into.copies, b.out.copies, b.launches) for b in port.blocks) == [(1, 0, 1)] * 8 + [(1, 1, 1)]
    assert port.saved.device == sum(block.bytes for block in port.blocks) == 20 * MIB
    run = calls.run
    used = [{use.block for use in step.uses} for step in run.steps if isinstance(step, TracedLaunch)]
    assert [len(blocks) for blocks in used] == [1] * 9
    assert sum(each.times for each in program_of_trace(run).obtained) == 1, "one allocation"


def test_elements_of_an_array_that_kernels_get_are_no_pool():
    calls = Calls()
    array, host = calls.block(512), calls.host(8)
    for n in range(32):
        calls.launch(array + 8 * n)
    calls.copy(host, array, 8)
    assert [block.in_pool for block in of(calls).blocks] == [""]


def test_a_range_that_is_mapped_in_pieces_may_be_a_pool():
    calls = mapped(range(3))
    tensors(calls, BASE, 9)
    port = of(calls)
    assert (port.findings, [block.in_pool for block in port.blocks]) == ([], ["part"] * 9)
    assert (port.saved.bytes, port.saved.device) == (9 * 100 * KIB, 3 * PIECE)


def test_an_array_that_is_copied_in_pieces_is_no_pool():
    calls = Calls()
    array, host = calls.block(16 * MIB), calls.host(16 * MIB)
    for n in range(16):
        calls.copy(array + n * MIB, host + n * MIB, MIB, blocking=False)
        calls.launch(array + n * MIB)
        calls.copy(host + n * MIB, array + n * MIB, MIB, blocking=False)
    (block,) = of(calls).blocks
    assert (block.bytes, block.in_pool, block.launches) == (16 * MIB, "", 16)
    scattered = Calls()
    array, host = scattered.block(16 * MIB), scattered.host(16 * MIB)
    for n in range(10):
        scattered.copy(array + n * MIB, host + n * MIB, KIB)
        scattered.launch(array)
    assert [(f.kind, f.certainty, f.count) for f in of(scattered).findings] == [("partial", "seen", 10)]


def test_an_array_that_is_copied_through_a_small_buffer_is_no_pool():
    calls = Calls()
    array, staging = calls.block(16 * MIB), calls.host(MIB)
    for n in range(16):
        calls.copy(array + n * MIB, staging, MIB)
    calls.launch(array)
    assert [block.in_pool for block in of(calls).blocks] == [""]


def test_a_block_of_many_parts_that_kernels_get_as_a_whole_is_not_divided():
    calls = Calls()
    block = calls.block(2 * MIB)
    for n in range(9):
        calls.copy(block + n * 32 * KIB, calls.host(KIB), KIB)
    calls.launch(block)
    port = of(calls)
    assert (port.findings, [b.in_pool for b in port.blocks]) == ([], ["whole"])


def halves(*, begin: int, launched: int) -> Calls:
    """An array in one half of a block, of which a part in the other half is copied back. launched: addresses of it."""
    calls = Calls()
    block = calls.block(2 * MIB)
    calls.copy(block, calls.host(MIB), MIB)
    calls.launch(*[block, block + begin][:launched])
    calls.copy(calls.host(KIB), block + begin, KIB)
    return calls


def test_two_parts_are_a_pool_if_kernels_get_each_and_they_begin_like_allocations():
    assert [block.in_pool for block in of(halves(begin=MIB, launched=2)).blocks] == ["part"] * 2
    for calls in (halves(begin=MIB, launched=1), halves(begin=MIB + 8, launched=2)):
        port = of(calls)
        assert [block.in_pool for block in port.blocks] == [""]
        assert {finding.kind for finding in port.findings} == {"partial"}


@pytest.mark.parametrize(("folder", "expected"), [("/usr/lib/python3/dist-packages/cupy/", []), ("", ["partial"])])
def test_a_block_of_an_installed_package_that_it_uses_anew_is_no_array(folder: str, expected: list[str]):
    calls = Calls()
    block = calls.block(8 * KIB, site=(CallFrame(f"{folder}runtime.so", 64), CallFrame(PROGRAM, 1)))
    array, number = calls.host(8 * KIB), calls.host(4)
    for _ in range(3):
        calls.copy(block, array, 8 * KIB)
        calls.launch(block)
        calls.copy(number, block, 4)
    assert [finding.kind for finding in of(calls).findings] == expected


@pytest.mark.parametrize(("file", "expected"), [("libc10_cuda.so", []), (PROGRAM, [("partial", 2)])])
def test_what_the_allocator_of_a_library_gave_out_elsewhere_is_a_pool_too(file: str, expected: list[tuple[str, int]]):
    calls = Calls()
    for line in (1, 2):
        pool = calls.block(2 * MIB, site=(CallFrame(file, 64), CallFrame(PROGRAM, line)))
        if line == 1:
            tensors(calls, pool, 9)
    for n in range(2):
        calls.copy(pool + n * 128 * KIB, calls.host(100 * KIB), 100 * KIB)
    calls.launch(pool)
    assert [(finding.kind, finding.count) for finding in of(calls).findings] == expected
