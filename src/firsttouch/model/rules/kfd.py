"""AMD's driver: what a fault of a GPU on memory of the system's allocator does, and how large translations become.

Source: drivers/gpu/drm/amd of Linux, 5.14 to 6.15. A page is a page of 4 KiB.
"""

from __future__ import annotations

from typing import Final

PAGE_BYTES: Final = 4 << 10
WINDOW_ORDER: Final = 9
"""The default granularity (kfd_svm.c, svm_range_set_default_attributes): a fault maps up to 2 to this power pages, the
aligned window around its page (svm_range_get_range_boundaries). A process's faults are serviced one at a time.
"""
LARGEST_ORDER: Final = 31
"""The largest fragment (amdgpu_vm_pt.c, amdgpu_vm_pte_fragment, since Vega 10)."""


def fragment_order(page: int, count: int) -> int:
    """The order of the fragment that begins at a page, of so many that follow each other in physical memory too: 2 to
    its power pages have one translation.

    Source: amdgpu_vm_pt.c, amdgpu_vm_pte_fragment.
    """
    alignment = (page & -page).bit_length() - 1 if page else LARGEST_ORDER
    return min(alignment, count.bit_length() - 1, LARGEST_ORDER)
