"""What each experiment is asked for in tests: few and small points that still take every path."""

from __future__ import annotations

SMALL: dict[str, list[str]] = {
    "latency": ["size=4KiB,1MiB"],
    "bandwidth": ["size=64KiB,128MiB", "allocator=malloc,device,svm-fine", "kernel=triad,read"],
    "transfer": ["size=1,4096,1000003"],
    "allocation": ["size=64,64KiB"],
    "pagefault": ["pages=1,64"],
    "faultcount": ["size=1MiB"],
    "context": ["phase=context,launch-next"],
    "codegen": [],
    "concurrency": ["size=1MiB", "iterations=10"],
    "accounting": ["size=64MiB"],
    "atomics": ["elements=1,2^10", "allocator=malloc,device,svm-fine,svm-atomic", "gpu_threads=0,64,640"],
    "caching": ["threads=1,2,1024", "allocator=malloc,device,svm-fine"],
    "locking": ["sections=100"],
    "tlb": ["pages=8,64", "stride=4KiB,64KiB"],
    "migration": ["size=4MiB", "iterations=4"],
}
