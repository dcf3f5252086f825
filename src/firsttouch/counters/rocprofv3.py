"""AMD ROCprofiler-SDK, `rocprofv3`. Sources: "Using rocprofv3"; "MI200 and MI300 series performance counters".

Written from the documentation; it has not run on AMD hardware (docs/counters.md).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from firsttouch.counters.tool import COUNTED, HwCounter, Reading, RefusedError, Tool

_PER_PASS = 4
"""The number of counters of one block (TCC, TCP) that are asked for in one run of the program."""
_L2_LINE = 128


def _read_bytes(arbiter: str) -> dict[str, float]:
    """Requests are of 64 bytes, except those of 32. arbiter: EA0 on MI300, EA before."""
    return {f"TCC_{arbiter}_RDREQ_sum": 64, f"TCC_{arbiter}_RDREQ_32B_sum": -32}


class Rocprofv3(Tool):
    name = "rocprofv3"
    places = ("/opt/rocm*/bin/rocprofv3",)
    absent = "it is part of ROCm (rocprofiler-sdk)"
    how = "one run of the program for each group of counters"
    lists = ("--list-avail",)
    quantities: ClassVar[Sequence[HwCounter]] = (
        HwCounter("hw_tlb_misses", "translations that the first-level translation caches (UTCL1) missed",
                  [{"TCP_UTCL1_TRANSLATION_MISS_sum": 1}]),
        HwCounter("hw_l1_accesses", "accesses to the first-level caches, of up to one line each",
                  [{"TCP_TOTAL_CACHE_ACCESSES_sum": 1}]),
        HwCounter("hw_l2_bytes", "requests to L2, as lines of 128 bytes", [{"TCC_REQ_sum": _L2_LINE}]),
        HwCounter("hw_memory_read_bytes", "bytes that L2 read from all memory, device and host",
                  [{**_read_bytes("EA0"), "TCC_BUBBLE_sum": 64}, _read_bytes("EA0"), _read_bytes("EA")]),
        HwCounter("hw_memory_write_bytes", "bytes that L2 wrote to all memory",
                  [{"TCC_EA0_WRREQ_sum": 32, "TCC_EA0_WRREQ_64B_sum": 32},
                   {"TCC_EA_WRREQ_sum": 32, "TCC_EA_WRREQ_64B_sum": 32}]),
        HwCounter("hw_device_read_requests", "read requests of L2 to device memory (HBM)",
                  [{"TCC_EA0_RDREQ_DRAM_sum": 1}, {"TCC_EA_RDREQ_DRAM_sum": 1}]),
        HwCounter("hw_link_read_requests", "read requests of L2 to other memory: over the host link where there is one",
                  [{"TCC_EA0_RDREQ_sum": 1, "TCC_EA0_RDREQ_DRAM_sum": -1},
                   {"TCC_EA_RDREQ_sum": 1, "TCC_EA_RDREQ_DRAM_sum": -1}]),
    )  # fmt: skip

    def arguments(self, counters: Sequence[str], folder: Path, target: Sequence[str]) -> list[str]:
        passes = folder / "passes.txt"
        passes.write_text("".join(f"pmc: {' '.join(names)}\n" for names in groups(counters)))
        return [
            *("-i", str(passes), "--kernel-include-regex", f"^{COUNTED}"),
            *("--output-format", "csv", "-d", str(folder), "-o", "counted"),
            *("--", *target),
        ]

    def read(self, folder: Path) -> Reading:
        sums: dict[str, float] = defaultdict(float)
        kernels: dict[str, int] = defaultdict(int)
        for file in sorted(folder.rglob("*counter_collection.csv")):
            with open(file, newline="", errors="replace") as text:
                for row in csv.DictReader(text):
                    if row.get("Kernel_Name", "").startswith(COUNTED):
                        sums[row["Counter_Name"]] += float(row["Counter_Value"])
                        kernels[row["Counter_Name"]] += 1
        if not sums:
            raise RefusedError("rocprofv3 wrote no counter of this point; `rocprofv3 --list-avail` lists those it has")
        return Reading(sums, max(kernels.values()))


def groups(counters: Iterable[str]) -> list[list[str]]:
    """The counters of each run of the program: at most _PER_PASS of a block."""
    blocks: dict[str, list[str]] = defaultdict(list)
    for counter in counters:
        blocks[counter.partition("_")[0]].append(counter)
    runs: list[list[str]] = []
    for names in blocks.values():
        for number, first in enumerate(range(0, len(names), _PER_PASS)):
            if number == len(runs):
                runs.append([])
            runs[number] += names[first : first + _PER_PASS]
    return runs
