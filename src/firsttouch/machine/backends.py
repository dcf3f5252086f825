"""The table of backends: one row for each kind of device, beside its row in native/device/device.cpp (backends()).

Everything in Python that differs by kind stands in the row or follows from what the device states of itself
(records.schema.DeviceCapabilities, AllocatorInfo).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from firsttouch.machine import amd, host
from firsttouch.machine.peers import numa_peers
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import Peer, Scalar

HOST = "cpu"
"""The kind, and the only device, that is the host's processor."""

Facts: TypeAlias = Mapping[str, Scalar]


@dataclass(frozen=True)
class Extra:
    """What the machine knows of a device beside its driver: facts, which win over the driver's, notes, and peers that
    are no devices.
    """

    facts: Facts
    notes: Sequence[str] = ()
    peers: Sequence[Peer] = ()


@dataclass(frozen=True)
class Backend:
    """One kind of device.

    libraries: the vendors' libraries that it opens, by their names in machine/libraries.py; numbered: whether its
    devices are `kind:0`, `kind:1` and so on; switches: the settings of machine/switches.py that its runtime reads when
    a process starts; moves_buffers: whether it copies a buffer to the device that uses it, so that devices reach each
    other's memory without addresses; extra: what the machine knows of a device beside its driver, from the driver's own
    facts.
    """

    kind: str
    libraries: Sequence[str] = ()
    numbered: bool = True
    switches: Sequence[str] = ()
    moves_buffers: bool = False
    extra: Callable[[Facts], Extra] = lambda facts: Extra({})

    def device_names(self, count: int) -> list[str]:
        return [f"{self.kind}:{index}" for index in range(count)] if self.numbered else [self.kind][:count]


_HOST_FACTS = ("l1_bytes", "l2_bytes", "l3_bytes", "line_bytes")

NOT_PROVEN_ON_HIP = (
    "The HIP device has not run on AMD hardware yet: its host side was exercised on stand-ins for AMD's libraries, "
    "and its kernels were compiled, not run (docs/hip.md)."
)
WITHOUT_XNACK = (
    "XNACK was not on when the device was looked at. Without it (HSA_XNACK=1 asks for it) managed memory is, by HIP's "
    "documentation, page-locked host memory, and neither advice nor a prefetch moves a page."
)


def _of_processor(facts: Facts) -> Extra:
    about = host.cpu(Tree(), host.usable_cores())
    known: dict[str, Scalar] = {key: about[key] for key in _HOST_FACTS if key in about}
    return Extra({**known, "title": about.get("model", facts["title"])}, peers=numa_peers(Tree()))


def _of_kfd(facts: Facts) -> Extra:
    """Cache sizes from AMD's kernel driver, which its runtime does not tell."""
    shown = (gpu for gpu in amd.kfd_gpus(Tree()) if gpu.get("pci_bus") == str(facts.get("pci_bus")).lower())
    known = {key: value for key, value in next(shown, {}).items() if key.endswith("_bytes")}
    without = [WITHOUT_XNACK] if facts.get("xnack") in ("off", "none") else []
    return Extra(known, [NOT_PROVEN_ON_HIP, *without])


BACKENDS: Mapping[str, Backend] = {
    row.kind: row
    for row in (
        Backend(HOST, numbered=False, extra=_of_processor),
        Backend("opencl", libraries=("opencl-icd",), moves_buffers=True),
        Backend("cuda", libraries=("cuda", "nvrtc", "nvml", "cupti", "cublas", "cusparse", "cufft")),
        Backend(
            "hip",
            libraries=("hip", "hiprtc", "hipblas", "hipsparse", "hipfft"),
            switches=("xnack", "sdma"),
            extra=_of_kfd,
        ),
    )
}
"""In the order in which devices are found, listed and measured."""


def kind_of(device: str) -> str:
    """The kind that a device's name begins with; a library that failed stands for all devices of its kind."""
    return device.partition(":")[0]
