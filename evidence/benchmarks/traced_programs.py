"""Time and memory of a trace that becomes a program: python evidence/benchmarks/traced_programs.py

Each line is one made-up trace of a million calls, what it becomes, seconds of a processor, and MiB at most beyond the
calls themselves.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable

from firsttouch.profile.calls import AnyCall, Arguments, ArgumentWord, BlockCall, LaunchCall, MoveCall, TracedCalls
from firsttouch.program.program import Item, Repeat
from firsttouch.program.trace import trace
from firsttouch.program.traced import program_of_trace

CALLS = 1_000_000
MIB = 1 << 20
DEVICE, HOST = 0x7F0000000000, 1 << 32


def block(number: int) -> BlockCall:
    address = DEVICE + number * 16 * MIB
    return BlockCall(t=0.0, correlation=0, address=address, bytes=16 * MIB, begins=True, kind="device")


def launches(names: list[Arguments], order: Callable[[int], int], count: int) -> list[AnyCall]:
    return [LaunchCall(t=n * 1e-6, correlation=n + 1, arguments=names[order(n)]) for n in range(count)]


def arguments(number: int) -> Arguments:
    """8 addresses in 8 blocks."""
    words = tuple(ArgumentWord(n, 0, DEVICE + n * 16 * MIB + 64 * number) for n in range(8))
    return Arguments(f"_Z7kernel{number % 10}PfS_S_S_S_S_S_S_", words)


def traces() -> dict[str, list[AnyCall]]:
    chosen, names = random.Random(1), [arguments(n) for n in range(1000)]
    blocks: list[AnyCall] = [block(n) for n in range(8)]
    copy = {"what": "copy", "bytes": 4, "blocking": True}
    solver = [
        MoveCall(t=0.0, correlation=0, source=HOST, target=DEVICE, **copy),
        *launches(names[:3], lambda n: n % 3, 7),
        MoveCall(t=0.0, correlation=0, source=DEVICE, target=HOST, **copy),
    ]
    return {
        "one kernel": [*blocks, *launches(names, lambda n: 0, CALLS)],
        "a solver that copies a flag": [*blocks, *solver * (CALLS // len(solver))],
        "rounds of 1,000 kernels": [*blocks, *launches(names, lambda n: n % 1000, CALLS)],
        "10 kernels in no order": [*blocks, *launches(names[:10], lambda n: chosen.randrange(10), CALLS)],
    }


def size(items: tuple[Item, ...]) -> int:
    return sum(1 + size(item.body) if isinstance(item, Repeat) else 1 for item in items)


def main() -> None:
    for name, calls in traces().items():
        traced = TracedCalls(1, calls, dict.fromkeys(range(1, 1001), 1e-06))
        program, seconds = None, []
        for measured in ("time", "memory"):
            if measured == "memory":
                tracemalloc.start()
            began = time.process_time()
            program = program_of_trace(trace(traced))
            seconds.append(time.process_time() - began)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        items = size((*program.initialise, *program.compute))
        print(f"{name:28} {len(calls):9,} calls {items:9,} items {seconds[0]:6.1f} s {most / MIB:6.0f} MiB")


if __name__ == "__main__":
    main()
