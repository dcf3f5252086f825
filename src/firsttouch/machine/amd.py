"""Facts about AMD GPUs that do not need HIP: from the kernel driver, and from AMD's management library.

The kernel driver's facts are read from /sys. The library (the package amdsmi, which comes with ROCm) is opened in a
separate process, as NVML is: `collect` runs this module as a program. Sources: drivers/gpu/drm/amd/amdkfd of the kernel
and hsakmttypes.h for the fields of the topology; the AMD SMI Python API.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from firsttouch.base.encoding import encode_json
from firsttouch.base.processes import python_module
from firsttouch.machine import nvidia, usage
from firsttouch.machine.links import Link, Links
from firsttouch.machine.partitions import Partition
from firsttouch.machine.tree import Facts, Tree, drop_missing, parse_int

_MODULE = "sys/module/amdgpu"
_NODES = "sys/class/kfd/kfd/topology/nodes"
_PARAMETERS = (
    "noretry",
    "mtype_local",
    "svm_default_granularity",
    "vm_fragment_size",
    "ppfeaturemask",
    "debug_evictions",
)
"""Parameters of the kernel module that affect page faults, migration or caching. noretry: 0 if page faults are retried
(XNACK is possible), 1 if they are not, -1 for the driver's default for the GPU.
"""
_LOCAL_HEAPS = (1, 2)
_DATA_CACHE = 1
_SVM, _COHERENT_HOST_ACCESS = 1 << 27, 1 << 28
_INFINITY_CACHE = 3
_IN_SOCKET = 13
"""The weight of a link inside a socket (KFD_CRAT_INTRA_SOCKET_WEIGHT in kfd_crat.c); links between sockets have more.
"""
_XGMI = 11
_LINK_TYPES = {2: "PCIe", _XGMI: "xGMI"}
"""Types of links between GPUs (CRAT_IOLINK_TYPE_* in kfd_crat.h)."""
_WEIGHT_OF_A_HOP = 15
"""The weight of an xGMI link for each of its hops (KFD_CRAT_XGMI_WEIGHT in kfd_crat.c)."""
_LINK_FOLDERS = ("p2p_links", "io_links")
"""p2p_links lead through a processor; io_links are direct, so they are preferred."""
_MIB = 1 << 20


def driver(tree: Tree) -> Facts:
    """The kernel module's version ("of the kernel" if it is not versioned separately) and its memory parameters."""
    boards = {_board(node) for node in _gpu_nodes(tree).values()}
    facts: Facts = {"kernel_module": tree.text(f"{_MODULE}/version"), "gpus": len(boards) or None}
    if facts["kernel_module"] is None and tree.exists(_MODULE):
        facts["kernel_module"] = "of the kernel"
    for name in _PARAMETERS:
        text = tree.text(f"{_MODULE}/parameters/{name}")
        number = parse_int(text)
        facts[name] = text if number is None else number
    return drop_missing(facts)


def kfd_gpus(tree: Tree) -> list[Facts]:
    """Facts about each GPU of the kernel's compute driver (KFD), in the driver's order.

    arch, pci_bus, memory_bytes, l1_bytes and l2_bytes (of one instance), infinity_cache_bytes, line_bytes (of the L2
    cache), compute_units, sdma_engines, xccs; in_socket: whether it is in the socket of a processor; svm: whether the
    driver supports shared virtual memory on it; coherent_host_access: whether the CPU can access its memory coherently.
    """
    return [_gpu(tree, f"{_NODES}/{name}", node) for name, node in _gpu_nodes(tree).items()]


def _gpu_nodes(tree: Tree) -> dict[str, dict[str, int]]:
    """The properties of each node of the topology that is a GPU, by its name and in the driver's order."""
    names = sorted(tree.names(_NODES), key=lambda name: parse_int(name) or 0)
    nodes = {name: _properties(tree, f"{_NODES}/{name}/properties") for name in names}
    return {name: node for name, node in nodes.items() if node.get("simd_count")}


