"""Facts about the host by topic, from /proc, /sys and a few system calls. Needs no root privileges, changes nothing.

Each function returns values by name; values that are not available are absent. Names end in their unit: _bytes, _mhz.
"""

from __future__ import annotations

import ctypes
import gzip
import os
import platform
import re
import resource
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from firsttouch import _core
from firsttouch.base.units import format_size
from firsttouch.machine import amd, cgroup, cores
from firsttouch.machine.tree import Facts, Tree, drop_missing, format_ids, named, parse_ids, parse_int

_THP = "sys/kernel/mm/transparent_hugepage"

_ISA = (
    *("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_fp16", "amx_tile"),
    *("clflushopt", "clwb", "erms", "fsrm", "movdir64b", "pdpe1gb", "constant_tsc", "rdtscp"),
    *("asimd", "sve", "sve2", "atomics", "bf16", "svebf16", "i8mm", "dcpop", "uscat", "sme"),
)
_BOOT = re.compile(
    r"(init_on_alloc|init_on_free|mitigations|transparent_hugepage|(default_)?hugepagesz?|isolcpus|nohz_full|iommu"
    r"|iommu\.\w+|(intel|amd)_iommu|numa_balancing|swiotlb|deferred_init|idle|processor\.max_cstate)(=\S*)?"
)
_ENVIRONMENT = re.compile(
    r"(CUDA|HSA|HIP|ROCR|GPU|MALLOC|POCL|FIRSTTOUCH|NUMA|NCCL|RCCL|OMP|KMP|GOMP|MPICH|UCX)_\w+"
    r"|GLIBC_TUNABLES|OCL_ICD_\w+|OPENCL_VENDOR_PATH|AMD_SERIALIZE_\w+|LD_PRELOAD|SLURM_(CPUS|GPUS|MEM)\w*"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL", re.IGNORECASE)
_SWITCH = {0: False, 1: True}
_OVERCOMMIT = {0: "heuristic", 1: "always", 2: "never"}
_GVISOR = "#1 SMP Sun Jan 10 15:06:54 PST 2016"
"""The fixed build line of gVisor's /proc/version."""
_VIRTUAL_BOARDS = {
    "kvm": "KVM",
    "qemu": "QEMU",
    "vmware": "VMware",
    "virtualbox": "VirtualBox",
    "xen": "Xen",
    "amazon ec2": "Amazon EC2",
    "google compute engine": "Google Compute Engine",
    "virtual machine": "Hyper-V",
    "firecracker": "Firecracker",
}
_CONTAINER_FILES = {".dockerenv": "docker", "run/.containerenv": "podman", ".singularity.d": "apptainer"}
_CONTAINER_GROUPS = ("kubepods", "docker", "containerd", "libpod", "lxc")


def cpu(tree: Tree, usable: Sequence[int]) -> Facts:
    """Facts about the cores with the numbers `usable`, which this process may use. Cache sizes are of one instance."""
    blocks = cores.cpuinfo(tree)
    info = cores.first_fields(blocks)
    caches = [cores.caches(tree, n) for n in usable]
    flags = (info.get("flags") or info.get("Features") or "").split()
    online = cores.online(tree, usable)
    packages = {tree.integer(f"{cores.CPU}/cpu{n}/topology/physical_package_id") for n in online or usable} - {None}
    siblings = [parse_ids(tree.text(f"{cores.CPU}/cpu{n}/topology/thread_siblings_list")) for n in usable]
    frequencies = [tree.integer(f"{cores.CPU}/cpu{n}/cpufreq/cpuinfo_max_freq") or 0 for n in usable]
    governors = {tree.text(f"{cores.CPU}/cpu{n}/cpufreq/scaling_governor") for n in usable} - {None}
    return drop_missing(
        {
            "model": cores.model(tree, blocks),
            "vendor": cores.vendor(info),
            "cores_usable": len(usable),
            "cores_usable_list": format_ids(usable),
            "cores_online": len(online) or None,
            "sockets": len(packages) or None,
            "threads_per_core": max(map(len, siblings), default=0) or None,
            "smt": tree.text(f"{cores.CPU}/smt/control"),
            "max_mhz": max(frequencies, default=0) / 1000 or None,
            "now_mhz": _number(info.get("cpu MHz")),
            "governor": " ".join(sorted(str(g) for g in governors)) or None,
            "frequency_driver": tree.text(f"{cores.CPU}/cpu{usable[0] if usable else 0}/cpufreq/scaling_driver"),
            "isa": " ".join(flag for flag in _ISA if flag in flags) or None,
            "load_1min": _number((tree.text("proc/loadavg") or "").partition(" ")[0]),
        }
        | {"core_kinds": cores.kinds(tree, blocks, usable, caches)}
        | _caches(tree, caches)
    )


def memory(tree: Tree) -> Facts:
    """Memory of the whole machine, and the limits of control groups.

    available_bytes: MemAvailable, or a lower bound where the kernel does not state it. available_to_process_bytes: the
    least of all limits, as the guard takes it; available_bound says which one that is. free_pages_reported: the host
    takes free memory back.
    """
    info = tree.kibibytes("proc/meminfo")
    swap, swap_free = info.get("SwapTotal"), info.get("SwapFree")
    facts: Facts = {
        "free_bytes": info.get("MemFree"),
        "swap_total_bytes": swap,
        "swap_used_bytes": swap - swap_free if swap is not None and swap_free is not None else None,
        "page_bytes": os.sysconf("SC_PAGE_SIZE") if tree.is_real else None,
        "overcommit": named(_OVERCOMMIT, tree.integer("proc/sys/vm/overcommit_memory")),
        "overcommit_limit_bytes": info.get("CommitLimit"),
        "swappiness": tree.integer("proc/sys/vm/swappiness"),
        "init_on_alloc": _init_on_alloc(tree),
        "ksm": named(_SWITCH, tree.integer("sys/kernel/mm/ksm/run")),
    }
    facts |= {"swap_on": _swap_on(tree), "free_pages_reported": _free_pages_reported(tree)}
    return drop_missing(_core.host_memory(str(tree.root)) | facts | cgroup.memory_facts(tree))


def _swap_on(tree: Tree) -> str | None:
    """What swap is on: compressed memory (zram), a disk, or both."""
    names = [line.split()[0] for line in tree.lines("proc/swaps")[1:]]
    kinds = dict.fromkeys("zram" if name.startswith("/dev/zram") else "disk" for name in names)
    return " and ".join(sorted(kinds, reverse=True)) or None


def _free_pages_reported(tree: Tree) -> bool | None:
    """True if a host takes the memory away that is free here, and gives it back when it is used.

    Source: VIRTIO_BALLOON_F_REPORTING in include/uapi/linux/virtio_balloon.h; sysfs has a digit for each feature.
    """
    folder = "sys/bus/virtio/drivers/virtio_balloon"
    features = [tree.text(f"{folder}/{name}/features") or "" for name in tree.names(folder)]
    return any(digits[5:6] == "1" for digits in features) or None


def huge_pages(tree: Tree) -> Facts:
    """thp_*: modes of transparent huge pages for the whole machine, and for each size if the kernel has several
    (thp_64KiB). thp_denied: they are off for this process alone (PR_SET_THP_DISABLE). pool_SIZE and pool_SIZE_free:
    pages in the reserved (hugetlb) pools.
    """
    facts: Facts = {
        "thp_enabled": tree.selected(f"{_THP}/enabled"),
        "thp_denied": _core.huge_pages_denied(str(tree.root)) or None,
        "thp_defrag": tree.selected(f"{_THP}/defrag"),
        "thp_shmem": tree.selected(f"{_THP}/shmem_enabled"),
        "thp_bytes": tree.integer(f"{_THP}/hpage_pmd_size"),
        "thp_zero_page": named(_SWITCH, tree.integer(f"{_THP}/use_zero_page")),
        "thp_khugepaged_defrag": named(_SWITCH, tree.integer(f"{_THP}/khugepaged/defrag")),
        "default_bytes": tree.kibibytes("proc/meminfo").get("Hugepagesize"),
    }
    facts |= {f"thp_{name}": tree.selected(f"{_THP}/{folder}/enabled") for name, folder in _sizes(tree, _THP)}
    pools = "sys/kernel/mm/hugepages"
    for name, folder in _sizes(tree, pools):
        facts[f"pool_{name}"] = tree.integer(f"{pools}/{folder}/nr_hugepages")
        facts[f"pool_{name}_free"] = tree.integer(f"{pools}/{folder}/free_hugepages")
    return drop_missing(facts)


def limits(tree: Tree) -> Facts:
    """Limits and permissions of this process. 'unlimited' means no limit; pagemap_frames: whether /proc/self/pagemap
    shows physical frame numbers; memlock_exempt: the limit of locked memory does not apply (CAP_IPC_LOCK).
    """
    facts: Facts = {
        "memlock_exempt": has_capability(tree, CAP_IPC_LOCK) if tree.exists("proc/self/status") else None,
        "perf_event_paranoid": tree.integer("proc/sys/kernel/perf_event_paranoid"),
        "cpu_quota_cores": cgroup.cpu_quota(tree),
        "max_map_count": tree.integer("proc/sys/vm/max_map_count"),
    }
    if tree.is_real:
        facts |= {f"{name}_bytes": _rlimit(resource_id) for name, resource_id in _RLIMITS.items()}
        facts |= {"root": os.geteuid() == 0} | _pagemap()
    return drop_missing(facts)


CAP_IPC_LOCK, CAP_SYS_ADMIN = 14, 21
"""Numbers of capabilities (capabilities(7)): to lock memory beyond the limit, and to administer."""


def has_capability(tree: Tree, capability: int) -> bool:
    """Whether this process has a capability on the whole machine. Root of a container or of a user namespace often does
    not.
    """
    masks = (line.partition(":")[2].strip() for line in tree.lines("proc/self/status") if line.startswith("CapEff:"))
    mask = next(masks, "")
    every_user = ["0", "0", "4294967295"]
    in_namespace = tree.exists("proc/self/uid_map") and (tree.text("proc/self/uid_map") or "").split() != every_user
    return bool(re.fullmatch("[0-9a-fA-F]{1,16}", mask)) and bool(int(mask, 16) >> capability & 1) and not in_namespace


def kernel(tree: Tree, environment: Mapping[str, str]) -> Facts:
    options = (tree.text("proc/cmdline") or "").split()
    real = tree.is_real
    return drop_missing(
        {
            "release": tree.text("proc/sys/kernel/osrelease") or (platform.release() if real else None),
            "architecture": platform.machine() if real else None,
            "distribution": _quoted_value(tree.lines("etc/os-release"), "PRETTY_NAME"),
            "virtualisation": _virtualisation(tree),
            "container": _container(tree, environment),
            "clock_source": tree.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            "iommus": len(tree.names("sys/class/iommu")),
            "boot_options": " ".join(option for option in options if _BOOT.fullmatch(option)) or None,
            "aslr": tree.integer("proc/sys/kernel/randomize_va_space"),
        }
    )


def software() -> Facts:
    libc, version = platform.libc_ver()
    return drop_missing(
        {
            "python": platform.python_version(),
            "python_implementation": sys.implementation.name,
            "libc": f"{libc} {version}".strip() or None,
        }
    )


def memory_environment(environment: Mapping[str, str]) -> Facts:
    """The environment variables that affect memory, devices or threads, except those that may hold a secret."""
    return {
        name: value.encode(errors="replace").decode()[:300]
        for name, value in sorted(environment.items())
        if _ENVIRONMENT.fullmatch(name) and not _SECRET.search(name)
    }


def nvidia(tree: Tree) -> Facts:
    """Facts about NVIDIA's kernel module, read without a vendor library."""
    text = " ".join(tree.lines("proc/driver/nvidia/version")[:1])
    version = re.search(r"\b\d{3,4}\.\d+(\.\d+)?\b", text)
    return drop_missing(
        {
            "kernel_module": version[0] if version else tree.text("sys/module/nvidia/version"),
            "open_kernel_module": "Open Kernel Module" in text if text else None,
        }
    )


def nvidia_uvm(tree: Tree) -> Facts:
    """Parameters of the unified-memory module. uvm_disable_hmm, uvm_perf_prefetch_enable, uvm_perf_thrashing_enable and
    those of access counters affect which pages migrate.
    """
    folder = "sys/module/nvidia_uvm/parameters"
    texts = {name: tree.text(f"{folder}/{name}") for name in tree.names(folder)}
    numbers = {name: parse_int(text) for name, text in texts.items()}
    return drop_missing({name: text if numbers[name] is None else numbers[name] for name, text in texts.items()})


def gpu_node(tree: Tree, pci_bus: str) -> int | None:
    """The NUMA node that is the memory of an NVIDIA GPU, as its kernel module states it; None if there is none.

    Source: numa_status in kernel-open/nvidia/nv-procfs.c of NVIDIA's open kernel modules.
    """
    lines = tree.lines(f"proc/driver/nvidia/gpus/{pci_bus.lower()}/numa_status") if pci_bus else []
    stated = next((parse_int(line.partition(":")[2].strip()) for line in lines if line.startswith("Node:")), None)
    return stated if stated is not None and stated >= 0 else None


def usable_cores() -> list[int]:
    """The cores that this process may run on (sched_getaffinity)."""
    try:
        return sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return list(range(os.cpu_count() or 1))


_RLIMITS = {"memlock": resource.RLIMIT_MEMLOCK, "address_space": resource.RLIMIT_AS, "stack": resource.RLIMIT_STACK}


def _rlimit(resource_id: int) -> int | str:
    soft = resource.getrlimit(resource_id)[0]
    return "unlimited" if soft == resource.RLIM_INFINITY else soft


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < 1e9 else None


def _caches(tree: Tree, of_cores: Sequence[Sequence[cores.Cache]]) -> Facts:
    """Cache sizes from those of each core; the largest if cores differ. l1_bytes is the data cache,
    infinity_cache_bytes the memory-side cache of an APU.
    """
    sizes: dict[str, int] = {}
    instances: dict[str, set[str]] = defaultdict(set)
    lines: set[int] = set()
    for cache in chain.from_iterable(of_cores):
        sizes[cache.name] = max(cache.size, sizes.get(cache.name, 0))
        instances[cache.name].add(cache.shared)
        lines.add(cache.line)
    if not sizes and tree.is_real:
        sizes, lines = _libc_caches()
    facts: Facts = {f"{name}_bytes": sizes[name] for name in sorted(sizes)}
    facts |= {f"{name}_instances": len(instances[name]) for name in ("l1", "l2", "l3", "l4") if instances[name]}
    facts["infinity_cache_bytes"] = amd.memory_side_cache(tree)
    facts["line_bytes"] = max(lines, default=0) or None
    return facts


def _libc_caches() -> tuple[dict[str, int], set[int]]:
    """Cache sizes from the C library (cpuid), for kernels that show no caches, such as gVisor."""

    def sysconf(name: str) -> int:
        try:
            return max(os.sysconf(name), 0)
        except (OSError, ValueError):
            return 0

    names = {"l1": "SC_LEVEL1_DCACHE_SIZE", "l2": "SC_LEVEL2_CACHE_SIZE", "l3": "SC_LEVEL3_CACHE_SIZE"}
    return {key: sysconf(name) for key, name in names.items() if sysconf(name)}, {sysconf("SC_LEVEL1_DCACHE_LINESIZE")}


def _init_on_alloc(tree: Tree) -> bool | None:
    """Whether the kernel clears each page that it allocates: from the boot option, otherwise from the build
    configuration if it is readable.
    """
    for option in (tree.text("proc/cmdline") or "").split():
        name, _, value = option.partition("=")
        if name == "init_on_alloc":
            return value not in ("0", "off", "n", "N")
    build = tree.text(f"boot/config-{tree.text('proc/sys/kernel/osrelease')}") or ""
    packed = tree.bytes("proc/config.gz")
    if packed and not build:
        try:
            build = gzip.decompress(packed).decode(errors="replace")
        except (OSError, EOFError, ValueError):
            return None
    return "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y" in build if build else None


def _sizes(tree: Tree, folder: str) -> list[tuple[str, str]]:
    """A pair such as ('2MiB', 'hugepages-2048kB') for each page size that has a folder, smallest first."""
    sizes = []
    for name in tree.names(folder):
        match = re.fullmatch(r"hugepages-(\d{1,12})kB", name)
        if match:
            sizes.append((int(match[1]), name))
    return [(format_size(kib * 1024).replace(" ", ""), name) for kib, name in sorted(sizes)]


def _pagemap() -> Facts:
    """Tests /proc/self/pagemap with a page of this process. Frame numbers are zero without CAP_SYS_ADMIN."""
    page = os.sysconf("SC_PAGE_SIZE")
    touched = ctypes.create_string_buffer(b"x", 64)
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            file.seek(ctypes.addressof(touched) // page * 8)
            entry = int.from_bytes(file.read(8), sys.byteorder)
    except (OSError, ValueError):
        return {"pagemap_readable": False}
    return {"pagemap_readable": True, "pagemap_frames": entry & ((1 << 55) - 1) != 0}


def _quoted_value(lines: Sequence[str], name: str) -> str | None:
    for line in lines:
        key, _, value = line.partition("=")
        if key == name:
            return value.strip("\"'") or None
    return None


def _virtualisation(tree: Tree) -> str | None:
    """The hypervisor, as far as it can be detected; None if no virtualisation was detected."""
    release = (tree.text("proc/sys/kernel/osrelease") or "").lower()
    if _GVISOR in (tree.text("proc/version") or ""):
        return "gVisor"
    if "microsoft" in release:
        return "WSL"
    dmi = "sys/class/dmi/id"
    board = " ".join(tree.text(f"{dmi}/{name}") or "" for name in ("sys_vendor", "product_name")).lower()
    named = [title for word, title in _VIRTUAL_BOARDS.items() if word in board]
    flags = cores.first_fields(cores.cpuinfo(tree)).get("flags", "").split()
    flagged = "hypervisor" in flags
    # Only x86 has the flag, and bare-metal machines of a cloud have the same board names.
    if named and (flagged or not flags):
        return named[0]
    return tree.text("sys/hypervisor/type") or ("unnamed hypervisor" if flagged else None)


def _container(tree: Tree, environment: Mapping[str, str]) -> str | None:
    """The container engine, as far as it can be detected from files and variables that it sets."""
    group = tree.text("proc/self/cgroup") or ""
    return (
        environment.get("container")
        or ("apptainer" if "APPTAINER_CONTAINER" in environment or "SINGULARITY_CONTAINER" in environment else None)
        or ("kubernetes" if "KUBERNETES_SERVICE_HOST" in environment else None)
        or next((engine for name, engine in _CONTAINER_FILES.items() if tree.exists(name)), None)
        or next((engine for engine in _CONTAINER_GROUPS if engine in group), None)
    )
