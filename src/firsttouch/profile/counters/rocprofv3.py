"""AMD ROCprofiler-SDK, `rocprofv3`. Sources: "Using rocprofv3"; "MI200 and MI300 series performance counters".

Written from the documentation; it has not run on AMD hardware (docs/counters.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from firsttouch.profile.counters.tool import HwCounter, KernelCounts, RefusedError, Tool, csv_rows, parse_count

_PER_PASS = 4
"""The number of counters of one block (TCC, TCP) that are asked for in one run of the program."""
_L2_LINE = 128
_NS_PER_MS = 1e6


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

    def arguments(self, counters: Sequence[str], folder: Path, target: Sequence[str], kernels: str) -> list[str]:
        passes = folder / "passes.txt"
        passes.write_text("".join(f"pmc: {' '.join(names)}\n" for names in groups(counters)))
        return [
            *("-i", str(passes), *(("--kernel-include-regex", f"^{kernels}") if kernels else ())),
            *("--output-format", "csv", "-d", str(folder), "-o", "counted"),
            *("--", *target),
        ]

    def launches(self, folder: Path, kernels: str = "") -> list[KernelCounts]:
        files = sorted(folder.rglob("*counter_collection.csv"))
        passes = [_launches(row for row in self._rows(file) if _name(row).startswith(kernels)) for file in files]
        if not any(passes):
            raise RefusedError("rocprofv3 wrote no counter of this point; `rocprofv3 --list-avail` lists those it has")
        longest = max(passes, key=len)
        # A pass that ended early saw fewer launches: its sums are those of another amount of work.
        whole = [p for p in passes if [launch.kernel for launch in p] == [launch.kernel for launch in longest]]
        return [
            KernelCounts(
                launch_passes[0].kernel,
                {k: v for launch in launch_passes for k, v in launch.values.items()},
                launch_passes[0].ms,
            )
            for launch_passes in zip(*whole, strict=True)
        ]

    def _rows(self, file: Path) -> Iterator[dict[str, str]]:
        """The rows of a file by column. Those that were cut off are left out."""
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            return
        head, *rows = csv_rows(lines, self.name) or [[]]
        yield from (dict(zip(head, row, strict=True)) for row in rows if len(row) == len(head))


def _launches(rows: Iterable[Mapping[str, str]]) -> list[KernelCounts]:
    """The launches of one run of the program, in the order in which they were dispatched."""
    launches: dict[float, KernelCounts] = {}
    for row in rows:
        count, place = parse_count(row.get("Counter_Value")), parse_count(row.get("Dispatch_Id"))
        if count is None or place is None:
            continue
        start, end = (parse_count(row.get(name)) for name in ("Start_Timestamp", "End_Timestamp"))
        ms = None if start is None or end is None or end < start else (end - start) / _NS_PER_MS
        before = launches.get(place, KernelCounts(_name(row), {}, ms))
        values = {**before.values, row.get("Counter_Name", ""): count}
        launches[place] = KernelCounts(before.kernel, values, before.ms)
    return [launches[place] for place in sorted(launches)]


def _name(row: Mapping[str, str]) -> str:
    return row.get("Kernel_Name", "")


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