def kfd_links(tree: Tree) -> Links:
    """The links between GPUs, or between partitions of them. The peak is max_bandwidth, that of all links of a pair
    together in one direction.
    """
    parts = _partitions(tree)
    address = {
        name: parts[name].key if name in parts else _bus(node)
        for name, node in _gpu_nodes(tree).items()
        if "location_id" in node
    }
    links: dict[tuple[str, str], Link] = {}
    for name, bus in address.items():
        for kind in _LINK_FOLDERS:
            folder = f"{_NODES}/{name}/{kind}"
            for number in tree.names(folder):
                properties = _properties(tree, f"{folder}/{number}/properties")
                if target := address.get(str(properties.get("node_to"))):
                    links[bus, target] = _link(properties, f"KFD {kind}")
    return links


def partitions(tree: Tree) -> list[Partition]:
    """The compute partitions of GPUs that have several. Of the memory, NPS4 makes four parts, NPS1 one ("GPU
    partitioning" of AMD SMI's documentation).
    """
    return list(_partitions(tree).values())


def _partitions(tree: Tree) -> dict[str, Partition]:
    """Partitions by the names of their nodes."""
    by_board: dict[str, list[str]] = {}
    nodes = _gpu_nodes(tree)
    for name, node in nodes.items():
        if "location_id" in node:
            by_board.setdefault(_board(node), []).append(name)
    parts: dict[str, Partition] = {}
    for names in (names for names in by_board.values() if len(names) > 1):
        gpu = _bus(nodes[names[0]])
        modes = [tree.text(f"sys/bus/pci/devices/{gpu}/current_{aspect}_partition") for aspect in ("compute", "memory")]
        memories = parse_int((modes[1] or "").removeprefix("NPS"))
        for number, name in enumerate(names):
            facts = _gpu(tree, f"{_NODES}/{name}", nodes[name])
            memory, units = facts.get("memory_bytes"), facts.get("compute_units")
            parts[name] = Partition(
                gpu=gpu,
                number=number,
                partitions=len(names),
                mode=", ".join(filter(None, modes)) or "compute partitions",
                memory_shared_by=max(1, len(names) // memories) if memories else None,
                memory_bytes=memory if isinstance(memory, int) else None,
                processors=units if isinstance(units, int) else None,
            )
    return parts


def _board(node: Mapping[str, int]) -> str:
    """The PCI address of a node's GPU without the function, which some kernels replace by the partition's number."""
    return _bus(node).rpartition(".")[0] if "location_id" in node else ""


def _link(properties: Mapping[str, int], source: str) -> Link:
    """A link from its properties. The driver writes 0 for a bandwidth that it does not know, in units of 10^6 bytes/s
    otherwise.
    """
    kind, weight, bandwidth = (properties.get(field, 0) for field in ("type", "weight", "max_bandwidth"))
    in_hops = kind == _XGMI and weight > 0 and weight % _WEIGHT_OF_A_HOP == 0
    is_stated = bandwidth > 0
    return Link(
        name=_LINK_TYPES.get(kind, ""),
        hops=weight // _WEIGHT_OF_A_HOP if in_hops else None,
        gbs=bandwidth / 1000 if is_stated else None,
        source=source if is_stated else "",
    )


def memory_side_cache(tree: Tree) -> int | None:
    """The bytes of the cache in front of the memory that a processor shares with the GPU in its socket (the Infinity
    Cache of an APU). None if there is no such GPU, or the driver does not state the cache.
    """
    shared = [gpu.get("infinity_cache_bytes") for gpu in kfd_gpus(tree) if gpu.get("in_socket")]
    return max((size for size in shared if isinstance(size, int)), default=None)


def kfd(tree: Tree) -> Facts:
    """The facts of `kfd_gpus` and the memory in use now as one topic, with the prefix gpuN_."""
    gpus = [{**gpu, **_in_use(tree, str(gpu.get("pci_bus", "")))} for gpu in kfd_gpus(tree)]
    return {f"gpu{n}_{key}": value for n, gpu in enumerate(gpus) for key, value in gpu.items()}


def _in_use(tree: Tree, pci_bus: str) -> Facts:
    """Memory in use by the kernel's counters, which need no AMD SMI: of the device, of host memory that its driver
    allocated (GTT), and by the programs whose DRM clients this user may read; programs is the number that hold any.
    """
    processes = [name for name in tree.names("proc") if name.isdigit()]
    totals = [total for name in processes if (total := usage.drm_usage(tree, name, pci_bus).total())]
    return drop_missing(
        {
            "memory_used_bytes": usage.region_usage(tree, pci_bus, "vram"),
            "gtt_used_bytes": usage.region_usage(tree, pci_bus, "gtt"),
            "programs": len(totals) or None,
            "programs_bytes": sum(totals) or None,
        }
    )


def _properties(tree: Tree, file: str) -> dict[str, int]:
    """Parses a topology file, whose lines hold a name and a number each."""
    pairs = (line.split() for line in tree.lines(file))
    numbers = {pair[0]: parse_int(pair[1]) for pair in pairs if len(pair) == 2}
    return {name: number for name, number in numbers.items() if number is not None}


def _gpu(tree: Tree, folder: str, node: Mapping[str, int]) -> Facts:
    version, capability = node.get("gfx_target_version", 0), node.get("capability")
    banks = [_properties(tree, f"{folder}/mem_banks/{bank}/properties") for bank in tree.names(f"{folder}/mem_banks")]
    memory = sum(bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in _LOCAL_HEAPS)
    sizes, lines = _caches(tree, f"{folder}/caches")
    per_unit = node.get("simd_per_cu", 0)
    return drop_missing(
        {
            "arch": f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else None,
            "pci_bus": _bus(node) if "location_id" in node else None,
            "memory_bytes": memory or None,
            "l1_bytes": sizes.get(1),
            "l2_bytes": sizes.get(2),
            "infinity_cache_bytes": sizes.get(_INFINITY_CACHE),
            "line_bytes": lines.get(2),
            "compute_units": node["simd_count"] // per_unit if per_unit > 0 else None,
            "sdma_engines": node.get("num_sdma_engines"),
            "xccs": node.get("num_xcc"),
            "in_socket": _is_in_socket(tree, folder),
            "svm": bool(capability & _SVM) if capability is not None else None,
            "coherent_host_access": bool(capability & _COHERENT_HOST_ACCESS) if capability is not None else None,
        }
    )


def _is_in_socket(tree: Tree, folder: str) -> bool | None:
    """Whether a link inside a socket leads from a GPU to a processor; None if the GPU has no link to one."""
    links = [_properties(tree, f"{folder}/io_links/{name}/properties") for name in tree.names(f"{folder}/io_links")]
    weights = [
        link.get("weight")
        for link in links
        if _properties(tree, f"{_NODES}/{link.get('node_to')}/properties").get("cpu_cores_count")
    ]
    return _IN_SOCKET in weights if weights else None


def _bus(node: Mapping[str, int]) -> str:
    """The PCI address in HIP's format. `location_id` holds bus, device and function in 8, 5 and 3 bits."""
    domain, location = node.get("domain", 0), node["location_id"]
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7:x}"


