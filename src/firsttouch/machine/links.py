"""The links between the GPUs of one machine, as a driver states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Link:
    """One direction of a connection between two GPUs.

    name: NVLink, xGMI or PCIe; '' if unknown. hops: the links along the path, None if unknown. gbs: the stated peak in
    10^9 bytes per second, None if unknown. source: the field of the driver that gbs follows from.
    """

    name: str = ""
    hops: int | None = None
    gbs: float | None = None
    source: str = ""


Links: TypeAlias = Mapping[tuple[str, str], Link]
"""Links by the PCI addresses (`pci_address`) of the GPU that sends and the GPU that receives."""


def pci_address(text: str) -> str:
    """A PCI address with a domain of four digits, in lower case: CUDA, HIP and NVML write it differently."""
    domain, colon, rest = text.strip().lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest}" if colon else text
