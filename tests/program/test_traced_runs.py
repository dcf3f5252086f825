"""What a traced program did with its memory: blocks, lives, and what each step names."""

from __future__ import annotations

import pytest
from tests.port.traces import Calls

from firsttouch.profile.calls import Arguments, ArgumentWord, BlockCall, TracedCalls
from firsttouch.program.trace import (
    NO_BLOCK,
    TracedAllocation,
    TracedCopy,
    TracedLaunch,
    TracedRange,
    trace,
    traced_process,
    writable_parameters,
)

KIB = 1024


def launches(calls: Calls) -> list[TracedLaunch]:
    return [step for step in calls.run.steps if isinstance(step, TracedLaunch)]


def test_allocations_of_one_call_that_are_never_alive_at_once_are_one_block():
    calls = Calls()
    for _ in range(3):
        first, second = calls.block(KIB, line=1), calls.block(KIB, line=1)
        calls.free(first)
        calls.free(second)
    calls.block(2 * KIB, line=1)
    last = calls.block(KIB, line=2)
    run = calls.run
    assert [(b.nbytes, len(b.lives)) for b in run.blocks] == [(KIB, 3), (KIB, 3), (2 * KIB, 1), (KIB, 1)]
    life = run.blocks[3].lives[0]
    assert (life.address, life.end, life.last) == (last, None, len(run.steps))
    begun = [s.block for s in run.steps if isinstance(s, TracedAllocation) and s.begins]
    assert begun == [0, 1, 0, 1, 0, 1, 2, 3]


def test_a_block_that_begins_where_another_is_ends_that_one():
    def block(address: int, nbytes: int) -> BlockCall:
        return BlockCall(t=0.0, correlation=0, address=address, bytes=nbytes, begins=True, kind="device")

    run = trace(TracedCalls(1, [block(4096, 100), block(4196, 100), block(4096, 4096)]))
    assert [(s.block, s.begins) for s in run.steps if isinstance(s, TracedAllocation)] == [
        (0, True), (1, True), (0, False), (1, False), (2, True)
    ]  # fmt: skip


def test_copies_name_bytes_of_blocks_and_of_the_host():
    calls = Calls()
    device, pinned = calls.block(64 * KIB), calls.block(KIB, kind="pinned")
    plain = calls.host(KIB)
    calls.copy(device + 256, plain, 512)
    calls.copy(pinned, device, KIB)
    calls.copy(plain, pinned, 100)
    calls.copy(device, device + 1024, 100)
    calls.copy(device + 63 * KIB, plain, 64 * KIB)
    calls.copy(plain, plain + 100, 10)
    run = calls.run
    copies = [step for step in run.steps if isinstance(step, TracedCopy)]
    assert [(c.way, c.target.block, c.target.start, c.source.block) for c in copies] == [
        ("h2d", 0, 256, NO_BLOCK), ("d2h", 1, 0, 0), ("h2h", NO_BLOCK, plain, 1), ("d2d", 0, 0, 0),
        ("h2d", 0, 63 * KIB, NO_BLOCK),
    ]  # fmt: skip
    assert copies[-1].target.total == KIB, "no more than the block has"
    assert copies[0].host == TracedRange(NO_BLOCK, plain, 512)
    assert copies[0].device == TracedRange(0, 256, 512)
    assert run.outside == 1


def test_copies_in_two_dimensions_are_rows():
    calls = Calls()
    device = calls.block(KIB)
    calls.copy(device, 4096, 8, rows=4, source_pitch=8, target_pitch=16)
    copy = calls.run.steps[-1]
    assert copy.source == TracedRange(NO_BLOCK, 4096, 32), "adjacent rows are one"
    assert copy.target.pieces == [(0, 8), (16, 24), (32, 40), (48, 56)]
    assert copy.target.end == 56


