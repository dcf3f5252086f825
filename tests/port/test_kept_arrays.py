"""Host arrays that stay beside their buffer, and fills that would destroy what the CPU prepared: in traces by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.port.test_port_findings import names, of
from tests.port.traces import Calls

from firsttouch.advice.edits import edits
from firsttouch.advice.port.places import Places
from firsttouch.profile.calls import HostUse
from firsttouch.program.strategies import STRATEGIES

MIB = 1 << 20
PAGE = 4096
READS = "_Z6kernelPKfS0_"
"""A kernel that only reads."""
COPY_IN, LAUNCH, COPY_BACK, OTHER = 1, 2, 3, 4
"""Lines of calls."""
Fates = list[tuple[int, str, str, bool]]


def fates(calls: Calls) -> Fates:
    """The line of each call that copies, its fate, the reason, and whether that may be otherwise."""
    return sorted((row.place.line, row.fate, row.reason, bool(row.unless)) for row in of(calls).copy_calls)


def changes(calls: Calls) -> list[tuple[str, list[int]]]:
    """What the edit list says, and of which lines, as far as these are known."""
    listed = edits(calls.run, of(calls), Places(names()), STRATEGIES["managed"])
    ends = [(edit.what, [line.rpartition(":")[2] for line in edit.lines]) for edit in listed]
    return [(what, sorted(int(end) for end in of_change if end.isdecimal())) for what, of_change in ends]


class Program(Calls):
    """A block of 1 MiB, and an array of the host."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer, self.array = self.block(MIB), self.host(MIB)

    def copy_in(self) -> None:
        self.copy(self.buffer, self.array, MIB, line=COPY_IN)

    def kernel(self, kernel: str = "") -> None:
        self.launch(self.buffer, line=LAUNCH, **({"kernel": kernel} if kernel else {}))
        self.wait()

    def copy_back(self, array: int = 0) -> None:
        self.copy(array or self.array, self.buffer, MIB, line=COPY_BACK)

    def cpu(self, *, writes: bool = False, read: int | None = 0, array: int = 0) -> None:
        """What the CPU does with the array until the next copy."""
        array = array or self.array
        self.host_use(array, MIB, [(array, array + MIB)] if writes else [], read)


def reference_in_the_input(program: Program) -> None:
    """As simpleCUBLAS: the CPU computes what it expects in an array that was copied in."""
    program.copy_in()
    program.cpu(writes=True)
    program.kernel()
    program.copy_back(program.host(MIB))


def reference_in_the_input_seen_late(program: Program) -> None:
    """It is told only when the program ends what the CPU wrote since the copy."""
    program.copy_in()
    program.kernel()
    program.copy_back(program.host(MIB))
    program.cpu(writes=True)


def cleared_before_the_result_comes_back(program: Program) -> None:
    program.copy_in()
    program.kernel(READS)
    program.cpu(writes=True)
    program.copy_back()


def inputs_read_again(program: Program) -> None:
    """As conjugateGradient."""
    program.copy_in()
    program.kernel()
    program.cpu(read=MIB)


def old_values_read_and_overwritten(program: Program) -> None:
    """As page-rank: pages that are written are not told to be read. The buffer is freed before."""
    program.copy_in()
    program.kernel()
    program.free(program.buffer)
    program.cpu(writes=True)


