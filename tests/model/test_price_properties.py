"""What holds of advice whatever the records are: of prices, of sizes, of links and of iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttouch.advice.advisor import choose_device, estimates
from firsttouch.apps import all_apps
from firsttouch.harness.app import solve
from firsttouch.model.costs import Price, Time
from firsttouch.model.measured import MeasuredPrices
from firsttouch.program.dry_run import program_of
from firsttouch.program.patterns import PATTERNS, program_for, settings_for
from firsttouch.program.program import Program
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.plausibility import mark
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record

RESULTS = Path(__file__).parents[2] / "results"
RUNS = ("h200-quick", "h200-standard", "xeon-vm-quick")
GIB = 2**30
results = cache(load_results)


@cache
def prices(run: str, change: Callable[[Record], Record] | None = None) -> MeasuredPrices:
    loaded = results(RESULTS / run)
    device = choose_device([loaded], None)
    return MeasuredPrices(loaded.machine, map(change, loaded.records) if change else loaded.records, device)


def times(program: Program, of: MeasuredPrices) -> Mapping[str, float]:
    """ms of each strategy that is estimated."""
    return {name: sum(term.ms for term in terms) for name, terms in estimates(program, of)[0].items()}


# ------------------------------------------------------------------------------------------------ prices and sizes


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1), st.floats(1, 9)), min_size=1, max_size=9), st.data())
def test_more_bytes_never_cost_less_whatever_was_measured(rows: list[tuple[float, float, float]], data: Any) -> None:
    sizes = tuple(float(4096 << k) for k in range(len(rows)))
    price = Price(sizes, tuple(Time(t, t * low, t * high) for t, low, high in rows), ())
    less, more = sorted(data.draw(st.tuples(st.floats(0, 2 * sizes[-1]), st.floats(0, 2 * sizes[-1]))))
    for part in ("value", "low", "high"):
        assert getattr(price.of(less), part) <= getattr(price.of(more), part) * (1 + 1e-9)
    time = price.of(more)
    assert time.low <= time.value * (1 + 1e-9) <= time.high * (1 + 2e-9)


@pytest.mark.parametrize("doublings", [1, 3, 10])
def test_the_range_of_a_price_widens_beyond_what_was_measured(doublings: int) -> None:
    known = Price((4096.0, 1 << 20), (Time(10, 9, 11), Time(1000, 900, 1100)), ())
    inside, beyond = known.of(1 << 20), known.of((1 << 20) << doublings)
    assert beyond.value == inside.value * 2**doublings
    assert beyond.low < inside.low * 2**doublings or beyond.low == pytest.approx(inside.low * 2**doublings)
    assert beyond.high > inside.high * 2**doublings
    assert (beyond.high - beyond.low) / beyond.value > (inside.high - inside.low) / inside.value
    rate = Price((0.0, 1.0), (Time(), Time(1, 0.9, 1.1)), ())
    assert rate.of(1 << 40).high == pytest.approx(1.1 * (1 << 40))


@pytest.mark.parametrize(("largest", "low"), [(30.0, 27.0), (1000.0, 900.0 * 1024)])
def test_a_call_that_hardly_grows_may_take_no_longer_beyond_what_was_measured(largest: float, low: float) -> None:
    known = Price((1 << 10, 1 << 20), (Time(10, 9, 11), Time(largest, 0.9 * largest, 1.1 * largest)), (), of_call=True)
    beyond = known.of(1 << 30)
    assert beyond.value == 1024 * largest
    assert beyond.low == pytest.approx(low, rel=0.02)
    assert beyond.high > 1024 * 1.1 * largest


def test_less_than_the_least_that_was_measured_may_take_less() -> None:
    known = Price((1 << 24, 1 << 28), (Time(100, 90, 110), Time(1600, 1500, 1700)), ())
    assert known.of(1 << 20).value == 100
    assert known.of(1 << 20).low == pytest.approx(90 / 16)
    assert known.of(64).low == pytest.approx(known.of(64 << 10).low)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=9))
def test_times_in_order_stay_and_the_sum_of_all_does_too(values: list[float]) -> None:
    def price(of: list[float]) -> list[float]:
        sizes = tuple(float(n + 1) for n in range(len(of)))
        return [time.value for time in Price(sizes, tuple(Time(v, v, v) for v in of), ()).times]

    assert price(sorted(values)) == sorted(values)
    assert sum(price(values)) == pytest.approx(sum(values))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_larger_size_is_cheaper(run: str, pattern: str) -> None:
    before: dict[str, float] = {}
    for size in (int(2 ** (k / 4)) for k in range(12 * 4, 20 * 4)):
        now = times(program_for(pattern, size), prices(run))
        assert all(ms >= before.get(name, 0.0) * (1 - 1e-9) for name, ms in now.items()), size
        before.update(now)


@pytest.mark.parametrize("name", ["bfs", "gemm", "halo"])
def test_no_larger_size_of_an_application_is_cheaper(name: str) -> None:
    """Also where blocks that are small, and taken in turns, grow beyond that."""
    app, before = all_apps()[name], dict[str, float]()
    for size in (2**17, 2**18, 2**19, 2**20):
        now = times(program_of(app, solve(app, size)), prices("h200-standard"))
        assert all(ms >= before.get(name, 0.0) * (1 - 1e-9) for name, ms in now.items()), size
        before.update(now)


# ------------------------------------------------------------------------------------------------ impossible counters


def altered(experiment: str, counter: str, value: float) -> MeasuredPrices:
    """Prices of a run in which a counter of all points of an experiment has another value."""
    changed = []

    def change(record: Record) -> Record:
        if record.experiment != experiment or counter not in record.counters:
            return record
        changed.append(msgspec.structs.replace(record, counters=record.counters | {counter: value}, suspect=""))
        return changed[-1]

    run = results(RESULTS / "h200-standard")
    records = [change(record) for record in run.records]
    assert changed
    mark(records, run.machine)
    return MeasuredPrices(run.machine, records, next(d for d in run.machine.devices if d.name == "cuda:0"))


@pytest.mark.parametrize(
    ("experiment", "counter", "value", "strategy"),
    [
        ("migration", "prefetch_ms", -1.0, "managed+prefetch"),
        ("migration", "prefetch_ms", 0.0, "managed+prefetch"),
        ("migration", "prefetch_ms", 1e-3, "managed+prefetch"),  # 256 GB/s at the least, over PCIe 5
        ("migration", "cpu_read_ms", -0.1, "managed"),
        ("migration", "iteration_0_ms", -5.0, "managed"),
        ("migration", "iteration_11_ms", 1e6, "managed"),
        ("transfer", "latency_us", -3.0, "explicit"),
        ("allocation", "free_ns", -1.0, "pinned"),
    ],
)
def test_a_point_with_an_impossible_counter_is_no_price(
    experiment: str, counter: str, value: float, strategy: str
) -> None:
    terms, absent = estimates(program_for("iterate", GIB), altered(experiment, counter, value))
    assert strategy not in terms
    assert any(row.strategy == strategy and row.run.startswith(f"firsttouch run {experiment}") for row in absent)


# ------------------------------------------------------------------------------------------------ links and iterations


def faster_link(record: Record) -> Record:
    """A copy that is half as fast again."""
    if record.experiment != "transfer" or record.summary is None:
        return record
    faster = {name: 1.5 * getattr(record.summary, name) for name in ("median", "ci_low", "ci_high")}
    counters = {
        name: value / 1.5 if isinstance(value, float) and name.endswith("_us") else value
        for name, value in record.counters.items()
    }
    return msgspec.structs.replace(record, summary=msgspec.structs.replace(record.summary, **faster), counters=counters)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_faster_link_makes_nothing_dearer(run: str, pattern: str) -> None:
    for size in (2**12, 2**16, 2**20, 2**26, GIB):
        program = program_for(pattern, size)
        before, after = times(program, prices(run)), times(program, prices(run, faster_link))
        assert before.keys() == after.keys()
        assert all(after[name] <= before[name] * (1 + 1e-9) for name in before), size


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("pattern", ["stream", "iterate", "read-many", "generate"])
@pytest.mark.parametrize("setting", ["kernels", "passes"])
def test_more_iterations_never_favour_what_crosses_the_link_each_time(run: str, pattern: str, setting: str) -> None:
    """In these patterns a duplicated buffer is copied once, however often kernels use it."""
    before: Mapping[str, float] = {}
    for number in (1, 2, 3, 10, 100, 1000):
        now = times(program_for(pattern, settings=settings_for(pattern, 2**26, {setting: number})), prices(run))
        copied = [name for name in now if STRATEGIES[name].duplicated]
        for name, ms in now.items():
            assert ms >= before.get(name, 0.0) * (1 - 1e-9), (number, name)
            for other in copied if before else ():
                assert ms - now[other] >= before[name] - before[other] - 1e-9 * (ms + now[other]), (number, name, other)
        before = now
