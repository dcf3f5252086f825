"""Copied back and not read, and read again after it was copied to the device: in traces made by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.port.test_port_findings import names, of
from tests.port.traces import Calls
from tests.texts import assert_states

from firsttouch.advice.port.found import program_state, search
from firsttouch.advice.port.rule import Coverage
from firsttouch.profile.calls import HostUse
from firsttouch.program.traced import program_of_trace

MIB = 1 << 20


def copied_back(after: Callable[[Calls, int], None]) -> Calls:
    """A block that is copied in, used and copied back, and what the CPU does then."""
    calls = Calls()
    block, host, out = calls.block(MIB), calls.host(MIB), calls.host(MIB)
    calls.copy(block, host, MIB)
    calls.launch(block)
    calls.copy(out, block, MIB)
    after(calls, out)
    return calls


def again(calls: Calls, out: int) -> None:
    calls.host_use(out, MIB, read=0)
    calls.copy(calls.calls[0].address, out, MIB)  # type: ignore[union-attr]


def not_looked_at(calls: Calls, out: int) -> None:
    calls.launch(calls.calls[0].address)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("after", "unread"),
    [
        (lambda calls, out: calls.host_use(out, MIB, read=0), MIB),
        (lambda calls, out: calls.host_use(out, MIB // 2, read=0), MIB // 2),
        (again, MIB),
        (lambda calls, out: calls.host_use(out, MIB, read=4096), 0),
        (lambda calls, out: calls.host_use(out, MIB, [(out, out + 4096)], read=0), 0),
        (
            lambda calls, out: calls.host_use(out, MIB, read=0, was_gone=True),
            0,
        ),  # and used after the last look, perhaps
        (lambda calls, out: calls.host_use(out, MIB), 0),
        (not_looked_at, None),
    ],
)
def test_copied_back_and_not_read(after: Callable[[Calls, int], None], unread: int | None) -> None:
    assert [block.unread for block in of(copied_back(after)).blocks] == [unread]


def freed_and_compared(calls: Calls, out: int) -> None:
    """The device's memory is given back, and the host's after the result was compared, which no look tells."""
    calls.free(calls.calls[0].address)  # type: ignore[union-attr]
    calls.host_use(out, MIB, read=0, was_gone=True)


def compared_before_the_watch_began(calls: Calls, out: int) -> None:
    calls.host_use(out, MIB, read=0, late=True)


def compared_before_the_watch_began_in_an_old_journal(calls: Calls, out: int) -> None:
    calls.wait()
    calls.calls.append(HostUse(since=0.9, t=1.0, address=out, bytes=MIB, writes=(), read=0))


def another_part_is_copied_and_not_looked_at_again(calls: Calls, out: int) -> None:
    calls.host_use(out, MIB, read=0)
    calls.copy(out, calls.calls[0].address, MIB // 2)  # type: ignore[union-attr]


def another_part_is_copied_and_looked_at_again(calls: Calls, out: int) -> None:
    another_part_is_copied_and_not_looked_at_again(calls, out)
    calls.host_use(out, MIB, read=0)


def another_part_is_copied_after_the_cpu_read(calls: Calls, out: int) -> None:
    calls.host_use(out, MIB, read=MIB)
    calls.copy(out, calls.calls[0].address, MIB // 2)  # type: ignore[union-attr]
    calls.host_use(out, MIB, read=0)


@pytest.mark.parametrize(
    ("after", "unread", "unwatched"),
    [
        (lambda calls, out: calls.host_use(out, MIB, read=0), MIB, 0),
        (lambda calls, out: calls.host_use(out, MIB, read=0, late=None), MIB, 0),
        (freed_and_compared, 0, MIB),
        (compared_before_the_watch_began, 0, MIB),
        (compared_before_the_watch_began_in_an_old_journal, 0, MIB),
        (lambda calls, out: calls.host_use(calls.host(MIB), MIB, read=0), 0, MIB),
        (another_part_is_copied_and_not_looked_at_again, MIB // 2, MIB),
        (another_part_is_copied_and_looked_at_again, MIB // 2 + MIB, 0),
        (another_part_is_copied_after_the_cpu_read, MIB // 2, 0),
    ],
)
def test_what_was_not_looked_at_is_neither_read_nor_unread(
    after: Callable[[Calls, int], None], unread: int, unwatched: int
) -> None:
    calls = copied_back(after)
    (block,) = of(calls).blocks
    assert (block.unread, block.unwatched) == (unread, unwatched)
    assert any("never read" in sentence for sentence in block.unused) == (unread > 0)
    assert any("copied back" in sentence for sentence in of(calls).unseen) == (unwatched > 0)


def test_a_total_of_what_is_not_read_is_at_least_that_where_looks_were_left_out() -> None:
    calls = Calls()
    block = calls.block(MIB)
    for number in range(100):
        out = calls.host(MIB)
        calls.copy(out, block, MIB)
        if number % 50 == 0:
            calls.host_use(out, MIB, read=0)
    (row,) = of(calls).blocks
    assert (row.unread, row.unwatched) == (2 * MIB, 98 * MIB)
    assert_states(" ".join(row.unused), "at least 2 MiB", "never read")


def test_inputs_that_the_cpu_reads_again() -> None:
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB)
    calls.host_use(host, MIB, read=8192)
    calls.copy(block, host, MIB)
    calls.host_use(host, MIB, read=MIB // 2)
    port = of(calls)
    assert (port.blocks[0].read_again, port.blocks[0].unread) == (MIB // 2, 0)


@pytest.mark.parametrize("was_gone", [False, True])
def test_what_is_not_looked_at_to_the_end_is_taken_to_be_read(was_gone: bool) -> None:
    calls = copied_back(lambda calls, out: calls.host_use(out, MIB, read=0, was_gone=was_gone))
    (block,) = program_of_trace(calls.run).blocks
    assert block.ends_on == ("cpu" if was_gone else None)


@pytest.mark.parametrize(
    ("while_running", "expected"),
    [
        (True, Coverage(True, "partly watched", {"watched": "1", "ranges": "2 ranges"})),
        (False, Coverage(True, "not while kernels ran")),
    ],
)
def test_ranges_that_were_not_watched_while_kernels_ran_are_said(while_running: bool, expected: Coverage) -> None:
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB)
    if not while_running:
        calls.host_use(host, MIB)
    calls.launch(block)
    if while_running:
        calls.host_use(host, MIB)
    calls.wait()
    calls.copy(calls.host(MIB), block, MIB)
    _, hazards = search(program_state(calls.run, names()))
    assert [hazard.coverage() for hazard in hazards if hazard.name == "concurrent"] == [expected]
