"""AMD's driver: what a fault of a GPU on memory of the system's allocator does.

Source: drivers/gpu/drm/amd of Linux, 5.14 to 6.15. A page is a page of 4 KiB.
"""

from __future__ import annotations

from typing import Final

PAGE_BYTES: Final = 4 << 10
WINDOW_ORDER: Final = 9
"""The default granularity (kfd_svm.c, svm_range_set_default_attributes): a fault maps up to 2 to this power pages, the
aligned window around its page (svm_range_get_range_boundaries). A process's faults are serviced one at a time.
"""
