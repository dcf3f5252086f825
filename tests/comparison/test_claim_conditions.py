"""A verdict's comparisons name what differs between their points, and which of a run's points they are of."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from firsttouch.comparison.papers.evaluate import Verdict, of_results
from firsttouch.records.codebook import codebook_of
from firsttouch.records.reading import load_results
from firsttouch.records.text import named

RESULTS = Path(__file__).parents[2] / "results"

pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the source distribution leaves out results/")


@pytest.mark.parametrize("run", ["h200-standard", "xeon-vm-quick"])
def test_comparisons_name_the_factors_in_which_their_points_differ(run: str) -> None:
    checked = 0
    for verdict in of_results(load_results(RESULTS / run)).claims:
        for comparison in verdict.comparisons:
            ends = [msgspec.structs.astuple(point) for point in (comparison.points[0], comparison.points[-1])]
            for name in {name for *_, factors in ends for name in factors}:
                meant = [factors for of, _, factors in ends if codebook_of(of).applies(name, factors)]
                texts = {named(name, factors.get(name)) for factors in meant}
                if len(texts) > 1:
                    assert all(text in comparison.about for text in texts), (verdict.id, texts, comparison.about)
                    checked += 1
    assert checked


@pytest.mark.parametrize("run", ["h200-standard", "xeon-vm-quick"])
def test_comparisons_of_one_verdict_are_told_apart_by_their_words(run: str) -> None:
    """Two comparisons with the same words would be of points that differ in something unnamed."""

    def words(verdict: Verdict) -> list[str]:
        return [comparison.about for comparison in verdict.comparisons]

    for verdict in of_results(load_results(RESULTS / run)).claims:
        assert len(words(verdict)) == len(set(words(verdict))), verdict.id
