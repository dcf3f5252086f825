from __future__ import annotations

import numpy as np
import pytest
from tests.harness.libraries import use_numpy
from tests.harness.running import assert_caught, run_tiny, strategies, why_not

from firsttouch.apps.gemm import Gemm
from firsttouch.harness.app import solve
from firsttouch.harness.random import uniform_f32
from firsttouch.workspace.workspace import Array


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("end_a = top + a_row < rows", "end_a = top + a_row < rows - 1"),
        ("k < depth + DEPTH; k += DEPTH", "k < depth; k += DEPTH"),
        ("row_b += (ulong)DEPTH * cols", "row_b += (ulong)(DEPTH - 1) * cols"),
        ("side + SIDE / 2 + 4 * across", "side + SIDE / 2 - 4 + 4 * across"),
        ("STEP(z, 4 * part + 2)", "STEP(z, 4 * part + 3)"),
        ("k + b_row < depth ? cols : 0", "k + b_row < depth - 1 ? cols : 0"),
        ("ROWS_APART < rows)", "ROWS_APART + 1 < rows)"),
    ],
)
def test_a_wrong_kernel_is_caught(before: str, after: str) -> None:
    assert_caught(Gemm, before, after)


@pytest.mark.parametrize(("n", "wide"), [(1, 1), (7, 3), (129, 2), (128, 1), (260, 3)])
def test_any_size_is_right(n: int, wide: int) -> None:
    assert run_tiny(Gemm, params={"n": n, "wide": wide}).error == ""


def test_more_rows_of_tiles_than_a_band_has() -> None:
    assert run_tiny(Gemm, params={"n": 128 * 17 + 1, "wide": 1, "iterations": 1}).error == ""


@pytest.mark.parametrize("size", [2**20, 2**33])
def test_a_size_in_bytes_is_met_from_below(size: int) -> None:
    assert 0.99 * size < Gemm.footprint(solve(Gemm, size)) <= size


@pytest.mark.parametrize("strategy", strategies())
def test_a_library_is_used_where_there_is_one(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := why_not(Gemm, strategy):
        pytest.skip(reason)
    use_numpy(monkeypatch)
    # Of the application's own kernel nothing is left.
    broken, both = ("sum[i][0])", "sum[i][1])"), {"auto": False, "own": True}
    found = {word: bool(run_tiny(Gemm, strategy, options={"library": word}, mutation=broken).error) for word in both}
    assert found == both


def test_rows_are_streamed_through_a_window() -> None:
    app = Gemm(Gemm.sizes["tiny"])
    run = run_tiny(Gemm, "explicit", windows=60, one=app)
    assert run.error == ""
    assert run.transferred["gpu"] == app.iterations * app.a.nbytes + app.b.nbytes


@pytest.mark.parametrize("spoil", ["nothing", "one product", "a row", "the last column", "half precision"])
def test_a_large_product_is_held_to_what_rounding_explains(spoil: str) -> None:
    n = 1024
    app = Gemm({"n": n, "wide": 1, "iterations": 1})
    a, b = (uniform_f32(m.key, np.arange(n * n), -1, 1).reshape(n, n) for m in (app.a, app.b))
    if spoil == "half precision":
        c = (a.astype(np.float16).astype(np.float32) @ b.astype(np.float16).astype(np.float32)).astype(np.float32)
    else:
        c = a @ b
    if spoil == "one product":  # of an element that is always among those looked at
        c[0, 0] -= a[0, n - 1] * b[n - 1, 0]
    if spoil == "a row":
        c[517] = c[516]
    if spoil == "the last column":
        c[:, -1] -= a[:, -1] * b[-1, -1]
    held = {app.a: a, app.b: b, app.c: c}

    def view(array: Array) -> np.ndarray:
        return held[array]

    assert bool(app.check(view)) == (spoil != "nothing")
