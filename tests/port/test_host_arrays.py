"""One array of the host that is copied to or from several buffers counts once, and several arrays count each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.port.test_port_findings import MIB, names, of
from tests.port.traces import Calls
from tests.texts import assert_states

from firsttouch.advice.edits import edits
from firsttouch.advice.port.places import Places
from firsttouch.program.strategies import STRATEGIES


def allocated(calls: Calls, strategy: str = "managed") -> str:
    """What the edit list says of allocations, or of arrays that are page-locked."""
    listed = edits(calls.run, of(calls), Places(names()), STRATEGIES[strategy])
    return next(edit.text for edit in listed if edit.what in ("allocate", "lock"))


def split() -> Calls:
    """As pathfinder: the first row of an array goes to one buffer, and the others to another one."""
    calls = Calls()
    row, wall, host = calls.block(MIB, line=1), calls.block(4 * MIB, line=2), calls.host(5 * MIB)
    calls.copy(row, host, MIB)
    calls.copy(wall, host + MIB, 4 * MIB)
    calls.launch(row, wall)
    return calls


def twice() -> Calls:
    """As FDTD3d: both buffers, which take turns, begin with the same input."""
    calls = Calls()
    blocks, host = [calls.block(5 * MIB, line=line) for line in (1, 2)], calls.host(5 * MIB)
    for block in blocks:
        calls.copy(block, host, 5 * MIB)
    calls.launch(*blocks)
    return calls


def there_and_back() -> Calls:
    calls = Calls()
    source, result, host = calls.block(5 * MIB, line=1), calls.block(5 * MIB, line=2), calls.host(5 * MIB)
    calls.copy(source, host, 5 * MIB)
    calls.launch(source, result)
    calls.copy(host, result, 5 * MIB)
    return calls


def with_borders() -> Calls:
    """Two buffers have halves of an array, with a border that both have."""
    calls = Calls()
    blocks, host = [calls.block(3 * MIB, line=line) for line in (1, 2)], calls.host(5 * MIB)
    calls.copy(blocks[0], host, 3 * MIB)
    calls.copy(blocks[1], host + 2 * MIB, 3 * MIB)
    calls.launch(*blocks)
    return calls


@pytest.mark.parametrize("program", [split, twice, there_and_back, with_borders])
def test_an_array_in_two_buffers_counts_once(program: Callable[[], Calls]) -> None:
    calls = program()
    port = of(calls)
    assert port.saved.bytes == sum(block.saves for block in port.blocks) == 5 * MIB
    assert len({partner.array for block in port.blocks for partner in block.partners}) == 1
    assert_states(allocated(calls), "1 host array")
    assert_states(allocated(calls, "explicit+pinned"), "1 host array")


def two_arrays(first: int, second: int, **more: str) -> Calls:
    calls = Calls()
    blocks = [calls.block(MIB, line=line) for line in (1, 2)]
    for block, address in zip(blocks, (first, second), strict=True):
        calls.copy(block, address, MIB, **more)
    calls.launch(*blocks)
    return calls


def locked_neighbours() -> Calls:
    calls = Calls()
    arrays = [calls.block(MIB, kind="pinned", at_address=0x10000000 + n * MIB, line=8 + n) for n in range(2)]
    for line, array in enumerate(arrays, 1):
        block = calls.block(MIB, line=line)
        calls.copy(block, array, MIB, host="pinned")
        calls.launch(block)
    return calls


def address_used_again() -> Calls:
    """When the first buffer is freed, so is its array, and a larger one is where it was."""
    calls = Calls()
    for line, (before, nbytes) in enumerate(((MIB, MIB), (0, 3 * MIB)), 1):
        block = calls.block(nbytes, line=line)
        calls.copy(block, 0x10000000 + before, nbytes)
        calls.launch(block)
        calls.free(block)
    return calls


@pytest.mark.parametrize(
    "calls",
    [
        two_arrays(0x10000000, 0x10000000 + MIB + 16),
        two_arrays(0x10000000, 0x10000000 + MIB, host="static"),
        locked_neighbours(),
        address_used_again(),
    ],
    ids=["apart", "variables side by side", "page-locked allocations side by side", "at an address that is used again"],
)
def test_arrays_that_only_look_like_one_count_each(calls: Calls) -> None:
    port = of(calls)
    assert len({partner.array for block in port.blocks for partner in block.partners}) == 2
    assert_states(allocated(calls), "2 buffers", "2 host arrays")
    assert [block.saves for block in port.blocks] == [block.bytes for block in port.blocks]


def test_buffers_that_do_not_live_at_once_each_save_the_array() -> None:
    calls = Calls()
    host = calls.host(MIB)
    for line in (1, 2):
        block = calls.block(MIB, line=line)
        calls.copy(block, host, MIB)
        calls.launch(block)
        calls.free(block)
    port = of(calls)
    assert port.saved.bytes == MIB
    assert [block.saves for block in port.blocks] == [MIB, MIB]
    assert_states(allocated(calls), "2 buffers", "1 host array")
