from __future__ import annotations

import numpy as np
import pytest
from tests.harness.libraries import use_numpy
from tests.harness.running import assert_detected, opencl, run_tiny, skip_reason, strategies

from firsttouch.apps.conjugate_gradient import ConjugateGradient
from firsttouch.harness import measure
from firsttouch.harness.app import solve
from firsttouch.harness.random import uniform_f32
from firsttouch.program.dry_run import program_of
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("end = starts[i + 1]; k < end", "end = starts[i + 1] - (i + 1 < n); k < end"),
        ("ADD_UP(sums, mine,", "ADD_UP(sums, 0.7 * mine,"),
        ("x[i] += a * p[i]", "x[i] += 0.999998f * a * p[i]"),
        ("x[i] += a * p[i]", "x[i] += (i == 77 ? 0.9999f : 1.0f) * a * p[i]"),
        ("rhs[i] - a_x[i]", "(i + 1 < n ? rhs[i] - a_x[i] : 0.0f)"),
        ("values[k] * v[columns[k]]", "values[k] * v[i]"),
        ("left = r[i] - a * a_p[i]", "left = r[i] - 1.001f * a * a_p[i]"),
        ("p[i] = r[i] + b * p[i]", "p[i] = r[i] + p[i]"),
        ("*(other_sum) = 0.0", ""),
        ("row += values[k]", "row += 1.001f * values[k]"),
        ("rhs[i] - a_x[i]", "1.001f * rhs[i] - a_x[i]"),
        ("x[i] += a * p[i]", "x[i] += i < 64 ? 0.0f : a * p[i]"),
        ("x[i] += a * p[i]", "x[i] += a * p[i > 0 ? i - 1 : 0]"),
        ("x[i] += a * p[i]", "x[i] += a * r[i]"),
        ("columns[k]]", "columns[k > 1 ? k - 1 : k]]"),
        ("r[i] = left;\n        mine", "if (i + 64 < n) r[i] = left;\n        mine"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(ConjugateGradient, before, after)


@pytest.mark.parametrize("n", [1, 2, 3, 255, 256, 257, 600_000])
def test_any_number_of_rows(n: int) -> None:
    assert run_tiny(ConjugateGradient, params={"n": n}).error == ""


def test_solver_stops_at_the_tolerance() -> None:
    app = ConjugateGradient(ConjugateGradient.sizes["tiny"])
    run = run_tiny(ConjugateGradient, instance=app)
    assert (run.error, len(run.iterations)) == ("", 2)
    assert 4 <= int(app.used["steps"]) <= 12
    assert app.used["library"].startswith("own kernels (")


@pytest.mark.parametrize("strategy", strategies())
def test_library_is_used_if_available(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := skip_reason(ConjugateGradient, strategy):
        pytest.skip(reason)
    use_numpy(monkeypatch)
    broken = ("row += values[k]", "row -= values[k]")
    assert run_tiny(ConjugateGradient, strategy, options={"library": "auto"}, mutation=broken).error == ""
    assert run_tiny(ConjugateGradient, strategy, options={"library": "own"}, mutation=broken).error


@pytest.mark.parametrize("n", [1, 2, 40])
def test_elimination_from_both_sides_solves_the_system(n: int) -> None:
    app = ConjugateGradient({"n": n, "iterations": 1})
    i = np.arange(n)
    matrix = np.diag(uniform_f32(app.values.key, 2 * i, 10, 11).astype(float))
    coupling = uniform_f32(app.values.key, 2 * i[:-1] + 1, 0, 1).astype(float)
    matrix += np.diag(coupling, 1) + np.diag(coupling, -1)
    assert np.allclose(app.exact().solution(i), np.linalg.solve(matrix, np.ones(n)), rtol=0, atol=1e-12)


def test_sizes() -> None:
    assert 0.999 * 2**30 < ConjugateGradient.footprint(solve(ConjugateGradient, 2**30)) <= 2**30
    assert "must be at most" in ConjugateGradient.problem({"n": 2**30, "iterations": 1})
    with pytest.raises(ValueError, match=r"n .* at most 715827883, .* bytes"):
        solve(ConjugateGradient, 100 * 2**30)


@pytest.mark.parametrize("copied", [False, True])
def test_its_scalars_are_shared_or_copied_and_its_matrix_ends_on_the_cpu(copied: bool) -> None:
    """um-apps: host variables for the scalars, and a residual that the CPU computes from the matrix."""
    info, device = opencl()
    strategy = next(s for s in ("svm-fine", "explicit") if s in strategies())
    workspace = Workspace(STRATEGIES[strategy], info, device, copy_control=copied)
    app = ConjugateGradient({"n": 3001, "iterations": 2}, 1)
    run = measure.run(app, workspace)
    assert run.error == ""
    of_sums = [allocator for name, allocator, _ in run.buffers if name == "sums"]
    assert of_sums == (["malloc", "device"] if copied or strategy == "explicit" else [strategy])
    ends = [a.name for a in app.arrays.values() if a.declaration.ends_on == "cpu"]
    assert ends == ["starts", "columns", "values", "x"]
    assert [a.name for a in app.arrays.values() if a.declaration.is_result] == ["x"]


def test_fixed_steps_go_on_after_the_residual_has_vanished() -> None:
    """After some 40 steps the residual is zero in f32, and so is what is divided by it."""
    assert run_tiny(ConjugateGradient, options={"until": "steps"}).error == ""
    tiny = ConjugateGradient.sizes["tiny"]
    fixed = program_of(ConjugateGradient, tiny, options={"until": "steps"})
    assert fixed.launches >= 50 * tiny["iterations"]
