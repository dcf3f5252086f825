"""What strategies cost on memory that both agents use where it is: one memory, and the host's page tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sharing_programs import SIZE, across, program, used

from firsttouch.model.costs import ExchangePrice, Price, Time, Unmeasured
from firsttouch.model.estimate import estimate, priced
from firsttouch.model.moving import REMOTE
from firsttouch.model.platform import load_platform
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import NEW_GPU_PAGES
from firsttouch.model.sharing import MAPPING, FirstTouchPricing
from firsttouch.program.declarations import Agent
from firsttouch.program.program import Access, Block, Launch, Program
from firsttouch.program.replay import Prepared
from firsttouch.program.strategies import STRATEGIES


class TablePrices(Prices):
    """Prices in ns per byte, by name."""

    page_size = "base"

    def __init__(self, platform: str, rates: Mapping[str, float]) -> None:
        loaded = load_platform(platform).under({"xnack": "1"})
        self.machine, self.device = loaded.machine(), loaded.device
        self.rates = {"host_touch": 0.1, **rates}

    def price(self, *name: str) -> Price:
        for known in (".".join(name[:2]), name[0]):
            if known in self.rates:
                return Price((0.0, 1.0), (Time(), Time(*[self.rates[known]] * 3)), ())
        raise Unmeasured(".".join(name))

    def exchange(self, allocator: str, *, by_groups: bool = False) -> ExchangePrice:
        raise Unmeasured


RATES = {"gpu_touch": 0.5, "remote.h2d": 0.01, "remote.d2h": 0.02, "cpu_remote": 0.04}


@pytest.mark.parametrize(("first", "remote", "touched", "by_cpu"), [("cpu", 3, 0, 0), ("gpu", 0, 1, 1)])
def test_pages_stay_with_the_agent_that_touches_them_first(
    first: Agent, remote: float, touched: float, by_cpu: float
) -> None:
    terms = estimate(program(first, 3), STRATEGIES["system"], TablePrices("gh200", RATES))
    assert used(terms, across("malloc")) == remote
    assert used(terms, NEW_GPU_PAGES) == touched
    assert used(terms, REMOTE) == by_cpu


@pytest.mark.parametrize(("passes", "remote"), [(1, 1), (2, 1 + 31 / 32), (6, 161 / 32), (12, 161 / 32)])
@pytest.mark.parametrize("rate", [0.02, 0.08])
def test_access_counters_move_pages_behind_a_kernel_in_order(rate: float, passes: int, remote: float) -> None:
    """A notification of each range in each pass: 1, 2, 4, 8, 16, and then all of its 32 pages are on the GPU."""
    prices = TablePrices("gh200", {**RATES, "counter_moves": rate, "counter_service": 1e4})
    terms = estimate(program("cpu", passes, None), STRATEGIES["system"], prices)
    assert used(terms, across("malloc")) == pytest.approx(remote)
    assert used(terms, "access counters") <= 1
    assert [0 < term.low < term.ms for term in terms if "access counters" in term.what] == [True]


@pytest.mark.parametrize(("rate", "remote"), [(0.02, 1.0), (0.04, 1.5), (0.08, 2.25)])
def test_access_counters_move_pages_while_a_kernel_uses_them_in_no_order(rate: float, remote: float) -> None:
    """A pass takes 0.02 ns a byte: at 0.04, half of the pages move in the first pass, and then all by the tree."""
    prices = TablePrices("gh200", {**RATES, "counter_moves": rate})
    terms = estimate(program("cpu", 4, None, spread="random"), STRATEGIES["system"], prices)
    assert used(terms, across("malloc")) == pytest.approx(remote, rel=0.05)


@pytest.mark.parametrize(("platform", "moved"), [("gh200", 1), ("h200-pcie", 0)])
def test_registered_memory_stays_only_where_the_device_has_page_tables_of_its_own(platform: str, moved: float) -> None:
    """cuMemHostRegister of the CUDA driver API: by the host's page tables, nothing is locked, and pages are made."""
    rates = {**RATES, "counter_moves": 0.01, "allocation": 0.3}
    terms = estimate(program("cpu", 8, None), STRATEGIES["registered"], TablePrices(platform, rates))
    assert used(terms, "moved to the GPU") == moved
    assert used(terms, across("registered")) == (161 / 32 if moved else 8)
    assert used(terms, "allocate registered memory") == 1
    assert used(terms, "first touch") == 0


