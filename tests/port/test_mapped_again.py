"""A block is freed, allocated at the same call again, and given the bytes that it had."""

from __future__ import annotations

import pytest
from tests.port.test_port_findings import KIB, MIB, READS, names, of
from tests.port.traces import PROGRAM, Calls

from firsttouch.advice.edits import edits
from firsttouch.advice.port.places import Places, lines_of
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.cli.ported import lines
from firsttouch.profile.schema import Caller
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import trace

TIMES = 4
ALL = 8 * KIB
"""Of so many bytes, all are compared."""


class Rounds:
    """A function that is called again and again: it allocates, copies in, launches, and frees."""

    def __init__(self, size: int = ALL) -> None:
        self.calls, self.size = Calls(), size
        self.host = self.calls.host(size)

    def call(
        self, sample: int = 7, *, kernel: str = READS, line: int = 1, host: int = 0, back: int | None = None
    ) -> None:
        """back: the sample of what is copied back over the host's bytes."""
        calls, host = self.calls, host or self.host
        block = calls.block(self.size, line=line)
        calls.copy(block, host, self.size, sample=sample, line=2)
        calls.launch(block, kernel=kernel, line=3)
        if back is not None:
            calls.copy(host, block, self.size, sample=back, before=sample, line=4)
        calls.free(block, line=5)

    @property
    def found(self) -> PortFindings:
        return of(self.calls)


@pytest.mark.parametrize(("size", "certainty"), [(ALL, "seen"), (MIB, "possible")])
def test_a_buffer_that_is_given_its_bytes_again_is_told_with_how_often_it_was_allocated(size: int, certainty: str):
    rounds = Rounds(size)
    for _ in range(TIMES):
        rounds.call()
    (row,) = rounds.found.needless
    assert (row.certainty, row.place.line, row.copies, row.renewed) == (certainty, 2, TIMES - 1, TIMES - 1)
    assert row.bytes == (TIMES - 1) * size


def test_what_came_back_and_is_sent_again_unchanged_is_a_round_trip():
    rounds = Rounds()
    for n in range(TIMES):
        rounds.call(n, kernel="_Z6updatePf", back=n + 1)
    (row,) = rounds.found.needless
    assert (row.certainty, row.place.line, row.since.line, row.renewed) == ("seen", 2, 4, TIMES - 1)


def test_pages_that_nobody_was_seen_to_write_make_it_seen():
    rounds = Rounds(MIB)
    for _ in range(2):
        rounds.call()
        rounds.calls.host_use(rounds.host, MIB)
    assert [row.certainty for row in rounds.found.needless] == ["seen"]


def test_a_kernel_that_may_write_a_buffer_which_is_never_copied_back_leaves_a_doubt():
    rounds = Rounds()
    for _ in range(2):
        rounds.call(kernel="_Z6updatePf")
    (row,) = rounds.found.needless
    assert (row.certainty, bool(row.reading)) == ("possible", True)


def changed() -> Rounds:
    rounds = Rounds()
    for n in range(TIMES):
        rounds.call(n)
    return rounds


def allocated_by_another_call() -> Rounds:
    rounds = Rounds()
    for n in range(TIMES):
        rounds.call(line=10 + n)
    return rounds


def seen_to_be_written() -> Rounds:
    rounds = Rounds(MIB)
    for _ in range(2):
        rounds.call()
        rounds.calls.host_use(rounds.host, MIB, writes=[(rounds.host, rounds.host + 4096)])
    return rounds


def of_other_arrays() -> Rounds:
    rounds = Rounds()
    for _ in range(TIMES):
        rounds.call(host=rounds.calls.host(ALL))
    return rounds


def restored() -> Rounds:
    """The kernel overwrites the bytes, which come back to the host elsewhere."""
    rounds = Rounds()
    for _ in range(2):
        block = rounds.calls.block(ALL, line=1)
        rounds.calls.copy(block, rounds.host, ALL, sample=7, line=2)
        rounds.calls.launch(block, kernel="_Z6updatePf")
        rounds.calls.copy(rounds.calls.host(ALL), block, ALL, sample=8, before=0)
        rounds.calls.free(block)
    return rounds


def filled() -> Rounds:
    rounds = Rounds()
    rounds.call()
    block = rounds.calls.block(ALL, line=1)
    rounds.calls.fill(block, ALL)
    rounds.calls.copy(block, rounds.host, ALL, sample=7, line=2)
    return rounds


def computed_again() -> Rounds:
    """Each call makes the same result, which it has to bring back."""
    rounds = Rounds()
    for _ in range(2):
        block = rounds.calls.block(ALL, line=1)
        rounds.calls.launch(block, kernel="_Z6updatePf")
        rounds.calls.copy(rounds.host, block, ALL, sample=7, before=7, line=4)
        rounds.calls.free(block)
    return rounds


def two_at_once() -> Rounds:
    rounds = Rounds()
    blocks = [rounds.calls.block(ALL, line=1) for _ in range(2)]
    for block in blocks:
        rounds.calls.copy(block, rounds.host, ALL, sample=7, line=2)
        rounds.calls.launch(block, kernel=READS)
    return rounds


@pytest.mark.parametrize(
    "made",
    [changed, allocated_by_another_call, seen_to_be_written, of_other_arrays, restored, filled, computed_again,
     two_at_once],
)  # fmt: skip
def test_what_only_looks_like_it_is_not_told(made):
    port = made().found
    assert port.needless == []
    assert [row.kind for row in port.findings if row.kind == "restoring"] == []


def test_a_buffer_that_lives_on_and_one_that_does_not_are_told_apart():
    rounds = Rounds()
    block = rounds.calls.block(ALL, line=1)
    for _ in range(2):
        rounds.calls.copy(block, rounds.host, ALL, sample=7, line=2)
    rounds.calls.launch(block, kernel=READS)
    rounds.calls.free(block)
    rounds.call()
    assert sorted(row.renewed for row in rounds.found.needless) == [0, 1]
    text = " ".join(" ".join(lines(rounds.found)).split())
    assert "already has" in text
    assert "freed and allocated again" in text


def test_the_list_of_changes_has_the_buffers_allocated_once_and_drops_these_copies():
    rounds = Rounds()
    for _ in range(TIMES):
        rounds.call()
    (change,) = edits(rounds.calls.run, rounds.found, Places(names()), STRATEGIES["explicit"])
    assert (change.what, change.count, change.bytes) == ("omit", TIMES - 1, (TIMES - 1) * ALL)
    assert change.text.startswith("allocate these buffers once")


@pytest.mark.parametrize(("near", "blocks"), [(False, 1), (True, 2)])
def test_constructs_whose_calls_have_no_lines_of_their_own_are_told_apart(near: bool, blocks: int):
    rounds = Rounds()
    for line in (1, 2):
        rounds.call(line=line)
    callers = {
        (PROGRAM, offset): Caller(file=PROGRAM, offset=offset, function="f", source="/a.c", number=9, near=near)
        for offset in (1, 2)
    }
    assert len(trace(rounds.calls.traced, lambda site: lines_of(site, callers)).blocks) == blocks
