"""What is said of copies, messages and operations between devices names all in which they differ."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from fake_records import GIB, MIB, a_record, sentences_of

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
    ("experiment", "factors", "differ", "said"),
    [
        ("p2p-message", OF_MESSAGES, ("route", "default", "staged"), "messages of 256 MiB between two processes"),
        ("p2p-copy", OF_COPIES, ("first_touch", "gpu", "cpu"), "copies to device memory of another device"),
        ("p2p-copy", OF_COPIES, ("sdma", "1", "0"), "copies to device memory of another device"),
        ("p2p-copy", OF_COPIES, ("access", "both ways", "one way"), "copies to device memory of another device"),
    ],
)
def test_values_that_differ_in_something_else_are_not_compared_as_pairs(
    experiment: str, factors: dict[str, Scalar], differ: Sequence[str], said: str
) -> None:
    name, usual, other = differ
    rows = [
        between(experiment, gbs, pair, {**factors, "size": 256 * MIB, name: value})
        for pair in PAIRS
        for value, gbs in ((usual, 378.0), (other, 3.67))
    ]
    text = sentences_of(experiment, rows)
    assert f"({name} {usual}): " in text
    assert f"({name} {other}): " in text
    assert said in text.lower().replace("mib", "MiB")
    assert text.count("both directions alike within 1 %") == 2
    assert "least 378" not in text


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
    text = sentences_of("collective", rows)
    assert "in device memory: all-reduce 17.5 us for 4 B (mpi-staged); bus at most 296 GB/s (256 MiB, xccl)" in text
    short = [
        between(
            "p2p-message", 1.0, PAIRS[0], {**OF_MESSAGES, "source": memory, "target": memory, "size": 8}, latency_us=us
        )
        for memory, us in (("device", 9.0), ("pinned", 0.5))
    ]
    assert "at least 500 ns (mpi, cuda:0 to cuda:1, pinned memory)" in sentences_of("p2p-message", short)


def test_what_a_link_cannot_carry_comes_from_the_caches_of_whose_kernel_runs() -> None:
    rows = [
        between("p2p-direct", gbs, pair, {"kernel": kernel, "allocator": "device", "size": size}, of_peak=gbs / 450)
        for pair in PAIRS
        for kernel, size, gbs in (
            ("read", 4 * MIB, 4860.0), ("read", 32 * MIB, 900.0), ("read", GIB, 390.0), ("write", 4 * MIB, 380.0),
            ("write", 128 * MIB, 460.0), ("write", GIB, 380.0),
        )
    ]  # fmt: skip
    text = sentences_of("p2p-direct", rows)
    assert "Over 4 MiB of device memory of another device, read reaches 4,860 GB/s, 11 times the stated peak" in text
    assert "arrays of up to 32 MiB come from caches of the device whose kernel runs" in text
    slower = [r for r in rows if r.counter("of_peak") <= 1]
    assert "caches" not in sentences_of("p2p-direct", slower)
