"""What journals of version 2 and later tell of a program's calls."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.port.journals import JournalBytes, journal, profile
from tests.port.traces import Calls, at
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.base.errors import UsageError
from firsttouch.profile.call_journal import frames, read_calls
from firsttouch.profile.calls import (
    Arguments,
    CudaBlock,
    CudaCall,
    CudaLaunch,
    CudaMove,
    CudaQuery,
    CudaWait,
    TracedCalls,
)
from firsttouch.profile.cuda import CallFrame
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


def rounded(calls: Sequence[CudaCall]) -> list[CudaCall]:
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
    launches = [call for call in traced.calls if isinstance(call, CudaLaunch)]
    assert [(call.graph, call.captured) for call in launches] == [(False, True)] + 7 * [(True, False)]
    assert len({call.correlation for call in launches}) == 8
    times = [traced.durations.get(call.correlation) for call in launches]
    assert times == [None, 1.0, 2.0, 3.0, 4.0, None, None, 5.0]
    assert launches[-1].kernel == "_Z1xv"
    assert traced.shapes[launches[1].correlation] == ((2, 3, 1), (32, 1, 1))
    (incomplete,) = traced.incomplete
    assert_states(incomplete, "1 launches", "arguments")


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
    assert [move.captured for move in moves if isinstance(move, CudaMove)] == [False, True]
    assert isinstance(first, CudaLaunch)
    assert isinstance(second, CudaLaunch)
    assert (first.captured, second.captured) == (False, True)
    assert isinstance(variable, CudaBlock)
    assert isinstance(block, CudaBlock)
    assert (variable.kind, variable.name, variable.device, block.device) == ("device_static", "table", 1, 2)
    assert traced.durations[4] == 2.0


@pytest.mark.parametrize(
    ("file", "vendor"),
    [("/usr/lib/libcublas.so.13", True), ("/opt/libcublasLt.so.13.0.2", True), ("/app/libcustom_sizes.so", False),
     ("/app/program", False)],
)  # fmt: skip
def test_queries_of_libraries_of_the_vendor_are_told_from_those_of_the_program(file: str, vendor: bool, tmp_path: Path):
    made = Calls()
    made.calls.append(CudaQuery(t=1.0, free=1, total=2, site=(CallFrame(file, 4), *at(3))))
    (traced,) = read_calls(written(tmp_path, journal(made.traced)))
    assert [call.vendor for call in traced.calls if isinstance(call, CudaQuery)] == [vendor]


def test_a_call_from_python_is_at_its_line(tmp_path: Path):
    made = Calls()
    site = (
        CallFrame("/me/own.so", 64),
        CallFrame("/me/größe.py", 12, "<lambda>"),
        CallFrame("/me/größe.py", 30, "main"),
    )
    made.calls.append(CudaQuery(t=1.0, free=1, total=2, site=site))
    folder = written(tmp_path, journal(made.traced))
    ((query,),) = [traced.calls for traced in read_calls(folder)]
    assert isinstance(query, CudaQuery)
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
    assert [call.stack for call in known.calls if isinstance(call, CudaWait)] == [1096, 1096]
    assert [call.stack for call in unknown.calls if isinstance(call, CudaWait)] == [1000, 1000]


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
    layout = _core.journal_layout(3)
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
    assert [call.reserved for call in calls.calls if isinstance(call, CudaBlock)] == [1, 2, 0, 0, 3]


def test_older_journals_do_not_tell_what_is_reserved(tmp_path: Path):
    made = JournalBytes(7, version=2)
    made.add("clocks", stamp=0, time=0)
    made.add("block", address=4096, bytes=4096, begins=1, memory=3)
    (calls,) = read_calls(written(tmp_path, made))
    assert [call.reserved for call in calls.calls if isinstance(call, CudaBlock)] == [None]
