"""Facts about NVIDIA GPUs and the links between them, from NVIDIA's management library (NVML).

The library is opened in a separate process: `collect` runs this module as a program, so that only these facts are lost
if the library crashes or hangs. Source of all names and units: the NVML API reference.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from firsttouch import _core
from firsttouch.base.encoding import encode_json
from firsttouch.base.processes import python_module
from firsttouch.machine import partitions
from firsttouch.machine.links import Link, Links, pci_address
from firsttouch.machine.partitions import Partition
from firsttouch.machine.tree import Facts, drop_missing, format_ids
from firsttouch.records.schema import Scalar

Topics: TypeAlias = dict[str, Facts]

_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
_ADDRESSING = {0: "none", 1: "HMM", 2: "ATS"}
_VIRTUALISATION = {0: "none", 1: "passthrough", 2: "vGPU", 3: "vGPU host", 4: "vSGA host"}
_TOPOLOGY = {
    0: "same board",
    10: "one PCIe switch",
    20: "several PCIe switches",
    30: "PCIe host bridge",
    40: "same NUMA node",
    50: "across NUMA nodes",
}
_REMOTES = {0: "GPU", 1: "CPU", 2: "switch", 0xFF: "unknown"}
_P2P = {0: "yes", 1: "chipset not supported", 2: "GPU not supported", 3: "topology not supported", 4: "disabled"}
_P2P_NVLINK, _P2P_READ = 2, 0
_SM, _MEMORY = 1, 2
_AFFINITY_WORDS, _SCOPE_NODE = 32, 0
MEMORY_V2 = 0x02000028
"""The version of nvmlMemory_t that states `reserved` apart from `used`."""
_MOST_LINKS = 36
NOT_AVAILABLE = 2**64 - 1
_TO_SWITCH = 2
_SPEED, _COMMON_SPEED = 164, 90
"""Fields NVLINK_GET_SPEED (of the link that the scope names) and NVLINK_SPEED_MBPS_COMMON, each way in 10^6 bytes/s."""
_VALUES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The member that holds the value of a field, by its type."""
_HOST_BRIDGE = 30
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PCIE_LANE_GBS = {1: 2.5 * 8 / 10 / 8, 2: 5 * 8 / 10 / 8, 3: 8 * 128 / 130 / 8, 4: 16 * 128 / 130 / 8,
                  5: 32 * 128 / 130 / 8}  # fmt: skip
"""10^9 bytes per second of one lane each way, by generation: transfers per second times the code's efficiency."""


def _first(value: Any) -> bool:
    return bool(value[0])


def _milli(value: Any) -> float:
    return int(value) / 1000


def _words(value: Any) -> str:
    return format_ids(64 * w + b for w, word in enumerate(value) for b in range(64) if word >> b & 1)


def _version(value: Any) -> str:
    major, minor = value
    return f"{major}.{minor}"


