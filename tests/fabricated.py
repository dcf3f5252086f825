"""Machines that nobody here has, described as their drivers would, and what calls would plan on them.

    python tests/fabricated.py MACHINE < calls

prints one JSON object for each line of stdin, a call such as `firsttouch run latency --device hip:0`: see `Plan`.
A process plays one machine only: the sizes of its pages are read when firsttouch is imported.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo, Peer

KIB, MIB, GIB = 2**10, 2**20, 2**30
HOST = DeviceCapabilities(
    on_host_processor=True, shares_host_memory=True, coherent_during_kernel=True, host_native_atomics=True
)
"""The capabilities of the device `cpu`."""
DIRECT: dict[str, Any] = {"available": True, "cpu": "direct", "gpu": "direct"}


def _device(**fields: Any) -> DeviceInfo:
    """A device. Memory that both may use while a kernel runs can be used in parts too (native/bindings/device.cpp)."""
    device = DeviceInfo(**fields)
    for entry in device.allocators:
        entry.disjoint = entry.concurrent or entry.disjoint
    return device


@dataclass(frozen=True)
class Machine:
    """host_bytes: of memory that a process may use. environment: variables that its administrator has set."""

    processors: int
    host_bytes: int
    devices: Sequence[DeviceInfo]
    base_page: int = 4 * KIB
    huge_page: int = 2 * MIB
    environment: Mapping[str, str] = field(default_factory=dict)


def _host_allocators(gpu: bool, why_not: str, **stated: bool) -> list[AllocatorInfo]:
    """malloc, mmap and malloc-thp. gpu: whether the device's kernels reach plain host memory."""
    return [
        AllocatorInfo(
            name=name,
            available=True,
            cpu="direct",
            gpu="direct" if gpu else "none",
            gpu_reason="" if gpu else why_not,
            host_memory=True,
            on_demand=True,
            **(stated if gpu else {}),
        )
        for name in ("malloc", "mmap", "malloc-thp")
    ]


def cpu(processors: int, l3_bytes: int, l2_bytes: int = MIB, **more: int) -> DeviceInfo:
    return _device(
        name="cpu",
        kind="cpu",
        title="a processor",
        facts={
            "processors": processors,
            "l1_bytes": 32 * KIB,
            "l2_bytes": l2_bytes,
            "l3_bytes": l3_bytes,
            "line_bytes": 64,
            **more,
        },
        capabilities=HOST,
        allocators=_host_allocators(False, "the CPU alone"),
    )


def gpu_capabilities(integrated: bool = False, **more: Any) -> DeviceCapabilities:
    """As native/device/gpu.hpp states them."""
    return DeviceCapabilities(
        runs_kernels=True,
        shares_host_memory=integrated,
        gpu_hierarchy=True,
        coherent_during_kernel=True,
        uncached_loads=True,
        device_scope_atomics=True,
        device_clock=True,
        reports_free_memory=True,
        time_class="gpu",
        **more,
    )


