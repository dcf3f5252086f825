"""AMD ROCprofiler-SDK, `rocprofv3`. Sources: "Using rocprofv3"; "MI200 and MI300 series performance counters".

Written from the documentation; it has not run on AMD hardware (docs/counters.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from firsttouch.counters.tool import COUNTED, HwCounter, Reading, RefusedError, Tool, csv_rows, parse_count

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
        kernels: Counter[str] = Counter()
        for file in sorted(folder.rglob("*counter_collection.csv")):
            for counter, value in self._counts(file):
                sums[counter] += value
                kernels[counter] += 1
        if not sums:
            raise RefusedError("rocprofv3 wrote no counter of this point; `rocprofv3 --list-avail` lists those it has")
        launches = max(kernels.values())
        # A pass that ended early saw fewer launches: its sums are those of another amount of work.
        return Reading({name: value for name, value in sums.items() if kernels[name] == launches}, launches)

    def _counts(self, file: Path) -> Iterator[tuple[str, float]]:
        """The counters of a file's launches, each with its value. Rows that were cut off are left out."""
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            return
        head, *rows = csv_rows(lines, self.name) or [[]]
        for row in rows:
            of = dict(zip(head, row, strict=False))
            value = parse_count(of.get("Counter_Value"))
            if len(row) == len(head) and value is not None and of.get("Kernel_Name", "").startswith(COUNTED):
                yield of.get("Counter_Name", ""), value


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
