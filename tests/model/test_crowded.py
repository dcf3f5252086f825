"""Managed memory that needs more of the GPU's memory than there is."""

from __future__ import annotations

import pytest

from firsttouch.model.counting import CountedReplay
from firsttouch.model.moving import EVICTED
from firsttouch.model.page_steps import CountingSettings
from firsttouch.model.pages import Kind
from firsttouch.model.platform import Platform, load_platform
from firsttouch.model.prediction import Prediction, PredictionSettings, predict
from firsttouch.program.program import Access, Block, Launch, Program, Repeat, Swap
from firsttouch.program.strategies import STRATEGIES

GRID = 9_216_000_000


def stencil(sweeps: int, nbytes: int = GRID) -> Program:
    """Two grids, written by the CPU, of which kernels read one and write the other, in turn."""
    blocks = tuple(Block(name, nbytes, "inout", "both", "cpu") for name in ("grid0", "grid1"))
    begin = Launch("cpu", tuple(Access(n, 0, nbytes, False, True) for n in (0, 1)), threads=1 << 20)
    sweep = Launch("gpu", (Access(0, 0, nbytes, True, False), Access(1, 0, nbytes, False, True)), threads=1 << 20)
    return Program("stencil", blocks, (begin,), (Repeat(sweeps, (sweep, Swap(0, 1))),))


def test_every_sweep_over_a_little_more_than_fits_faults_on_all_pages() -> None:
    """rayanw36/SpecAsync-UVM: a stencil of 18.43 GB, 1.08 times the memory, without the driver's tree: with the faults
    a page of its run in memory, 2.60, its faults give 4.57 million pages a sweep.
    """
    device = load_platform("h200-pcie").device
    faulted = {}
    for sweeps in (1, 11):
        settings = CountingSettings(16, Kind(4096, (580, 95, 5)), capacity=int(2 * GRID / 1.08))
        counted = CountedReplay(stencil(sweeps), STRATEGIES["managed"], device, settings)
        counted.run()
        faulted[sweeps] = counted.total("gpu_fault").to_gpu
        assert counted.managed.held == 0
    assert (faulted[11] - faulted[1]) / 10 == pytest.approx(4.57e6, rel=0.03)


def predicted(platform: Platform, left: int | None, sweeps: int = 8) -> Prediction:
    program = stencil(sweeps, 256 << 20)
    return predict(program, STRATEGIES["managed"], platform, PredictionSettings(left=left))


def test_less_memory_than_data_takes_evictions_and_never_holds_more() -> None:
    platform = load_platform("h200-pcie")
    enough, crowded = predicted(platform, None), predicted(platform, 256 << 20)
    assert not any(term.what == EVICTED for term in enough.terms)
    assert sum(term.bytes for term in crowded.terms if term.what == EVICTED) > 8 * (256 << 20)
    assert crowded.total.value > 2 * enough.total.value
    assert crowded.counters["peak_device_bytes"] <= 256 << 20
    assert crowded.counters["um_d2h_eviction_bytes"] == sum(t.bytes for t in crowded.terms if t.what == EVICTED)


def test_rounds_that_recur_in_pairs_are_counted_as_if_each_was_replayed() -> None:
    device = load_platform("h200-pcie").device
    settings = CountingSettings(16, Kind(4096, (580, 95, 5)), capacity=192 << 20)
    folded = CountedReplay(stencil(9, 128 << 20), STRATEGIES["managed"], device, settings)
    body = stencil(1, 128 << 20).compute[0]
    assert isinstance(body, Repeat)
    program = stencil(1, 128 << 20)
    unfolded = Program("stencil", program.blocks, program.initialise, body.body * 9)
    every = CountedReplay(unfolded, STRATEGIES["managed"], device, settings)
    folded.run()
    every.run()
    assert folded.counters() == every.counters()


@pytest.mark.parametrize(
    ("release", "evicts_again"), [("550.54.15", False), ("550.40.07", True)], ids=["mapped", "not mapped"]
)
def test_pages_that_left_stay_mapped_where_counters_may_move_them(release: str, evicts_again: bool) -> None:
    """Grace Hopper, Sec. 7: with too little memory the GPU uses pages that left it across the link, and none moves."""
    platform = load_platform("gh200").changed({"driver.release": release})
    few, many = (predicted(platform, 256 << 20, sweeps) for sweeps in (4, 12))
    evicted, across = (
        [sum(t.bytes for t in p.terms if what in t.what) for p in (few, many)] for what in (EVICTED, "across the link")
    )
    assert (evicted[1] > evicted[0]) == evicts_again
    assert (across[1] > across[0]) != evicts_again
