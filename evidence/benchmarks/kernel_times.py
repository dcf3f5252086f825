"""Measures what the events of `--set kernel_times=on` cost: the same launches with and without them, alternately.

    python evidence/benchmarks/kernel_times.py DEVICE [ROUNDS]

DEVICE is such as cuda:0 or opencl:0. Prints, for kernels of about 2, 20 and 200 us: the time of a launch (wall clock,
host and device together) without events, the ratio with them (the median of the ratios of all rounds, least and most),
the time that the events state for a kernel, and that of one pair of events around all launches. Kernels are launched
one by one, as an application's loop does (Gpu.launch), and as a recorded sequence of 100 (Gpu.replay).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from firsttouch import _core
from firsttouch.machine.devices import describe_devices, open_device
from firsttouch.program.declarations import Declaration
from firsttouch.program.execution.agents import Gpu, KernelFile
from firsttouch.program.execution.arrays import Array
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES

TEXT = """
KERNEL work(GLOBAL uint* data, ulong n, uint rounds) {
    FOR_EACH(i, n) {
        uint value = data[i];
        for (uint round = 0; round < rounds; ++round) value = value * 1664525u + 1013904223u;
        data[i] = value;
    }
}
"""
ITEMS, LAUNCHES, EACH = 1024, 2000, 100
WANTED = (2e-6, 20e-6, 200e-6)


def main() -> None:
    name, turns = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    info = next(info for info in describe_devices(name.partition(":")[0]) if info.name == name)
    device = open_device(name)
    workspace = Workspace(STRATEGIES["explicit"], info, device)
    gpu = Gpu(workspace, [KernelFile("work", TEXT)])
    data = Array(Declaration("data", np.dtype(np.uint32), (ITEMS,), "scratch", "gpu"), 0)
    workspace.allocate([data])
    timer = _core.KernelTimer(device)

    def one_by_one(rounds: int, launches: int = LAUNCHES) -> None:
        for _ in range(launches):
            gpu.launch("work", data, ITEMS, rounds, over=ITEMS, writes=[data])

    def kernel_seconds(rounds: int) -> float:
        """Seconds of a kernel, by the events around a sequence of them."""
        sequence = gpu.sequence()
        for _ in range(EACH):
            sequence.add("work", data, ITEMS, rounds, over=ITEMS)
        timer.begin()
        gpu.replay(sequence, writes=[data])
        timer.end()
        return timer.take()[0] / EACH

    def compare(what: str, work: Callable[[], None], rounds: int) -> None:
        ratios, plain, stated = [], [], []
        for _ in range(turns):
            without = seconds(work)
            gpu.timer = timer
            marked = seconds(work)
            gpu.timer = None
            stated.append(timer.take()[0] / LAUNCHES)
            ratios.append(marked / without)
            plain.append(without / LAUNCHES)
        print(
            f"{what:24} {median(plain) * 1e6:9.2f} {median(ratios):8.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
            f" {median(stated) * 1e6:9.2f} {kernel_seconds(rounds) * 1e6:9.2f}"
        )

    def seconds(work: Callable[[], None]) -> float:
        workspace.wait()
        started = time.perf_counter()
        work()
        workspace.wait()
        return time.perf_counter() - started

    one_by_one(1)
    print(f"{name}, {info.title}; {LAUNCHES} launches, {turns} rounds; times in us")
    print(f"{'':24} {'launch':>9} {'ratio':>8} {'(least to most)':17} {'kernel':>9} {'in a row':>9}")
    for wanted in WANTED:
        rounds = 1
        while kernel_seconds(rounds) < wanted and rounds < 2**24:
            rounds *= 2
        sequence = gpu.sequence()
        for _ in range(LAUNCHES):
            sequence.add("work", data, ITEMS, rounds, over=ITEMS)

        def replayed(sequence: object = sequence) -> None:
            for first in range(0, LAUNCHES, EACH):
                gpu.replay(sequence, first=first, count=EACH, writes=[data])  # type: ignore[arg-type]

        label = f"{wanted * 1e6:.0f} us"
        compare(f"{label}, one by one", lambda rounds=rounds: one_by_one(rounds), rounds)  # type: ignore[misc]
        compare(f"{label}, replays of {EACH}", replayed, rounds)
    workspace.free()


if __name__ == "__main__":
    main()
