"""How right profiles of kernels are about runs in memory of the host."""

from __future__ import annotations

from firsttouch.comparison.validation.in_place import judged_in_place


def test_runs_in_place_are_predicted_from_profiles_of_other_sizes_and_visits() -> None:
    """Bounds of the project: a median error of at most 25 %, and 80 % within a factor of two."""
    judged = judged_in_place()
    assert len({(run.application, run.title) for run in judged.runs}) >= 20
    assert judged.error <= 0.25
    assert judged.within >= 0.8
    assert judged.held >= 0.8
