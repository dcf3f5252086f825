"""NVIDIA Nsight Compute, `ncu`. Source: Nsight Compute CLI and Profiling Guide, metrics of `ncu --query-metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from firsttouch.profile.counters.tool import HwCounter, KernelCounts, RefusedError, Tool, csv_rows, parse_count

SECTOR = 32
"""Bytes of a sector of L1 and L2."""
_TEX = "lts__t_sectors_srcunit_tex"
"""Sectors that L1 caches ask L2 for. Others come from the other half of L2, and would count twice."""
_REFUSALS = {
    "ERR_NVGPUCTRPERM": "ncu may not read the GPU's performance counters (ERR_NVGPUCTRPERM); be root, or let the "
    "administrator load the driver with NVreg_RestrictProfilingToAdminUsers=0",
    "driver resource was unavailable": "another tool, such as DCGM, holds the GPU's performance counters",
}
_UNITS = ("byte", "sector", "")
_DURATION = "gpu__time_duration.sum"
_MS = {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1.0, "msecond": 1.0, "s": 1e3, "second": 1e3}
"""The units of a duration in ms, by the names that versions of ncu give them."""


class Ncu(Tool):
    name = "ncu"
    places = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
    absent = "it is part of Nsight Compute, which comes with the CUDA toolkit"
    how = "application replay"
    lists = ("--query-metrics",)
    quantities: ClassVar[Sequence[HwCounter]] = (
        HwCounter("hw_l1_bytes", "bytes that kernels asked the first-level caches for", [{"l1tex__t_bytes.sum": 1}]),
        HwCounter("hw_l2_bytes", "bytes that the first-level caches asked L2 for or wrote to it",
                  [{f"{_TEX}.sum": SECTOR}]),
        HwCounter("hw_device_read_bytes", "bytes read from device memory",
                  [{"dram__bytes_read.sum": 1}, {"dram__bytes_op_read.sum": 1}]),
        HwCounter("hw_device_write_bytes", "bytes written to device memory",
                  [{"dram__bytes_write.sum": 1}, {"dram__bytes_op_write.sum": 1}]),
        HwCounter("hw_link_read_bytes",
                  "bytes of host memory that kernels read and L2 did not hold: over the host link",
                  [{f"{_TEX}_aperture_sysmem_op_read_lookup_miss.sum": SECTOR},
                   {f"{_TEX}_aperture_sysmem_op_read.sum": SECTOR}]),
        HwCounter("hw_link_write_bytes", "bytes that kernels wrote to host memory",
                  [{f"{_TEX}_aperture_sysmem_op_write.sum": SECTOR}]),
        HwCounter("hw_pcie_read_bytes",
                  "bytes that the GPU read over PCIe, whoever asked for them; copies of pages too",
                  [{"pcie__read_bytes.sum": 1}]),
        HwCounter("hw_pcie_write_bytes", "bytes that the GPU wrote over PCIe", [{"pcie__write_bytes.sum": 1}]),
    )  # fmt: skip

    def arguments(self, counters: Sequence[str], folder: Path, target: Sequence[str], kernels: str) -> list[str]:
        return [
            *("--metrics", ",".join([*counters, _DURATION])),
            *("--replay-mode", "application"),  # kernel replay restores memory, and so hides migration
            *("--clock-control", "none", "--cache-control", "none"),
            *("--target-processes", "all", *(("--kernel-name", f"regex:^{kernels}") if kernels else ())),
            *("--csv", "--page", "raw", "--print-units", "base"),
            *("--log-file", str(folder / "ncu.csv")),
            *target,
        ]

    def refusal(self, folder: Path, output: str) -> RefusedError | None:
        printed = _log(folder) + output
        for words, reason in _REFUSALS.items():
            if words in printed:
                return RefusedError(reason, lasting=True)
        errors = [
            line.removeprefix("==ERROR==").strip() for line in printed.splitlines() if line.startswith("==ERROR==")
        ]
        return RefusedError(f"ncu: {errors[0]}") if errors else None

    def launches(self, folder: Path, kernels: str = "") -> list[KernelCounts]:
        lines = [line for line in _log(folder).splitlines() if line.startswith('"')]
        rows = csv_rows(lines, self.name)
        if len(rows) < 3 or "Kernel Name" not in rows[0]:
            raise RefusedError("ncu saw no kernel of this point")
        head, units, *launches = rows
        if any(len(row) != len(head) for row in rows) or not lines[-1].endswith('"'):
            raise RefusedError("what ncu wrote ends within a row; see whether the disk of TMPDIR is full")
        requested = {counter for quantity in self.quantities for form in quantity.forms for counter in form}
        columns = {name: column for column, name in enumerate(head) if name in requested}
        for name, column in columns.items():
            if units[column] not in _UNITS:
                raise RefusedError(f"ncu wrote {name} in {units[column]}, not in its base unit")
        kernel, duration = head.index("Kernel Name"), head.index(_DURATION) if _DURATION in head else None
        unit = None if duration is None else _MS.get(units[duration])
        return [
            KernelCounts(
                row[kernel],
                {name: count for name, column in columns.items() if (count := _count(row[column])) is not None},
                time * unit if unit and duration and (time := _count(row[duration])) is not None else None,
            )
            for row in launches
            if row[kernel].startswith(kernels)
        ]


def _count(text: str) -> float | None:
    return parse_count(text.replace(",", ""))


def _log(folder: Path) -> str:
    try:
        return (folder / "ncu.csv").read_text(errors="replace")
    except OSError:
        return ""
