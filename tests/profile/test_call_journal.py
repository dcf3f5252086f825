"""What journals of version 2 and later tell of a program's calls."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from tests.port.journals import JournalBytes, journal, profile
from tests.port.traces import Calls, at
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.base.errors import UsageError
from firsttouch.profile.call_journal import frames, read_calls
from firsttouch.profile.calls import (
    AnyCall,
    Arguments,
    BlockCall,
    LaunchCall,
    MoveCall,
    QueryCall,
    TracedCalls,
    WaitCall,
)
from firsttouch.profile.journal import read_journals
from firsttouch.profile.recorded import CallFrame
from firsttouch.profile.schema import Caller
from firsttouch.profile.traced import CallLocation, place_of


def everything() -> Calls:
    calls = Calls(pid=7)
    block, pinned, host = calls.block(4096, line=1), calls.block(4096, kind="pinned", line=2), calls.host(4096)
    calls.copy(block, host, 64, rows=8, source_pitch=64, target_pitch=128, sample=5, seconds=0.25, line=3)
    calls.pointers(block, pinned, block)
    calls.fill(block, 64, blocking=False, line=4)
    calls.launch(block, 0, pinned, seconds=0.5, cooperative=True, line=5)
    calls.launch(block, line=5, captured=True)
    calls.copy(host, block, 64, sample=9, before=5, host="stack", thread=3)
    calls.wait("stream", thread=3, stack=1 << 40)
    calls.query(1, 2, line=6)
    calls.free(block, line=7)
    return calls


def rounded(calls: Sequence[AnyCall]) -> list[AnyCall]:
    """Times to the nanosecond."""
    return [msgspec.structs.replace(call, t=round(call.t, 9)) for call in calls]


def written(directory: Path, *records: JournalBytes) -> Path:
    for number, of in enumerate(records):
        (directory / f"journal-7-{number}.bin").write_bytes(of.content)
    return directory


def test_calls_are_read_as_they_were_written(tmp_path: Path):
    made = everything().traced
    (traced,) = read_calls(profile(tmp_path, made))
    assert rounded(traced.calls) == made.calls
    assert (traced.pid, dict(traced.durations), traced.incomplete) == (7, made.durations, ())


def test_calls_of_several_threads_are_in_the_order_of_time(tmp_path: Path):
    made = everything().traced
    shuffled = TracedCalls(7, [*made.calls[::2], *made.calls[1::2]])
    (traced,) = read_calls(written(tmp_path, journal(shuffled)))
    assert rounded(traced.calls) == made.calls


def test_launches_of_a_graph_have_the_times_of_its_kernels(tmp_path: Path):
    made = JournalBytes(7)
    made.add("clocks", stamp=0, time=0)
    made.add("shape", number=1, grid_x=2, grid_y=3, grid_z=1, block_x=32, block_y=1, block_z=1)
    one, two = (made.arguments(Arguments(name)) for name in ("_Z3onev", "_Z3twov"))
    made.add("launch", correlation=39, arguments=one, flags=1)  # into the graph
    for correlation in (40, 41):
        for number in (one, two, one):
            made.add("launch", time=correlation, correlation=correlation, arguments=number, flags=8)
    made.add("launch", time=42, correlation=42, flags=8)  # of a graph that was not seen when it was made
    ran = [
        (40, "_Z3onev", 1, 1),
        (40, "_Z3onev", 5, 3),
        (40, "_Z3twov", 3, 2),
        (41, "_Z3onev", 7, 4),
        (42, "_Z1xv", 9, 5),
    ]
    for correlation, name, start, seconds in ran:
        number = made.text(name)
        made.add("kernel", start_stamp=start * 10**9, end_stamp=(start + seconds) * 10**9, correlation=correlation,
                 name=number, shape=1, graph_node=5)  # fmt: skip
    (traced,) = read_calls(written(tmp_path, made))
    launches = [call for call in traced.calls if isinstance(call, LaunchCall)]
    assert [(call.graph, call.captured) for call in launches] == [(False, True)] + 7 * [(True, False)]
    assert len({call.correlation for call in launches}) == 8
    times = [traced.durations.get(call.correlation) for call in launches]
    assert times == [None, 1.0, 2.0, 3.0, 4.0, None, None, 5.0]
    assert launches[-1].kernel == "_Z1xv"
    assert traced.shapes[launches[1].correlation] == ((2, 3, 1), (32, 1, 1))
    (incomplete,) = traced.incomplete
    assert_states(incomplete, "1 launches", "arguments")


class _Ran(NamedTuple):
    """A copy or a fill: its direction as calls and as records have it (a fill is the record's 255), bytes, and when it
    ran in seconds.
    """

    asked: int
    recorded: int
    nbytes: int
    start: int
    end: int


def times_of(tmp_path: Path, correlation: int, asked: Sequence[_Ran], recorded: Sequence[_Ran], flags: int = 32):
    """What each copy or fill of one call took, which are in a graph unless flags say else."""
    made = JournalBytes(7)
    made.add("clocks", stamp=0, time=0)
    for time, one in enumerate(asked):
        made.add("move", time=time, correlation=correlation, what=one.recorded == 255, direction=one.asked,
                 bytes=one.nbytes // 4, rows=4, flags=flags)  # fmt: skip
    for one in recorded:
        made.add("copy", start_stamp=one.start * 10**9, end_stamp=one.end * 10**9, correlation=correlation,
                 direction=one.recorded, bytes=one.nbytes)  # fmt: skip
    (traced,) = read_calls(written(tmp_path, made))
    moves = [call for call in traced.calls if isinstance(call, MoveCall)]
    assert {move.of_call for move in moves} == {correlation}
    return [traced.durations.get(move.correlation) for move in moves]


IN, OUT, LARGE, FILL = _Ran(1, 1, 64, 5, 6), _Ran(2, 2, 64, 1, 3), _Ran(1, 1, 256, 10, 14), _Ran(0, 255, 64, 20, 28)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ((OUT, IN, LARGE, FILL), [1.0, 2.0, 4.0, 8.0]),
        ((FILL, LARGE, IN, OUT), [1.0, 2.0, 4.0, 8.0]),
        ((IN, LARGE, FILL), [1.0, None, 4.0, 8.0]),  # CUPTI had no room for one
        ((FILL,), [None, None, None, 8.0]),
        ((), [None] * 4),
    ],
)
def test_copies_and_fills_of_a_graph_have_their_own_times(recorded, expected, tmp_path: Path):
    assert times_of(tmp_path, 40, (IN, OUT, LARGE, FILL), recorded) == expected
    assert times_of(tmp_path, 40, (IN, OUT, LARGE, FILL), recorded, flags=0) == expected  # of a batch


def test_copies_of_a_graph_that_are_alike_have_times_in_their_order_if_there_are_as_many(tmp_path: Path):
    later, last = IN._replace(start=7, end=10), IN._replace(start=20, end=25)
    assert times_of(tmp_path, 40, (IN, IN, IN), (later, IN, last)) == [1.0, 3.0, 5.0]
    assert times_of(tmp_path, 40, (IN, IN, IN), (later, IN)) == [None, None, None]


def test_a_copy_whose_direction_the_record_states_otherwise_has_its_time(tmp_path: Path):
    unknown, between = _Ran(0, 1, 128, 1, 2), _Ran(3, 10, 64, 3, 6)
    assert times_of(tmp_path, 40, (unknown, between), (between, unknown)) == [1.0, 3.0]


SLICES = [IN._replace(nbytes=64), IN._replace(nbytes=64), IN._replace(nbytes=128)]


@pytest.mark.parametrize(
    ("asked", "recorded", "expected"),
    [
        (SLICES, [IN._replace(nbytes=256, end=9)], [1.0, 1.0, 2.0]),
        (SLICES, [IN._replace(nbytes=192), IN._replace(nbytes=64, start=9, end=12)], [1.0, 1.0, 2.0]),
        ([*SLICES, OUT], [OUT, IN._replace(nbytes=256, end=9)], [1.0, 1.0, 2.0, 2.0]),
        ([part._replace(asked=0) for part in SLICES], [IN._replace(nbytes=256, end=9)], [1.0, 1.0, 2.0]),
    ],
    ids=["one record", "two records", "in a graph with another copy", "of an unknown direction"],
)
def test_the_slices_of_a_copy_share_its_time(asked, recorded, expected, tmp_path: Path):
    assert times_of(tmp_path, 40, asked, recorded) == expected
    assert times_of(tmp_path, 40, asked, recorded, flags=0) == expected


def test_the_time_of_one_copy_is_shared_once(tmp_path: Path):
    asked = [*SLICES, *(part._replace(asked=0) for part in SLICES)]
    assert times_of(tmp_path, 40, asked, [IN._replace(nbytes=256, end=9)]) == [1.0, 1.0, 2.0, None, None, None]


@pytest.mark.parametrize(
    "recorded",
    [
        [IN._replace(nbytes=200)],
        [IN._replace(nbytes=64)],
        [FILL._replace(nbytes=256)],
        [],
    ],
    ids=["of fewer bytes", "of which one is lost", "of a fill", "of which none is there"],
)
def test_copies_that_no_record_is_of_have_no_time(recorded, tmp_path: Path):
    assert times_of(tmp_path, 40, SLICES, recorded) == [None] * 3


def test_the_records_of_a_single_copy_are_added_up(tmp_path: Path):
    halves = IN._replace(nbytes=32), IN._replace(nbytes=32, start=7, end=9)
    assert times_of(tmp_path, 40, (IN,), halves, flags=0) == [3.0]


def failing(correlation: int, function: str, error: int, line: int, made: JournalBytes) -> None:
    made.add("failure", time=correlation, function=made.text(function), error=error, correlation=correlation,
             site=made.site(at(line)))  # fmt: skip


def test_calls_that_failed_are_told_and_what_cupti_tells_of_them_is_not_counted(tmp_path: Path):
    made = journal(everything().traced)
    for correlation, line in ((903, 30), (901, 10), (904, 10)):
        failing(correlation, "cuMemcpyHtoD_v2_ptds", 700, line, made)
    failing(902, "cuLaunchKernel", 1, 10, made)
    failing(905, "cuMemAlloc_v2", 2, 10, made)
    for correlation in (901, 999):
        made.add("copy", start_stamp=1, end_stamp=2, correlation=correlation, bytes=correlation, direction=1)
    for correlation in (902, 999):
        made.add("kernel", start_stamp=1, end_stamp=2, correlation=correlation, name=made.text("k"))
    for correlation in (905, 999):
        made.add("memory", stamp=1, operation=1, memory=3, bytes=correlation, correlation=correlation)
    (traced,) = read_calls(written(tmp_path, made))
    told = [(f.function, f.error, f.calls, f.site) for f in traced.failed]
    assert told == [
        ("cuMemcpyHtoD", 700, 2, at(10)),
        ("cuLaunchKernel", 1, 1, at(10)),
        ("cuMemcpyHtoD", 700, 1, at(30)),
        ("cuMemAlloc", 2, 1, at(10)),
    ]
    assert rounded(traced.calls) == everything().traced.calls
    (whole,) = read_journals(tmp_path)
    assert [(f.function, f.calls) for f in whole.failed] == [(f.function, f.calls) for f in traced.failed]
    assert [copy.bytes for copy in whole.copies] == [999]
    assert [kernel.name for kernel in whole.kernels if kernel.name] == ["k"]
    assert [allocation.bytes for allocation in whole.allocations] == [999]


def test_without_failed_calls_none_is_told(tmp_path: Path):
    (traced,) = read_calls(written(tmp_path, journal(everything().traced)))
    assert (traced.failed, traced.incomplete) == ((), ())


def test_work_without_an_end_is_told_apart_from_lost_records(tmp_path: Path):
    made = journal(everything().traced)
    made.add("unfinished", records=2)
    made.add("unfinished", records=1)
    (traced,), (whole,) = read_calls(written(tmp_path, made)), read_journals(tmp_path)
    (sentence,) = traced.incomplete
    assert_states(sentence, "3 copies and kernels", "not ended")
    assert (traced.is_partial, whole.unfinished, whole.lost) == (False, 3, 0)  # all calls are there


def test_what_cupti_tells_later_belongs_to_its_call(tmp_path: Path):
    made = JournalBytes(7)
    made.add("clocks", stamp=0, time=0)
    for time, correlation, flags in ((10, 1, 2), (20, 2, 2)):  # while another stream was captured
        made.add("launch", time=time * 10**9, correlation=correlation, arguments=made.arguments(Arguments("_Z1kv")),
                 flags=flags)  # fmt: skip
    made.add("block", time=30 * 10**9, address=64, bytes=8, begins=1, correlation=3, memory=3)
    made.add("kernel", start_stamp=0, end_stamp=5, correlation=1)
    made.add("memory", stamp=30, address=64, bytes=8, operation=1, memory=3, device=2, correlation=3)
    name = made.text("table")
    made.add("memory", stamp=15 * 10**9, address=128, bytes=4, operation=1, memory=6, device=1, name=name)
    made.add("copy", end_stamp=10**9, correlation=4)
    made.add("copy", end_stamp=10**9, correlation=4)  # in two parts
    for correlation in (4, 5):
        made.add("move", time=40 * 10**9, bytes=8, flags=2, correlation=correlation)
    (traced,) = read_calls(written(tmp_path, made))
    first, variable, second, block, *moves = traced.calls
    assert [move.captured for move in moves if isinstance(move, MoveCall)] == [False, True]
    assert isinstance(first, LaunchCall)
    assert isinstance(second, LaunchCall)
    assert (first.captured, second.captured) == (False, True)
    assert isinstance(variable, BlockCall)
    assert isinstance(block, BlockCall)
    assert (variable.kind, variable.name, variable.device, block.device) == ("device_static", "table", 1, 2)
    assert traced.durations[4] == 2.0


@pytest.mark.parametrize(
    ("file", "vendor"),
    [("/usr/lib/libcublas.so.13", True), ("/opt/libcublasLt.so.13.0.2", True), ("/app/libcustom_sizes.so", False),
     ("/app/program", False)],
)  # fmt: skip
def test_queries_of_libraries_of_the_vendor_are_told_from_those_of_the_program(file: str, vendor: bool, tmp_path: Path):
    made = Calls()
    made.calls.append(QueryCall(t=1.0, free=1, total=2, site=(CallFrame(file, 4), *at(3))))
    (traced,) = read_calls(written(tmp_path, journal(made.traced)))
    assert [call.vendor for call in traced.calls if isinstance(call, QueryCall)] == [vendor]


def test_a_call_from_python_is_at_its_line(tmp_path: Path):
    made = Calls()
    site = (
        CallFrame("/me/own.so", 64),
        CallFrame("/me/größe.py", 12, "<lambda>"),
        CallFrame("/me/größe.py", 30, "main"),
    )
    made.calls.append(QueryCall(t=1.0, free=1, total=2, site=site))
    folder = written(tmp_path, journal(made.traced))
    ((query,),) = [traced.calls for traced in read_calls(folder)]
    assert isinstance(query, QueryCall)
    assert query.site == site
    assert frames(folder) == [("/me/own.so", 64)]
    assert place_of(site[1:], {}) == CallLocation("<lambda>", "/me/größe.py", 12, "/me/größe.py")


def test_a_wait_has_the_stack_pointer_of_the_program_and_not_of_a_runtime_within_it(tmp_path: Path):
    made = JournalBytes(7)
    made.add("clocks", stamp=0, time=0)
    frames = [made.packed("frame", offset=at, file=made.text("/app"), above=above) for at, above in ((1, 0), (2, 96))]
    made.add("site", b"".join(frames), number=1, frames=2)
    made.add("wait", stack=1000, site=1)
    made.add("move", bytes=4, stack=1000, site=1, flags=4)
    names = {("/app", 1): Caller(file="/app", offset=1, function="cudaDeviceSynchronize")}
    (known,), (unknown,) = read_calls(written(tmp_path, made), names), read_calls(tmp_path)
    assert [call.stack for call in known.calls if isinstance(call, WaitCall)] == [1096, 1096]
    assert [call.stack for call in unknown.calls if isinstance(call, WaitCall)] == [1000, 1000]


def test_what_is_missing_is_said(tmp_path: Path):
    made = journal(everything().traced)
    made.add("lost", records=3)
    made.add("notice", b"CUPTI refused", bytes=13, layer=1)
    (traced,) = read_calls(written(tmp_path, made))
    assert traced.incomplete == ("CUPTI refused", "3 records that CUPTI had no room for")


def test_a_process_that_was_not_traced_has_no_calls_and_a_trace_of_version_1_must_be_made_again(tmp_path: Path):
    for version in (1, 2):
        assert read_calls(written(tmp_path, JournalBytes(7, version))) == []
    old = JournalBytes(7, 1)
    old.add("clocks", stamp=0, time=0)
    with pytest.raises(UsageError, match="firsttouch port -- COMMAND"):
        read_calls(written(tmp_path, old))


def test_a_journal_that_ends_anywhere_is_read_up_to_there(tmp_path: Path):
    whole = journal(everything().traced)
    for end in range(4096, len(whole.content), 40):
        (tmp_path / "journal-7-0.bin").write_bytes(whole.content[:end])
        assert len(read_calls(tmp_path)) <= 1


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ("launch", {"arguments": 9}),
        ("launch", {"site": 9}),
        ("arguments", {"number": 1, "words": 1 << 30}),
        ("arguments", {"number": 1, "kernel": 9}),
        ("pointers", {"addresses": 4}),
        ("move", {"direction": 9}),
        ("move", {"what": 9}),
        ("move", {"host": 99}),
        ("wait", {"what": 9}),
        ("block", {"name": 5}),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(record: str, fields: dict[str, int], tmp_path: Path):
    made = JournalBytes(7)
    made.add("clocks", stamp=0, time=0)
    made.add(record, **fields)
    with pytest.raises(UsageError, match=f"broken record before byte {len(made.content)};"):
        read_calls(written(tmp_path, made))


def test_each_field_is_where_the_compiler_has_it():
    layout = _core.journal_layout(5)
    compiled = _core.journal_offsets()
    assert layout.keys() == compiled.keys()
    for name, (_, form, fields) in layout.items():
        parts = re.findall(r"\d+[sx]|[A-Za-z]", form)
        at, places = 0, []
        for part in parts:
            size = struct.calcsize(f"<{part}")
            if not part.endswith("x"):
                places.append((at, size))
            at += size
        assert (at, dict(zip(fields, places, strict=True))) == compiled[name], name


def test_a_version_only_adds_to_the_one_before():
    old, new = _core.journal_layout(1), _core.journal_layout(2)
    for name, (kind, form, fields) in old.items():
        assert new[name][0] == kind
        assert new[name][1].startswith(form)
        assert new[name][2][: len(fields)] == fields
    assert "4x" in new["frame"][1]
    assert _core.journal_layout(3)["frame"][2] == ("offset", "file", "function", "above")


def test_a_block_has_the_number_of_the_reserved_range_that_it_is_mapped_into(tmp_path: Path):
    made = JournalBytes(7)
    made.add("clocks", stamp=0, time=0)
    for time, (record, fields) in enumerate(
        [
            ("reserved", {"address": 4096, "bytes": 8192}),
            ("reserved", {"address": 16384, "bytes": 4096}),
            ("block", {"address": 8192, "bytes": 4096, "begins": 1, "memory": 3}),
            ("block", {"address": 16384, "bytes": 4096, "begins": 1, "memory": 3}),
            ("block", {"address": 12288, "bytes": 4096, "begins": 1, "memory": 3}),  # between them
            ("reserved", {"address": 4096, "bytes": 0}),
            ("block", {"address": 4096, "bytes": 4096, "begins": 1, "memory": 3}),
            ("reserved", {"address": 4096, "bytes": 4096}),
            ("block", {"address": 4096, "bytes": 4096, "begins": 1, "memory": 3}),
        ]
    ):
        made.add(record, time=time, **fields)
    (calls,) = read_calls(written(tmp_path, made))
    assert [call.reserved for call in calls.calls if isinstance(call, BlockCall)] == [1, 2, 0, 0, 3]


def test_older_journals_do_not_tell_what_is_reserved(tmp_path: Path):
    made = JournalBytes(7, version=2)
    made.add("clocks", stamp=0, time=0)
    made.add("block", address=4096, bytes=4096, begins=1, memory=3)
    (calls,) = read_calls(written(tmp_path, made))
    assert [call.reserved for call in calls.calls if isinstance(call, BlockCall)] == [None]