def _caches(tree: Tree, folder: str) -> tuple[dict[int, int], dict[int, int]]:
    """Sizes and line sizes of the data caches in bytes, by level; the largest size if instances differ."""
    sizes: dict[int, int] = {}
    lines: dict[int, int] = {}
    for name in tree.names(folder):
        cache = _properties(tree, f"{folder}/{name}/properties")
        level, size = cache.get("level", 0), cache.get("size", 0) * 1024
        if cache.get("type", 0) & _DATA_CACHE and size > 0:
            sizes[level] = max(size, sizes.get(level, 0))
            if cache.get("cache_line_size", 0) > 0:
                lines[level] = cache["cache_line_size"]
    return sizes, lines


def _field(*names: str) -> Callable[[Any], Any]:
    """Selects the first of the named fields that has a value; AMD SMI writes N/A for unknown values."""

    def find(answer: Any) -> Any:
        values = (answer.get(name) for name in names)
        return next((value for value in values if value not in (None, "N/A", "")), None)

    return find


def _nested_field(part: str, name: str) -> Callable[[Any], Any]:
    return lambda answer: _field(name)(answer[part])


def _mebibytes(name: str) -> Callable[[Any], Any]:
    return lambda answer: int(answer[name]) * _MIB


_GFX, _MEM = ("AmdSmiClkType", "GFX"), ("AmdSmiClkType", "MEM")
_HOTSPOT, _VRAM = ("AmdSmiTemperatureType", "HOTSPOT"), ("AmdSmiTemperatureType", "VRAM")
_CURRENT = ("AmdSmiTemperatureMetric", "CURRENT")

