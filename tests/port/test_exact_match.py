"""What kernels use, matched from a second run with the first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.port.traces import Calls
from tests.texts import assert_states

from firsttouch.profile.exact import GRANULE, ExactBlock, ExactCalls, ExactLaunch, ExactMove, ExactStep, ExactUse
from firsttouch.program.exact import MOST_PIECES, match
from firsttouch.program.exact_run import ExactRun, UsedBlock, UsedPiece
from firsttouch.program.program import Launch
from firsttouch.program.trace import TracedAllocation, TracedLaunch, TracedRun
from firsttouch.program.traced import program_of_trace

MIB = 1 << 20
THERE = 0x5000000000
"""Where the second run has its memory."""
GRID, THREADS = (8, 1, 1), (128, 1, 1)


class Both:
    """The two runs of a program."""

    def __init__(self) -> None:
        self.first, self.second = Calls(), list[ExactStep]()
        self._there: dict[int, tuple[int, int]] = {}

    def block(self, nbytes: int) -> int:
        address = self.first.block(nbytes)
        self._there[address] = there = THERE + 16 * MIB * len(self.second), nbytes
        self.second.append(ExactBlock(*there, True, "device"))
        return address

    def free(self, address: int) -> None:
        self.first.free(address)
        self.second.append(ExactBlock(*self._there.pop(address), False, "device"))

    def copy(self, target: int, nbytes: int) -> None:
        self.first.copy(target, self.first.host(nbytes), nbytes)
        self.second.append(ExactMove("h2d", self._there[target][0], nbytes))

    def launch(self, *addresses: int, kernel: str = "k", used: list[tuple[int, list, list]] | None = None) -> None:
        self.first.launch(*addresses, kernel=kernel)
        told = None if used is None else [
            ExactUse(*self._there[at], tuple(reads), tuple(writes)) for at, reads, writes in used
        ]  # fmt: skip
        self.second.append(ExactLaunch(kernel, GRID, THREADS, used=told))

    @property
    def run(self) -> TracedRun:
        return self.first.run

    @property
    def matched(self) -> ExactRun:
        found = match(self.run, [ExactCalls(2, self.second)])
        assert found is not None
        return found

    def uses(self) -> list[tuple[UsedBlock, ...] | None]:
        """What each launch uses."""
        steps = [number for number, step in enumerate(self.run.steps) if isinstance(step, TracedLaunch)]
        return [self.matched.uses.get(number) for number in steps]


def test_blocks_are_those_of_the_first_run() -> None:
    both = Both()
    a, b, c = both.block(MIB), both.block(MIB), both.block(2 * MIB)
    both.second.insert(1, ExactBlock(1, 512, True, "device"))  # CUDA's own
    both.free(a)
    d = both.block(MIB)  # at the address of a, and as its block
    both.launch(b, c, d, used=[(b, [(0, GRANULE)], []), (d, [], [(GRANULE, 2 * GRANULE)])])
    assert both.uses() == [
        (
            UsedBlock(0, (UsedPiece(GRANULE, 2 * GRANULE, False, True),), 0, GRANULE, GRANULE),
            UsedBlock(1, (UsedPiece(0, GRANULE, True, False),), GRANULE, 0, GRANULE),
        )
    ]
    assert (both.matched.launches, both.matched.matched, both.matched.recorded) == (1, 1, 1)


def test_launches_that_were_not_looked_at_use_what_those_alike_do() -> None:
    both = Both()
    a, b = both.block(MIB), both.block(MIB)
    part = [(a, [(0, GRANULE)], [])]
    for used in (part, part, None):
        both.launch(a, used=used)
    both.launch(b, used=None)  # another block
    both.launch(a, kernel="grows", used=part)
    both.launch(a, kernel="grows", used=[(a, [(0, MIB)], [])])
    both.launch(a, kernel="grows", used=None)
    uses = both.uses()
    assert uses[0] == uses[1] == uses[2] != uses[5]
    assert (uses[3], uses[6]) == (None, None)
    assert (both.matched.recorded, both.matched.alike, both.matched.varying) == (4, 1, 1)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda steps: steps.__setitem__(2, ExactLaunch("other", GRID, THREADS)), "it launched other, the first run k"),
        (lambda steps: steps.__setitem__(1, ExactMove("h2d", THERE, 4)), "a copy of 1048576 bytes is not there"),
        (lambda steps: steps.__setitem__(0, ExactBlock(THERE, 4, True, "device")), "an allocation of 1048576 bytes"),
        (lambda steps: steps.__delitem__(slice(3, None)), "ended after 1 of 2 launches"),
        (lambda steps: steps.append(ExactLaunch("more", GRID, THREADS)), "went on after the 2 launches"),
    ],
    ids=["kernel", "copy", "block", "short", "long"],
)
def test_a_second_run_that_differs_is_said(change: object, why: str) -> None:
    both = Both()
    a = both.block(MIB)
    both.copy(a, MIB)
    for _ in range(2):
        both.launch(a, used=[(a, [(0, MIB)], [])])
    assert not both.matched.ended
    change(both.second)  # type: ignore[operator]
    assert why in both.matched.ended


def test_a_grid_that_differs_is_said() -> None:
    both = Both()
    both.launch(used=[])
    run = both.run
    run.shapes[run.steps[0].call.correlation] = (GRID, (64, 1, 1))  # type: ignore[union-attr]
    found = match(run, [ExactCalls(2, both.second)])
    assert found is not None
    assert "the grid of k is" in found.ended


def test_the_process_that_did_the_same_is_taken() -> None:
    both = Both()
    both.launch(used=[])
    others = [ExactCalls(3, []), ExactCalls(4, [ExactLaunch("else", GRID, THREADS)])]
    found = match(both.run, [*others, ExactCalls(2, both.second)])
    assert found is not None
    assert found.matched == 1
    assert match(both.run, []) is None


def test_what_a_tensor_map_hides_is_not_exact() -> None:
    both = Both()
    a = both.block(MIB)
    both.launch(a, used=[(a, [(0, GRANULE)], [])])
    both.second[-1].opaque = True  # type: ignore[union-attr]
    assert (both.matched.recorded, both.matched.opaque, both.uses()) == (0, 1, [None])


def test_a_static_variable_is_assumed_where_a_launch_uses_other_memory() -> None:
    both = Both()
    symbol = both.first.block(256, kind="device_static", name="coefficients")
    both.first.copy(symbol, both.first.host(256), 256)
    both.second.append(ExactMove("h2d", 1, 256))
    both.launch(used=[])
    both.second[-1].outside = 3  # type: ignore[union-attr]
    both.launch(kernel="other", used=[])
    assert both.uses() == [(UsedBlock(0, (UsedPiece(0, 256, True, True, 0),), assumed=True),), ()]
    first, _ = (item for item in program_of_trace(both.run, exact=both.matched).compute if isinstance(item, Launch))
    assert [(access.certainty, access.least) for access in first.accesses] == [("assumed", 0)]


GRANULES = st.lists(st.sampled_from([0, 0, 1, 2, 3]), min_size=1, max_size=256) | st.just([1, 0] * 100)


@given(GRANULES)
def test_pieces_have_the_bytes_that_are_read_and_written(granules: list[int]) -> None:
    both = Both()
    a = both.block(len(granules) * GRANULE)
    runs = [(i * GRANULE, (i + 1) * GRANULE, how) for i, how in enumerate(granules)]
    reads, writes = ([(start, end) for start, end, how in runs if how & bit] for bit in (1, 2))
    both.launch(a, used=[(a, reads, writes)])
    (uses,) = both.uses()
    assert uses is not None
    (used,) = uses
    assert len(used.pieces) <= MOST_PIECES
    assert used.scattered == any(piece.least is not None for piece in used.pieces)
    sizes = [(how & 1, how >> 1, how > 0) for how in granules]
    assert (used.read, used.written, used.used) == tuple(sum(size) * GRANULE for size in zip(*sizes, strict=True))
    for i, how in enumerate(granules):
        covering = [p for p in used.pieces if p.start <= i * GRANULE < p.end]
        assert len(covering) == (how > 0) or (used.scattered and not how)
        assert not how or (covering[0].reads >= how & 1 and covering[0].writes >= how >> 1)
    for p in used.pieces if used.scattered else ():
        assert p.least == GRANULE * sum(how > 0 for how in granules[p.start // GRANULE : p.end // GRANULE])
    if not used.scattered:
        byte_map = [0] * len(granules)
        for p in used.pieces:
            for i in range(p.start // GRANULE, p.end // GRANULE):
                byte_map[i] = p.reads + 2 * p.writes
        assert byte_map == granules


def test_the_program_has_the_bytes_that_kernels_used() -> None:
    both = Both()
    a, b = both.block(MIB), both.block(MIB)
    both.copy(a, MIB)
    both.launch(a, b, used=[(a, [(0, GRANULE)], []), (b, [], [(0, MIB)])])
    both.first.copy(both.first.host(MIB), b, MIB)
    both.second.append(ExactMove("d2h", 1, MIB))
    both.launch(a, b, kernel="later", used=None)
    program = program_of_trace(both.run, exact=both.matched)
    launches = [item for item in program.compute if isinstance(item, Launch) and item.agent == "gpu"]
    assert [(x.block, x.nbytes, x.reads, x.writes, x.certainty) for x in launches[0].accesses] == [
        (0, GRANULE, True, False, "exact"),
        (1, MIB, False, True, "exact"),
    ]
    assert {x.certainty for x in launches[1].accesses} == {"assumed"}
    assert any("1 of 2 launches" in text for text in program.assumptions)


def test_what_kept_the_second_run_from_telling_is_said() -> None:
    calls = ExactCalls(2, [], ["no patch"], left_out=3)
    found = match(Both().run, [calls])
    assert found is not None
    reason, room = found.notices
    assert reason == "no patch"
    assert_states(room, "3 records", "second run")


def test_what_a_launch_uses_of_a_pool_is_told_of_its_parts() -> None:
    both = Both()
    pool = both.block(16 * MIB)
    parts = [pool + n * MIB for n in range(9)]
    for part in parts:
        both.first.copy(part, both.first.host(500 * 1024), 500 * 1024)
        both.second.append(ExactMove("h2d", part, 500 * 1024))
    for n, part in enumerate(parts):
        start = n * MIB
        both.launch(part, used=[(pool, [(start, start + GRANULE)], [(start + GRANULE, start + 2 * GRANULE)])])
    numbers = [step.block for step in both.run.steps if isinstance(step, TracedAllocation)]
    assert len(numbers) == 9
    for number, uses in zip(numbers, both.uses(), strict=True):
        assert uses is not None
        (used,) = uses
        assert (used.block, used.read, used.written) == (number, GRANULE, GRANULE)
        assert [(piece.start, piece.end) for piece in used.pieces] == [(0, GRANULE), (GRANULE, 2 * GRANULE)]


def test_what_a_launch_uses_of_pieces_is_told_of_the_block_that_they_are() -> None:
    both = Both()
    for n in range(2):
        address = both.first.block(MIB, at_address=0x7E0000000000 + n * MIB, reserved=1)
        there = THERE + n * MIB, MIB
        both._there[address] = there
        both.second.append(ExactBlock(*there, True, "device"))
    first, second = both._there
    both.launch(first, used=[(first, [(MIB - GRANULE, MIB)], []), (second, [(0, GRANULE)], [])])
    (uses,) = both.uses()
    assert uses is not None
    (used,) = uses
    assert [(piece.start, piece.end) for piece in used.pieces] == [(MIB - GRANULE, MIB + GRANULE)]
