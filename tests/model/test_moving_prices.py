"""What pages that move cost beyond the prices of one pass: whole blocks, and reads of a byte of each page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from firsttouch.apps import all_apps
from firsttouch.harness.app import solve
from firsttouch.model.costs import assumptions
from firsttouch.model.estimate import estimate
from firsttouch.model.platform import load_platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.prices import WHOLE_BLOCKS
from firsttouch.model.terms import Term
from firsttouch.program.dry_run import program_of
from firsttouch.program.patterns import program_for, settings_for
from firsttouch.program.program import Access, Block, Launch, Program
from firsttouch.program.strategies import STRATEGIES

GIB = 1 << 30


@cache
def prices() -> PlatformPrices:
    return PlatformPrices(load_platform("h200-pcie"))


def terms(strategy: str) -> dict[str, Term]:
    """Of a program whose kernel makes the data that the CPU reads at the end."""
    program = program_for("generate", settings=settings_for("generate", GIB, {}))
    return {term.what: term for term in estimate(program, STRATEGIES[strategy], prices())}


def test_new_pages_that_prefer_the_gpu_come_a_block_a_fault() -> None:
    advised, plain = (terms(name)["first touch of new pages by the GPU"] for name in ("managed+advise", "managed"))
    assert advised.bytes == plain.bytes == GIB
    assert WHOLE_BLOCKS in assumptions(advised.grounds)
    assert WHOLE_BLOCKS not in assumptions(plain.grounds)
    a_fault = prices().platform.curve("gpu_fault.update.per-2MiB.none.managed").of(2 << 20).value
    assert advised.ms == a_fault * 512 * 1e-6 < plain.ms / 3


def test_a_cpu_that_reads_a_byte_of_each_page_has_no_pass_of_its_own_to_subtract() -> None:
    (term,) = (term for term in terms("managed").values() if term.phase == "readback")
    assert term.ms == prices().cpu_fault("managed", each_page=True).of(GIB).value * 1e-6
    assert term.ms > prices().cpu_fault("managed").of(GIB).value * 1e-6


def faults_of_one_kernel(sizes: Sequence[int]) -> float:
    """The ms of a kernel's faults on buffers that the CPU wrote."""
    blocks = tuple(Block(f"b{i}", size, "inout", "both", starts_on="cpu") for i, size in enumerate(sizes))
    every = tuple(Access(i, 0, size, True, True) for i, size in enumerate(sizes))
    program = Program("one kernel", blocks, (Launch("cpu", every),), (Launch("gpu", every),))
    terms = estimate(program, STRATEGIES["managed"], prices())
    return sum(term.ms for term in terms if term.what == "faults of the GPU on pages that are on the CPU")


def test_buffers_that_a_kernel_goes_through_side_by_side_share_batches_of_faults() -> None:
    alone, batches = faults_of_one_kernel([GIB]), prices()["gpu_batches", "managed"].of(GIB).value * 1e-6
    assert faults_of_one_kernel([GIB // 2, GIB // 2]) == pytest.approx(alone - batches / 2)
    assert faults_of_one_kernel([GIB // 4] * 4) == pytest.approx(alone - batches * 3 / 4)
    assert faults_of_one_kernel([GIB, 4 << 20]) > alone


@pytest.mark.parametrize(("nbytes", "blocks"), [(64 << 20, 32), (GIB, 128)])
def test_faults_on_many_blocks_at_once_share_batches(nbytes: int, blocks: int) -> None:
    """A batch has 256 faults, and two of each block."""
    every = (Access(0, 0, nbytes, True, True),)
    times = {}
    for strided in (False, True):
        block = Block("matrix", nbytes, "inout", "both", starts_on="cpu", strided=strided)
        program = Program("one kernel", (block,), (Launch("cpu", every),), (Launch("gpu", every),))
        found = estimate(program, STRATEGIES["managed"], prices())
        times[strided] = sum(t.ms for t in found if t.what == "faults of the GPU on pages that are on the CPU")
    batches = prices()["gpu_batches", "managed"].of(nbytes).value * 1e-6
    assert times[True] == pytest.approx(times[False] - batches * (1 - 1 / blocks))


def test_an_application_says_through_which_buffers_its_kernels_go_by_columns() -> None:
    lud = all_apps()["lud"]
    assert [b.name for b in program_of(lud, solve(lud, 64 << 20)).blocks if b.strided] == ["a"]


def test_a_buffer_that_a_kernel_has_alone_takes_no_batches_of_faults() -> None:
    """It is device memory of its own, whose pages never fault."""
    blocks = (Block("data", GIB, "inout", "both", starts_on="cpu"), Block("own", GIB, "scratch", "gpu"))
    alone = (Access(0, 0, GIB, True, True),)
    beside = (*alone, Access(1, 0, GIB, True, True))
    times = []
    for accesses in (alone, beside):
        program = Program("one kernel", blocks, (Launch("cpu", alone),), (Launch("gpu", accesses),))
        found = estimate(program, STRATEGIES["managed"], prices())
        times.append(sum(term.ms for term in found if term.what == "faults of the GPU on pages that are on the CPU"))
    assert times[0] == times[1] > 0


@pytest.mark.parametrize(("strategy", "on_gpu", "on_cpu"), [("managed", GIB, 0), ("managed+both", GIB, GIB)])
def test_pages_are_freed_where_they_are(strategy: str, on_gpu: int, on_cpu: int) -> None:
    """Those of an input that kernels read are then on the GPU, or on both sides if they are duplicated."""
    blocks = (Block("data", GIB, "input", "both", starts_on="cpu"),)
    write, read = Access(0, 0, GIB, False, True), Access(0, 0, GIB, True, False)
    program = Program("reads", blocks, (Launch("cpu", (write,)),), (Launch("gpu", (read,)),))
    freed = {t.what: t.bytes for t in estimate(program, STRATEGIES[strategy], prices()) if t.phase == "free"}
    assert freed.get("free managed memory on the GPU", 0) == on_gpu
    assert freed.get("free managed memory on the CPU", 0) == on_cpu
