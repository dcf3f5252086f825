"""What pages that move cost beyond the prices of one pass: whole blocks, and reads of a byte of each page."""

from __future__ import annotations

from functools import cache

from firsttouch.model.costs import assumptions
from firsttouch.model.estimate import estimate
from firsttouch.model.named import WHOLE_BLOCKS
from firsttouch.model.platform import load_platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.terms import Term
from firsttouch.workload.patterns import program_for, settings_for
from firsttouch.workspace.strategies import STRATEGIES

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
