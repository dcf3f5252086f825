"""The table of allocators: how each obtains memory, and what its vendor specifies.

Each device states which allocators it has and which agents can access their memory (schema.AllocatorInfo).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

PageLocation: TypeAlias = Literal["host", "device", "migrating"]
AllocatorRole: TypeAlias = Literal["host", "device", "page-locked", "shared"]
Variant: TypeAlias = Literal["", "pages", "call", "caching", "coherence"]
RequestedPages: TypeAlias = Literal["", "policy", "base", "huge"]


@dataclass(frozen=True)
class AllocatorSemantics:
    """What is known of an allocator without asking a driver. A field is '' if the vendor does not specify it.

    call: the calls that obtain the memory, by API.
    moves: whether pages move, who moves them, and at what granularity.
    memory: the memory in which its pages are, `migrating` if the driver decides.
    role: the purpose for which programs use it: plain host memory, device memory, page-locked host memory that the
        device can access, or memory that both use by one address.
    variant: how it differs from the usual allocator of its role (page size, the call that obtains it, caching by the
        CPU, or when stores become visible), '' for that allocator.
    pages: the page size that is requested from the kernel, "policy" if the caller chooses it, '' if none is requested.
    cached, uncached: the agents that cache its lines, and those that do not.
    migrates: whether its pages move to an agent that touches them.
    concurrent_parts: whether both agents may use different parts at once, if AllocatorInfo.concurrent does not say so.
    """

    call: str
    moves: str
    memory: PageLocation
    role: AllocatorRole
    variant: Variant = ""
    pages: RequestedPages = ""
    cached: str = ""
    uncached: str = ""
    migrates: str = ""
    concurrent_parts: str = ""


SEMANTICS: dict[str, AllocatorSemantics] = {
    "malloc": AllocatorSemantics(
        "malloc; the kernel's policy determines the page size",
        "stays in host memory; NUMA balancing may move pages",
        memory="host",
        role="host",
        pages="policy",
        cached="cpu",
    ),
    "mmap": AllocatorSemantics(
        "mmap, private and anonymous, with MADV_NOHUGEPAGE: always base pages",
        "stays in host memory; NUMA balancing may move pages",
        memory="host",
        role="host",
        variant="pages",
        pages="base",
        cached="cpu",
    ),
    "malloc-thp": AllocatorSemantics(
        "malloc with MADV_HUGEPAGE, aligned to a huge page: transparent huge pages if the kernel supports them",
        "stays in host memory; NUMA balancing may move pages",
        memory="host",
        role="host",
        variant="pages",
        pages="huge",
        cached="cpu",
    ),
    "device": AllocatorSemantics(
        "cudaMalloc (cuMemAlloc), hipMalloc, clCreateBuffer",
        "never",
        memory="device",
        role="device",
        cached="gpu",
        migrates="no",
    ),
    "vmm": AllocatorSemantics(
        "cuMemCreate mapped with cuMemMap; hipMemCreate mapped with hipMemMap",
        "never",
        memory="device",
        role="device",
        variant="call",
        cached="gpu",
        migrates="no",
    ),
    "pinned": AllocatorSemantics(
        "cudaHostAlloc (cuMemHostAlloc), hipHostMalloc, CL_MEM_ALLOC_HOST_PTR",
        "never: the GPU reads host memory over the link; an OpenCL driver may copy at map and unmap",
        memory="host",
        role="page-locked",
        cached="cpu",
        migrates="no",
    ),
    "pinned-wc": AllocatorSemantics(
        "cudaHostAlloc, write-combined: CPU reads are not cached",
        "never",
        memory="host",
        role="page-locked",
        variant="caching",
        uncached="cpu",
        migrates="no",
    ),
    "registered": AllocatorSemantics(
        "malloc, then cudaHostRegister (cuMemHostRegister), hipHostRegister or CL_MEM_USE_HOST_PTR",
        "never: the GPU reads host memory over the link; an OpenCL driver may copy at map and unmap",
        memory="host",
        role="page-locked",
        variant="call",
        cached="cpu",
        migrates="no",
    ),
    "managed": AllocatorSemantics(
        "cudaMallocManaged (cuMemAllocManaged), hipMallocManaged",
        "pages follow the agent that touches them, 4 KiB to 2 MiB at a time (CUDA C++ Programming Guide); an "
        "AMD GPU without XNACK uses them in host memory instead (HIP documentation, Unified memory "
        "management)",
        memory="migrating",
        role="shared",
        cached="cpu and gpu",
        migrates="yes",
    ),
    "managed-static": AllocatorSemantics(
        "a __managed__ array of a module",
        "as managed",
        memory="migrating",
        role="shared",
        variant="call",
        cached="cpu and gpu",
        migrates="yes",
    ),
    "svm-coarse": AllocatorSemantics(
        "clSVMAlloc: one address for both; the CPU uses it between map and unmap",
        "the driver decides at map, unmap and launch (OpenCL 2.0, 5.6)",
        memory="migrating",
        role="shared",
        variant="coherence",
    ),
    "svm-fine": AllocatorSemantics(
        "clSVMAlloc with CL_MEM_SVM_FINE_GRAIN_BUFFER: both may use it, coherent at synchronisation points",
        "the driver decides (OpenCL 2.0, 5.6)",
        memory="migrating",
        role="shared",
        concurrent_parts="yes",
    ),
    "svm-atomic": AllocatorSemantics(
        "clSVMAlloc with CL_MEM_SVM_FINE_GRAIN_BUFFER and CL_MEM_SVM_ATOMICS: both use it at once, coherent by atomics",
        "the driver decides (OpenCL 2.0, 5.6)",
        memory="migrating",
        role="shared",
        variant="coherence",
    ),
    "pinned-noncoherent": AllocatorSemantics(
        "hipHostMalloc with hipHostMallocNonCoherent: coherent at synchronisation points only",
        "never: the GPU reads host memory over the link",
        memory="host",
        role="page-locked",
        variant="coherence",
        cached="cpu and gpu",
        migrates="no",
    ),
    "fine-grained": AllocatorSemantics(
        "hipExtMallocWithFlags with hipDeviceMallocFinegrained: device memory, coherent while a kernel runs",
        "never",
        memory="device",
        role="device",
        variant="coherence",
        migrates="no",
    ),
    "coarse-grained": AllocatorSemantics(
        "hipMallocManaged, then hipMemAdvise with hipMemAdviseSetCoarseGrain: coherent between kernels only",
        "as managed",
        memory="migrating",
        role="shared",
        variant="coherence",
        cached="cpu and gpu",
        migrates="yes",
    ),
}