def cuda(
    title: str,
    memory_bytes: int,
    *,
    multiprocessors: int,
    l2_bytes: int,
    integrated: bool = False,
    concurrent_managed: bool = True,
    pageable: bool = False,
    native_atomics: bool = False,
    can_register: bool = True,
    virtual_memory: bool = True,
) -> DeviceInfo:
    """A CUDA device with these attributes (native/device/cuda/device.cpp). One that reaches plain memory does so by the
    host's page tables if its link has atomics (ATS), and otherwise moves pages on a fault (HMM).
    """
    hmm = {"migrates_on_fault": True} if pageable and not native_atomics and not integrated else {}
    locked: dict[str, Any] = {**DIRECT, "host_memory": True, "on_demand": False, "concurrent": True}
    managed: dict[str, Any] = {**DIRECT, "host_memory": True, "device_memory": True, "managed": True}
    managed |= {"on_demand": True, "concurrent": concurrent_managed, "shared_atomics": concurrent_managed}
    managed |= {"disjoint": concurrent_managed}
    on_device: dict[str, Any] = {"gpu": "direct", "device_memory": True, "on_demand": False, "host_memory": integrated}
    absent = "the driver does not support virtual memory management"
    return _device(
        name="cuda:0",
        kind="cuda",
        title=title,
        facts={
            "memory_bytes": memory_bytes,
            "memory_free_bytes": memory_bytes,
            "multiprocessors": multiprocessors,
            "threads_per_multiprocessor": 2048,
            "l1_bytes": 128 * KIB,
            "l2_bytes": l2_bytes,
            "line_bytes": 128,
            "directManagedMemAccessFromHost": int(native_atomics),
        },
        capabilities=gpu_capabilities(
            integrated,
            page_migration=not integrated and concurrent_managed,
            memory_guidance=concurrent_managed,
            memory_events=True,
            host_native_atomics=native_atomics,
            machine_code="cubin",
        ),
        allocators=[
            *_host_allocators(pageable, "pageableMemoryAccess is 0", concurrent=True, shared_atomics=True, **hmm),
            AllocatorInfo(name="device", available=True, **on_device),
            AllocatorInfo(name="vmm", available=virtual_memory, reason="" if virtual_memory else absent, **on_device),
            AllocatorInfo(name="pinned", shared_atomics=native_atomics, **locked),
            AllocatorInfo(name="pinned-wc", shared_atomics=native_atomics, **locked),
            AllocatorInfo(
                name="registered",
                shared_atomics=native_atomics,
                reason="" if can_register else "hostRegisterSupported is 0",
                **locked | {"available": can_register},
            ),
            AllocatorInfo(name="managed", **managed),
            AllocatorInfo(name="managed-static", **managed),
        ],
    )


def hip_apu(xnack: bool, index: int = 0, node: int = 1) -> DeviceInfo:
    """An MI300A (native/device/hip/device.cpp), one of `node` that reach each other's memory."""
    both: dict[str, Any] = {**DIRECT, "host_memory": True, "device_memory": True}
    coherent = {"concurrent": True, "shared_atomics": True}
    managed: dict[str, Any] = {**both, "managed": True, "on_demand": xnack}
    return _device(
        name=f"hip:{index}",
        kind="hip",
        title="AMD Instinct MI300A",
        peers=[Peer(name=f"hip:{other}", access="direct") for other in range(node) if other != index],
        facts={
            "arch": f"gfx942:sramecc+:xnack{'+' if xnack else '-'}",
            "xnack": "on" if xnack else "off",
            "memory_bytes": 128 * GIB,
            "memory_free_bytes": 120 * GIB,
            "multiprocessors": 228,
            "threads_per_multiprocessor": 2048,
            "l1_bytes": 32 * KIB,
            "l2_bytes": 4 * MIB,
            "infinity_cache_bytes": 256 * MIB,
            "line_bytes": 128,
        },
        capabilities=gpu_capabilities(True, memory_guidance=True, host_native_atomics=True, machine_code="hsaco"),
        allocators=[
            *_host_allocators(xnack, "XNACK is off; HSA_XNACK=1 requests it", concurrent=True, shared_atomics=True),
            AllocatorInfo(name="device", on_demand=False, **both, **coherent),
            AllocatorInfo(
                name="vmm", available=True, gpu="direct", host_memory=True, device_memory=True, on_demand=False
            ),
            AllocatorInfo(name="pinned", on_demand=False, **both, **coherent),
            AllocatorInfo(name="registered", on_demand=False, **both, **coherent),
            AllocatorInfo(
                name="pinned-noncoherent",
                on_demand=False,
                concurrent=False,
                shared_atomics=False,
                disjoint=True,
                **both,
            ),
            AllocatorInfo(name="managed", **managed, **coherent),
            AllocatorInfo(name="managed-static", **managed, **coherent),
            AllocatorInfo(name="fine-grained", on_demand=False, **both, **coherent),
            AllocatorInfo(name="coarse-grained", concurrent=False, shared_atomics=False, **managed),
        ],
    )


