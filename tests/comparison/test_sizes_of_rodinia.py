"""Applications of Rodinia at the sizes of the studies: what their claims and rows are judged on."""

from __future__ import annotations

import pytest

from firsttouch.apps import all_apps
from firsttouch.comparison.papers.calls import call_of
from firsttouch.comparison.validation.points import PlatformPoints
from firsttouch.model.platform import load_platform
from firsttouch.records.papers.claims import all_claims
from firsttouch.records.papers.rows import all_rows
from firsttouch.records.schema import Record


@pytest.fixture(scope="module")
def heartwall() -> dict[str, Record]:
    """The points of the claim that heartwall takes as long with one array as with two, by strategy."""
    points = PlatformPoints(load_platform("mi300a"))
    claim = next(claim for claim in all_claims() if claim.id == "heartwall-unified-same")
    call = call_of(claim, points.gpus[0], points.gpus, points.hosts)
    records = points.of(call, lambda factors: (factors.get("xnack"), factors.get("sdma")) == ("0", "1"))
    return {str(record.factors["strategy"]): record for record in records}


def test_heartwall_has_frames_of_the_original_and_runs_as_long_as_the_shortest_run(
    heartwall: dict[str, Record],
) -> None:
    shortest = next(row for row in all_rows() if row.id == "application.baseline.time-min")
    assert isinstance(shortest.value, float)
    explicit = heartwall["explicit"]
    original = all_apps()["heartwall"].sizes["default"]
    assert {name: explicit.parameters[name] for name in ("rows", "cols")} == {
        name: original[name] for name in ("rows", "cols")
    }
    assert explicit.summary is not None
    assert shortest.value <= 1e-3 * explicit.summary.median < 1.1 * shortest.value


def test_where_kernels_decide_one_array_takes_as_long_as_two(heartwall: dict[str, Record]) -> None:
    for record in heartwall.values():
        kernels = sum(term.ms for term in record.terms if term.what == "kernels")
        assert record.summary is not None
        assert kernels > 0.8 * record.summary.median


def test_gaussian_eliminates_as_many_rows_as_the_originals_call_of_opencl() -> None:
    default = all_apps()["gaussian"].sizes["default"]
    assert default == {"n": 2048, "iterations": default["n"] - 1}
    assert all_apps()["gaussian"](default).footprint(default) > 2 * 4 * 2048**2
