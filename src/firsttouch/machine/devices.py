"""Opening and describing devices through the native core. Only for workers: a vendor library may crash its process."""

from __future__ import annotations

from functools import cache

import msgspec

from firsttouch import _core
from firsttouch.machine import amd, host, libraries
from firsttouch.machine.tree import Tree
from firsttouch.schema import AllocatorInfo, DeviceInfo, Scalar

_OPENED_BY_CORE = (
    *("cuda", "nvrtc", "nvml", "cupti", "cublas", "cusparse", "cufft"),
    *("hip", "hiprtc", "hipblas", "hipsparse", "hipfft", "opencl-icd"),
)

NOTES = {
    "hip": [
        "The HIP device has not run on AMD hardware yet: its host side was exercised on stand-ins for AMD's libraries, "
        "and its kernels were compiled, not run (docs/hip.md)."
    ]
}
"""By kind of device: what a reader of its results must know."""

WITHOUT_XNACK = (
    "XNACK was not on when the device was looked at. Without it (HSA_XNACK=1 asks for it) managed memory is, by HIP's "
    "documentation, page-locked host memory, and neither advice nor a prefetch moves a page."
)

_CPU_FACTS = ("model", "l1_bytes", "l2_bytes", "l3_bytes", "line_bytes")


@cache
def show_libraries() -> None:
    """Tell the core where the vendors' libraries are. Idempotent; nothing is opened."""
    for name in _OPENED_BY_CORE:
        _core.set_library_paths(name, libraries.candidates(name))


def open_device(name: str) -> _core.Device:
    """Open `cpu`, `opencl:N`, `cuda:N` or `hip:N`.

    Raises:
        _core.Unavailable: there is no such device here; the text says why.
    """
    show_libraries()
    return _core.open(name)


def describe_devices(kind: str) -> list[DeviceInfo]:
    """Every device of a kind, with what its driver states. A device that does not open says why."""
    show_libraries()
    names = ["cpu"] if kind == "cpu" else [f"{kind}:{index}" for index in range(_core.count_devices(kind))]
    return [_describe(name, kind) for name in names]


def _describe(name: str, kind: str) -> DeviceInfo:
    try:
        device = open_device(name)
        facts: dict[str, Scalar] = {**device.facts()}
        if kind != "cpu":
            # A kernel must compile, or nothing can be measured: a driver may open and have no working compiler.
            device.compile("pattern", _core.kernel_file("pattern.c"))
    except (RuntimeError, MemoryError) as error:
        return DeviceInfo(name=name, kind=kind, title=name, available=False, reason=" ".join(str(error).split()))
    notes = list(NOTES.get(kind, []))
    if kind == "hip":
        shown = (gpu for gpu in amd.kfd_gpus(Tree()) if gpu.get("pci_bus") == str(facts.get("pci_bus")).lower())
        facts |= {key: value for key, value in next(shown, {}).items() if key.endswith("_bytes")}
        notes += [WITHOUT_XNACK] if facts.get("xnack") in ("off", "none") else []
    if kind == "cpu":
        about = host.cpu(Tree(), host.usable_cores())
        facts |= {key: about[key] for key in _CPU_FACTS if key in about}
        facts["title"] = facts.pop("model", facts["title"])
    return DeviceInfo(
        name=name,
        kind=kind,
        title=str(facts.pop("title")),
        facts=facts,
        allocators=msgspec.convert(device.allocators(), list[AllocatorInfo]),
        notes=notes,
    )
