from __future__ import annotations

import numpy as np
import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps.particlefilter import OFFSETS, ParticleFilter
from firsttouch.apps.support.particles import rounded
from firsttouch.harness.app import View, solve

MUTATIONS = [
    ("x[i] + 1.0", "x[i]"),
    ("+ 5.0 * normal(key_x", "+ 5.005 * normal(key_x"),
    ("+ 2.0 * normal(key_y, frame * n + i)", ""),
    ("normal(key_y, frame * n + i)", "normal(key_x, frame * n + i)"),
    ("normal(key_x, frame * n + i)", "normal(key_x, frame * n + i + 1)"),
    ("normal(key_x, frame * n + i)", "(i + 64 < n ? normal(key_x, frame * n + i) : 0.0)"),  # the last 64
    ("cdf[middle] >= u", "cdf[middle] > u + 1e-3"),
    ("(double)i + offset", "(double)i"),
    ("(double)i + offset", "(double)i * 1.001 + offset"),
    ("(DISK - GROUND) * (2", "(DISK - GROUND) * 1.001 * (2"),
    ("dx < RADIUS; ++dx", "dx < RADIUS - 1; ++dx"),
    ("next_y[i] = y[low]", "next_y[i] = y[i]"),
    ("next_x[i] = x[low];", "next_x[i] = x[i != 1234 ? low : i];"),  # an element unchanged
    ("start[GROUP_ID] +", ""),
    ("by < THREADS; by *= 2", "by < THREADS / 2; by *= 2"),
    ("sum[LOCAL_ID - by];", "sum[LOCAL_ID - 1];"),
    ("x[low];", "x[low > 0 ? low - 1 : 0];"),
    ("w[i] = weight;", "w[i] = (GROUP_ID == 1 ? 1.001 : 1.0) * weight;"),
    # in an early frame only, and by as little as particles that survive it show
    ("x[i] + 1.0", "x[i] + (frame == 2 ? 1.001 : 1.0)"),
    ("+ 5.0 * normal(key_x", "+ (frame == 2 ? 5.005 : 5.0) * normal(key_x"),
    ("+ 2.0 * normal(key_y", "+ (frame == 2 ? 0.0 : 2.0) * normal(key_y"),
    ("+ 2.0 * normal(key_y, frame", "+ 2.0 * normal(frame == 2 ? key_x : key_y, frame"),
    ("x[i] = at_x", "x[i] = frame == 2 && i / 256 == 4 ? x[i] : at_x"),
    ("w[i] = weight;", "w[i] = (frame == 2 && GROUP_ID == 1 ? 0.5 : 1.0) * weight;"),
    ("start[b] = before;", "start[b] = (frame == 2 && b == 1 ? 1.1 : 1.0) * before;"),
]


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(ParticleFilter, before, after)


@pytest.mark.parametrize("iterations", [1, 2])
def test_few_frames(iterations: int) -> None:
    assert run_tiny(ParticleFilter, params={"iterations": iterations}).error == ""


@pytest.mark.parametrize(("array", "word"), [("x", "resampled"), ("y", "resampled"), ("weight", "weight")])
def test_few_wrong_results_are_detected(array: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check = ParticleFilter.check

    def spoiled(self: ParticleFilter, view: View) -> str:
        some = view(self.arrays[array])[5000:5512]
        some[:] = some[::-1].copy()
        return check(self, view)

    monkeypatch.setattr(ParticleFilter, "check", spoiled)
    assert word in run_tiny(ParticleFilter, params={"n": 40_000}).error


@pytest.mark.parametrize("n", [1, 255, 1024, 1025, 20_001])
def test_any_number_of_particles(n: int) -> None:
    wrong = run_tiny(ParticleFilter, params={"n": n}).error
    assert wrong == "" if n > 1 else "distance from the disk" in wrong


def test_kernel_and_check_have_the_same_disk() -> None:
    assert f"#define OFFSETS {len(OFFSETS)} " in ParticleFilter.kernel_path().read_text()


def test_sums_of_rounded_weights_are_exact_in_any_order() -> None:
    """Otherwise two right runs resample some of many particles differently, and then drift apart."""
    for weight in np.exp(np.random.default_rng(1).uniform(-300, 300, 20)):
        alike = np.full(1_000_000, rounded(weight))
        assert abs(alike[0] / weight - 1) <= 2.0**-24
        one_by_one, in_blocks = np.cumsum(alike), np.cumsum(alike.reshape(1000, 1000).sum(axis=1))
        assert (one_by_one == alike[0] * np.arange(1, 1_000_001)).all()
        assert (one_by_one[999::1000] == in_blocks).all()


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
