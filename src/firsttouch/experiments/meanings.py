"""What values of factors, and counters, mean that several experiments have: parts of their declarations."""

from __future__ import annotations

from firsttouch.records.codebook import Counter, Words

AGENTS: Words = {"cpu": "the processor", "gpu": "the device that runs kernels"}
SELF_OR_OTHER: Words = {"self": "the agent that the point measures", "other": "the other agent"}
INTERFACES: Words = {
    "mpi": "MPI, which gets the address of the memory",
    "mpi-staged": "MPI, with copies through page-locked host memory",
    "xccl": "NCCL or RCCL",
}
HARDWARE = Counter(name=r"hw_\w+", unit="")
"""What a vendor's profiler counted, with --counters."""
CHASE = (Counter(name="cycles_per_load", unit="cycles"), Counter(name="nodes", unit=""), HARDWARE)
STREAM = (
    Counter(name="passes|instructions|shape_blocks|shape_threads|shape_unroll", unit=""),
    Counter(name="instructions", unit="word"),
    HARDWARE,
)
EVENTS = (
    Counter(
        name=r"(.+_(?:h2d|d2h))_(?:prefetch|fault|speculative|eviction|access_counter)_bytes",
        unit="B",
        at_most=r"\1_bytes",
    ),
    Counter(name=r"\w+_(h2d|d2h|remote_map)_bytes", unit="B"),
    Counter(name=r"um_\w+_ms", unit="ms"),
    Counter(name=r"\w+_(h2d|d2h)_migrations|\w+_(cpu_faults|gpu_faults|gpu_fault_groups|remote_maps)", unit=""),
    Counter(name="um_(events|dropped|thrashing|throttling)|events_dropped", unit=""),
)
"""Unified-memory events, by phase or cause. The bytes of one cause are a part of those of the direction."""
WAYS = (
    Counter(name="in_gbs|out_gbs", unit="GB/s"),
    Counter(name="of_peak", unit=""),
    Counter(name="latency(_low|_high)?_us", unit="us"),
)
SHARES = (
    Counter(name=r"best_share|ran_share|best_speedup(_low|_high)?", unit=""),
    Counter(name=r"(best|all_on_gpu|all_on_cpu|share_[\d.]+)(_low|_high)?_ms", unit="ms"),
    Counter(name=r"search_\w+", unit=""),
)
"""The search for the best division of work between GPU and CPU."""
