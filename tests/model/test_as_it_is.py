"""What memory costs a traced program as it is, and what its kernels may use: copies one by one, shares and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from firsttouch.model.as_it_is import FIRST_BY_CPU, copy_times, terms_as_it_is
from firsttouch.model.estimate import estimate
from firsttouch.model.platform import load_platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.pricing import COPY_BACK, COPY_IN, NEW_BY_COPY
from firsttouch.program.narrowed import is_assumed, widest, with_share
from firsttouch.program.program import Access, Block, Item, Launch, Move, Obtained, Program, Repeat
from firsttouch.program.strategies import STRATEGIES

MIB, GIB = 1 << 20, 1 << 30


@cache
def prices(name: str = "h200-pcie") -> PlatformPrices:
    return PlatformPrices(load_platform(name))


def kernel(*accesses: Access) -> Launch:
    return Launch("gpu", accesses, kernel="k")


def assumed(block: int, end: int = GIB, *, reads: bool = True, writes: bool = True, least: int = 0) -> Access:
    return Access(block, 0, end, reads, writes, certainty="assumed", least=least)


def round_trip(*compute: Item, new: bool = True, **move: object) -> Program:
    """The CPU writes a buffer, which is copied to the device, used there, and copied back."""
    block = Block("data", GIB, "inout", "both", starts_on="cpu", ends_on="cpu")
    write = Launch("cpu", (Access(0, 0, GIB, False, True),), "view")
    there = Move("h2d", 0, 0, GIB, GIB, new=GIB if new else 0, **move)  # type: ignore[arg-type]
    back = Move("d2h", 0, 0, GIB, GIB, **move)  # type: ignore[arg-type]
    return Program("p", (block,), (write, there), (*compute, back), obtained=(Obtained(GIB),))


def total(program: Program, what: str = "") -> float:
    return sum(term.ms for term in terms_as_it_is(program, prices()) if term.what.startswith(what))


@pytest.mark.parametrize("platform", ["h200-pcie", "gh200", "mi300a", "kaveri"])
def test_a_program_that_copies_as_the_strategy_does_costs_what_the_strategy_costs(platform: str) -> None:
    program = round_trip(kernel(Access(0, 0, GIB, True, True)))
    explicit = estimate(program, STRATEGIES["explicit"], prices(platform))
    own = terms_as_it_is(program, prices(platform))
    assert sum(t.ms for t in own) == pytest.approx(sum(t.ms for t in explicit))
    assert {t.what: t.bytes for t in own} == {t.what: t.bytes for t in explicit}


def test_a_repeated_copy_costs_as_often_as_it_happens() -> None:
    again = Repeat(7, (Move("h2d", 0, 0, MIB, MIB), kernel(Access(0, 0, GIB, True, True))))
    one = total(Program("p", (Block("b", GIB, "inout", "both"),), (), (Move("h2d", 0, 0, MIB, MIB),)))
    assert total(round_trip(again)) == pytest.approx(total(round_trip()) + 7 * one)


def test_page_locked_arrays_are_locked_and_copied_at_the_rate_of_the_link() -> None:
    plain, pinned = round_trip(new=False), round_trip(new=False, pinned=True)
    assert total(pinned, COPY_IN) < total(plain, COPY_IN) / 2
    locked = Program("p", (), obtained=(Obtained(GIB, 3, pinned=True),))
    one = prices()["allocation", "allocate", "pinned"].of(GIB).value * 1e-6
    assert total(locked, "allocate") == pytest.approx(3 * one)


def test_new_pages_are_touched_once_by_whom_they_are_new_to() -> None:
    back = Program("p", (Block("b", GIB, "output", "both"),), (), (Move("d2h", 0, 0, GIB, GIB, new=GIB // 2),))
    what = {t.what: t.bytes for t in terms_as_it_is(back, prices())}
    by_copy = what.get(NEW_BY_COPY, 0) or sum(n for name, n in what.items() if "new pages" in name)
    assert by_copy == GIB // 2
    assert FIRST_BY_CPU not in what
    assert sum(n for name, n in what.items() if name.startswith(COPY_BACK)) >= GIB // 2


def test_the_cpu_touches_new_pages_by_as_many_threads_as_it_was_seen_to() -> None:
    one, all_threads = round_trip(), round_trip()
    write = Launch("cpu", (Access(0, 0, GIB, False, True),), "kernel")
    all_threads = Program("p", all_threads.blocks, (write, *all_threads.initialise[1:]), all_threads.compute)
    assert total(all_threads, FIRST_BY_CPU) < total(one, FIRST_BY_CPU) / 2


def test_copies_on_the_device_and_fills_cost_nothing_that_a_strategy_saves() -> None:
    moves: Sequence[Move] = (Move("d2d", 0, 0, GIB, GIB), Move("fill", 0, 0, GIB, GIB))
    assert total(Program("p", (Block("b", GIB, "scratch", "gpu"),), (), tuple(moves))) == 0


def test_traced_times_of_copies_stand_beside_their_price() -> None:
    """Of small copies of pageable memory a record has the GPU's part alone: these are left out."""
    small, size = Move("h2d", 0, 0, MIB, MIB, seconds=1e-6), 32 * MIB
    program = round_trip(Repeat(3, (Move("h2d", 0, 0, size, size, seconds=1e-4), Move("h2d", 0, 0, size, size), small)))
    number, nbytes, took, priced = copy_times(program, prices(), "h2d")
    one = total(Program("p", (Block("b", GIB, "inout", "both"),), (), (Move("h2d", 0, 0, size, size),)))
    assert (number, nbytes, took) == (3, 3 * size, pytest.approx(3e5))
    assert priced.value * 1e-6 == pytest.approx(3 * one)


# ------------------------------------------------------------------------------------------------ what kernels use


def test_a_share_of_what_is_assumed_leaves_what_is_certain() -> None:
    exact, some = Access(0, 0, GIB, True, True), assumed(0, least=GIB // 4)
    program = round_trip(Repeat(2, (kernel(exact), kernel(some, assumed(0)))))

    def ends(share: float) -> list[list[int]]:
        repeat = with_share(program, share).compute[0]
        assert isinstance(repeat, Repeat)
        return [[a.end for a in item.accesses] for item in repeat.body if isinstance(item, Launch)]

    assert ends(0) == [[GIB], [GIB // 4]]
    assert ends(0.5) == [[GIB], [GIB * 5 // 8, GIB // 2]]
    assert ends(1) == [[GIB], [GIB, GIB]]
    assert is_assumed(program)
    assert not is_assumed(round_trip(kernel(exact)))


def test_the_widest_use_is_of_whole_blocks_and_leaves_the_cpu_alone() -> None:
    program = round_trip(kernel(assumed(0, GIB // 2), Access(0, 0, 8, True, False)))
    launch = widest(program).compute[0]
    assert isinstance(launch, Launch)
    assert [a.end for a in launch.accesses] == [GIB, 8]
    assert widest(program).initialise == program.initialise
