"""transfer: copies on this machine, and the findings for rates at several sizes."""

from __future__ import annotations

from fake_records import MIB, a_record, sentences_of
from small import SmallRun

from firsttouch.records.schema import Record


class TestSmallRun(SmallRun):
    name = "transfer"
    states_buffers = True


def copy(size: int, rate: float, allocator: str = "pinned") -> Record:
    factors = {"direction": "h2d", "engine": "copy-engine", "allocator": allocator, "size": size}
    return a_record("transfer", rate, factors, latency_us=10.0)


def test_a_faster_copy_of_a_smaller_size_is_named_with_the_largest() -> None:
    words = sentences_of("transfer", [copy(4 * MIB, 40.0), copy(64 * MIB, 6.9)])
    assert "h2d 6.9 GB/s over 64 MiB (pinned, copy-engine), and up to 40 GB/s over 4 MiB" in words
    assert "up to" not in sentences_of("transfer", [copy(4 * MIB, 40.0), copy(64 * MIB, 39.9)])