_GPU: Sequence[tuple[str, str, tuple[Any, ...], Callable[[Any], Scalar]]] = (
    ("name", "GetName", (), str),
    ("uuid", "GetUUID", (), str),
    ("compute_capability", "GetCudaComputeCapability", (), _version),
    ("sm_mhz", "GetClockInfo", (_SM,), int),
    ("sm_max_mhz", "GetMaxClockInfo", (_SM,), int),
    ("sm_application_mhz", "GetApplicationsClock", (_SM,), int),
    ("memory_mhz", "GetClockInfo", (_MEMORY,), int),
    ("memory_max_mhz", "GetMaxClockInfo", (_MEMORY,), int),
    ("memory_bus_bits", "GetMemoryBusWidth", (), int),
    ("persistence", "GetPersistenceMode", (), bool),
    ("compute_mode", "GetComputeMode", (), _COMPUTE_MODES.get),
    ("ecc", "GetEccMode", (), _first),
    ("mig", "GetMigMode", (), _first),
    ("power_limit_w", "GetPowerManagementLimit", (), _milli),
    ("power_limit_default_w", "GetPowerManagementDefaultLimit", (), _milli),
    ("power_w", "GetPowerUsage", (), _milli),
    ("temperature_c", "GetTemperature", (0,), int),
    ("performance_state", "GetPerformanceState", (), int),
    ("addressing_mode", "GetAddressingMode", (), _ADDRESSING.get),
    ("memory_numa_node", "GetNumaNodeId", (), int),
    ("near_cpus", "GetCpuAffinityWithinScope", (_AFFINITY_WORDS, _SCOPE_NODE), _words),
    ("near_numa_nodes", "GetMemoryAffinity", (_AFFINITY_WORDS, _SCOPE_NODE), _words),
    ("virtualisation", "GetVirtualizationMode", (), _VIRTUALISATION.get),
    ("vbios", "GetVbiosVersion", (), str),
    ("throttle", "GetCurrentClocksThrottleReasons", (), lambda mask: ", ".join(_core.throttle_reasons(mask))),
    ("busy_percent", "GetUtilizationRates", (), lambda rates: int(rates.gpu)),
    ("processes", "GetComputeRunningProcesses", (), len),
    ("pci_bus_id", "GetPciInfo", (), lambda pci: _text(pci.busId)),
)
"""Fact, nvmlDevice function, its arguments after the handle, and the conversion of its result."""

_LINK: Sequence[tuple[str, str, tuple[Any, ...], Callable[[Any], Scalar]]] = (
    ("pcie_generation", "GetCurrPcieLinkGeneration", (), int),
    ("pcie_generation_max", "GetMaxPcieLinkGeneration", (), int),
    ("pcie_width", "GetCurrPcieLinkWidth", (), int),
    ("pcie_width_max", "GetMaxPcieLinkWidth", (), int),
    ("pcie_mbit_per_lane", "GetPcieSpeed", (), int),
    ("c2c", "GetC2cModeInfoV", (), lambda info: bool(info.isC2cEnabled)),
)


@dataclass(frozen=True)
class _NvLink:
    """An active NVLink of a GPU: the PCI address and the kind of what is at its other end, and its peak each way."""

    remote: str
    to: int | None
    gbs: float | None