@pytest.mark.parametrize(("room", "remote"), [(SIZE, 0), (SIZE // 4, 4 * 0.75)])
def test_pages_for_which_the_gpu_has_no_room_are_used_across_the_link(room: int, remote: float) -> None:
    """Nothing is evicted, and access counters move nothing more."""
    prices = TablePrices("gh200", {**RATES, "counter_moves": 0.01})
    pricing = priced(program("gpu", 3, None), STRATEGIES["system"], prices, capacity=room)
    assert used(pricing.terms.terms(), across("malloc")) == remote
    assert used(pricing.terms.terms(), NEW_GPU_PAGES) == 1


def test_what_the_counters_do_not_move_stays_remote() -> None:
    """The same without counters: every pass is across the link."""
    terms = estimate(program("cpu", 4, None), STRATEGIES["system"], TablePrices("gh200", RATES))
    assert used(terms, across("malloc")) == 4


@pytest.mark.parametrize(("first", "mapped", "touched"), [("cpu", 1, 0), ("gpu", 0, 1)])
def test_a_gpu_that_shares_the_memory_faults_once(first: Agent, mapped: float, touched: float) -> None:
    prices = TablePrices("mi300a", {"gpu_touch": 0.3, "gpu_fault": 0.03})
    terms = estimate(program(first, 3), STRATEGIES["system"], prices)
    assert used(terms, MAPPING) == mapped
    assert used(terms, NEW_GPU_PAGES) == touched


def test_a_single_fault_takes_its_own_time() -> None:
    prices = TablePrices("mi300a", {"gpu_touch": 1e-9, "isolated_fault": 18e3})
    terms = estimate(program("gpu", 1), STRATEGIES["system"], prices)
    assert [term.ms for term in terms if "first touch" in term.what] == [pytest.approx(18e-3)]


def test_uncached_memory_costs_each_agent_every_pass() -> None:
    prices = TablePrices("mi300a", {"uncached.cpu": 0.2, "uncached.gpu": 0.1, "cache_flush": 0.01, "allocation": 0})
    terms = estimate(program("cpu", 5), STRATEGIES["pinned"], prices)
    uncached = {agent: used(terms, f"uncached memory by the {agent}") for agent in ("CPU", "GPU")}
    assert uncached == {"CPU": 2, "GPU": 5}
    assert used(terms, "caches written back") == 5


@pytest.mark.parametrize(
    ("slow", "passes", "ns"),
    [
        (0.1, 1, 0),  # as fast, and nothing is used twice
        (0.1, 4, 3 * 0.1),  # what caches would have held is used again
        (0.3, 1, 0.2),  # waits for translations
        (0.3, 4, 4 * 0.2),
    ],
)
def test_kernels_wait_for_translations_and_for_what_caches_do_not_hold(slow: float, passes: int, ns: float) -> None:
    block = Block("data", SIZE, "inout", "both", starts_on="cpu", ends_on=None)
    write = Launch("cpu", (Access(0, 0, SIZE, False, True),))
    kernel = Launch("gpu", (Access(0, 0, SIZE, True, False, passes=passes),))
    used_again = Program("again", (block,), (write,), (kernel,))
    prices = TablePrices("tk1", {"slow_pass": slow, "usual_pass": 0.1, "allocation": 0})
    waits = [
        t for t in estimate(used_again, STRATEGIES["pinned"], prices) if t.what == "use of pinned memory by the GPU"
    ]
    assert sum(term.ms for term in waits) == pytest.approx(ns * SIZE * 1e-6)
    assert all(term.low == 0 for term in waits)


@pytest.mark.parametrize(("strategy", "faults", "remote"), [("managed", 1, 0), ("managed+advise", 0, 2)])
def test_what_the_cpu_writes_is_made_on_the_gpu_if_that_is_advised(strategy: str, faults: float, remote: float) -> None:
    """Where the CPU reaches the GPU's memory, it writes and reads it across the link, and kernels do not fault."""
    rates = {**RATES, "moving_touch": 0.1, "gpu_fault": 0.2, "isolated_fault": 1, "own_pass": 0.001, "cpu_fault": 0.3}
    terms = estimate(program("cpu", 3), STRATEGIES[strategy], TablePrices("gh200", rates))
    assert used(terms, "faults of the GPU") == faults
    assert used(terms, REMOTE) == remote


PART = SIZE // 64
USES = st.lists(
    st.tuples(st.sampled_from(["cpu", "gpu"]), st.integers(0, 63), st.integers(1, 64), st.booleans(), st.booleans()),
    min_size=1,
    max_size=12,
)


class KeptPages(FirstTouchPricing):
    """Checks after each launch that a page is in one memory, and the GPU's holds no more than it may."""

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        super().launch(launch, prepared)
        on_gpu, on_cpu = self.on_gpu[0], self.present[0]
        assert not any(on_gpu.bytes_in(first, end) for first, end in on_cpu)
        assert on_gpu.total() <= (self._capacity or 0)
        assert all(not on_gpu.missing(*gap) for a in launch.accesses for gap in on_cpu.missing(a.start, a.end))


def random_uses(uses: Sequence[tuple[Agent, int, int, bool, bool]]) -> Program:
    launches = tuple(
        Launch(agent, (Access(0, first * PART, min(SIZE, (first + length) * PART), reads or not writes, writes),))
        for agent, first, length, reads, writes in uses
    )
    return Program("random", (Block("data", SIZE, "inout", "both"),), (), launches)


@given(USES, st.integers(0, 64), st.sampled_from([0.005, 0.05, 0.5]))
def test_each_page_is_in_one_memory_and_the_gpus_is_never_more_than_full(
    uses: list[tuple[Agent, int, int, bool, bool]], room: int, moves: float
) -> None:
    prices = TablePrices("gh200", {**RATES, "counter_moves": moves})
    entry = prices.device.allocator("malloc")
    assert entry is not None
    KeptPages(random_uses(uses), STRATEGIES["system"], prices, entry, capacity=room * PART).run()


@given(USES, st.integers(0, 64), st.floats(1, 8))
def test_a_faster_link_never_adds_time(
    uses: list[tuple[Agent, int, int, bool, bool]], room: int, faster: float
) -> None:
    total = []
    for times in (1, faster):
        rates = {**RATES, "remote.h2d": 0.01 / times, "remote.d2h": 0.02 / times, "cpu_remote": 0.04 / times}
        pricing = priced(random_uses(uses), STRATEGIES["system"], TablePrices("gh200", rates), capacity=room * PART)
        total.append(sum(term.ms for term in pricing.terms.terms()))
    assert total[1] <= total[0] * (1 + 1e-9)
