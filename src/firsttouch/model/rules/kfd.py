"""AMD's driver: what a fault of a GPU on memory of the system's allocator does, and how large translations become.

Source: drivers/gpu/drm/amd of Linux, 5.14 to 6.15. A page is a page of 4 KiB.
"""

from __future__ import annotations

from typing import Final

PAGE_BYTES: Final = 4 << 10
WINDOW_ORDER: Final = 9
"""The default granularity (kfd_svm.c, svm_range_set_default_attributes): a fault maps up to 2 to this power pages."""
LARGEST_ORDER: Final = 31
"""The largest fragment (amdgpu_vm_pt.c, amdgpu_vm_pte_fragment, since Vega 10)."""


def fault_window(page: int, first: int, end: int, order: int = WINDOW_ORDER) -> tuple[int, int]:
    """The pages that a fault on a page maps, or moves to a GPU with memory of its own: the aligned window around it,
    within the mapping of memory [first, end). The faults of a process are serviced one at a time (svms->lock).

    Source: kfd_svm.c, svm_range_get_range_boundaries and svm_range_restore_pages.
    """
    size = 1 << order
    start = page // size * size
    return max(first, start), min(end, start + size)


def fragment_order(page: int, count: int, *, contiguous: bool = True) -> int:
    """The order of the fragment that begins at a page, of so many that follow each other: 2 to its power pages have one
    translation.

    Args:
        contiguous: whether the pages follow each other in physical memory too.

    Source: amdgpu_vm_pt.c, amdgpu_vm_pte_fragment.
    """
    if not contiguous:
        return 0
    alignment = (page & -page).bit_length() - 1 if page else LARGEST_ORDER
    return min(alignment, count.bit_length() - 1, LARGEST_ORDER)