class Nvml:
    """NVML through pynvml, or through an object with its functions."""

    def __init__(self, pynvml: Any) -> None:
        self._pynvml = pynvml

    def call(self, function: str, *arguments: Any) -> Any:
        """The result of an NVML function.

        Raises:
            Exception: NVMLError, or AttributeError if this pynvml lacks the function.
        """
        return getattr(self._pynvml, f"nvml{function}")(*arguments)

    def query(self, function: str, *arguments: Any) -> Any:
        """The result of an NVML function, None if it fails."""
        try:
            return self.call(function, *arguments)
        except Exception:  # NVMLError, a function that this pynvml or driver lacks, or a result of another form
            return None

    def device(self, index: int) -> Any:
        return self.query("DeviceGetHandleByIndex", index)

    def topics(self) -> Topics:
        """The topics 'nvidia' (driver), 'links', and 'gpu0', 'gpu1', ... in NVML's order, that of the PCI bus."""
        count = self.query("DeviceGetCount") or 0
        handles = [handle for handle in map(self.device, range(count)) if handle is not None]
        links: Facts = {}
        for i, handle in enumerate(handles):
            links |= {f"gpu{i}_{key}": value for key, value in self._link_facts(handle).items()}
            for j in range(i + 1, len(handles)):
                links[f"gpu{i}_gpu{j}"] = self._connection(handle, handles[j])
        cuda = self.query("SystemGetCudaDriverVersion")
        driver = {
            "driver": _text(self.query("SystemGetDriverVersion")),
            "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else None,
            "nvml": _text(self.query("SystemGetNVMLVersion")),
            "gpus": count,
        }
        topics: Topics = {"nvidia": drop_missing(driver)} | {f"gpu{i}": self._facts(h) for i, h in enumerate(handles)}
        return topics | ({"links": links} if links else {}) | partitions.topics(self.partitions(os.environ))

    def mig_devices(self, handle: Any) -> list[Any]:
        """The handles of a GPU's MIG devices that this user may open; empty if it is not partitioned."""
        mode = self.query("DeviceGetMigMode", handle)
        most = self.query("DeviceGetMaxMigDeviceCount", handle) or 0 if mode and mode[0] else 0
        handles = (self.query("DeviceGetMigDeviceHandleByIndex", handle, index) for index in range(most))
        return [device for device in handles if device is not None]

    def partitions(self, environment: Mapping[str, str]) -> list[Partition]:
        """The MIG devices of all GPUs. Of each GPU, CUDA opens the one that CUDA_VISIBLE_DEVICES names first, otherwise
        the first. If it is set, it offers no others than it names.

        The compute instances of a GPU instance share its memory and bandwidth (CUPTI's documentation, "Multi-Instance
        GPU"); a process opens one, and none reaches another GPU (NVIDIA's MIG User Guide, "Deployment considerations").
        """
        parts: list[Partition] = []
        for gpu in filter(None, map(self.device, range(self.query("DeviceGetCount") or 0))):
            pci = pci_address(str(_text(getattr(self.query("DeviceGetPciInfo", gpu), "busId", ""))))
            devices = self.mig_devices(gpu)
            instances = [self.query("DeviceGetGpuInstanceId", device) for device in devices]
            uuids = [str(_text(self.query("DeviceGetUUID", device) or "")) for device in devices]
            chosen = [uuid for entry in _chosen_uuids(environment) for uuid in uuids if uuid.startswith(entry)]
            offered = uuids if _VISIBLE not in environment else chosen
            for number, (device, uuid) in enumerate(zip(devices, uuids, strict=True)):
                memory = self.query("DeviceGetMemoryInfo", device)
                total, free = (getattr(memory, name, None) for name in ("total", "free"))
                attributes = self.query("DeviceGetAttributes", device)
                parts.append(
                    Partition(
                        gpu=pci,
                        number=number,
                        partitions=len(devices),
                        mode="MIG",
                        memory_shared_by=None if None in instances else instances.count(instances[number]),
                        memory_bytes=total if isinstance(total, int) and total < NOT_AVAILABLE else None,
                        free_bytes=free if isinstance(free, int) and free < NOT_AVAILABLE else None,
                        name=str(_text(self.query("DeviceGetName", device) or "")),
                        uuid=uuid,
                        processors=getattr(attributes, "multiprocessorCount", None),
                        opened=uuid == chosen[0] if chosen else number == 0,
                        chosen_by=_VISIBLE,
                        offered=uuid in offered,
                    )
                )
        return parts

    def _table(self, table: Sequence[tuple[str, str, tuple[Any, ...], Callable[[Any], Scalar]]], handle: Any) -> Facts:
        facts: Facts = {}
        for key, function, arguments, convert in table:
            answer = self.query(f"Device{function}", handle, *arguments)
            with contextlib.suppress(Exception):
                facts[key] = convert(_text(answer)) if answer is not None else None
        return drop_missing(facts)

    def _facts(self, handle: Any) -> Facts:
        facts = self._table(_GPU, handle)
        facts |= {"mig_devices": len(self.mig_devices(handle))} if facts.get("mig") else {}
        memory = self.query("DeviceGetMemoryInfo", handle, MEMORY_V2) or self.query("DeviceGetMemoryInfo", handle)
        aperture = self.query("DeviceGetBAR1MemoryInfo", handle)
        sizes = {
            f"memory_{name}_bytes": getattr(memory, name, None) for name in ("total", "free", "used", "reserved")
        } | {"bar1_bytes": getattr(aperture, "bar1Total", None)}
        return facts | {key: value for key, value in sizes.items() if isinstance(value, int) and value < NOT_AVAILABLE}

    def _link_facts(self, handle: Any) -> Facts:
        states = [self.query("DeviceGetNvLinkState", handle, link) for link in range(_MOST_LINKS)]
        active = [link for link, state in enumerate(states) if state]
        peers = {self.query("DeviceGetNvLinkRemoteDeviceType", handle, link) for link in active} - {None}
        return self._table(_LINK, handle) | drop_missing(
            {
                "nvlinks": sum(state is not None for state in states),
                "nvlinks_active": len(active),
                "nvlink_version": self.query("DeviceGetNvLinkVersion", handle, active[0]) if active else None,
                "nvlink_peers": ", ".join(sorted(_REMOTES.get(peer, str(peer)) for peer in peers)) or None,
            }
        )

    def links(self) -> Links:
        """The links between the GPUs. Pairs of which NVML states nothing are left out."""
        count = self.query("DeviceGetCount") or 0
        handles = {
            pci_address(_text(pci.busId)): handle
            for handle in map(self.device, range(count))
            if handle is not None and (pci := self.query("DeviceGetPciInfo", handle)) is not None
        }
        nvlinks = {address: self._nvlinks(handle) for address, handle in handles.items()}
        links: dict[tuple[str, str], Link] = {}
        for pair in itertools.permutations(handles, 2):
            first, second = handles[pair[0]], handles[pair[1]]
            link = self._nvlink(first, second, pair[1], nvlinks[pair[0]], nvlinks[pair[1]]) or self._pcie(first, second)
            if link is not None:
                links[pair] = link
        return links

    def _nvlinks(self, handle: Any) -> list[_NvLink]:
        """The active NVLinks of a GPU."""
        return [
            _NvLink(
                remote=self._remote(handle, link),
                to=self.query("DeviceGetNvLinkRemoteDeviceType", handle, link),
                gbs=self._nvlink_gbs(handle, link),
            )
            for link in range(_MOST_LINKS)
            if self.query("DeviceGetNvLinkState", handle, link)
        ]

    def _remote(self, handle: Any, link: int) -> str:
        pci = self.query("DeviceGetNvLinkRemotePciInfo", handle, link)
        return pci_address(str(_text(getattr(pci, "busId", ""))))

    def _nvlink_gbs(self, handle: Any, link: int) -> float | None:
        for fields in [(_SPEED, link)], [_COMMON_SPEED]:
            with contextlib.suppress(Exception):  # the field is not supported, or the answer has another form
                (answer,) = self.query("DeviceGetFieldValues", handle, fields)
                speed = getattr(answer.value, _VALUES[answer.valueType])
                if answer.nvmlReturn == 0 and speed > 0:
                    return float(speed) / 1000
        return None

    def _nvlink(
        self, first: Any, second: Any, address: str, own_links: Sequence[_NvLink], peer_links: Sequence[_NvLink]
    ) -> Link | None:
        """The NVLinks from the first GPU to the second, whose PCI address is given: direct ones, or else through
        switches, of which NVML does not state how many lie between. None if the GPUs use no NVLink for each other.
        """
        if direct := [link for link in own_links if link.remote == address]:
            return _nvlink_sum("NVLink", 1, direct)
        if self.query("DeviceGetP2PStatus", first, second, _P2P_NVLINK) != 0:
            return None
        up, down = ([link for link in links if link.to == _TO_SWITCH] for links in (own_links, peer_links))
        if not (up and down):
            return Link("NVLink")  # which links is unknown, as where a virtual machine has other PCI addresses
        sums = [_nvlink_sum("NVLink switch", None, links) for links in (up, down)]
        return min(sums, key=lambda link: -1 if link.gbs is None else link.gbs)

    def _pcie(self, first: Any, second: Any) -> Link | None:
        """PCIe, if the path between two GPUs has nothing else. Its peak is stated if both use the same lanes; the
        generation is the largest that device and slot support, because idle GPUs lower the current one.
        """
        ancestor = self.query("DeviceGetTopologyCommonAncestor", first, second)
        if ancestor is None or ancestor > _HOST_BRIDGE:
            return None
        (generation, lanes), of_second = (
            [self.query(f"DeviceGet{name}", handle) for name in ("MaxPcieLinkGeneration", "CurrPcieLinkWidth")]
            for handle in (first, second)
        )
        lane_gbs = _PCIE_LANE_GBS.get(generation)
        if [generation, lanes] != of_second or lane_gbs is None or not lanes:
            return Link("PCIe")
        return Link("PCIe", None, lane_gbs * lanes, f"NVML, PCIe {generation} x{lanes}")

    def _connection(self, first: Any, second: Any) -> str:
        """How two GPUs of one host are connected."""
        path = _TOPOLOGY.get(self.query("DeviceGetTopologyCommonAncestor", first, second), "unknown path")
        read, nvlink = (
            self.query("DeviceGetP2PStatus", first, second, capability) for capability in (_P2P_READ, _P2P_NVLINK)
        )
        return f"{'NVLink' if nvlink == 0 else path}, peer access: {_P2P.get(read, 'unknown')}"


