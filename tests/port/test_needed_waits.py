"""Which waits for the device a version without copies needs, and which it may need, as far as the trace tells."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.port.test_port_findings import MIB, READS, of
from tests.port.traces import Calls
from tests.texts import assert_states

from firsttouch.advice.port.wording import wait_words

IN, LAUNCH, BACK, NEXT = 1, 2, 3, 4
"""The lines of the calls."""


def waits(calls: Calls) -> list[tuple[str, str, int, int]]:
    return [(wait.before, wait.certainty, wait.copy.line, wait.work.line) for wait in of(calls).waits]


def launched(kernel: str = "") -> tuple[Calls, int, int]:
    """A block that is copied in, and a kernel that gets it; the block and its host array."""
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB, line=IN, sample=1)
    calls.launch(block, line=LAUNCH, **({"kernel": kernel} if kernel else {}))
    return calls, block, host


# ---------------------------------------------------------------------------------------------- the program waits next


def freed_and_waited(calls: Calls, block: int) -> None:
    """As of a program whose memory is given back in the order of a stream."""
    calls.free(block, waits=False)
    calls.wait("stream", line=NEXT)


def copied_to_another(calls: Calls, block: int) -> None:
    """A copy that stays blocks."""
    calls.copy(0x7FFF0000, calls.block(64), 64, host="stack", line=NEXT)


def launched_again(calls: Calls, block: int) -> None:
    calls.launch(block, line=9)
    calls.wait(line=NEXT)


def freed(calls: Calls, block: int) -> None:
    """A free of what replaces the host array waits too late."""
    calls.free(block, line=NEXT)


@pytest.mark.parametrize(
    ("then", "certainty", "following"),
    [
        (lambda calls, block: calls.wait("event", line=NEXT), "possible", NEXT),
        (freed_and_waited, "possible", NEXT),
        (copied_to_another, "possible", NEXT),
        (launched_again, "likely", None),
        (freed, "likely", None),
        (lambda calls, block: None, "likely", None),
    ],
    ids=["an event", "a stream, after a free", "a copy", "after a launch", "a free", "nothing"],
)
def test_a_wait_that_the_program_has_next_is_named(
    then: Callable[[Calls, int], None], certainty: str, following: int | None
) -> None:
    calls, block, host = launched()
    calls.copy(host, block, MIB, line=BACK)
    then(calls, block)
    (wait,) = of(calls).waits
    place = wait.following
    assert (wait.before, wait.certainty, wait.copy.line, wait.work.line) == ("reads", certainty, BACK, LAUNCH)
    assert (place.line if place is not None else None) == following


@pytest.mark.parametrize(
    "then",
    [
        lambda calls, block, other: calls.launch(block, other, line=9, kernel=READS),
        lambda calls, block, other: calls.fill(other, MIB, line=9, blocking=False),
        lambda calls, block, other: calls.copy(other, block, MIB, line=9, blocking=False),
        lambda calls, block, other: calls.launch(block, other, line=9, captured=True),
    ],
    ids=["a kernel that only reads it", "a fill of another", "a copy to another", "a kernel that is captured"],
)
def test_the_cpu_may_read_past_work_that_does_not_write_what_was_copied(
    then: Callable[[Calls, int, int], None],
) -> None:
    """As graphMemoryNodes: a square comes back, a kernel makes another array of it, and then the program waits."""
    calls, block, host = launched()
    other = calls.block(MIB)
    calls.copy(host, block, MIB, line=BACK)
    then(calls, block, other)
    calls.wait("stream", line=NEXT)
    (wait,) = of(calls).waits
    assert wait.following is not None
    assert (wait.before, wait.certainty, wait.copy.line, wait.following.line) == ("reads", "possible", BACK, NEXT)


@pytest.mark.parametrize(
    "then",
    [
        lambda calls, block, other: calls.launch(other, block, line=9, kernel=READS),
        lambda calls, block, other: calls.launch(line=9, arguments=None),
        lambda calls, block, other: calls.fill(block, MIB, line=9, blocking=False),
        lambda calls, block, other: calls.copy(other, calls.host(MIB), MIB, line=9, blocking=False, host="pinned"),
    ],
    ids=["a kernel that writes it", "a kernel of which nothing is known", "a fill of it", "the CPU's data of another"],
)
def test_the_cpu_reads_before_work_that_may_write_what_was_copied_or_needs_it(
    then: Callable[[Calls, int, int], None],
) -> None:
    calls, block, host = launched()
    other = calls.block(MIB)
    calls.copy(host, block, MIB, line=BACK)
    then(calls, block, other)
    calls.wait("stream", line=NEXT)
    assert ("reads", "likely", BACK, LAUNCH) in waits(calls)


ROUNDS = 4


def rounds_back(*looks: int | None, then: int | None = None, waits_then: bool = True) -> Calls:
    """As simpleStreams: rounds of a kernel and a copy back to the same array, and then a wait. looks: how many bytes
    the CPU read after each copy, None where nobody looked; then: after the wait.
    """
    calls = Calls()
    block, host = calls.block(MIB), calls.host(MIB)
    for n in range(ROUNDS):
        calls.launch(block, line=LAUNCH)
        calls.copy(host, block, MIB, line=BACK)
        if n < len(looks) and (read := looks[n]) is not None:
            calls.host_use(host, MIB, read=read)
    if waits_then:
        calls.wait("event", line=NEXT)
    if then is not None:
        calls.host_use(host, MIB, read=then)
    return calls


@pytest.mark.parametrize(
    "calls",
    [rounds_back(0), rounds_back(None, None, 0), rounds_back(0, then=MIB), rounds_back(0, 0, then=0)],
    ids=["the first round", "a later one", "and what is read after the wait", "two, and the last"],
)
def test_of_a_call_after_which_the_cpu_was_seen_not_to_read_a_wait_is_only_possible(calls: Calls) -> None:
    port = of(calls)
    (wait,) = port.waits
    assert wait.following is not None
    assert (wait.before, wait.certainty, wait.copy.line, wait.following.line) == ("reads", "possible", BACK, NEXT)
    assert wait.unread > 0
    assert "explicit wait" not in port.summary


@pytest.mark.parametrize(
    "calls",
    [rounds_back(), rounds_back(MIB), rounds_back(0, MIB), rounds_back(0, then=MIB, waits_then=False)],
    ids=["nobody looked", "it reads", "it reads once", "it reads at the end, without a wait"],
)
def test_of_a_call_after_which_the_cpu_reads_or_may_a_wait_is_needed(calls: Calls) -> None:
    (wait,) = of(calls).waits
    assert (wait.before, wait.certainty, wait.copy.line, wait.unread) == ("reads", "likely", BACK, 0)


def test_a_wait_that_is_only_possible_of_unread_rounds_hides_none_of_another_buffer() -> None:
    calls = Calls()
    block, other = calls.block(MIB), calls.block(MIB)
    host, array = calls.host(MIB), calls.host(MIB)
    for n in range(ROUNDS):
        calls.launch(block, other, line=LAUNCH)
        calls.copy(host, block, MIB, line=BACK)
        if not n:
            calls.host_use(host, MIB, read=0)
    calls.copy(array, other, MIB, line=NEXT)
    assert ("reads", "likely", NEXT, LAUNCH) in waits(calls)


def test_each_copy_before_a_wait_is_named_as_the_cpu_may_read_any_of_them() -> None:
    calls = Calls()
    blocks, arrays = [calls.block(MIB) for _ in range(2)], [calls.host(MIB) for _ in range(2)]
    calls.launch(*blocks, line=LAUNCH)
    for line, (block, array) in enumerate(zip(blocks, arrays, strict=True), 5):
        calls.copy(array, block, MIB, line=line)
    calls.wait(line=NEXT)
    assert waits(calls) == [("reads", "possible", line, LAUNCH) for line in (5, 6)]


def test_of_rounds_in_which_the_program_does_not_always_wait_next_the_wait_is_needed() -> None:
    calls, block, host = launched()
    for waited in (True, False):
        calls.copy(host, block, MIB, line=BACK)
        if waited:
            calls.wait(line=NEXT)
        calls.launch(block, line=LAUNCH)
    (wait,) = of(calls).waits
    assert (wait.certainty, wait.copies, wait.following) == ("likely", 2, None)


@pytest.mark.parametrize(("read", "expected"), [(0, []), (MIB, [("reads", "likely", BACK, LAUNCH)])])
def test_what_the_cpu_is_seen_not_to_read_needs_no_wait(read: int, expected: list[tuple[str, str, int, int]]) -> None:
    calls, block, host = launched()
    calls.copy(host, block, MIB, line=BACK)
    calls.host_use(host, MIB, read=read)
    assert waits(calls) == expected


def test_work_is_still_waited_for_after_a_copy_that_the_cpu_does_not_read() -> None:
    calls, block, host = launched()
    other, array = calls.block(MIB), calls.host(MIB)
    calls.launch(block, other, line=LAUNCH)
    calls.copy(host, block, MIB, line=BACK)
    calls.copy(array, other, MIB, line=NEXT)
    calls.host_use(host, MIB, read=0)
    assert waits(calls) == [("reads", "likely", NEXT, LAUNCH)]


# ----------------------------------------------------------------------------------------------------- the CPU writes


def filled_twice(
    *, watched: bool, written: int = 0, aside: int = 0, sample: int | None = 1, first: int | None = 1
) -> Calls:
    """The block is copied in again as a kernel may run. written: bytes that the CPU writes; aside: how far into a page
    the array begins.
    """
    calls = Calls()
    block, host = calls.block(MIB), calls.host(2 * MIB) + aside
    calls.copy(block, host, MIB, line=IN, sample=first)
    calls.launch(block, line=LAUNCH, kernel=READS)
    if watched:
        calls.host_use(host, MIB, [(host - aside, host - aside + written)] if written else [])
    calls.copy(block, host, MIB, line=NEXT, sample=sample)
    return calls


@pytest.mark.parametrize(
    ("calls", "certainty"),
    [
        (filled_twice(watched=False, sample=2), "likely"),
        (filled_twice(watched=False), ""),
        (filled_twice(watched=False, sample=None), "possible"),
        (filled_twice(watched=False, sample=None, first=None), "possible"),
        (filled_twice(watched=True, sample=2), ""),
        (filled_twice(watched=True, sample=None, first=None), ""),
        (filled_twice(watched=True, written=MIB), "likely"),
        (filled_twice(watched=True, written=4096, aside=100), ""),  # a page that has other data too
    ],
    ids=[
        "changed",
        "unchanged",
        "unknown",
        "as of graphs",
        "not written",
        "of graphs, not written",
        "written",
        "aside",
    ],
)
def test_whether_the_cpu_writes_while_a_kernel_may_run_is_what_was_seen(calls: Calls, certainty: str) -> None:
    assert waits(calls) == ([("writes", certainty, NEXT, LAUNCH)] if certainty else [])


def test_that_the_cpu_writes_after_the_launch_and_not_before_it_is_not_seen() -> None:
    for calls in (filled_twice(watched=True, written=MIB), filled_twice(watched=False, sample=2)):
        (wait,) = of(calls).waits
        assert wait.certainty == "likely"
        assert_states(wait_words(wait), "unless it wrote that before")


def test_of_the_first_copy_of_each_part_it_is_not_known_when_its_data_were_written() -> None:
    """Streams take parts of one block in turn, and all data may be written before."""
    calls = Calls()
    block, host = calls.block(4 * MIB), calls.host(4 * MIB)
    for n in range(4):
        start = n * MIB
        calls.copy(block + start, host + start, MIB, line=IN, blocking=False, host="pinned", stream=n, sample=n)
        calls.launch(block + start, line=LAUNCH)
    port = of(calls)
    assert [(wait.before, wait.certainty, wait.copies) for wait in port.waits] == [("writes", "possible", 3)]
    assert "explicit wait" not in port.summary
    assert_states(wait_words(port.waits[0]), "not known")


def test_a_wait_that_is_only_possible_hides_none_that_is_needed() -> None:
    calls = Calls()
    block, result, host = calls.block(MIB), calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB, line=IN)
    calls.launch(block, result, line=LAUNCH)
    calls.copy(block, host, MIB, line=IN)
    calls.copy(calls.host(MIB), result, MIB, line=BACK)
    assert waits(calls) == [("reads", "likely", BACK, LAUNCH), ("writes", "possible", IN, LAUNCH)]


# -------------------------------------------------------------------------------------------------- all pending work


@pytest.mark.parametrize("fills", [True, False])
def test_a_wait_is_for_all_work_that_uses_the_block(fills: bool) -> None:
    calls = Calls()
    block, other, host = calls.block(MIB), calls.block(MIB), calls.host(MIB)
    calls.copy(block, host, MIB, line=IN, sample=1)
    calls.fill(block if fills else other, MIB, line=7)
    calls.launch(block, line=8)
    calls.launch(block, line=LAUNCH)
    calls.copy(block, host, MIB, line=NEXT, sample=2)
    (wait,) = of(calls).waits
    assert (wait.before, wait.work.line) == ("writes", LAUNCH)
    assert [place.line for place in wait.earlier] == ([7, 8] if fills else [8])


def test_where_nothing_was_watched_no_reading_is_invented() -> None:
    calls, _, _ = launched()
    assert waits(calls) == []
