"""Whether a driver moves plain memory by itself: NVIDIA's, by the GPU's counters of accesses to memory of the host."""

from __future__ import annotations

from collections.abc import Mapping

from firsttouch.records.schema import DeviceInfo, Scalar

PARAMETERS = ("uvm_perf_access_counter_migration_enable", "uvm_perf_access_counter_mimc_migration_enable")
"""The parameter of nvidia_uvm that switches it: 0 off, 1 on, below 0 the driver's choice. Before version 565 it has the
second name. Source: kernel-open/nvidia-uvm/uvm_gpu_access_counters.c of NVIDIA's open kernel modules.
"""


def why_plain_memory_moves(facts: Mapping[str, Mapping[str, Scalar]], device: DeviceInfo) -> str:
    """The parameter for which plain memory that the device uses may move without being asked, such as 'NAME is -1'; ''
    if it does not. facts: of the machine, by topic. The driver chooses to move it where the device uses the host's page
    tables.
    """
    parameters = facts.get("nvidia_uvm", {})
    stated = {name: value for name in PARAMETERS if isinstance(value := parameters.get(name), int)}
    by_host_tables = bool(device.facts.get("pageableMemoryAccessUsesHostPageTables"))
    moving = (f"{name} is {value}" for name, value in stated.items() if value > 0 or (value < 0 and by_host_tables))
    return next(moving, "")
