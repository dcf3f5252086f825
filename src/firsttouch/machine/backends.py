"""The table of backends: one row for each kind of device. native/device/device.cpp (backends()) has a matching table.

All Python code that depends on the kind of a device uses this table or the properties that the device reports
(records.schema.DeviceCapabilities, AllocatorInfo).
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from firsttouch.machine import amd, host, numa, nvidia
from firsttouch.machine.cores import unnamed
from firsttouch.machine.kernel_cache import provide_cache
from firsttouch.machine.libraries import candidates
from firsttouch.machine.links import Links
from firsttouch.machine.partitions import Partition
from firsttouch.machine.peers import numa_peers
from firsttouch.machine.tree import Tree, format_ids
from firsttouch.records.predicted import MODEL as MODEL
from firsttouch.records.schema import Peer, Scalar

HOST = "cpu"
"""The kind of the host's processor, and the name of its only device."""
MPI, MPI_STAGED, XCCL = "mpi", "mpi-staged", "xccl"
"""The interfaces between ranks; the last is NCCL or RCCL."""


@dataclass(frozen=True)
class ExtraInfo:
    """Information about a device from sources other than its driver.

    facts: override the driver's facts of the same name; peers: peers that are not devices.
    """

    facts: Mapping[str, Scalar]
    notes: Sequence[str] = ()
    peers: Sequence[Peer] = ()


@dataclass(frozen=True)
class Backend:
    """One kind of device.

    libraries: the vendor libraries that it opens, by their names in machine/libraries.py; numbered: whether its devices
    are named `kind:0`, `kind:1` and so on; switches: the entries of machine/switches.py that its runtime reads when a
    process starts; moves_buffers: whether the driver copies a buffer to the device that uses it, so that devices share
    buffers without access to each other's memory; extra: returns further information about a device, given the driver's
    facts; links: returns the links between its devices, for processes that have loaded its libraries; partitions:
    returns those of its devices that are parts of a GPU; listed: how many the system lists, without its libraries;
    chosen_by: the environment variables that choose among them; prepare: sees to what its driver needs of the system
    before its libraries are opened, and returns what is missing; counters: the profiler that counts what it does, by
    its name in profile/counters/tools.py; messages: the library that carries messages between its devices, '' if there
    is none; between: a note on a machine with several of its devices; native: whether the core has such devices, in a
    table that matches this one. Others are described by files, and what they would do is predicted.
    """

    kind: str
    libraries: Sequence[str] = ()
    numbered: bool = True
    switches: Sequence[str] = ()
    moves_buffers: bool = False
    extra: Callable[[Mapping[str, Scalar]], ExtraInfo] = lambda facts: ExtraInfo({})
    links: Callable[[], Links] = dict
    partitions: Callable[[], Sequence[Partition]] = list
    listed: Callable[[Tree], int] = lambda tree: 0
    chosen_by: Sequence[str] = ()
    prepare: Callable[[], str] = str
    counters: str = ""
    messages: str = ""
    between: str = ""
    native: bool = True

    def device_names(self, count: int) -> list[str]:
        return [f"{self.kind}:{index}" for index in range(count)] if self.numbered else [self.kind][:count]


_HOST_FACTS = ("l1_bytes", "l2_bytes", "l3_bytes", "infinity_cache_bytes", "line_bytes")

HIP_UNTESTED = (
    "The HIP device has not run on AMD hardware yet: its host side was exercised on stand-ins for AMD's libraries, "
    "and its kernels were compiled, not run (docs/hip.md)."
)
_BETWEEN = "access, copies, messages and collective operations"
BETWEEN_NVIDIA = (
    f"Between NVIDIA GPUs, {_BETWEEN}, by NCCL and staged by MPI, have run on two H100s and two H200s connected by "
    "NVLink; not on more GPUs, on several hosts, or by an MPI that takes GPU memory (evidence/coverage.md)."
)
BETWEEN_AMD = (
    f"Between AMD GPUs, {_BETWEEN}, by RCCL and GPU-aware MPI too, have run on stand-ins only so far, not on a machine "
    "with several GPUs (evidence/coverage.md)."
)
WITHOUT_XNACK = (
    "XNACK was not on when the device was examined. Without it (HSA_XNACK=1 requests it), managed memory is "
    "page-locked host memory according to HIP's documentation, and neither advice nor prefetches move pages."
)


def _processor_info(facts: Mapping[str, Scalar]) -> ExtraInfo:
    tree, usable = Tree(), host.usable_cores()
    cpu = host.cpu(tree, usable)
    selected: dict[str, Scalar] = {key: cpu[key] for key in _HOST_FACTS if key in cpu}
    if nodes := numa.acting_nodes(tree, usable):
        selected["nodes_with_processors"] = format_ids(nodes)
    return ExtraInfo(
        {**selected, "title": cpu.get("model") or unnamed(cpu, platform.machine())}, peers=numa_peers(tree)
    )