_GPU: Sequence[tuple[str, str, tuple[tuple[str, str], ...], Callable[[Any], Any]]] = (
    ("name", "get_gpu_asic_info", (), _field("market_name")),
    ("arch", "get_gpu_asic_info", (), _field("target_graphics_version")),
    ("pci_bus", "get_gpu_device_bdf", (), str),
    ("uuid", "get_gpu_device_uuid", (), str),
    ("driver", "get_gpu_driver_info", (), _field("driver_version")),
    ("core_mhz", "get_clock_info", (_GFX,), _field("clk", "cur_clk")),
    ("core_max_mhz", "get_clock_info", (_GFX,), _field("max_clk")),
    ("memory_mhz", "get_clock_info", (_MEM,), _field("clk", "cur_clk")),
    ("memory_max_mhz", "get_clock_info", (_MEM,), _field("max_clk")),
    ("temperature_c", "get_temp_metric", (_HOTSPOT, _CURRENT), int),
    ("memory_temperature_c", "get_temp_metric", (_VRAM, _CURRENT), int),
    ("power_w", "get_power_info", (), _field("current_socket_power", "average_socket_power")),
    ("busy_percent", "get_gpu_activity", (), _field("gfx_activity")),
    ("memory_total_bytes", "get_gpu_vram_usage", (), _mebibytes("vram_total")),
    ("memory_used_bytes", "get_gpu_vram_usage", (), _mebibytes("vram_used")),
    ("compute_partition", "get_gpu_compute_partition", (), str),
    ("memory_partition", "get_gpu_memory_partition", (), str),
    ("numa_node", "get_gpu_topo_numa_affinity", (), int),
    ("pcie_width", "get_pcie_info", (), _nested_field("pcie_metric", "pcie_width")),
    ("pcie_width_max", "get_pcie_info", (), _nested_field("pcie_static", "max_pcie_width")),
)
"""Fact, amdsmi function, its constant arguments after the handle, and the conversion of its result."""


class Smi:
    """AMD SMI through the package amdsmi (or an object with its functions). Facts that it cannot report are absent."""

    def __init__(self, amdsmi: Any) -> None:
        self._amdsmi = amdsmi

    def topics(self) -> nvidia.Topics:
        """The topics 'amd_gpu0', 'amd_gpu1', ... in AMD SMI's order."""
        try:
            handles = self._amdsmi.amdsmi_get_processor_handles()
        except Exception:
            return {}
        return {f"amd_gpu{i}": self._facts(handle) for i, handle in enumerate(handles)}

    def _facts(self, handle: Any) -> Facts:
        facts: Facts = {}
        for key, function, constants, convert in _GPU:
            # This version may lack the function, the library may fail, or the result may have another form.
            with contextlib.suppress(Exception):
                arguments = [getattr(getattr(self._amdsmi, group), name) for group, name in constants]
                facts[key] = convert(getattr(self._amdsmi, f"amdsmi_{function}")(handle, *arguments))
        return {key: value for key, value in facts.items() if isinstance(value, (int, float, str))}


def collect(timeout: float = 30.0, command: Sequence[str] | None = None) -> nvidia.Topics:
    """The topics of `Smi.topics` from a separate process; empty if the package is not installed."""
    if command is None:
        if importlib.util.find_spec("amdsmi") is None:
            return {}
        command = python_module("firsttouch.machine.amd")
    return nvidia.collect(timeout, command)[0]


def _main() -> None:
    amdsmi = importlib.import_module("amdsmi")
    amdsmi.amdsmi_init()
    try:
        answer = Smi(amdsmi).topics()
    finally:
        with contextlib.suppress(Exception):
            amdsmi.amdsmi_shut_down()
    sys.stdout.buffer.write(encode_json(answer))


if __name__ == "__main__":
    _main()
