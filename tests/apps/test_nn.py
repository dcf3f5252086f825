from __future__ import annotations

import pytest
from tests.harness.running import assert_detected, opencl, run_tiny

from firsttouch.apps.nn import Nn
from firsttouch.harness import measure
from firsttouch.harness.app import solve
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y * y + x * x), SQRT", "y * y - x * x), SQRT"),
        ("SQRT_F32(v * v + u * u)", "(v * v + u * u)"),
        ("u = at.w - lng", "u = at.w - lat"),
        ("const ulong last = first + n - 1", "const ulong last = first + n - 2"),
        ("at.x - lat", "at.x - lat * 1.00001f"),
        ("x = at.y - lng", "x = at.y - 1.001f * lng"),
        ("at.z - lat", "at.x - lat"),
        ("f32x4 at = pairs[i]", "f32x4 at = pairs[i == 70 ? 71 : i]"),
        ("results[i] = F32X2", "if (i % 512 < 480) results[i] = F32X2"),
        ("results[i] = F32X2(SQRT_F32(y * y + x * x)", "results[i] = F32X2(SQRT_F32(y * y + 1.001f * x * x)"),
        ("distances[last] = SQRT_F32(y * y + x * x)", "distances[last] = SQRT_F32(y * y + x * x + y)"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Nn, before, after)


@pytest.mark.parametrize("wrong", ["1.0000015f * SQRT_F32(", "SQRT_F32(-1.0f - "], ids=["1.5e-6", "nan"])
def test_slightly_wrong_and_nan_distances_are_detected(wrong: str) -> None:
    assert "error of a distance" in run_tiny(Nn, mutation=("SQRT_F32(", wrong)).error


@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 2), (4097, 64), (8192, 7), (8193, 1)])
def test_any_number_of_records_and_neighbours(n: int, k: int) -> None:
    assert run_tiny(Nn, params={"n": n, "k": k}).error == ""


def test_records_stream_through_a_window() -> None:
    info, device = opencl()
    app = Nn(Nn.sizes["tiny"])
    windows = {app.locations: 3001 * 8, app.distances: 3001 * 4}
    run = measure.run(app, Workspace(STRATEGIES["explicit"], info, device), windows=windows)
    assert (run.error, run.transferred) == ("", {"cpu": app.n * 4, "gpu": app.n * 8})


@pytest.mark.parametrize(("n", "k"), [(3, 4), (1000, 65)])
def test_too_many_neighbours_are_rejected(n: int, k: int) -> None:
    assert "k must be at most" in Nn.problem({**Nn.sizes["tiny"], "n": n, "k": k})


def test_size_in_bytes() -> None:
    assert 0.999 * 2**32 < Nn.footprint(solve(Nn, 2**32)) <= 2**32
