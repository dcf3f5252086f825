"""AMD's driver: what a fault of a GPU on memory of the system's allocator does, and how large translations become.

Source: drivers/gpu/drm/amd of Linux, 5.14 to 6.15. A page is a page of 4 KiB.
"""

from __future__ import annotations

from typing import Final, NamedTuple

PAGE_BYTES: Final = 4 << 10
WINDOW_ORDER: Final = 9
"""The default granularity (kfd_svm.c, svm_range_set_default_attributes): a fault maps up to 2 to this power pages."""
IGNORED_NS: Final = 2_000_000
"""AMDGPU_SVM_RANGE_RETRY_FAULT_PENDING (kfd_svm.c): further faults on a range that was mapped so recently are stale."""
LARGEST_ORDER: Final = 31
"""The largest fragment (amdgpu_vm_pt.c, amdgpu_vm_pte_fragment, since Vega 10)."""


class FaultWindow(NamedTuple):
    """What one fault maps: pages [first, end), of which so many are new to the host too."""

    first: int
    end: int
    new: int

    @property
    def present(self) -> int:
        return self.end - self.first - self.new


def fault_window(page: int, first: int, end: int, order: int = WINDOW_ORDER) -> tuple[int, int]:
    """The pages that a fault on a page maps: the aligned window around it, within the mapping of memory [first, end).

    Source: kfd_svm.c, svm_range_get_range_boundaries and svm_range_restore_pages.
    """
    size = 1 << order
    start = page // size * size
    return max(first, start), min(end, start + size)


def fault_windows(first: int, end: int, present: int, order: int = WINDOW_ORDER) -> int:
    """The faults that are serviced, one at a time under the process's lock, until pages [first, end) are mapped of
    which windows with so many pages were mapped already.

    Source: kfd_svm.c, svm_range_restore_pages (svms->lock).
    """
    size = 1 << order
    return (-(-end // size) - first // size) - present // size


def migrates(*, faults_resume: bool, apu: bool) -> bool:
    """Whether a fault moves pages to the GPU's memory. Memory is mapped where it is on an APU.

    Args:
        faults_resume: XNACK is on. Without, a fault ends the program.

    Source: kfd_svm.c, svm_range_best_restore_location (apu_prefer_gtt, before 6.10 gmc.is_app_apu).
    """
    return faults_resume and not apu


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


def fragments(page: int, count: int) -> int:
    """The translations of pages that follow each other in both memories."""
    translations = 0
    while count:
        size = 1 << fragment_order(page, count)
        page, count, translations = page + size, count - size, translations + 1
    return translations


def translation_misses(nbytes: int, order: int, entries: int) -> int:
    """The misses of a sweep over memory whose translations have this order, in a buffer of so many least recently used
    entries: none in later sweeps if all fit, otherwise every one, since the oldest leaves before it is used again.
    """
    translations = -(-nbytes // (PAGE_BYTES << order))
    return 0 if translations <= entries else translations
