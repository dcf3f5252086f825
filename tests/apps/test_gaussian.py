from __future__ import annotations

import re

import pytest
from tests.harness.running import SIZE, assert_detected, run_tiny

from firsttouch.apps.gaussian import Gaussian, GaussianConcurrent
from firsttouch.harness.app import solve

every_variant = pytest.mark.parametrize("app", [Gaussian, GaussianConcurrent])


# Near the pivot, since at large sizes f32 does not hold the changes of columns far away.
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if (j >= t && j < n)", "if (j >= t && j < n && j != t + 9)"),
        ("i < last && j == t", "i != first + 7 && i < last && j == t"),
        ("a[(first + k) * n + t] / a[t * n + t]", "a[(first + k) * n + t] / a[0]"),
        ("row[k] - by[k] * pivot", "t == 100 ? row[k] : row[k] - by[k] * pivot"),
        ("const float pivot = a[t * n + j]", "const float pivot = a[(t > 60 ? t - 1 : t) * n + j]"),
        ("by[k] * b[t]", "1.001f * by[k] * b[t]"),
        ("row[k] - by[k] * pivot", "row[k] - 0.999f * by[k] * pivot"),
        ("/ a[t * n + t];", "/ (1.001f * a[t * n + t]);"),
        ("by[k] = m[i * n + t]", "by[k] = m[i * n + (t > 0 ? t - 1 : t)]"),
        ("if (i < last) a[", "if (i < last && !(t == 50 && i + 10 == last && j == 53)) a["),
        ("if (i < last) a[", "if (i < last && k < HIGH / 2) a["),
        ("const ulong top = first", "const ulong top = GROUP_ID == 3 * across ? last : first"),
    ],
)
@every_variant
def test_wrong_kernel_is_detected(app: type[Gaussian], before: str, after: str) -> None:
    if SIZE != "tiny" and app is GaussianConcurrent and ("b[t]" in before or "j == t" in before):
        pytest.skip("the GPU's rows of b are so far from the pivots that f32 does not hold their changes")
    assert_detected(app, before, after)


@pytest.mark.parametrize(("n", "iterations"), [(1, 1), (2, 1), (3, 100), (300, 299), (300, 20), (1100, 5)])
@every_variant
def test_other_sizes_and_partial_eliminations(app: type[Gaussian], n: int, iterations: int) -> None:
    assert run_tiny(app, params={"n": n, "iterations": iterations}).error == ""


def test_bytes_transferred_when_both_agents_work() -> None:
    n, word = 150, 4
    run = run_tiny(GaussianConcurrent, "explicit")
    half_of_all = 2 * (n // 2) * n * word + (n // 2) * word
    rows_of_the_other = (n // 2) * (n + 1) * word
    assert run.transferred == {"gpu": half_of_all + rows_of_the_other, "cpu": half_of_all}


def test_sizes() -> None:
    params = solve(Gaussian, 4 << 30)
    assert 0.999 < Gaussian.footprint(params) / (4 << 30) <= 1
    assert "n must be at least 1" in Gaussian.problem({"n": 0, "iterations": 1})


@every_variant
def test_wrong_rows_far_below_the_pivot_are_detected(app: type[Gaussian]) -> None:
    """Their multipliers are far smaller than the errors near the diagonal."""
    far = {"n": 1700, "iterations": 20}
    assert run_tiny(app, params=far).error == ""
    skips = ("FOR_EACH(k, last - first) m[", "FOR_EACH(k, last - first) if (first + k < 1600) m[")
    assert re.match("too far from .*: a by", run_tiny(app, params=far, mutation=skips).error)
