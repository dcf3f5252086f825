"""What values of factors, and counters, mean that several experiments have: parts of their declarations."""

from __future__ import annotations

from firsttouch.records.codebook import CounterEntry, Words

AGENTS: Words = {"cpu": "the processor", "gpu": "the device that runs kernels"}
SELF_OR_OTHER: Words = {"self": "the agent that the point measures", "other": "the other agent"}
INTERFACES: Words = {
    "mpi": "MPI, which gets the address of the memory",
    "mpi-staged": "MPI, with copies through page-locked host memory",
    "xccl": "NCCL or RCCL",
}
HARDWARE = CounterEntry(name=r"hw_\w+", unit="")
"""What a vendor's profiler counted, with --counters."""
CHASE = (CounterEntry(name="cycles_per_load", unit="cycles"), CounterEntry(name="nodes", unit=""), HARDWARE)
STREAM = (
    CounterEntry(name="passes|instructions|shape_blocks|shape_threads|shape_unroll", unit=""),
    CounterEntry(name="instructions", unit="word"),
    HARDWARE,
)
EVENTS = (
    CounterEntry(
        name=r"(.+_(?:h2d|d2h))_(?:prefetch|fault|speculative|eviction|access_counter)_bytes",
        unit="B",
        at_most=r"\1_bytes",
    ),
    CounterEntry(name=r"\w+_(h2d|d2h|remote_map)_bytes", unit="B"),
    CounterEntry(name=r"um_\w+_ms", unit="ms"),
    CounterEntry(name=r"\w+_(h2d|d2h)_migrations|\w+_(cpu_faults|gpu_faults|gpu_fault_groups|remote_maps)", unit=""),
    CounterEntry(name="um_(events|dropped|thrashing|throttling)|events_dropped", unit=""),
)
"""Unified-memory events, by phase or cause. The bytes of one cause are a part of those of the direction."""
WAYS = (
    CounterEntry(name="in_gbs|out_gbs", unit="GB/s"),
    CounterEntry(name="of_peak", unit=""),
    CounterEntry(name="latency(_low|_high)?_us", unit="us"),
)
SHARES = (
    CounterEntry(name=r"best_share|ran_share|best_speedup(_low|_high)?", unit=""),
    CounterEntry(name=r"(best|all_on_gpu|all_on_cpu|share_[\d.]+)(_low|_high)?_ms", unit="ms"),
    CounterEntry(name=r"search_\w+", unit=""),
)
"""The search for the best division of work between GPU and CPU."""
