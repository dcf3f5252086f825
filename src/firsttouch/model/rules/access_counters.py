"""NVIDIA's driver: when a GPU's counters of remote accesses move pages to it.

Source: kernel-open/nvidia-uvm/uvm_gpu_access_counters.c of NVIDIA/open-gpu-kernel-modules, releases 515 to 595.45.04.
The hardware counts a GPU's accesses to ranges of remote memory, and notifies the driver when a count reaches a
threshold; the driver moves the page that the notification names, and clears the count.
"""

from __future__ import annotations

from typing import Final, Literal

from firsttouch.model.rules.releases import Release, is_since
from firsttouch.model.rules.uvm import density_prefetch, filled

RANGE_BYTES: Final = 2 << 20
"""UVM_PERF_ACCESS_COUNTER_GRANULARITY, of 2 MiB: the accesses to each such range are counted."""
NAMED_BYTES: Final = 64 << 10
"""UVM_PAGE_SIZE_64K: a notification names as many bytes of its range, those that were used last."""
THRESHOLD: Final = 256
"""UVM_PERF_ACCESS_COUNTER_THRESHOLD_DEFAULT: accesses for a notification."""
UNSERVED_PAGE: Final = 4 << 10
"""UVM_PAGE_SIZE_4K: with host pages of this size notifications are only cleared (TODO Bug 4299018)."""
UNSERVED_SINCE: Final[tuple[Release, ...]] = ((535, 129, 3), (550, 40, 7))
SYSTEM_SINCE: Final[tuple[Release, ...]] = ((535, 171, 4), (550, 40, 7))
"""The first releases that service notifications of memory of the system's allocator
(uvm_ats_service_access_counters)."""
ARM_SINCE: Final[tuple[Release, ...]] = ((535, 171, 4), (550, 40, 53))
"""The first releases whose default has counters move pages with the address translation of Arm (UVM_ATS_SUPPORTED);
those between UNSERVED_SINCE and these have that of IBM alone (UVM_ATS_IBM_SUPPORTED)."""

Translation = Literal["none", "arm", "ibm"]
"""How the GPU uses the host's page tables: not at all, or by the address translation service of Arm (SVA) or IBM."""
MovedMemory = Literal["system", "managed"]


def counters_enabled(release: Release, translation: Translation) -> bool:
    """Whether a release has access counters move pages by default, on a GPU that has counters.

    Source: is_migration_enabled.
    """
    if translation == "arm" and is_since(release, UNSERVED_SINCE):
        return is_since(release, ARM_SINCE)
    return translation != "none"


def counters_migrate(release: Release, translation: Translation, host_page: int, memory: MovedMemory) -> bool:
    """Whether counters that are enabled do move pages of this memory.

    Args:
        host_page: bytes of the host's base pages.

    Source: service_notifications and what it calls.
    """
    if not counters_enabled(release, translation):
        return False
    if host_page == UNSERVED_PAGE and is_since(release, UNSERVED_SINCE):
        return False
    return memory == "managed" or is_since(release, SYSTEM_SINCE)


def notifications(accesses: int) -> int:
    """The notifications of so many remote accesses to a range, if each is serviced before the next comes."""
    return accesses // THRESHOLD


def present_after(present: int, pages: int) -> int:
    """The pages of a range that the GPU has after one more notification, of so many of the host's that it is used in
    order, if it has `present` of the first ones.

    The notification names the next one, for accesses to the GPU's own memory are not counted. The density tree takes
    others along, in all releases that move memory of the system's allocator. The count begins anew after the service,
    when a kernel in order has left the range: each pass brings one notification.

    Source: service_virt_notification_ats; uvm_ats_faults.c, uvm_ats_service_access_counters (550.54.15).
    """
    if present >= pages:
        return pages
    there, named = filled(present), 1 << present
    return (there | named | density_prefetch(there, named, pages, grow=False)).bit_count()