def _opencl_info(facts: Mapping[str, Scalar]) -> ExtraInfo:
    """The memory-side cache, which OpenCL does not report, of a device that uses the host's memory."""
    size = amd.memory_side_cache(Tree()) if facts.get("shares_host_memory") else None
    return ExtraInfo({} if size is None else {"infinity_cache_bytes": size})


def _opencl_drivers(tree: Tree) -> int:
    """1 if there is any, as only drivers tell how many devices they have."""
    icds = [name for name in tree.names("etc/OpenCL/vendors") if name.endswith(".icd")]
    return 1 if icds or (tree.is_real and candidates("pocl")) else 0


def _kfd_info(facts: Mapping[str, Scalar]) -> ExtraInfo:
    """Cache sizes from AMD's kernel driver, because its runtime does not report them."""
    board = str(facts.get("pci_bus")).lower().rpartition(".")[0]  # the partitions of a GPU are alike
    matching = (gpu for gpu in amd.kfd_gpus(Tree()) if str(gpu.get("pci_bus", "")).rpartition(".")[0] == board)
    cache_sizes = {key: value for key, value in next(matching, {}).items() if key.endswith("_bytes")}
    xnack_notes = [WITHOUT_XNACK] if facts.get("xnack") in ("off", "none") else []
    return ExtraInfo(cache_sizes, [HIP_UNTESTED, *xnack_notes])


BACKENDS: Mapping[str, Backend] = {
    row.kind: row
    for row in (
        Backend(HOST, numbered=False, extra=_processor_info, listed=lambda tree: 1, counters="perf"),
        Backend(
            "opencl",
            libraries=("opencl-icd",),
            moves_buffers=True,
            extra=_opencl_info,
            listed=_opencl_drivers,
            prepare=provide_cache,
        ),
        Backend(
            "cuda",
            libraries=("cuda", "nvrtc", "nvml", "cupti", "cublas", "cusparse", "cufft", "nccl"),
            links=nvidia.links,
            partitions=nvidia.mig_partitions,
            listed=lambda tree: sum(re.fullmatch(r"nvidia\d+", name) is not None for name in tree.names("dev")),
            chosen_by=("CUDA_VISIBLE_DEVICES",),
            counters="ncu",
            messages="nccl",
            between=BETWEEN_NVIDIA,
        ),
        Backend(
            "hip",
            libraries=("hip", "hiprtc", "hipblas", "hipsparse", "hipfft", "rccl"),
            switches=("xnack", "sdma"),
            extra=_kfd_info,
            links=lambda: amd.kfd_links(Tree()),
            partitions=lambda: amd.partitions(Tree()),
            listed=lambda tree: len(amd.kfd_gpus(tree)),
            chosen_by=("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
            counters="rocprofv3",
            messages="rccl",
            between=BETWEEN_AMD,
        ),
        Backend(MODEL, native=False),
    )
}
"""By kind, in the order in which devices are found, listed and measured."""


def kind_of(device: str) -> str:
    """The kind of a device, from its name. A kind whose library failed is listed as a device without a number."""
    return device.partition(":")[0]


def is_modelled(device: str) -> bool:
    """Whether a name is that of a device which a file describes."""
    backend = BACKENDS.get(kind_of(device))
    return backend is not None and not backend.native


NATIVE = tuple(kind for kind, backend in BACKENDS.items() if backend.native)
"""The kinds of devices that this machine may have."""


def listed_devices(tree: Tree, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The names of the devices that the system lists, which no library opened yet: at most those that it will open."""
    names = []
    for backend in BACKENDS.values():
        chosen = [environment[variable].split(",") for variable in backend.chosen_by if variable in environment]
        count = min([backend.listed(tree), *(sum(bool(word.strip()) for word in words) for words in chosen)])
        names += backend.device_names(count)
    return names


def names_together(names: Sequence[str]) -> str:
    """Several devices in a few words: three or more of one kind by their numbers, as 'cuda:0-7'."""
    numbers = [name.partition(":")[2] for name in names]
    if len(names) < 3 or not all(n.isdigit() for n in numbers) or len(set(map(kind_of, names))) > 1:
        return ", ".join(names)
    return f"{kind_of(names[0])}:{format_ids(map(int, numbers))}"


def message_library(kind: str) -> str:
    """The library that carries messages between devices of a kind, by its name in libraries.py; '' if there is none."""
    backend = BACKENDS.get(kind)
    return backend.messages if backend else ""
