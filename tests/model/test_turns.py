"""A kernel and the CPU that use a small block in turns: what that is estimated to cost in memory that moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firsttouch.advice.advisor import ranked
from firsttouch.advice.output import answer
from firsttouch.model.costs import ExchangePrice, MeasuredPoint, Price, Time
from firsttouch.model.estimate import estimate
from firsttouch.model.measured import MeasuredPrices
from firsttouch.model.moving import TURNS
from firsttouch.model.pricing import SMALL_COPIES
from firsttouch.model.terms import Term
from firsttouch.program.program import Access, Block, Launch, Program, Repeat
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.reading import load_results
from firsttouch.records.schema import SCHEMA, Record, Scalar, Summary

STANDARD = Path(__file__).parents[2] / "results/h200-standard"
WORK, SMALL = 1 << 26, 16


def program(turns: int, *, updates: int = 0, small: int = SMALL) -> Program:
    """A kernel passes over a large block and changes a small one, which the CPU then reads."""
    blocks = (
        Block("work", WORK, "inout", "both", starts_on="cpu"),
        Block("scalar", small, "control", "both", starts_on="cpu"),
    )
    first = Launch("cpu", tuple(Access(n, 0, b.nbytes, False, True) for n, b in enumerate(blocks)))
    kernel = Launch("gpu", (Access(0, 0, WORK, True, True), Access(1, 0, small, True, True, updates=updates)))
    reads = Launch("cpu", (Access(1, 0, small, True, False),), by="view")
    return Program("turns", blocks, (first,), (Repeat(turns, (kernel, reads)),))


def exchange(kernel: str, turns: int, gap_us: int, us: float) -> Record:
    factors: dict[str, Scalar] = {"method": "shared", "allocator": "managed", "kernel": kernel, "advice": "none",
                                  "operation": "read", "turns": turns, "gap_us": gap_us, "size": 8}  # fmt: skip
    summary = Summary(n=3, median=us, p5=us, p95=us, min=us, max=us, ci_low=us, ci_high=us)
    return Record(schema=SCHEMA, experiment="exchange", device="cuda:0", factors=factors, unit="us", status="ok",
                  metric_version=1, samples=[us] * 3, summary=summary,
                  counters={"updates": 2048 if kernel == "atomic" else 0})  # fmt: skip


def prices(*added: Record) -> MeasuredPrices:
    results = load_results(STANDARD)
    device = next(d for d in results.machine.devices if d.name == "cuda:0")
    return MeasuredPrices(results.machine, [*results.records, *added], device)


def turns_of(program: Program, of: MeasuredPrices, strategy: str = "managed") -> Term | None:
    terms = estimate(program, STRATEGIES[strategy], of)
    return next((term for term in terms if term.what == TURNS), None)


MEASURED = [
    exchange("store", 1, 0, 100.0), exchange("store", 100, 0, 10.0), exchange("store", 100, 1000, 40.0),
    exchange("atomic", 1, 0, 100.0), exchange("atomic", 100, 0, 1000.0), exchange("atomic", 100, 1000, 100.0),
]  # fmt: skip


@pytest.mark.parametrize("strategy", ["managed", "managed+prefetch"])
@pytest.mark.parametrize(("updates", "least", "most"), [(0, 1.0, 4.0), (2048, 90.0, 100.0), (1024, 45.0, 52.0)])
def test_turns_take_what_was_measured_of_such_kernels(strategy: str, updates: int, least: float, most: float) -> None:
    term = turns_of(program(100, updates=updates), prices(*MEASURED), strategy)
    assert term is not None
    assert term.count == 100
    assert least <= term.ms <= most
    assert all(isinstance(ground, MeasuredPoint) and '"exchange"' in ground.key for ground in term.grounds)


def test_turns_that_are_far_apart_take_what_was_measured_with_gaps() -> None:
    price = ExchangePrice(Price((1.0, 100.0), (Time(1e5), Time(1e8)), ()), ((1e5, 1.0), (1e6, 0.1)))
    assert price.of(100, 0).value == price.of(100, 1e5).value == 1e8
    assert price.of(100, 1e6).value == price.of(100, 1e9).value == pytest.approx(1e7)
    assert 1e7 < price.of(100, 5e5).value < 1e8
    assert price.of(200, 0).value == pytest.approx(2e8)


def test_a_run_without_exchange_says_what_its_estimate_lacks() -> None:
    term = turns_of(program(100), prices())
    assert term is not None
    assert any("firsttouch run exchange" in str(ground) for ground in term.grounds)


def test_where_unmeasured_turns_decide_the_fastest_is_not_known() -> None:
    """As found on an H100: 2048 updates by thread groups in each turn make managed memory the slowest."""
    many = ranked(program(100, updates=100 * 2048), "a solver", WORK, prices())
    assert many.verdict.kind == "not known"
    assert "measure: firsttouch run exchange --device cuda:0" in " ".join(map(str, answer(many)))
    measured = ranked(program(100, updates=2048), "a solver", WORK, prices(*MEASURED))
    assert (measured.verdict.kind, measured.verdict.strategies) == ("take", ("explicit",))
    assert not ranked(program(1), "a solver", WORK, prices()).turns


@pytest.mark.parametrize(("strategy", "small"), [("explicit", SMALL), ("pinned", SMALL), ("managed", 1 << 24)])
def test_copies_and_large_blocks_have_no_such_turns(strategy: str, small: int) -> None:
    assert turns_of(program(100, small=small), prices(*MEASURED), strategy) is None


def test_a_block_that_moves_once_is_a_fault() -> None:
    once: Any = program(1)
    without = Program(once.title, once.blocks, once.initialise, once.compute[0].body[:1])
    assert turns_of(without, prices(*MEASURED)) is None


@pytest.mark.parametrize("strategy", ["managed", "managed+prefetch", "managed+advise"])
def test_a_small_block_that_is_copied_has_no_turns(strategy: str) -> None:
    of, work = prices(*MEASURED), program(100, updates=2048)
    moved, copied = (estimate(work, STRATEGIES[strategy], of, copy_control=control) for control in (False, True))
    (small,) = (term for term in copied if term.what == SMALL_COPIES)
    assert small.phase == "compute"
    assert 100 <= small.count <= 102  # one to the CPU in each turn
    assert 0 < small.ms < 5
    assert not any(term.what == TURNS for term in copied)
    rest = [term for term in moved if term.what != TURNS]
    assert sum(t.ms for t in copied) - small.ms == pytest.approx(sum(t.ms for t in rest), rel=0.01)


@pytest.mark.parametrize(("us", "is_said"), [(1000.0, True), (0.5, False)])
def test_copies_of_small_blocks_are_recommended_where_turns_take_long(us: float, is_said: bool) -> None:
    quick = [exchange("store", turns, gap, us) for turns in (1, 100) for gap in (0, 1000)]
    answer = ranked(program(100), "turns", WORK, prices(*quick))
    setting = answer.settings.named().get("control")
    assert (setting is not None) == is_said
    if setting is not None:
        assert "(control=copied): under managed" in setting.text
        assert setting.value > 10
        assert setting.grounds
