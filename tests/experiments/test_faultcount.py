"""faultcount on this machine."""

from __future__ import annotations

from fake_records import MIB, a_record, sentences_of
from small import SmallRun

from firsttouch.records.schema import Record, Scalar


class TestSmallRun(SmallRun):
    name = "faultcount"
    states_buffers = True


def faults(counts: dict[str, float]) -> list[Record]:
    factors: dict[str, Scalar] = {"first_touch": "cpu", "size": 64 * MIB}
    return [a_record("faultcount", n, {"allocator": name, **factors}, spread=0) for name, n in counts.items()]


def test_allocators_with_much_the_same_faults_are_not_ranked() -> None:
    assert sentences_of("faultcount", faults({"malloc": 256.0, "mmap": 257.0, "device": 261.0})) == (
        "CPU page faults over arrays of 64 MiB: 257 faults/MiB, much the same for every allocator and first touch."
    )
    assert "fewest with malloc-thp" in sentences_of("faultcount", faults({"malloc": 256.0, "malloc-thp": 0.5}))