def opencl_apu(system_svm: bool) -> DeviceInfo:
    """An OpenCL 2.0 GPU of an APU (native/device/opencl/device.cpp). system_svm: its kernels reach plain memory."""
    mapped: dict[str, Any] = {"available": True, "cpu": "mapped", "gpu": "direct", "host_memory": True}
    mapped |= {"concurrent": False, "disjoint": False, "shared_atomics": False}
    fine: dict[str, Any] = {**DIRECT, "host_memory": True, "device_memory": True, "disjoint": True}
    no_system = "the driver does not support fine-grained system SVM"
    return _device(
        name="opencl:0",
        kind="opencl",
        title="AMD Radeon R7",
        facts={
            "memory_bytes": 8 * GIB,
            "largest_allocation_bytes": 2 * GIB,
            "multiprocessors": 8,
            "largest_group": 256,
            "cache_bytes": 512 * KIB,
            "line_bytes": 64,
        },
        capabilities=DeviceCapabilities(
            runs_kernels=True,
            shares_host_memory=True,
            gpu_hierarchy=True,
            coherent_during_kernel=True,
            host_native_atomics=True,
            time_class="gpu",
            machine_code="opencl",
        ),
        allocators=[
            *_host_allocators(system_svm, no_system, concurrent=True, shared_atomics=True, disjoint=True),
            AllocatorInfo(name="device", device_memory=True, **mapped),
            AllocatorInfo(name="pinned", device_memory=True, **mapped),
            AllocatorInfo(name="registered", **mapped),
            AllocatorInfo(name="svm-coarse", device_memory=True, **mapped),
            AllocatorInfo(name="svm-fine", concurrent=False, shared_atomics=False, **fine),
            AllocatorInfo(name="svm-atomic", concurrent=True, shared_atomics=True, **fine),
        ],
    )


def _mi300a(xnack: bool) -> Machine:
    switch = {"HSA_XNACK": "1"} if xnack else {}
    return Machine(
        24, 120 * GIB, [cpu(24, 96 * MIB, infinity_cache_bytes=256 * MIB), hip_apu(xnack)], environment=switch
    )


def _mi300a_node(apus: int) -> Machine:
    devices = [hip_apu(False, index, apus) for index in range(apus)]
    return Machine(96, 480 * GIB, [cpu(96, 384 * MIB, infinity_cache_bytes=256 * MIB), *devices])


def _h100_node(gpus: int) -> Machine:
    """H100 that reach each other over a switch of NVLink."""
    one = cuda("NVIDIA H100 80GB HBM3", 80 * GIB, multiprocessors=132, l2_bytes=50 * MIB)
    names = [f"cuda:{index}" for index in range(gpus)]
    link: dict[str, Any] = {"access": "direct", "link": "NVLink switch", "peak_source": "NVML, 18 x NVLink"}
    link |= {"peak_in_gbs": 478.1, "peak_out_gbs": 478.1}
    facts = {**one.facts, "copies_between_devices": True}
    devices = [
        msgspec.structs.replace(
            one,
            name=name,
            facts={**facts, "uuid": f"GPU-0000000{index}"},
            peers=[Peer(name=other, **link) for other in names if other != name],
        )
        for index, name in enumerate(names)
    ]
    return Machine(96, 1800 * GIB, [cpu(96, 210 * MIB, 2 * MIB), *devices])


def _gh200(base_page: int, huge_page: int) -> Machine:
    gpu = cuda(
        "NVIDIA GH200 480GB",
        96 * GIB,
        multiprocessors=132,
        l2_bytes=50 * MIB,
        pageable=True,
        native_atomics=True,
    )
    return Machine(72, 470 * GIB, [cpu(72, 114 * MIB), gpu], base_page, huge_page)


def _volta(**links: bool) -> DeviceInfo:
    return cuda("Tesla V100", 16 * GIB, multiprocessors=80, l2_bytes=6 * MIB, **links)


_TK1 = cuda(
    "GK20A",
    2 * GIB,
    multiprocessors=1,
    l2_bytes=128 * KIB,
    integrated=True,
    concurrent_managed=False,
    can_register=False,
    virtual_memory=False,
)
_PASCAL = cuda("GeForce GTX 1050 Ti", 4 * GIB, multiprocessors=6, l2_bytes=MIB)

