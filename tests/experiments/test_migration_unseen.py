"""What a repetition of migration must move at least."""

from __future__ import annotations

import pytest
from tests.fabricated import MACHINES

from firsttouch.experiments.migration import BASE, least_moves
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Factors, Scalar

PASCAL, APU = MACHINES["pascal"].devices[1], MACHINES["mi300a-xnack"].devices[1]
MIB = 1 << 20


def factors(**changed: Scalar) -> Factors:
    return Factors({**BASE, "allocator": "managed", "size": 64 * MIB, "iterations": 12, "events": "on", **changed})


@pytest.mark.parametrize(
    ("changed", "h2d", "d2h"),
    [
        ({}, 64 * MIB, 64 * MIB),
        ({"starts_on": "gpu"}, 0, 64 * MIB),
        ({"touch": "eighth"}, 64 * MIB, 64 * MIB),  # a line of every page
        ({"touch": "per-64KiB"}, 4 * MIB, 4 * MIB),
        ({"touch": "per-64KiB", "prefetch": "whole"}, 64 * MIB, 64 * MIB),
        ({"touch": "per-64KiB", "prefetch": "back"}, 4 * MIB, 4 * MIB),
        ({"advice": "preferred-cpu"}, 0, 0),
        ({"advice": "preferred-cpu", "prefetch": "streams-2"}, 64 * MIB, 0),
        ({"advice": "read-mostly"}, 64 * MIB, 0),
    ],
)
def test_the_least_follows_from_the_touched_pages(changed: dict[str, Scalar], h2d: int, d2h: int) -> None:
    assert least_moves(factors(**changed), PASCAL) == {"h2d": h2d, "d2h": d2h}
    assert least_moves(factors(**changed), APU) == {}
    assert least_moves(factors(**changed, allocator="pinned"), PASCAL) == {}


@pytest.mark.parametrize("name", ["h200-quick", "h100-quick"])
def test_no_complete_record_is_below_it(name: str) -> None:
    """Of 64 MiB no record is lost, so that all moved."""
    results = load_results(f"results/{name}")
    device = next(d for d in results.machine.devices if d.name == "cuda:0")
    points = [r for r in results.records if r.experiment == "migration" and "um_h2d_bytes" in r.counters]
    compared = [(r, least_moves(Factors(r.factors), device)) for r in points]
    assert sum(1 for _, least in compared if least) >= 4
    for record, least in compared:
        assert record.summary is not None
        for way, nbytes in least.items():
            assert record.counter(f"um_{way}_bytes") >= record.summary.n * nbytes, record.factors