def a_part_comes_back_as_it_was(program: Program) -> None:
    """The CPU writes half of the input anew; what the kernel wrote over the other half is restored by the copy."""
    program.copy_in()
    program.kernel()
    program.host_use(program.array, MIB, [(program.array, program.array + MIB // 2)], 0)
    program.copy_in()
    program.kernel(READS)


def changed_after_it_came_back(program: Program) -> None:
    """The kernel goes on with what it has, and the CPU scales its own copy."""
    for _ in range(2):
        program.kernel()
        program.copy_back()
        program.cpu(writes=True)


def second_buffer_after_a_kernel(program: Program) -> None:
    """The same input goes to another buffer when the first one has been overwritten."""
    program.copy_in()
    program.kernel()
    program.copy(program.block(MIB), program.array, MIB, line=OTHER)


def staging(program: Program) -> None:
    """One array brings the data of two buffers, one after the other."""
    program.copy_in()
    program.cpu(writes=True)
    second = program.block(MIB)
    program.copy(second, program.array, MIB, line=OTHER)
    program.launch(program.buffer, second, kernel=READS)


def result_in_the_array_of_another(program: Program) -> None:
    """As graphMemoryNodes: a reference is copied in, and then a result comes back into the same array."""
    program.copy_in()
    result = program.block(MIB)
    program.launch(result)
    program.copy(program.array, result, MIB, line=OTHER)
    program.launch(program.buffer, kernel=READS)


def written_before_the_input_comes(program: Program) -> None:
    """A first launch runs on what is in the buffer; the CPU may have prepared its data before."""
    program.kernel()
    program.copy_in()


def a_smaller_array_after_another(program: Program) -> None:
    """A small array goes to the buffer of a large one, and was perhaps prepared before that."""
    program.copy_in()
    program.launch(program.buffer, kernel=READS)
    program.copy(program.buffer, program.host(MIB // 4), MIB // 4, line=OTHER)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (reference_in_the_input, [(COPY_IN, "kept", "written", False), (COPY_BACK, "dropped", "", False)]),
        (
            reference_in_the_input_seen_late,
            [(COPY_IN, "kept", "result", True), (COPY_BACK, "dropped", "", False)],
        ),
        (
            cleared_before_the_result_comes_back,
            [(COPY_IN, "kept", "written", False), (COPY_BACK, "kept", "written", False)],
        ),
        (inputs_read_again, [(COPY_IN, "kept", "read", True)]),
        (old_values_read_and_overwritten, [(COPY_IN, "kept", "rewritten", True)]),
        (a_part_comes_back_as_it_was, [(COPY_IN, "kept", "restores", True)]),
        (changed_after_it_came_back, [(COPY_BACK, "kept", "changed", True)]),
        (second_buffer_after_a_kernel, [(COPY_IN, "kept", "read", True), (OTHER, "dropped", "", False)]),
        (staging, [(COPY_IN, "kept", "written", False), (OTHER, "dropped", "", False)]),
        (
            result_in_the_array_of_another,
            [(COPY_IN, "kept", "overwritten", False), (OTHER, "dropped", "", False)],
        ),
        (written_before_the_input_comes, [(COPY_IN, "kept", "prepared", True)]),
        (a_smaller_array_after_another, [(COPY_IN, "dropped", "", False), (OTHER, "kept", "prepared", True)]),
    ],
)
def test_an_array_stays_whose_data_the_other_side_would_destroy(
    made: Callable[[Program], None], expected: Fates
) -> None:
    program = Program()
    made(program)
    assert fates(program) == expected
    kept, dropped = ({line for line, fate, *_ in expected if fate == it} for it in ("kept", "dropped"))
    listed = changes(program)
    for what, lines in (("keep", kept), ("drop", dropped)):
        assert {line for change, of_change in listed for line in of_change if change == what} == lines
    assert ("allocate" in {what for what, _ in listed}) == bool(dropped)


def next_input(program: Program) -> None:
    """The CPU prepares the next input when the kernel has ended, which only reads it."""
    for _ in range(3):
        program.copy_in()
        program.kernel(READS)
        program.cpu(writes=True)


def input_and_result(program: Program) -> None:
    """The result comes back into the array that was copied in, and the CPU makes the next input of it."""
    for _ in range(3):
        program.copy_in()
        program.kernel()
        program.cpu()
        program.copy_back()
        program.cpu(writes=True)


def inputs_read_again_of_a_kernel_that_reads(program: Program) -> None:
    program.copy_in()
    program.kernel(READS)
    program.cpu(read=MIB)


def read_again_before_any_kernel(program: Program) -> None:
    program.copy_in()
    program.cpu(read=MIB)
    program.copy_in()
    program.kernel()
    program.cpu()


def result_after_the_first_was_freed(program: Program) -> None:
    """The array's first buffer is gone when another result comes into it."""
    program.copy_in()
    program.kernel(READS)
    program.free(program.buffer)
    result = program.block(MIB)
    program.launch(result)
    program.copy(program.array, result, MIB, line=OTHER)


def reference_in_an_array_of_its_own(program: Program) -> None:
    program.copy_in()
    program.cpu()
    program.kernel()
    program.copy_back(result := program.host(MIB))
    program.cpu(read=MIB, array=result)


def results_that_are_read_only(program: Program) -> None:
    for _ in range(3):
        program.kernel()
        program.copy_back()
        program.cpu(read=MIB)


def frames_in_turn(program: Program) -> None:
    """Each part of an array goes to the buffer once, and is written when it has been used."""
    arrays = [program.host(MIB) for _ in range(3)]
    for array in arrays:
        program.copy(program.buffer, array, MIB, line=COPY_IN)
        program.kernel(READS)
    for array in arrays[:-1]:
        program.cpu(read=MIB, array=array)


def one_input_for_two_buffers(program: Program) -> None:
    """Both are filled before any kernel."""
    program.copy_in()
    second = program.block(MIB)
    program.copy(second, program.array, MIB, line=COPY_IN)
    program.launch(program.buffer, second)


@pytest.mark.parametrize(
    "made",
    [
        next_input,
        input_and_result,
        inputs_read_again_of_a_kernel_that_reads,
        read_again_before_any_kernel,
        result_after_the_first_was_freed,
        reference_in_an_array_of_its_own,
        results_that_are_read_only,
        frames_in_turn,
        one_input_for_two_buffers,
    ],
)
def test_an_array_is_joined_whose_data_both_sides_have_done_with(made: Callable[[Program], None]) -> None:
    program = Program()
    made(program)
    assert {fate for _, fate, _, _ in fates(program)} <= {"dropped", "shared"}


def test_what_was_not_seen_of_an_array_is_said_where_its_copy_is_dropped() -> None:
    program = Program()
    program.copy_in()
    program.kernel()
    watched = program.host(MIB)
    program.copy(program.block(MIB), watched, MIB, line=OTHER)
    program.cpu(array=watched)
    assert fates(program) == [(COPY_IN, "dropped", "unseen", True), (OTHER, "dropped", "", False)]
    assert sum("reads again 1 MiB" in sentence for sentence in of(program).unseen) == 1
    assert [change for change in changes(program) if change[0] == "drop"] == [("drop", [COPY_IN]), ("drop", [OTHER])]


# ------------------------------------------------------------------------------------------- the order in one window


def window(program: Program, since: float, *, read: int = 0) -> None:
    """The CPU writes the array, or reads it, at some time from `since` on."""
    writes = () if read else ((program.array, program.array + MIB),)
    now = program.calls[-1].t + 0.0005
    use = HostUse(since=since, t=now, address=program.array, bytes=MIB, writes=writes, read=read, late=False)
    program.calls.append(use)


def written_as_a_kernel_ran(program: Program) -> None:
    program.copy_in()
    since = program.calls[-1].t
    program.kernel()
    window(program, since)
    program.copy_back()


def written_as_kernels_ran(program: Program) -> None:
    program.copy_in()
    since = program.calls[-1].t
    program.kernel(READS)
    program.kernel()
    window(program, since)
    program.kernel(READS)


def written_as_another_buffer_was_copied(program: Program) -> None:
    program.copy_in()
    since = program.calls[-1].t
    program.copy(program.buffer, program.block(MIB), MIB, line=OTHER)
    window(program, since)
    program.kernel(READS)


def read_as_a_kernel_ran(program: Program) -> None:
    """As a reference that the CPU computes before the kernel or after it."""
    program.copy_in()
    since = program.calls[-1].t
    program.kernel()
    window(program, since, read=MIB)
    program.copy_back(program.host(MIB))


def changed_as_a_kernel_ran(program: Program) -> None:
    program.kernel()
    program.copy_back()
    since = program.calls[-1].t
    program.kernel()
    window(program, since)
    program.copy_back()


@pytest.mark.parametrize(
    ("made", "line", "reason"),
    [
        (written_as_a_kernel_ran, COPY_IN, "interleaved"),
        (written_as_kernels_ran, COPY_IN, "interleaved"),
        (written_as_another_buffer_was_copied, COPY_IN, "interleaved"),
        (read_as_a_kernel_ran, COPY_IN, "read"),
        (changed_as_a_kernel_ran, COPY_BACK, "changed"),
    ],
)
def test_where_the_order_in_one_window_decides_the_list_says_unless(
    made: Callable[[Program], None], line: int, reason: str
) -> None:
    program = Program()
    made(program)
    assert (line, "kept", reason, True) in fates(program)
    (unless,) = [row.unless for row in of(program).copy_calls if row.place.line == line]
    assert "before" in unless or "after" in unless


def written_after_the_launch(program: Program) -> None:
    """A window that begins with the launch tells the order, though one that ends later does not."""
    program.copy_in()
    since = program.calls[-1].t
    program.launch(program.buffer, line=LAUNCH)
    window(program, program.calls[-1].t)
    program.wait()
    window(program, since)
    program.copy_back()


def written_beside_kernels_that_only_read(program: Program) -> None:
    program.copy_in()
    since = program.calls[-1].t
    program.kernel(READS)
    window(program, since)
    program.copy_back()


def written_before_the_launch(program: Program) -> None:
    program.copy_in()
    window(program, program.calls[-1].t)
    program.kernel()
    program.copy_back()


@pytest.mark.parametrize(
    "made", [written_after_the_launch, written_beside_kernels_that_only_read, written_before_the_launch]
)
def test_where_the_order_is_known_or_does_not_matter_nothing_is_unless(made: Callable[[Program], None]) -> None:
    program = Program()
    made(program)
    assert (COPY_IN, "kept", "written", False) in fates(program)


def test_a_page_that_holds_other_data_too_tells_nothing_of_a_small_array() -> None:
    calls = Calls()
    block, array = calls.block(PAGE), calls.host(PAGE) + 64
    calls.copy(block, array, 1000, line=COPY_IN)
    calls.launch(block)
    calls.host_use(array, 1000, [(array - 64, array - 64 + PAGE)], 0)
    assert fates(calls) == [(COPY_IN, "dropped", "unseen", True)]


@pytest.mark.parametrize(("read", "fate_of_small"), [(MIB, "dropped"), (MIB + 4 * PAGE, "kept")])
def test_what_the_cpu_reads_of_an_array_is_not_taken_for_reads_of_its_neighbours(read: int, fate_of_small: str) -> None:
    """As in srad, small arrays beside a large one are looked at with it. If all of both was read, they were too."""
    calls, size = Calls(), 4 * PAGE
    large, small = calls.block(MIB), calls.block(size)
    host = calls.host(MIB + size)
    calls.copy(large, host, MIB, line=COPY_IN)
    calls.copy(small, host + MIB, size, line=OTHER)
    calls.launch(large, small, line=LAUNCH)
    calls.wait()
    calls.host_use(host, MIB + size, [], read)
    rows = {line: fate for line, fate, _, _ in fates(calls)}
    assert rows == {COPY_IN: "kept", OTHER: fate_of_small}


def test_when_the_cpu_writes_an_input_that_kernels_only_read_is_not_seen() -> None:
    program = Program()
    program.copy_in()
    program.kernel(READS)
    program.cpu(writes=True)
    assert fates(program) == [(COPY_IN, "dropped", "late", True)]


def test_all_copies_stay_between_a_buffer_and_an_array_that_stays() -> None:
    program = Program()
    program.copy_in()
    program.cpu(writes=True)
    program.kernel()
    program.copy_in()
    program.copy(program.array, program.buffer, MIB // 2, line=COPY_BACK)
    assert {fate for _, fate, _, _ in fates(program)} == {"kept"}
    assert of(program).blocks[0].partners[0].kept


# ------------------------------------------------------------------------------------------------ fills


@pytest.mark.parametrize(
    ("filled", "copied", "expected"),
    [
        ((0, MIB), (0, MIB), [True]),
        ((0, MIB // 2), (0, MIB), [True]),
        ((0, MIB), (0, MIB // 2), [False]),
        ((MIB // 2, MIB), (0, MIB // 2), []),
    ],
    ids=["all", "part of the copy", "more than the copy", "other bytes"],
)
def test_a_fill_does_not_destroy_what_the_cpu_prepared(
    filled: tuple[int, int], copied: tuple[int, int], expected: list[bool]
) -> None:
    calls = Calls()
    block, array = calls.block(MIB), calls.host(MIB)
    calls.fill(block + filled[0], filled[1] - filled[0], line=5)
    calls.copy(block + copied[0], array, copied[1] - copied[0], line=COPY_IN)
    calls.launch(block)
    calls.copy(calls.host(MIB), block, MIB, line=COPY_BACK)
    port = of(calls)
    assert [(row.is_needless, row.place.line, row.copies[0].line) for row in port.fills] == [
        (is_needless, 5, COPY_IN) for is_needless in expected
    ]
    assert [change for change in changes(calls) if change[0] == "omit"] == [("omit", [5]) for _ in expected]


def test_fills_are_counted_in_each_round() -> None:
    program = Program()
    for _ in range(3):
        program.fill(program.buffer, MIB, line=5)
        program.copy_in()
        program.kernel(READS)
    assert [(row.fills, row.bytes, row.is_needless) for row in of(program).fills] == [(3, 3 * MIB, True)]


def test_a_fill_that_a_kernel_uses_before_the_copy_is_no_needless_one() -> None:
    program = Program()
    program.fill(program.buffer, MIB, line=5)
    program.kernel(READS)
    program.copy_in()
    assert of(program).fills == []
    assert fates(program) == [(COPY_IN, "kept", "prepared", True)]


def test_a_fill_of_a_buffer_that_is_no_host_array_is_left_alone() -> None:
    program = Program()
    program.fill(program.buffer, MIB, line=5)
    program.kernel()
    program.copy_back()
    assert of(program).fills == []


# ------------------------------------------------------------------------------------------------ waits


def test_a_wait_for_a_copy_that_stays_is_after_it() -> None:
    calls = Calls()
    first, second, array = calls.block(MIB), calls.block(MIB), calls.host(MIB)
    calls.copy(first, array, MIB, line=COPY_IN)
    calls.launch(first, second, line=LAUNCH)
    calls.copy(array, second, MIB, line=COPY_BACK)
    assert [(wait.copy.line, wait.stays) for wait in of(calls).waits] == [(COPY_BACK, True)]
    dropped = Program()
    dropped.copy_in()
    dropped.launch(dropped.buffer, line=LAUNCH)
    dropped.copy_back()
    assert [(wait.copy.line, wait.stays) for wait in of(dropped).waits] == [(COPY_BACK, False)]


def filled_for_both(
    *, writes: bool = False, watched: bool = True, waits: bool = True, again: bool = False
) -> list[tuple[str, str, int, int | None, bool]]:
    """As compute-score of HeCBench: two buffers are filled from one array, which only the first can be one with. The
    waits of a unified version. writes: the CPU writes the array after that; again: and copies it to the first again.
    """
    calls = Calls()
    first, second, result, array = calls.block(MIB), calls.block(MIB), calls.block(MIB), calls.host(MIB)
    calls.copy(first, array, MIB, line=COPY_IN, sample=1)
    calls.copy(second, array, MIB, line=OTHER, sample=1)
    if again:
        calls.copy(first, array, MIB, line=COPY_BACK, sample=2)
    calls.launch(first, second, result, line=LAUNCH, kernel="_Z6kernelPKfS0_Pf")
    if waits:
        calls.wait(line=9)
    if watched:
        calls.host_use(array, MIB, [(array, array + MIB)] if writes else [], 0)
    calls.copy(calls.host(MIB), result, MIB, line=10)
    return [
        (wait.before, wait.certainty, wait.copy.line, wait.following.line if wait.following else None, wait.stays)
        for wait in of(calls).waits
        if wait.copy.line != 10
    ]


@pytest.mark.parametrize(
    ("result", "own", "reason"),
    [(0, False, "result"), (MIB, False, "rewritten"), (None, False, "rewritten"), (0, True, "rewritten")],
    ids=["as burger of HeCBench", "another part", "no result", "a number that comes back to its place"],
)
def test_an_input_that_is_written_while_the_result_is_in_another_array_stays(
    result: int | None, own: bool, reason: str
) -> None:
    """As one with the buffer, both arrays would be one, so that the input would destroy the result. result: the part of
    the buffer that comes back; own: a number of it, to the input itself.
    """
    calls = Calls()
    block, array = calls.block(2 * MIB), calls.host(MIB)
    calls.copy(block, array, MIB, line=COPY_IN)
    calls.launch(block, line=LAUNCH)
    calls.wait()
    if result is not None:
        calls.copy(array if own else calls.host(MIB), block + result, 4 if own else MIB, line=COPY_BACK)
    calls.host_use(array, MIB, [(array, array + MIB)], 0)
    assert (COPY_IN, "kept", reason, True) in fates(calls)


@pytest.mark.parametrize(
    ("arrays", "refilled", "fate"),
    [(3, False, "turns"), (3, True, ""), (1, False, "")],
    ids=["as cross of HeCBench", "each round has its own input", "one array"],
)
def test_a_buffer_that_goes_to_arrays_in_turn_has_old_values_that_these_do_not_have(
    arrays: int, refilled: bool, fate: str
) -> None:
    """Kernels get another array each time, so that a kernel which adds to the last result would miss it."""
    calls = Calls()
    block, source, results = calls.block(MIB), calls.host(MIB), [calls.host(MIB) for _ in range(arrays)]
    for number in range(3):
        if refilled:
            calls.copy(block, source, MIB, line=COPY_IN, sample=number)
        calls.launch(block, line=LAUNCH)
        calls.wait()
        calls.copy(results[number % arrays], block, MIB, line=COPY_BACK)
    (row,) = [row for row in of(calls).copy_calls if row.place.line == COPY_BACK]
    assert (row.fate, row.reason) == ("dropped", fate)
    passed = [
        edit for edit in edits(calls.run, of(calls), Places(names()), STRATEGIES["managed"]) if edit.what == "pass"
    ]
    assert bool(passed) == (arrays > 1)


@pytest.mark.parametrize(("other", "expected"), [(True, [("kept", "read")]), (False, [("dropped", "")])])
def test_an_array_that_restores_one_buffer_is_not_one_with_another_that_kernels_write(
    other: bool, expected: list[tuple[str, str]]
) -> None:
    """As sort of HeCBench: an array fills the first buffer, and brings old values back to the second each round."""
    calls = Calls()
    first, second, array = calls.block(MIB), calls.block(MIB), calls.host(MIB)
    calls.copy(first, array if other else calls.host(MIB), MIB, line=COPY_IN, sample=1)
    calls.launch(first, line=LAUNCH)
    for _ in range(3):
        calls.copy(second, array, MIB, line=OTHER, sample=1)
        calls.launch(second, line=LAUNCH)
    calls.copy(calls.host(MIB), second, MIB, line=COPY_BACK)
    rows = of(calls).copy_calls
    assert [row.fate for row in rows if row.place.line == OTHER] == ["restoring"]
    assert [(row.fate, row.reason) for row in rows if row.place.line == COPY_IN] == expected


def test_a_copy_that_stays_reads_its_array_before_the_cpu_writes_it() -> None:
    assert filled_for_both(writes=True) == [("writes", "possible", OTHER, 9, True)]
    assert filled_for_both(watched=False) == [("writes", "possible", OTHER, 9, True)]
    assert filled_for_both(writes=True, waits=False) == [("writes", "likely", OTHER, None, True)]
    assert ("writes", "likely", COPY_BACK, None, False) in filled_for_both(again=True)


def test_a_copy_that_stays_needs_no_wait_if_the_cpu_leaves_its_array_alone() -> None:
    assert filled_for_both() == []
    assert filled_for_both(waits=False) == []


@pytest.mark.parametrize(("whole", "kept"), [(False, False), (True, True)])
def test_a_kernel_of_parts_does_not_write_the_part_that_is_copied_next(whole: bool, kept: bool) -> None:
    """Parts of one buffer are copied and used in turn. What a kernel of all of it writes, no later copy may bring."""
    calls = Calls()
    block, host = calls.block(4 * MIB), calls.host(4 * MIB)
    for n in range(4):
        calls.copy(block + n * MIB, host + n * MIB, MIB, line=1, blocking=False, host="pinned", stream=n, sample=n)
        calls.launch(block if whole else block + n * MIB, line=2)
    assert any(row.fate == "kept" for row in of(calls).copy_calls) is kept
