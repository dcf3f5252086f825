"""Every allocator on one page: what it is, and what its vendor promises.

Whether one is available on a device, and who reaches it there, the device itself states (schema.AllocatorInfo).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Meaning:
    """call: how the memory is obtained, per API; moves: whether pages change place, by whom and at what granularity;
    cached, uncached: the agents that keep lines of it in a cache and those that do not, as the vendor states it;
    migrates: whether its pages move to an agent that touches them; halves: whether both agents may use different parts
    at once, where AllocatorInfo.concurrent does not say it. '' where the vendor states nothing.
    """

    call: str
    moves: str
    cached: str = ""
    uncached: str = ""
    migrates: str = ""
    halves: str = ""


MEANINGS: dict[str, Meaning] = {
    "malloc": Meaning(
        "malloc; page size by the kernel's own policy", "stays in host memory; NUMA balancing may move pages", "cpu"
    ),
    "mmap": Meaning(
        "mmap, private and anonymous, MADV_NOHUGEPAGE: base pages for certain",
        "stays in host memory; NUMA balancing may move pages",
        "cpu",
    ),
    "malloc-thp": Meaning(
        "malloc with MADV_HUGEPAGE, aligned to 2 MiB: transparent huge pages where the kernel has them",
        "stays in host memory; NUMA balancing may move pages",
        "cpu",
    ),
    "device": Meaning("cudaMalloc (cuMemAlloc), hipMalloc, clCreateBuffer", "never", "gpu", migrates="no"),
    "vmm": Meaning(
        "cuMemCreate mapped with cuMemMap; hipMemCreate mapped with hipMemMap", "never", "gpu", migrates="no"
    ),
    "pinned": Meaning(
        "cudaHostAlloc (cuMemHostAlloc), hipHostMalloc, CL_MEM_ALLOC_HOST_PTR",
        "never: the GPU reads host memory over the link; an OpenCL driver may copy at map and unmap",
        "cpu",
        migrates="no",
    ),
    "pinned-wc": Meaning(
        "cudaHostAlloc, write-combined: CPU reads are not cached", "never", uncached="cpu", migrates="no"
    ),
    "registered": Meaning(
        "malloc, then cudaHostRegister (cuMemHostRegister), hipHostRegister or CL_MEM_USE_HOST_PTR",
        "never: the GPU reads host memory over the link; an OpenCL driver may copy at map and unmap",
        "cpu",
        migrates="no",
    ),
    "managed": Meaning(
        "cudaMallocManaged (cuMemAllocManaged), hipMallocManaged",
        "pages follow the agent that touches them, 4 KiB to 2 MiB at a time (CUDA C++ Programming Guide); an AMD GPU "
        "without XNACK uses them in host memory instead (HIP documentation, Unified memory management)",
        "cpu and gpu",
        migrates="yes",
    ),
    "managed-static": Meaning("a __managed__ array of a module", "as managed", "cpu and gpu", migrates="yes"),
    "svm-coarse": Meaning(
        "clSVMAlloc: one address for both, shared between map and unmap",
        "the driver decides at map, unmap and launch (OpenCL 2.0, 5.6)",
    ),
    "svm-fine": Meaning(
        "clSVMAlloc with CL_MEM_SVM_FINE_GRAIN_BUFFER: both may use it, coherent at synchronisation points",
        "the driver decides (OpenCL 2.0, 5.6)",
        halves="yes",
    ),
    "svm-atomic": Meaning(
        "clSVMAlloc with CL_MEM_SVM_FINE_GRAIN_BUFFER and CL_MEM_SVM_ATOMICS: both use it at once, coherent by atomics",
        "the driver decides (OpenCL 2.0, 5.6)",
    ),
    "pinned-noncoherent": Meaning(
        "hipHostMalloc with hipHostMallocNonCoherent: coherent at synchronisation points only",
        "never: the GPU reads host memory over the link",
        "cpu and gpu",
        migrates="no",
    ),
    "fine-grained": Meaning(
        "hipExtMallocWithFlags with hipDeviceMallocFinegrained: device memory, coherent while a kernel runs",
        "never",
        migrates="no",
    ),
    "coarse-grained": Meaning(
        "hipMallocManaged, then hipMemAdvise with hipMemAdviseSetCoarseGrain: coherent between kernels only",
        "as managed",
        "cpu and gpu",
        migrates="yes",
    ),
}
