"""NVIDIA's driver: faults of a GPU on memory of the host's page tables, by the address translation service (ATS).

Source: kernel-open/nvidia-uvm/uvm_ats_faults.c of NVIDIA/open-gpu-kernel-modules, releases 515 to 595.45.04. A page is
one of the host's.
"""

from __future__ import annotations

from typing import Final

from firsttouch.model.rules.releases import Release, is_since
from firsttouch.model.rules.uvm import density_prefetch

WINDOW_BYTES: Final = 2 << 20
"""UVM_VA_BLOCK_SIZE: a service looks at the aligned stretch of memory around the fault, and no further."""
TREE_SINCE: Final[tuple[Release, ...]] = ((535, 104, 5),)
"""The first release in which faults take pages along (uvm_perf_prefetch_compute_ats); before, each brought its own
page (uvm_exp_perf_prefetch_ats_order_replayable is 0).
"""


def services(pages: int, release: Release) -> int:
    """The services until so many absent pages of a window are made, on the GPU's node, if they are touched in order.

    One page that is absent faults at a time, and takes others along.

    Source: uvm_ats_service_faults, service_ats_requests, ats_compute_prefetch.
    """
    present = count = 0
    for page in range(pages):
        if not present >> page & 1:
            prefetched = density_prefetch(present, 1 << page, pages, grow=False) if is_since(release, TREE_SINCE) else 0
            present |= 1 << page | prefetched
            count += 1
    return count
