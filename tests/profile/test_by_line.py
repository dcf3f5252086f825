"""What lines of a program cost: habits that cost time, and what looks like them and does not."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tests.profile.timed import DEVICE, HOST, MIB, NAMES, PYTHON, SCRIPT, TORCH, TimedProgram, line, training

from firsttouch.profile.by_line import TracedProcess, by_line
from firsttouch.profile.link import ReachedSpeed, TimedCopy
from firsttouch.profile.recorded import CallFrame
from firsttouch.profile.user_lines import UserPlaces
from firsttouch.report.line_words import groups_of, line_texts

ms = pytest.approx


def idle_ms(program: TimedProgram) -> dict[int, float]:
    """For how long the GPU stood idle, by line of the waits."""
    return {at: round((row.idle or 0.0) * 1e3, 6) for at, row in program.rows("waits").items()}


# ------------------------------------------------------------------------------------------------------- three habits


def test_three_habits_are_told_with_their_lines_and_costs_and_nothing_else():
    lines = training().by_line()
    groups = groups_of(lines)
    by_group = [{row.place.line for row in group.rows} for group in groups]
    assert by_group == [{14}, {11}, {16, 17}]
    # 2 ms in each of 20 steps; 19 copies of 1 ms again, and 0.5 ms of idle GPU in each of 20; 4 round trips of 1 ms,
    # after which the GPU waits for the next step.
    assert [group.cost * 1e3 for group in groups[:2]] == ms([40.0, 29.0])
    assert groups[2].cost * 1e3 > 4.0
    *habits, others = line_texts(lines)
    told = [re.findall(r"train.py:(\d+)(?: and :(\d+))?", text) for text in habits]
    assert [at for at in told if at] == [[("14", "")], [("11", "")], [("16", "17")]]
    assert "other copies" in others  # of the model and of the inputs, which cost nothing that could be spared


def test_rows_have_bytes_calls_memory_and_what_page_locking_saves():
    program = training()
    copies = program.rows("copies")
    mask, inputs, weights = copies[11], copies[10], copies[16]
    assert (mask.calls, mask.h2d, mask.d2h, mask.memory) == (20, 80 * MIB, 0, "pageable")
    assert (inputs.calls, inputs.h2d, inputs.memory, inputs.saves) == (20, 160 * MIB, "page-locked", None)
    # the inputs reach 8 MiB in 0.2 ms, so that 4 MiB take 0.1 ms at most
    assert (mask.seconds, mask.best, mask.saves) == (ms(20e-3), ms(2e-3), ms(18e-3))
    assert (weights.d2h, weights.best, weights.saves) == (32 * MIB, None, None)  # nothing page-locked went that way
    again = program.rows("copied again")
    assert {at: (row.calls, row.held, row.certainty) for at, row in again.items()} == {11: (19, 4 * MIB, "possible")}
    (trips,) = program.rows("round trips").values()
    assert (trips.place.line, trips.since and trips.since.line, trips.first_way) == (17, 16, "d2h")
    assert (trips.calls, trips.h2d, trips.d2h, trips.seconds) == (4, 32 * MIB, 32 * MIB, ms(4e-3))


class FastLink:
    source = "results/here"

    def seconds(self, way: str, nbytes: int) -> float | None:
        return nbytes / 42e9 if way == "h2d" else None


def test_a_measured_machine_comes_before_what_the_trace_reached():
    lines = training().by_line(FastLink())
    assert lines.best_from == "results/here"
    best = {row.place.line: row.best for row in lines.rows if row.kind == "copies"}
    assert best[11] == ms(80 * MIB / 42e9)
    assert best[16] is None
    assert "results/here" in "\n".join(line_texts(lines))


def test_samples_of_all_bytes_are_seen():
    program = TimedProgram()
    for step in range(3):
        t = 10.0 * step
        program.copy(t + 1, (t, t + 1), 3, "d2h", sample=step, sampled_whole=True)
        program.copy(t + 2, (t + 1, t + 2), 4, "h2d", sample=step, device=DEVICE + (step + 1) * MIB, sampled_whole=True)
        program.launch(t + 3, (t + 3, t + 9))
    assert [row.certainty for row in program.rows("round trips").values()] == ["seen"]


# -------------------------------------------------------------------------------------------------------------- waits


def test_a_wait_is_charged_with_the_time_until_the_next_launch():
    program = TimedProgram()
    program.launch(1, (1, 5))
    program.wait(5.01, 20)
    program.launch(7, (7.5, 8))
    assert idle_ms(program) == {20: ms(2.5)}
    assert program.rows("waits")[20].waited == ms(4.01e-3)


def test_a_copy_from_page_locked_memory_that_does_not_block_is_no_wait():
    program = TimedProgram()
    program.launch(1, (1, 5))
    program.copy(1.1, (5, 6), 20, "h2d", memory="pinned")
    program.launch(9, (9, 10))
    assert idle_ms(program) == {}


def test_a_wait_with_nothing_pending_costs_nothing():
    program = TimedProgram()
    program.launch(1, (1, 2))
    program.wait(5, 20)  # which returned long after the kernel: the CPU had other work before it
    program.wait(5.01, 21)
    program.launch(9, (9, 10))
    assert idle_ms(program) == {}


def test_a_wait_in_which_the_gpu_was_always_busy_has_no_idle_time():
    program = TimedProgram()
    program.launch(1, (1, 5), device=0)
    program.launch(1.1, (1, 30), device=0)  # in another stream
    program.wait(5.01, 20)
    program.launch(6, (30, 31))
    assert idle_ms(program) == {20: 0.0}


def test_work_of_the_cpu_after_a_short_wait_is_not_charged_to_it():
    program = TimedProgram()
    program.launch(1, (1, 2))
    program.wait(2.01, 20)
    program.launch(1000, (1000, 1001))  # the CPU read a file
    assert idle_ms(program)[20] == ms(1.01)


def test_where_the_begin_of_a_wait_is_recorded_it_counts():
    program = TimedProgram()
    program.launch(1, (1, 5))
    program.wait(6, 20, began=4)  # the thread was not scheduled at once
    program.launch(9, (9, 10))
    program.wait(10.01, 21, began=10.005)  # it asked whether the kernel had ended
    program.launch(11, (11, 12))
    assert idle_ms(program) == {20: ms(2.0)}
    assert program.rows("waits")[20].waited == ms(2e-3)


def test_a_gap_is_charged_once():
    program = TimedProgram()
    program.launch(1, (1, 5))
    program.copy(5.1, (5, 5.1), 20, "d2h")
    program.wait(5.2, 20)
    program.wait(5.3, 21)
    program.launch(7, (7.1, 8))
    assert idle_ms(program) == {20: ms(2.0)}


def test_the_last_wait_costs_nothing():
    program = TimedProgram()
    program.launch(1, (1, 5))
    program.wait(5.01, 20)
    assert idle_ms(program) == {20: 0.0}


def test_another_device_that_had_ended_before_is_not_charged():
    program = TimedProgram()
    program.launch(1, (1, 2), device=1)
    program.launch(1.1, (1, 8), device=0)
    program.wait(8.01, 20)
    program.launch(8.5, (9, 10), device=0)
    program.launch(60, (60, 61), device=1)
    assert idle_ms(program) == {20: ms(1.0)}


def test_a_wait_of_another_thread_does_not_shorten_this_one():
    program = TimedProgram()
    program.launch(1, (1, 5))
    program.wait(4.9, 20, thread=8)
    program.wait(5.01, 21, thread=9)
    program.launch(7, (7, 8))
    assert program.rows("waits")[21].waited == ms(4.01e-3)


def test_a_pageable_copy_that_was_held_back_by_earlier_work_is_a_wait():
    program = TimedProgram()
    program.launch(1, (1, 5))
    program.copy(6.5, (5, 7), 20, "h2d", blocking=False)  # returned when the driver had taken the last bytes
    program.launch(8, (9, 10))
    assert idle_ms(program) == {20: ms(2.0)}


def test_two_lines_of_one_function_are_told_apart():
    program = TimedProgram()
    for step in range(3):
        t = 10.0 * step
        program.launch(t + 1, (t + 1, t + 3))
        program.wait(t + 3.01, 20)
        program.launch(t + 4, (t + 4, t + 6))
        program.wait(t + 6.01, 21)
    assert {at: row.calls for at, row in program.rows("waits").items()} == {20: 3, 21: 3}


# ------------------------------------------------------------------------------------- round trips, and copied again


def trips(second_sample: int, *, host: int = HOST, device: int = DEVICE, steps: int = 3) -> TimedProgram:
    """Each step copies 1 MiB to the host, and back from and to other places if these are given."""
    program = TimedProgram()
    for step in range(steps):
        t = 10.0 * step
        program.copy(t + 1, (t, t + 1), 3, "d2h", sample=step)
        program.copy(t + 2, (t + 1, t + 2), 4, "h2d", host=host, device=device, sample=step + second_sample)
        program.launch(t + 3, (t + 3, t + 9))
    return program


def test_bytes_that_come_back_to_another_address_made_a_round_trip():
    (row,) = trips(0, device=DEVICE + MIB).rows("round trips").values()
    assert (row.calls, row.certainty) == (3, "possible")


def test_bytes_that_changed_on_the_cpu_made_no_round_trip():
    assert not trips(100).rows("round trips")


def test_bytes_that_were_moved_on_the_host_made_a_round_trip_if_they_differ_each_time():
    assert trips(0, host=HOST + 9 * MIB).rows("round trips")
    program = TimedProgram()
    for step in range(5):  # zeros that come back, and others that are sent: equal by chance
        program.copy(10.0 * step + 1, (10.0 * step, 10.0 * step + 1), 3, "d2h", sample=6)
        program.copy(10.0 * step + 2, (10.0 * step + 1, 10.0 * step + 2), 4, "h2d", host=HOST + 9 * MIB,
                     device=DEVICE + MIB, sample=6)  # fmt: skip
        program.launch(10.0 * step + 3, (10.0 * step + 3, 10.0 * step + 9))
    assert not program.rows("round trips")


def test_what_goes_to_the_device_and_back_made_a_round_trip_once():
    program = TimedProgram()
    program.copy(1, (0, 1), 3, "h2d", sample=5)
    program.launch(2, (2, 3))
    for t in (4, 6):
        program.copy(t, (t - 1, t), 4, "d2h", host=HOST + MIB, sample=5)
        program.launch(t + 1, (t + 1, t + 1.5))
    (row,) = program.rows("round trips").values()
    assert (row.first_way, row.calls, row.place.line) == ("h2d", 1, 4)


def test_copies_of_one_call_have_the_record_of_their_size():
    program = TimedProgram()
    program.copy(2, (0, 1), 3, "h2d", 4 * MIB, memory="pinned")
    program.copy(2, (1, 1.5), 4, "d2h", MIB, memory="pinned")
    program.calls.calls = [replace(call, correlation=9) for call in program.calls.calls]  # of a graph, or of a batch
    program.journal.copies = [replace(copy, correlation=9) for copy in reversed(program.journal.copies)]
    found = {at: (row.h2d, row.d2h, row.seconds) for at, row in program.rows("copies").items()}
    assert found == {3: (4 * MIB, 0, ms(1e-3)), 4: (0, MIB, ms(0.5e-3))}


def test_a_fill_and_a_copy_the_other_way_of_as_many_bytes_do_not_take_a_copys_place():
    program = TimedProgram()
    program.copy(2, (2, 3), 3, "h2d", MIB, memory="pinned")
    program.copy(2, (0, 1.5), 4, "d2h", MIB, memory="pinned")
    program.calls.calls = [
        replace(call, correlation=number << 32 | 9) for number, call in enumerate(program.calls.calls)
    ]
    fill = replace(program.journal.copies[0], direction="set", start=-1e-3, end=0.0)
    program.journal.copies = [replace(copy, correlation=9) for copy in [fill, *program.journal.copies]]
    found = {at: (row.h2d, row.d2h, row.seconds) for at, row in program.rows("copies").items()}
    assert found == {3: (MIB, 0, ms(1e-3)), 4: (0, MIB, ms(1.5e-3))}


def test_a_single_number_that_is_zero_each_time_is_nothing():
    program = TimedProgram()
    for step in range(4):
        t = 10.0 * step
        program.copy(t + 1, (t, t + 1), 3, "d2h", 4, sample=0)
        program.copy(t + 2, (t + 1, t + 2), 4, "h2d", 4, sample=0)
        program.launch(t + 3, (t + 3, t + 9))
    assert not program.rows("round trips")
    assert not program.rows("copied again")


def test_layers_that_are_alike_are_not_copied_again():
    program = TimedProgram()
    for i in range(5):
        program.copy(i, (i - 1, i), 5, "h2d", host=HOST + i * MIB, device=DEVICE + i * MIB, sample=7)
    assert not program.rows("copied again")
    assert program.rows("copies")[5].rounds == 1


def test_bytes_that_change_each_step_are_not_copied_again():
    program = TimedProgram()
    for step in range(5):
        program.copy(10.0 * step, (10.0 * step - 1, 10.0 * step), 5, "h2d", sample=step)
        program.launch(10.0 * step + 1, (10.0 * step + 1, 10.0 * step + 2))
    assert not program.rows("copied again")


def test_what_was_copied_back_without_a_sample_is_unseen():
    program = TimedProgram()
    program.copy(1, (0, 1), 3, "d2h", memory="pinned")
    program.copy(2, (1, 2), 4, "h2d", memory="pinned", sample=1)
    assert program.by_line().not_compared == 1
    assert not program.rows("round trips")


def test_a_line_that_copies_once_is_not_told_to_lock_memory():
    program = TimedProgram()
    program.copy(1, (0, 1), 3, "h2d", 8 * MIB, memory="pinned")
    program.copy(9, (1, 9), 4, "h2d", 8 * MIB)
    row = program.rows("copies")[4]
    assert (row.best, row.saves) == (ms(1e-3), None)


def test_what_was_reached_is_no_guess():
    reached = ReachedSpeed([TimedCopy("h2d", 4 * MIB, 1e-3), TimedCopy("h2d", 64, 1e-6), TimedCopy("d2h", 4, 1e-6)])
    assert reached.seconds("h2d", 8 * MIB) == ms(2e-3)
    assert reached.seconds("h2d", MIB // 2) == ms(1e-3)
    assert reached.seconds("h2d", 64) == ms(1e-6)
    assert reached.seconds("d2h", MIB) is None


# ------------------------------------------------------------------------------------------------------------- places


def test_processes_of_one_script_are_added_up():
    one, two = training(), training()
    two.calls.pid = 2
    both = by_line([TracedProcess(p.calls, p.journal) for p in (one, two)], NAMES)
    assert both is not None
    alone = one.by_line()
    assert both.seconds == ms(2 * alone.seconds)
    doubled = {(row.kind, row.place.line, row.h2d): (row.calls, row.rounds) for row in both.rows}
    assert doubled == {(row.kind, row.place.line, 2 * row.h2d): (2 * row.calls, 2 * row.rounds) for row in alone.rows}


XLA = "/venv/lib/python3.12/site-packages/jaxlib/libjax.so"


@pytest.mark.parametrize(
    ("site", "found", "library", "is_its_own"),
    [
        (line(5), f"{SCRIPT}:5", "", False),
        ((CallFrame("/usr/local/cuda/lib64/libcublas.so.13", 1), CallFrame("/app/solver", 9)), "/app/solver+0x9:0", "",
         False),
        ((CallFrame(XLA, 1), CallFrame("/lib/x86_64-linux-gnu/libc.so.6", 2)), f"{XLA}+0x1:0", "jaxlib", True),
        ((CallFrame(TORCH, 1), CallFrame(PYTHON, 2)), f"{TORCH}+0x1:0", "torch", False),  # Python's lines are unknown
        (12 * (CallFrame(XLA, 1),), f"{XLA}+0x1:0", "jaxlib", False),  # and here all further frames
        ((), ":0", "", False),
    ],
)  # fmt: skip
def test_a_call_belongs_to_the_innermost_line_of_the_user(site, found: str, library: str, is_its_own: bool):
    place = UserPlaces(NAMES).of(site)
    assert f"{place.place.source or place.place.file}:{place.place.line}" == found
    assert (place.library, place.is_its_own) == (library, is_its_own)


ALONE = (CallFrame(XLA, 1), CallFrame("/lib/x86_64-linux-gnu/libc.so.6", 2))


def library_copies(program: TimedProgram) -> dict[tuple[str, int | None], int]:
    """How many copies a library made by itself, by their way and the line of the kernels that they were for."""
    rows = [row for row in program.by_line().rows if row.kind == "copies"]
    return {("h2d" if row.h2d else "d2h", row.kernels.line if row.kernels else None): row.calls for row in rows}


def test_copies_in_a_thread_of_a_library_have_the_line_of_the_kernels_that_they_are_for():
    program = TimedProgram()
    inner = DEVICE + MIB // 2
    for step in range(6):
        t, at = 10.0 * step, 20 + step % 2
        program.copy(t + 1, (t, t + 1), 0, "h2d", site=ALONE, memory="pinned")
        program.launch(t + 2, (t + 2, t + 3), 8)  # is given other memory
        program.launch(t + 3, (t + 3, t + 4), at, given=[DEVICE + MIB, inner])
        program.launch(t + 4, (t + 4, t + 5), 9, given=[DEVICE + MIB])
        program.copy(t + 6, (t + 5, t + 6), 0, "d2h", site=ALONE, memory="pinned")
    program.copy(70, (69, 70), 0, "h2d", site=ALONE, memory="pinned")  # for nothing
    assert library_copies(program) == {
        **{("h2d", 20): 3, ("h2d", 21): 3, ("h2d", None): 1},
        **{("d2h", 20): 3, ("d2h", 21): 3},
    }


def test_memory_that_is_allocated_anew_was_given_to_no_kernel():
    program = TimedProgram()
    program.launch(1, (1, 2), 20, given=[DEVICE])
    program.block(2, MIB, line(3))
    program.copy(4, (3, 4), 0, "d2h", site=ALONE)
    program.copy(5, (4, 5), 0, "h2d", site=ALONE)
    program.block(6, MIB, line(3))
    program.launch(7, (7, 8), 21, given=[DEVICE])
    assert library_copies(program) == {("d2h", None): 1, ("h2d", None): 1}


def test_a_copy_with_a_line_of_the_user_has_that_line_alone():
    program = TimedProgram()
    for step in range(3):
        t = 10.0 * step
        program.copy(t + 1, (t, t + 1), 5, "h2d")
        program.launch(t + 2, (t + 2, t + 3), 20, given=[DEVICE])
    assert library_copies(program) == {("h2d", None): 3}
    assert program.rows("copies").keys() == {5}


def test_what_libraries_do_by_themselves_is_told_apart():
    program = training()
    program.block(0, 59 << 30, ALONE)
    program.block(0, 2 << 30, line(5))  # at once, but one of many
    program.block(0, 1 << 20, line(6))
    for t in range(3):
        program.query(t, ALONE)
    rows = [row for row in program.by_line().rows if row.kind in ("allocations", "queries")]
    assert {(row.library, row.kind, row.calls, row.held) for row in rows} == {
        ("jaxlib", "allocations", 1, 59 << 30),
        ("jaxlib", "queries", 3, 0),
    }
    assert "59 GiB" in line_texts(program.by_line())[-1]


@pytest.mark.parametrize(
    ("site", "library"),
    [
        (line(5), "torch"),
        ((CallFrame(SCRIPT, 5),), "a library"),  # the recorder left its frames out
        ((CallFrame("/app/solver", 5),), None),
    ],
)
def test_a_pool_that_a_library_obtains_at_once_is_told_with_the_line_that_led_to_it(site, library: str | None):
    program = training()
    program.block(0, 59 << 30, site)
    program.block(0, 1 << 30, line(6))
    rows = [row for row in program.by_line().rows if row.kind == "allocations"]
    assert [(row.library, row.held, row.is_its_own) for row in rows] == (
        [(library, 59 << 30, False)] if library else []
    )


@pytest.mark.parametrize(("site", "owner"), [(line(5), "torch"), ((CallFrame("/app/solver", 5),), "")])
def test_page_locked_memory_names_the_library_that_obtained_it(site, owner: str):
    program = TimedProgram()
    program.block(0, MIB, site, address=HOST, kind="pinned")
    program.copy(2, (1, 2), 3, "h2d", 4096, memory="pinned", host=HOST + MIB - 4096)
    program.copy(4, (3, 4), 4, "h2d", 4096, memory="pinned", host=HOST + MIB)
    assert {at: row.memory_of for at, row in program.rows("copies").items()} == {3: owner, 4: ""}
