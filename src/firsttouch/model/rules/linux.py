"""Linux: the page faults of a CPU's first touch of anonymous memory.

Source: mm/memory.c and mm/huge_memory.c, Linux 5.10 to 6.15.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

HugePages = Literal["never", "madvise", "always"]
"""/sys/kernel/mm/transparent_hugepage/enabled."""


class TouchedPages(NamedTuple):
    """The faults of a first touch of all of a range, and the bytes that the kernel clears."""

    base: int
    huge: int
    zeroed_bytes: int

    @property
    def faults(self) -> int:
        return self.base + self.huge


def gets_huge_pages(setting: HugePages, *, advised: bool) -> bool:
    """Whether memory may get huge pages. advised: by MADV_HUGEPAGE.

    Source: include/linux/huge_mm.h, hugepage_global_enabled and hugepage_global_always.
    """
    return setting == "always" or (setting == "madvise" and advised)


def first_touch(start: int, end: int, base_page: int, huge: int = 0) -> TouchedPages:
    """The pages that a first touch of bytes [start, end) of a mapping that ends there makes.

    Args:
        huge: bytes of huge pages, or 0 if the memory gets none. Only whole aligned ones within the mapping are huge.

    Source: mm/memory.c, do_anonymous_page; mm/huge_memory.c, do_huge_pmd_anonymous_page and thp_vma_suitable_order.
    """
    first, last = start // base_page * base_page, -(-end // base_page) * base_page
    if not huge:
        return TouchedPages((last - first) // base_page, 0, last - first)
    inner, outer = -(-first // huge) * huge, last // huge * huge
    whole = max(0, outer - inner) // huge
    return TouchedPages((last - first - whole * huge) // base_page, whole, last - first)
