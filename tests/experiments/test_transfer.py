"""transfer: copies on this machine, and how rates at several sizes are said."""

from __future__ import annotations

from curves import MIB, a_record, said
from small import SmallRun

from firsttouch.records.schema import Record


class TestSmallRun(SmallRun):
    name = "transfer"
    states_buffers = True


def copy(size: int, rate: float, allocator: str = "pinned") -> Record:
    factors = {"direction": "h2d", "engine": "copy-engine", "allocator": allocator, "size": size}
    return a_record("transfer", rate, factors, latency_us=10.0)


def test_a_faster_copy_of_a_smaller_size_is_said_with_the_largest() -> None:
    words = said("transfer", [copy(4 * MIB, 40.0), copy(64 * MIB, 6.9)])
    assert "h2d 6.9 GB/s over 64 MiB (pinned, copy-engine), and up to 40 GB/s over 4 MiB" in words
    assert "up to" not in said("transfer", [copy(4 * MIB, 40.0), copy(64 * MIB, 39.9)])
