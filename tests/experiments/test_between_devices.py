"""What is said of copies, messages and operations between devices names all in which they differ."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from fake_records import GIB, MIB, a_record, findings_of
from tests.findings import assert_finding, claims

from firsttouch.experiments.collective import QUICKEST
from firsttouch.experiments.p2p_direct import CACHED
from firsttouch.experiments.p2p_message import ALONE
from firsttouch.records.findings import Quantity
from firsttouch.records.schema import Party, Record, Scalar

PAIRS = (("cuda:0", "cuda:1"), ("cuda:1", "cuda:0"))
OF_COPIES: dict[str, Scalar] = {"engine": "copy-engine", "direction": "out", "source": "device", "target": "device"}
OF_MESSAGES: dict[str, Scalar] = {"interface": "mpi", "source": "device", "target": "device"}


def between(
    experiment: str, gbs: float, pair: tuple[str, str], factors: dict[str, Scalar], **counters: Scalar
) -> Record:
    device, peer = pair
    record = a_record(experiment, gbs, {"peer": peer, **factors}, **counters)
    parties = [Party(rank=rank, host="node1", device=name) for rank, name in enumerate(pair)]
    return msgspec.structs.replace(record, device=device, better="higher", parties=parties)


@pytest.mark.parametrize(
    ("experiment", "factors", "differ"),
    [
        ("p2p-message", OF_MESSAGES, ("route", "default", "staged")),
        ("p2p-copy", OF_COPIES, ("first_touch", "gpu", "cpu")),
        ("p2p-copy", OF_COPIES, ("sdma", "1", "0")),
        ("p2p-copy", OF_COPIES, ("access", "both ways", "one way")),
    ],
)
def test_values_that_differ_in_something_else_are_not_compared_as_pairs(
    experiment: str, factors: dict[str, Scalar], differ: Sequence[str]
) -> None:
    name, usual, other = differ
    rows = [
        between(experiment, gbs, pair, {**factors, "size": 256 * MIB, name: value})
        for pair in PAIRS
        for value, gbs in ((usual, 378.0), (other, 3.67))
    ]
    found = findings_of(experiment, rows)
    assert len(found) == 2
    for value, gbs in ((usual, 378.0), (other, 3.67)):
        both_ways = dict.fromkeys(("value", "worst", "best"), Quantity(gbs, "GB/s"))
        alike = {"size": 256 * MIB, "worst_name": None, **both_ways}
        assert_finding(found, f"{experiment}.pairs", stated={name: value}, **alike)


def test_quickest_operations_and_messages_name_their_memory() -> None:
    def operation(interface: str, allocator: str, size: int, us: float, bus: float) -> Record:
        factors = {"operation": "all-reduce", "interface": interface, "ranks": 2, "allocator": allocator, "size": size}
        return a_record("collective", us, factors, bus_gbs=bus)

    rows = [
        operation("mpi-staged", "device", 4, 17.5, 0.1),
        operation("xccl", "device", 4, 25.0, 0.1),
        operation("xccl", "device", 256 * MIB, 900.0, 296.0),
        operation("xccl", "pinned", 4, 12.0, 0.1),
    ]
    bus = {"bus": Quantity(296, "GB/s"), "bus_size": "256 MiB", "bus_interface": "xccl"}
    quickest = {"operation": "all-reduce", "allocator": "device", "interface": "mpi-staged", "size": 4}
    assert_finding(findings_of("collective", rows), QUICKEST, **quickest, value=Quantity(17.5, "us"), **bus)
    short = [
        between(
            "p2p-message", 1.0, PAIRS[0], {**OF_MESSAGES, "source": memory, "target": memory, "size": 8}, latency_us=us
        )
        for memory, us in (("device", 9.0), ("pinned", 0.5))
    ]
    least = {"interface": "mpi", "by": "cuda:0", "owner": "cuda:1", "target": "pinned"}
    assert_finding(findings_of("p2p-message", short), ALONE, value=Quantity(0.5, "us"), **least)


def test_what_a_link_cannot_carry_comes_from_the_caches_of_whose_kernel_runs() -> None:
    rows = [
        between("p2p-direct", gbs, pair, {"kernel": kernel, "allocator": "device", "size": size}, of_peak=gbs / 450)
        for pair in PAIRS
        for kernel, size, gbs in (
            ("read", 4 * MIB, 4860.0), ("read", 32 * MIB, 900.0), ("read", GIB, 390.0), ("write", 4 * MIB, 380.0),
            ("write", 128 * MIB, 460.0), ("write", GIB, 380.0),
        )
    ]  # fmt: skip
    read = {"kernel": "read", "allocator": "device", "size": 4 * MIB, "party": "device"}
    found = findings_of("p2p-direct", rows)
    assert_finding(found, CACHED, **read, value=Quantity(4860, "GB/s"), share=10.8, most="32 MiB")
    slower = [r for r in rows if r.counter("of_peak") <= 1]
    assert CACHED not in claims(findings_of("p2p-direct", slower))
