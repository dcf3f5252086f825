"""Linux `perf stat`, for the CPU. Source: perf-stat(1), "CSV FORMAT" and --control.

It starts with counting off. The worker turns it on around the timed sample, by a pipe (native/host/counted.hpp).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from firsttouch.counters.tool import HwCounter, Reading, RefusedError, Tool

CONTROL = "FIRSTTOUCH_COUNTERS_CONTROL"
"""The environment variable that names both pipes."""


class Perf(Tool):
    name = "perf"
    absent = "it is in the distribution's package perf or linux-tools"
    how = "stat, all threads of the process"
    quantities: ClassVar[Sequence[HwCounter]] = (
        HwCounter("hw_tlb_misses", "loads whose translation the data TLB missed", [{"dTLB-load-misses": 1}]),
        HwCounter("hw_l1_accesses", "loads, by the first-level data cache", [{"L1-dcache-loads": 1}]),
        HwCounter("hw_l1_misses", "loads that the first-level data cache missed", [{"L1-dcache-load-misses": 1}]),
        HwCounter("hw_last_cache_accesses", "loads that reached the last cache", [{"LLC-loads": 1}]),
        HwCounter("hw_last_cache_misses", "loads that the last cache missed: lines from memory",
                  [{"LLC-load-misses": 1}]),
    )  # fmt: skip

    def arguments(self, counters: Sequence[str], folder: Path, target: Sequence[str]) -> list[str]:
        pipes = _pipes(folder)
        for pipe in pipes:
            os.mkfifo(pipe)
        return [
            *("stat", "-x", ",", "-o", str(folder / "perf.csv"), "-e", ",".join(counters)),
            *("--delay", "-1", "--control", f"fifo:{','.join(pipes)}"),
            *("--", *target),
        ]

    def environment(self, folder: Path) -> dict[str, str]:
        return {CONTROL: ",".join(_pipes(folder))}

    def refusal(self, folder: Path, output: str) -> RefusedError | None:
        if "perf_event_paranoid" in output:
            return RefusedError("perf may not read the counters; kernel.perf_event_paranoid limits that", lasting=True)
        return None

    def read(self, folder: Path) -> Reading:
        values: dict[str, float] = {}
        absent: list[str] = []
        try:
            lines = (folder / "perf.csv").read_text().splitlines()
        except OSError:
            raise RefusedError("perf stat wrote nothing") from None
        for row in csv.reader(line for line in lines if line and not line.startswith("#")):
            value, event = row[0], row[2].partition(":")[0]  # the event may end with :u
            if value.startswith("<"):
                absent.append(event)
            else:
                values[event] = float(value)
        if not values:
            raise RefusedError(f"this processor or virtual machine counts no {', '.join(absent)}", lasting=True)
        return Reading(values)


def _pipes(folder: Path) -> tuple[str, str]:
    return str(folder / "control"), str(folder / "acknowledge")