@contextlib.contextmanager
def open_nvml() -> Iterator[Nvml]:
    """NVML, opened in this process. Only for processes that may crash or that have loaded vendor libraries anyway.

    Raises:
        Exception: pynvml's exception if there is no library or no driver.
    """
    pynvml = importlib.import_module("pynvml")
    pynvml.nvmlInit()
    try:
        yield Nvml(pynvml)
    finally:
        with contextlib.suppress(Exception):
            pynvml.nvmlShutdown()


def _nvlink_sum(name: str, hops: int | None, links: Sequence[_NvLink]) -> Link:
    """Several NVLinks as one; its peak is unknown if that of one of them is."""
    peaks = [link.gbs for link in links if link.gbs is not None]
    if len(peaks) < len(links):
        return Link(name, hops)
    return Link(name, hops, math.fsum(peaks), f"NVML, {len(links)} x NVLink")


def _chosen_uuids(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The MIG devices that the environment names, by the beginnings of their UUIDs."""
    entries = (entry.strip() for entry in environment.get(_VISIBLE, "").split(","))
    return tuple(entry for entry in entries if entry.startswith("MIG-"))


def mig_partitions() -> list[Partition]:
    """The MIG devices that NVML states; empty without NVML. Opens it in this process: see `open_nvml`."""
    try:
        with open_nvml() as nvml:
            return nvml.partitions(os.environ)
    except Exception:
        return []


def links() -> Links:
    """The links that NVML states; empty without NVML. Opens it in this process: see `open_nvml`."""
    try:
        with open_nvml() as nvml:
            return nvml.links()
    except Exception:
        return {}


def collect(timeout: float = 30.0, command: Sequence[str] | None = None) -> tuple[Topics, str]:
    """The topics of `Nvml.topics` from a separate process, and the reason if there are none (otherwise empty)."""
    command = command or python_module("firsttouch.machine.nvidia")
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        return {}, f"NVML did not answer within {timeout:g} s"
    except OSError as error:
        return {}, f"the process that queries NVML did not start: {error}"
    if result.returncode:
        last = result.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"status {result.returncode}"]
        return {}, f"the process that queries NVML ended with: {last[0]}"
    try:
        answer = msgspec.json.decode(result.stdout, type=dict[str, dict[str, Scalar]])
    except msgspec.MsgspecError as error:
        return {}, f"the process that queries NVML returned no facts: {error}"
    return answer, str(answer.pop("error", {}).get("reason", ""))


def gpu_topics(topics: Iterable[str]) -> list[str]:
    """The topics 'gpu0', 'gpu1', ... among `topics`, by number."""
    return sorted((t for t in topics if t[:3] == "gpu" and t[3:].isdigit()), key=lambda t: int(t[3:]))


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _main() -> None:
    answer: Mapping[str, Facts]
    try:
        with open_nvml() as nvml:
            answer = nvml.topics()
    except Exception as error:
        answer = {"error": {"reason": f"NVML: {error}"}}
    sys.stdout.buffer.write(encode_json(answer))


if __name__ == "__main__":
    _main()
