"""Prices that follow from rules of drivers and the values of a platform."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from sharing_programs import across, program, used

from firsttouch.model.costs import PlatformValue, Unmeasured
from firsttouch.model.estimate import estimate
from firsttouch.model.moving import GPU_FAULTS
from firsttouch.model.platform import MissingValue, load_platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.pricing import NEW_GPU_PAGES
from firsttouch.model.sharing import MAPPING
from firsttouch.program.strategies import STRATEGIES

GIB, NS_PER_MS = 1 << 30, 1e6


def prices(platform: str, changes: Mapping[str, str] | None = None, **factors: str) -> PlatformPrices:
    return PlatformPrices(load_platform(platform).changed(changes or {}).under(factors))


def test_16_small_pages_take_almost_4_times_what_one_large_page_does() -> None:
    """Grace Hopper, Sec. 5.2: the GPU's first touch of system memory."""
    large, small = (
        prices("gh200", {"host.page": page}).gpu_touch("malloc").of(GIB).value for page in ("64KiB", "4KiB")
    )
    assert 3.5 <= small / large <= 4


@pytest.mark.parametrize(
    ("changes", "moves"),
    [
        ({}, True),
        ({"host.page": "4KiB"}, False),
        ({"driver.counters": "off"}, False),
        ({"driver.release": "550.40.07"}, False),
        ({"driver.release": "595.45.04", "host.page": "4KiB"}, False),
    ],
)
def test_counters_move_pages_as_release_and_page_size_let_them(changes: Mapping[str, str], moves: bool) -> None:
    """With pages of 4 KiB they move nothing: every pass is remote."""
    terms = estimate(program("cpu", 4, None), STRATEGIES["system"], prices("gh200", changes))
    assert (used(terms, "access counters") > 0) == moves
    assert (used(terms, across("malloc")) == 4) != moves


def test_a_price_by_a_rule_rests_on_the_values_that_it_takes() -> None:
    names = [g.name for g in prices("gh200").gpu_touch("malloc").grounds if isinstance(g, PlatformValue)]
    assert names == ["ats.page", "ats.service", "ats.zero"]


@pytest.mark.parametrize(
    ("nbytes", "ratio"), [(4096, 1.0), (64 << 10, 5.2), (1 << 20, 3.1), (2 << 20, 4.0), (1 << 30, 4.0)]
)
def test_smaller_pages_cost_a_gpus_first_touch_what_services_and_pages_say(nbytes: int, ratio: float) -> None:
    """One page of either size is one service; a window takes 17 services and 512 pages, or 6 and 32."""
    small, large = (prices("gh200", {"host.page": page}).gpu_touch("malloc") for page in ("4KiB", "64KiB"))
    assert small.of(nbytes).value / large.of(nbytes).value == pytest.approx(ratio, rel=0.02)
    assert small.of(4 * nbytes).high <= 4 * small.of(nbytes).high * (1 + 1e-9)


def test_a_value_that_a_rule_needs_has_no_default() -> None:
    with pytest.raises(MissingValue, match=r"ats\.counter_moves"):
        prices("p9-volta", {"driver.counters": "on"})["counter_moves", "managed"]
    with pytest.raises(Unmeasured):
        prices("mi300a")["counter_moves", "malloc"]


@pytest.mark.parametrize("allocator", ["pinned", "managed"])
def test_host_memory_that_is_there_at_once_takes_200_to_400_ms_a_gib(allocator: str) -> None:
    """MI300A, Sec. V-A. With XNACK, managed memory is made on demand, by a call that takes microseconds."""
    assert 200 <= prices("mi300a")["allocation", "allocate", allocator].of(GIB).value / NS_PER_MS <= 400
    assert prices("mi300a", xnack="1")["allocation", "allocate", "managed"].of(GIB).value < 1e5


def test_pages_that_cores_make_and_the_gpu_maps_come_twice_as_fast_as_its_own() -> None:
    """MI300A, Sec. V-B: up to 2.2 times."""
    known = prices("mi300a", xnack="1")
    major, minor = known.gpu_touch("mmap"), known.gpu_fault("mmap", reads_only=True)
    both = known.host_touch(parallel=True, pages="base").of(GIB).value + minor.of(GIB).value
    assert major.of(GIB).value / both == pytest.approx(2.2, rel=0.15)


def test_the_first_touch_of_an_apu_is_priced_once() -> None:
    terms = estimate(program("cpu", 3), STRATEGIES["system"], prices("mi300a", xnack="1"))
    assert used(terms, MAPPING) == 1
    assert used(terms, NEW_GPU_PAGES) == 0


@pytest.mark.parametrize(("strategy", "slower"), [("unified", False), ("managed-static", True), ("pinned", True)])
def test_kernels_wait_for_memory_with_small_translations(strategy: str, slower: bool) -> None:
    """MI300A, Sec. IV-B: 3.5 TB/s in memory of hipMalloc, 2.1 to 2.2 in page-locked memory, 0.1 in static variables."""
    terms = estimate(program("cpu", 3), STRATEGIES[strategy], prices("mi300a"))
    assert (used(terms, "memory by the GPU") == 3) == slower


@pytest.mark.parametrize(
    ("strategy", "xnack", "moved", "across"),
    [("managed", "1", 1, 0), ("managed", "0", 0, 3), ("system", "1", 1, 0), ("pinned", "1", 0, 3)],
)
def test_pages_of_an_amd_gpu_with_its_own_memory_move_if_faults_resume(
    strategy: str, xnack: str, moved: float, across: float
) -> None:
    """kfd_migrate.c; without XNACK managed memory is page-locked host memory."""
    terms = estimate(program("cpu", 3), STRATEGIES[strategy], prices("mi250x", xnack=xnack))
    assert used(terms, GPU_FAULTS) == moved
    assert used(terms, "across the link") == across


def test_locking_less_than_a_page_takes_as_long_as_a_page():
    prices = PlatformPrices(load_platform("gh200"))
    for call in ("allocate", "free"):
        price = prices["allocation", call, "pinned"]
        assert price.of(64) == price.of(1 << 16)
        assert price.of(1 << 17).value == pytest.approx(2 * price.of(64).value)
