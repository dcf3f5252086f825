"""What no platform predicts: every page with predictions lists it."""

from __future__ import annotations

from collections.abc import Sequence

NOT_MODELLED: Sequence[str] = (
    "how fast kernels compute, unless their times are given or were measured elsewhere",
    "what caches do in applications, beyond the reuse that a kernel's profile has",
    "contention, and other programs on the machine",
    "both agents on the same pages at once, beyond the least that happens",
    "processes whose messages depend on data; messages between processes that share a device",
    "locks, and atomic updates in applications",
    "clocks and power",
)