MACHINES: Mapping[str, Machine] = {
    "mi300a": _mi300a(xnack=False),
    "mi300a-xnack": _mi300a(xnack=True),
    "mi300a-node": _mi300a_node(4),
    "h100-node": _h100_node(8),
    "gh200": _gh200(4 * KIB, 2 * MIB),
    "gh200-64k": _gh200(64 * KIB, 512 * MIB),
    "tk1": Machine(4, 1900 * MIB, [cpu(4, 0, 2 * MIB), _TK1]),
    "kaveri": Machine(4, 14 * GIB, [cpu(4, 4 * MIB), opencl_apu(system_svm=False)]),
    "kaveri-hsa": Machine(4, 14 * GIB, [cpu(4, 4 * MIB), opencl_apu(system_svm=True)]),
    "pascal": Machine(16, 30 * GIB, [cpu(16, 11 * MIB), _PASCAL]),
    "volta": Machine(28, 180 * GIB, [cpu(28, 38 * MIB), _volta()]),
    "power9": Machine(
        160, 250 * GIB, [cpu(160, 120 * MIB), _volta(pageable=True, native_atomics=True)], 64 * KIB, 2 * MIB
    ),
}
"""Base and huge pages are those of the machine's kernel: 64 KiB and 512 MiB with such pages on Arm, and on a Power 9
with the radix page tables 64 KiB and 2 MiB. `kaveri-hsa`: as `kaveri`, with a driver whose kernels reach plain memory,
as those of HSA do.
"""


# ------------------------------------------------------------------------------------------------- plans of calls


@dataclass
class Plan:
    """What a call would do. refusal: the sentence of a call that is refused, otherwise ''.

    measured, skipped: factors of the points with their experiment and device; a skipped one has a `reason` too. For
    `firsttouch methods --verify`, measured has each property of an allocator with its stated value.
    left_out: sentences about values of the call that are not measured. requested: the values of --set.
    """

    refusal: str = ""
    measured: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    requested: dict[str, list[Any]] = field(default_factory=dict)


class _Planned(Exception):
    """Ends a call when its plan is made."""


class _Calls:
    """Makes calls of the command line on a machine up to their plans."""

    def __init__(self, machine: Machine) -> None:
        from firsttouch import _core

        core: Any = _core
        core.page_sizes = lambda: (machine.base_page, machine.huge_page)
        core.usable_processors = lambda: machine.processors
        limits = {"host": machine.host_bytes} | dict.fromkeys(
            f"FIRSTTOUCH_MAX_{k}" for k in ("HOST", "DEVICE", "MANAGED")
        )
        core.guard_limits = lambda: limits
        os.environ.pop("HSA_XNACK", None)
        os.environ.update(machine.environment)

        from firsttouch.engine import discover, runner

        self.machine, self.plan, self._make_plan = machine, Plan(), runner.make_plan
        from firsttouch.allocators import methods

        changed: Any = runner
        discovering: Any = discover
        verifying: Any = methods
        verifying.verified_cells = self._keep_cells
        changed.find_devices = discovering.find_devices = lambda names: list(machine.devices)
        changed.make_plan = self._keep_plan

    def _keep_plan(self, request: Any, devices: Any, experiments: Any, limits: Any, facts: Any, warn: Any) -> None:
        self.plan.requested = request.set
        for planned in self._make_plan(request, devices, experiments, limits, facts, self.plan.left_out.append):
            point = {"experiment": planned.point.experiment, "device": planned.point.device, **planned.point.factors}
            if planned.reason:
                self.plan.skipped.append(point | {"reason": planned.reason})
            else:
                self.plan.measured.append(point)
        raise _Planned

    def _keep_cells(self, devices: Any, on_cell: Any) -> None:
        from firsttouch.allocators.methods import stated_cells

        self.plan.measured = [
            {"device": cell.device, "allocator": cell.allocator, "property": cell.property, "stated": cell.value}
            for device in devices
            for cell in stated_cells(device)
        ]
        raise _Planned

    def call(self, line: str) -> Plan:
        from firsttouch.cli.main import parser
        from firsttouch.errors import UsageError

        self.plan = Plan()
        words = shlex.split(line)
        variables = dict(word.split("=", 1) for word in words[: words.index("firsttouch")])
        before = dict(os.environ)
        os.environ.update(variables)
        try:
            parser()(words[words.index("firsttouch") + 1 :], prog_name="firsttouch", standalone_mode=False)
        except _Planned:
            pass
        except UsageError as error:
            self.plan.refusal = str(error)
        finally:
            os.environ.clear()
            os.environ.update(before)
        return self.plan


def main() -> None:
    calls = _Calls(MACHINES[sys.argv[1]])
    for line in sys.stdin:
        print(json.dumps(vars(calls.call(line))), flush=True)


if __name__ == "__main__":
    main()
