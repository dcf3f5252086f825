"""Other tools beside ours in visit.py: how each is called, and what it prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

Call = Callable[[Sequence[object]], str]
"""Runs a program and returns what it printed."""

PROGRAMS = {"all-reduce": "all_reduce", "reduce-scatter": "reduce_scatter", "all-gather": "all_gather",
            "broadcast": "broadcast", "reduce": "reduce", "all-to-all": "alltoall", "messages": "sendrecv"}  # fmt: skip

NVBANDWIDTH = {
    (engine, direction): f"device_to_device_{middle}memcpy_{way}_{short}"
    for engine, short in (("copy-engine", "ce"), ("kernel", "sm"))
    for direction, middle, way in (("out", "", "write"), ("in", "", "read"), ("both", "bidirectional_", "write"))
}
"""Of nvbandwidth's tests those that do as p2p-copy: writes are queued by the source, reads by the target."""


def nccl_tests(call: Call, folder: Path, operation: str, sizes: Sequence[int], gpus: int) -> dict[int, float]:
    """Microseconds of an operation out of place, by the bytes that were asked for.

    sizes: ascending, each by the same factor larger than the one before.
    """
    factor = sizes[1] // sizes[0] if len(sizes) > 1 else 2
    words = ["-b", sizes[0], "-e", sizes[-1], "-f", factor, "-g", gpus, "-w", 5, "-n", 50, "-c", 0]
    text = call([folder.resolve() / f"{PROGRAMS[operation]}_perf", *words])
    rows = [line.split() for line in text.splitlines() if re.match(r" +\d", line)]
    return {size: float(row[5]) for size, row in zip(sizes, rows, strict=True)}  # after size, count, type, redop, root


def nvbandwidth(
    call: Call, program: Path, mib: int, ways: Sequence[tuple[str, str]]
) -> dict[tuple[str, str, int, int], float]:
    """GB/s of copies by (engine, direction, number of the acting GPU, number of the other), both ways added up."""
    tests = [NVBANDWIDTH[way] for way in ways]
    done = json.loads(call([program.resolve(), "-j", "-s", "-b", mib, "-t", *tests]))["nvbandwidth"]
    named = {test["name"]: test for test in done["testcases"]}
    rates = {}
    for way in ways:
        rows = named[NVBANDWIDTH[way]].get("bandwidth_matrix", [])
        count = len(rows[0]) if rows else 0
        for a, row in enumerate(rows[len(rows) - count :]):  # both ways: the sums come last
            for b, value in enumerate(row):
                if value != "N/A":
                    rates[(*way, a, b)] = float(value)
    return rates


def reference_peer(call: Call, program: Path, sizes: Sequence[int]) -> dict[tuple[str, int, int, int], float]:
    """GB/s of the copies of reference_peer.cu by (direction, numbers of source and target, bytes)."""
    rows = (line.split() for line in call([program, *sizes]).splitlines())
    return {("out", int(a), int(b), int(size)): float(value) for a, b, size, value in rows}
