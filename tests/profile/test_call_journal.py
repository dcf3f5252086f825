"""What journals of version 2 tell of a program's calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.port.journals import JournalBytes, journal, profile
from tests.port.traces import Calls, at

from firsttouch.errors import UsageError
from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.calls import CudaCall, CudaLaunch, CudaQuery, TracedCalls
from firsttouch.profile.cuda import CallFrame


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


def test_launches_of_a_graph_are_those_of_its_kernels(tmp_path: Path):
    calls = Calls()
    calls.launch(calls.block(64), kernel="_Z3onev", captured=True)
    made = journal(calls.traced)
    nodes = [made.packed("node", node=n, arguments=n == 11, kind=kind) for n, kind in ((11, 0), (12, 1), (13, 0))]
    made.add("graph", b"".join(nodes), number=1, nodes=3)
    for time, correlation in ((10**9, 40), (2 * 10**9, 41)):
        made.add("graph_launch", time=time, correlation=correlation, graph=1)
    for correlation, node in ((40, 11), (41, 11), (41, 13)):
        made.add("kernel", start_stamp=100, end_stamp=100 + node * 10**9, correlation=correlation, graph_node=node)
    (traced,) = read_calls(written(tmp_path, made))
    launches = [call for call in traced.calls if isinstance(call, CudaLaunch)]
    assert [(c.graph, c.captured, bool(c.arguments)) for c in launches] == [
        (False, True, True), (True, False, True), (True, False, False), (True, False, True), (True, False, False)
    ]  # fmt: skip
    assert [traced.durations.get(c.correlation) for c in launches[1:]] == [11.0, None, 11.0, 13.0]
    assert traced.incomplete == ("copies and fills of CUDA graphs, of which only the kernels are recorded",)


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
    with pytest.raises(UsageError, match="trace it again: firsttouch port -- COMMAND"):
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
        ("graph", {"number": 1, "nodes": 4}),
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
    with pytest.raises(UsageError, match="broken record"):
        read_calls(written(tmp_path, made))
