"""NVIDIA's driver: faults of a GPU on memory of the host's page tables, by the address translation service (ATS).

Source: kernel-open/nvidia-uvm/uvm_ats_faults.c of NVIDIA/open-gpu-kernel-modules, releases 515 to 595.45.04. A page is
one of the host's. Sets of pages are whole numbers, page i being bit i.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from firsttouch.model.rules.releases import Release, is_since
from firsttouch.model.rules.uvm import density_prefetch

WINDOW_BYTES: Final = 2 << 20
"""UVM_VA_BLOCK_SIZE: a service looks at the aligned stretch of memory around the fault, and no further."""
TREE_SINCE: Final[tuple[Release, ...]] = ((535, 104, 5),)
"""The first release in which faults take pages along (uvm_perf_prefetch_compute_ats); before, each brought its own
page (uvm_exp_perf_prefetch_ats_order_replayable is 0).
"""

HomeNode = Literal["cpu", "gpu"]


class FaultService(NamedTuple):
    """What one service of faults does.

    made: the pages that are made, each cleared by itself. mapped: those that the GPU can use then. home: where new
    pages are.
    """

    made: int
    mapped: int
    home: HomeNode


def service(
    faulted: int, present: int, pages: int, release: Release, *, integrated: bool = False, here: int = 0
) -> FaultService:
    """One service of the faults on a window.

    Args:
        faulted, present: the pages that faulted, and those that are in memory, wherever; here: those of them that are
            in the GPU's.
        pages: of the window, within its mapping of memory.

    Only what is absent is made, on the GPU's node; what is present stays where it is (skip_mapped).

    Source: service_ats_requests, ats_batch_select_residency, ats_compute_prefetch.
    """
    taken = density_prefetch(here, faulted, pages, grow=False) if is_since(release, TREE_SINCE) else 0
    wanted = faulted | taken
    return FaultService(wanted & ~present, wanted, "cpu" if integrated else "gpu")


def services(first: int, end: int, host_page: int, release: Release, touches: Iterable[int] | None = None) -> int:
    """The services of a window of absent pages [first, end) until all are made.

    Args:
        first, end: pages of the window that the mapping of memory has.
        host_page: bytes of a page.
        touches: the pages in the order in which they are touched; in order if that is not stated.

    One page that is absent faults at a time. Source: uvm_ats_service_faults.
    """
    pages = WINDOW_BYTES // host_page
    assert 0 <= first <= end <= pages
    there, count, missing = 0, 0, ((1 << end) - 1) & ~((1 << first) - 1)
    for page in range(first, end) if touches is None else touches:
        if not there >> page & 1:
            done = service((1 << page) >> first, there >> first, end - first, release, here=there >> first)
            there |= (done.mapped << first) & missing
            count += 1
    return count
