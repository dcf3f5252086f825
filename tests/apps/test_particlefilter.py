from __future__ import annotations

import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps.particlefilter import FULL_CHECK_PARTICLES, OFFSETS, ParticleFilter
from firsttouch.harness.app import View, solve

MUTATIONS = [
    ("x[i] + 1.0", "x[i]"),
    ("(double)i + offset", "(double)i"),
    ("cdf[middle] >= u", "cdf[middle] > u + 1e-3"),
    ("dx < RADIUS; ++dx", "dx < RADIUS - 1; ++dx"),
    ("start[GROUP_ID] +", ""),
    ("by < THREADS; by *= 2", "by < THREADS / 2; by *= 2"),
    ("sum[LOCAL_ID - by];", "sum[LOCAL_ID - 1];"),
]


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(ParticleFilter, before, after)


@pytest.mark.parametrize(
    ("before", "after"), [("y[i] - 2.0", "y[i]"), ("start[GROUP_ID] +", ""), ("next_y[i] = y[low]", "next_y[i] = y[i]")]
)
def test_wrong_kernel_is_detected_without_a_full_check(before: str, after: str) -> None:
    run = run_tiny(ParticleFilter, params={"n": FULL_CHECK_PARTICLES + 1, "iterations": 3}, mutation=(before, after))
    assert run.error


@pytest.mark.parametrize(("array", "word"), [("x", "resampled"), ("y", "resampled"), ("weight", "weighted mean")])
def test_few_wrong_results_are_detected(array: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check = ParticleFilter.check

    def spoiled(self: ParticleFilter, view: View) -> str:
        some = view(self.arrays[array])[5000:5512]
        some[:] = some[::-1].copy()
        return check(self, view)

    monkeypatch.setattr(ParticleFilter, "check", spoiled)
    assert word in run_tiny(ParticleFilter, params={"n": 2 * FULL_CHECK_PARTICLES}).error


@pytest.mark.parametrize("n", [1, 255, 1024, 1025, FULL_CHECK_PARTICLES + 1])
def test_any_number_of_particles(n: int) -> None:
    wrong = run_tiny(ParticleFilter, params={"n": n}).error
    assert wrong == "" if n > 1 else "distance from the disk" in wrong


def test_kernel_and_check_have_the_same_disk() -> None:
    assert f"#define OFFSETS {len(OFFSETS)} " in ParticleFilter.kernel_path().read_text()


def test_runs_are_repeatable_and_differ_by_seed() -> None:
    seen = []

    class Recorded(ParticleFilter):
        kernel_path = ParticleFilter.kernel_path

        def check(self, view):  # type: ignore[no-untyped-def]
            seen.append(view(self.estimates).tobytes())
            return super().check(view)

    for seed in (1, 1, 2):
        assert run_tiny(Recorded, seed=seed).error == ""
    assert seen[0] == seen[1] != seen[2]


def test_sizes() -> None:
    params = solve(ParticleFilter, 4 << 30)
    assert 0 <= (4 << 30) - ParticleFilter.footprint(params) < 128
    assert "leaves a film of 61 x 50" in ParticleFilter.problem({**ParticleFilter.sizes["tiny"], "iterations": 12})