@pytest.mark.parametrize(
    ("kernel", "writable"),
    [
        ("_Z6kernelPKfPfi", (False, True, True)),
        ("_Z1kIfEvPKT_PS0_S2_", (False, True, False)),
        ("_Z1kN3foo3BarIPKfEEPKvRK3abc", (True, False, False)),
        ("_Z1kPFvPKfE", (True,)),
        ("extern_c", None),
        # Static in a file, as nvcc names it; the second file has a name that looks like the beginning of one.
        ("__nv_static_27__14_jacobi_cpp1_ii_31d0ee95__Z6jacobiPKfPKdfPdS3_", (False, False, True, True, True)),
        ("__nv_static_24__11_a__Zed_cu_e251c242_1__Z1kPKfPf", (False, True)),
        ("__nv_static_24__11_bbl_cpp1_ii_e251c242_extern_c", None),
        ("__nv_static_400__11_bbl_cpp1_ii_e251c242__Z1kPKf", None),  # not as nvcc makes them
        ("_ZN47_GLOBAL__N__d21a1e4b_9_kernel_cu_0bbf8a2b_123451kEPKfPf", (False, True)),
        ("_ZN41_INTERNAL_d21a1e4b_9_kernel_cu_0bbf8a2b_11kIfEEvPKT_PS1_", (False, True)),
        ("_ZN12_GLOBAL__N_11kEPKfPf", (False, True)),
    ],
)
def test_a_kernels_name_tells_which_parameters_it_cannot_write(kernel, writable):
    assert writable_parameters(kernel) == writable


def test_launches_name_blocks_by_arguments():
    calls = Calls()
    first, second = calls.block(KIB), calls.block(KIB)
    calls.launch(second + 64, first, 0, second, kernel="_Z1kPKfS0_iS0_")
    calls.launch(second, first + KIB + 8, kernel="k")
    calls.launch(arguments=None)
    known, stray, unknown = launches(calls)
    assert [(u.block, u.start, u.may_write, u.parameter) for u in known.uses] == [(0, 0, False, 1), (1, 0, False, 0)]
    assert [(u.block, u.may_write) for u in stray.uses] == [(1, True)]
    assert stray.strangers == 1
    assert unknown.uses == ()
    assert calls.run.unknown == 1


def test_a_structure_passed_by_value_may_be_written_through():
    calls = Calls()
    block = calls.block(KIB)
    calls.launch(arguments=Arguments("_Z1kPKf", (ArgumentWord(0, 8, block),)))
    assert launches(calls)[0].uses[0].may_write


def test_pointers_in_copied_data_lead_to_blocks():
    calls = Calls()
    table, row, far = calls.block(64), calls.block(KIB), calls.block(KIB)
    calls.copy(table, 4096, 64)
    calls.pointers(table, row)
    calls.copy(row, 4096, 8)
    calls.pointers(row, far)
    calls.launch(table)
    calls.launch(row)
    calls.fill(row, 16)
    calls.launch(table)
    calls.free(row)
    calls.launch(table)
    assert [[(u.block, u.by) for u in launch.uses] for launch in launches(calls)] == [
        [(0, "argument"), (1, "pointer"), (2, "pointer")],
        [(1, "argument"), (2, "pointer")],
        [(0, "argument"), (1, "pointer")],
        [(0, "argument")],
    ]


def test_any_launch_may_use_static_variables_and_what_they_point_to():
    calls = Calls()
    symbol, block, _other = calls.block(8, kind="device_static", name="d_common"), calls.block(KIB), calls.block(KIB)
    calls.copy(symbol, 4096, 8)
    calls.pointers(symbol, block)
    calls.launch()
    assert [(u.block, u.by) for u in launches(calls)[0].uses] == [(0, "symbol"), (1, "symbol")]


def test_pointers_remain_when_the_same_ones_are_copied_again():
    """The journal tells those of a copy only if they are others than those of the last copy to this place."""
    calls = Calls()
    symbol, frame, other = calls.block(16, kind="device_static", name="change"), calls.block(KIB), calls.block(KIB)
    calls.copy(symbol, 4096, 16)
    calls.pointers(symbol, frame)
    calls.launch()
    calls.copy(symbol, 4096, 16)
    calls.launch()
    calls.copy(symbol, 4096, 16)
    calls.pointers(symbol, other)
    calls.launch()
    calls.copy(symbol, frame, 16)
    calls.launch()
    assert [[use.block for use in launch.uses] for launch in launches(calls)] == [[0, 1], [0, 1], [0, 2], [0]]


def test_views_show_the_process_that_copies_most():
    small, large = Calls(1), Calls(2)
    for calls, nbytes in ((small, 8), (large, 64)):
        calls.copy(calls.block(KIB), 4096, nbytes)
    processes = [small.traced, large.traced]
    assert traced_process(processes).pid == 2
    assert traced_process(processes, 1).pid == 1
    assert traced_process(processes, 3) is None
