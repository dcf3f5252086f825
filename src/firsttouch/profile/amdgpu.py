"""The memory of AMD GPUs by the counters of their kernel driver, without a library.

All sizes are bytes. Sources: the kernel's "AMDGPU driver information" (mem_info_vram_used, mem_info_gtt_used) and "DRM
client usage stats" (the fdinfo of each process).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence

from firsttouch.machine import amd, usage
from firsttouch.machine.tree import Facts, Tree, parse_int
from firsttouch.profile.schema import GpuMemory, ProfiledGpu

_DEVICES = "sys/bus/pci/devices"
_ENOUGH = 32
"""The text of a counter has at most this many bytes."""


class AmdGpu:
    """A GPU whose counters are open. An APU's driver also allocates in gtt, memory of the host, so both are its used.

    Raises:
        OSError: a counter cannot be opened.
    """

    def __init__(self, tree: Tree, name: str, pci: str, facts: Facts) -> None:
        folder = f"{_DEVICES}/{pci}"
        shared = bool(facts.get("in_socket"))
        self.regions: Sequence[str] = ("vram", "gtt") if shared else ("vram",)
        self.pci = pci
        self._files: list[int] = []
        with contextlib.ExitStack() as opened:
            for region in self.regions:
                file = os.open(tree.path(f"{folder}/mem_info_{region}_used"), os.O_RDONLY | os.O_CLOEXEC)
                opened.callback(os.close, file)
                self._files.append(file)
            self._opened = opened.pop_all()
        node = tree.integer(f"{folder}/numa_node") if shared else None
        self.gpu = ProfiledGpu(
            name=name,
            model=tree.text(f"{folder}/product_name") or str(facts.get("arch", "")),
            uuid=tree.text(f"{folder}/unique_id") or "",
            pci=pci,
            total=None if shared else tree.integer(f"{folder}/mem_info_vram_total"),
            before=GpuMemory(used=self.used()),
            source=f"{' and '.join(f'mem_info_{region}_used' for region in self.regions)} of the amdgpu driver",
            node=node if node is not None and node >= 0 else None,
            shares_host_memory=shared,
        )

    def used(self) -> int | None:
        """Bytes in use by all programs; None if a counter cannot be read."""
        total = 0
        for file in self._files:
            try:
                value = parse_int(os.pread(file, _ENOUGH, 0).decode(errors="replace").strip())
            except OSError:
                return None
            if value is None:
                return None
            total += value
        return total

    def close(self) -> None:
        self._opened.close()


def amd_gpus(tree: Tree, first: int = 0) -> list[AmdGpu]:
    """The GPUs whose amdgpu driver counts their memory, by PCI address, as 'gpu:FIRST' and so on.

    The partitions of a GPU share its counters, so they are one GPU here.
    """
    facts: Mapping[str, Facts] = {str(gpu.get("pci_bus", "")): gpu for gpu in amd.kfd_gpus(tree)}
    gpus: list[AmdGpu] = []
    for pci in tree.names(_DEVICES):
        if tree.exists(f"{_DEVICES}/{pci}/mem_info_vram_used"):
            with contextlib.suppress(OSError):
                gpus.append(AmdGpu(tree, f"gpu:{first + len(gpus)}", pci, facts.get(pci.lower(), {})))
    return gpus


def memory_of(tree: Tree, pid: int, gpus: Sequence[AmdGpu]) -> dict[str, int] | None:
    """Bytes that a process has on each GPU, by its name, without GPUs of which its DRM clients state nothing.

    None if its descriptors cannot be read: it has ended, or is another user's.
    """
    memory = usage.drm_memory(tree, str(pid))
    if memory is None:
        return None
    used = {}
    for gpu in gpus:
        stated: Mapping[str, int] = memory.get(gpu.pci.lower(), {})
        if regions := [stated[region] for region in gpu.regions if region in stated]:
            used[gpu.gpu.name] = sum(regions)
    return used
