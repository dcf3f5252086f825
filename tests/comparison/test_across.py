"""Claims that compare machines: judged on their platforms."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from firsttouch.comparison.papers.calls import call_of
from firsttouch.comparison.validation.across import judged_across
from firsttouch.comparison.validation.points import PlatformPoints
from firsttouch.records.papers.claims import Across, PaperClaim
from firsttouch.records.schema import Record


def claim_of(less_on: Sequence[str], than_on: Sequence[str], app: str) -> tuple[PaperClaim, Across]:
    test = Across(
        experiment="app",
        where={"app": [app]},
        metric="gpu_ms",
        exact=True,
        first={"strategy": "managed+prefetch"},
        second={"strategy": "managed"},
        less_on=[*less_on],
        than_on=[*than_on],
    )
    return PaperClaim(id="made-up", rows=[], text="", test=test, options="--size in-memory"), test


@pytest.mark.parametrize(
    ("less_on", "than_on", "app", "outcome"),
    [
        (["intel-volta"], ["p9-volta"], "fdtd3d", "right"),
        (["p9-volta"], ["intel-volta"], "fdtd3d", "wrong"),
        (["p9-volta", "intel-volta"], ["p9-volta"], "fdtd3d", "wrong"),
    ],
)
def test_a_ratio_is_less_on_some_machines_than_on_others(
    less_on: list[str], than_on: list[str], app: str, outcome: str
) -> None:
    claim, test = claim_of(less_on, than_on, app)

    def records_of(points: PlatformPoints) -> list[Record]:
        call = call_of(claim, points.gpus[0], points.gpus, points.hosts)
        return points.of(call, lambda factors: factors.get("strategy") in ("managed", "managed+prefetch"))

    assert judged_across(test, claim, records_of)[0] == outcome
