"""Linux `perf stat`, for the CPU. Source: perf-stat(1), "CSV FORMAT" and --control.

It starts with counting off. The worker turns it on around the timed sample, by a pipe (native/host/counted.hpp).
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from firsttouch.machine.conditions import TOOK_TURNS
from firsttouch.profile.counters.tool import HwCounter, Reading, RefusedError, Tool, csv_rows, parse_count

CONTROL = "FIRSTTOUCH_COUNTERS_CONTROL"
"""The environment variable that names both pipes."""
_LACKED = "<not supported>"
_NEARLY_ALL = 99.0
_OF_CORES = re.compile(r"[^/]+/([^/]+)/\w*")
"""An event of one kind of core, such as cpu_atom/LLC-loads/u."""


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

    def arguments(self, counters: Sequence[str], folder: Path, target: Sequence[str], kernels: str) -> list[str]:
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
        counts: dict[str, list[tuple[float, float]]] = defaultdict(list)
        absent: list[str] = []
        lacking: set[str] = set()
        try:
            text = (folder / "perf.csv").read_text(errors="replace")
        except OSError:
            raise RefusedError("perf stat wrote nothing") from None
        for row in csv_rows((line for line in text.splitlines() if not line.startswith("#")), self.name):
            if len(row) < 5 or not row[2]:
                continue  # a metric alone, a row that was cut off, or words
            count, share = parse_count(row[0]), parse_count(row[4])
            event = _event(row[2])
            if count is not None and share:
                counts[event].append((count, share))
            elif row[0].startswith("<"):
                absent.append(event)
                if row[0] == _LACKED:
                    lacking.add(event)
        if absent and not counts:
            names = ", ".join(dict.fromkeys(absent))
            raise RefusedError(f"this processor or virtual machine counts no {names}", lasting=True)
        if not counts:
            raise RefusedError("perf stat wrote no count; see what `perf stat true` prints")
        counted = {
            event: of_kinds
            for event, of_kinds in counts.items()
            if event not in lacking or sum(share for _, share in of_kinds) >= _NEARLY_ALL
        }  # the program may have run on a kind of core that does not count the event
        least = min((min(100.0, sum(share for _, share in of_kinds)) for of_kinds in counted.values()), default=100.0)
        note = f"events {TOOK_TURNS}, one was counted {least:.0f} % of the time" if least < _NEARLY_ALL else ""
        return Reading({event: _sum_over_kinds(of_kinds) for event, of_kinds in counted.items()}, note=note)


def _event(text: str) -> str:
    """The name of an event without its kind of core and without modifiers (:u)."""
    of_cores = _OF_CORES.fullmatch(text)
    return of_cores[1] if of_cores else text.partition(":")[0]


def _sum_over_kinds(counts: Sequence[tuple[float, float]]) -> float:
    """An event's count over all kinds of cores, each with the percentage of the time in which it was counted.

    perf scales the count of each kind to the whole time, as if the program had never left its cores. Taken back, the
    counts add up. Where the shares add up to less than the whole, events took turns, and the sum is scaled.
    """
    whole = sum(share for _, share in counts)
    return sum(count * share for count, share in counts) / min(whole, 100)


def _pipes(folder: Path) -> tuple[str, str]:
    return str(folder / "control"), str(folder / "acknowledge")
