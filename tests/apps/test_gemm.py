from __future__ import annotations

import numpy as np
import pytest
from tests.harness.libraries import use_numpy
from tests.harness.running import assert_detected, run_tiny, skip_reason, strategies

from firsttouch.apps import gemm
from firsttouch.apps.gemm import Gemm
from firsttouch.harness.app import solve
from firsttouch.harness.random import uniform_f32
from firsttouch.program.execution.arrays import Array


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
        ("ADD(sum[i][1], column[i].part, right)", "ADD(sum[i][1], 1.001f * column[i].part, right)"),
        ("part < DEPTH / 4; ++part", "part < DEPTH / 8; ++part"),
        ("ADD(sum[i][1], column[i].part, right)", "ADD(sum[i][1], column[i].part, left)"),
        ("cols, sum[i][0]);", "cols, top == 0 && LOCAL_ID == 40 && i == 3 ? sum[i][1] : sum[i][0]);"),
        ("cols, sum[i][0]);", "top + side == 0 && LOCAL_ID == 40 && i == 3 ? 0 : cols, sum[i][0]);"),
        ("of_a[now][a_row][a_at] = next_a;", "of_a[now][a_row][a_at ^ 1] = next_a;"),
        ("of_a[0][a_row][a_at] = four(row_a", "of_a[0][a_row ^ 1][a_at] = four(row_a"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Gemm, before, after)


@pytest.mark.parametrize(("n", "wide"), [(1, 1), (7, 3), (129, 2), (128, 1), (260, 3)])
def test_any_size(n: int, wide: int) -> None:
    assert run_tiny(Gemm, params={"n": n, "wide": wide}).error == ""


def test_several_bands_of_tiles() -> None:
    few_rows = ("#define BAND 16", "#define BAND 2")
    assert run_tiny(Gemm, params={"n": 128 * 4 + 1, "wide": 1, "iterations": 1}, mutation=few_rows).error == ""


@pytest.mark.parametrize("size", [2**20, 2**33])
def test_size_in_bytes(size: int) -> None:
    assert 0.99 * size < Gemm.footprint(solve(Gemm, size)) <= size


@pytest.mark.parametrize("strategy", strategies())
def test_library_is_used_if_available(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := skip_reason(Gemm, strategy):
        pytest.skip(reason)
    use_numpy(monkeypatch)
    broken, expected = ("sum[i][0])", "sum[i][1])"), {"auto": False, "own": True}  # only the own kernel fails
    found = {
        library: bool(run_tiny(Gemm, strategy, options={"library": library}, mutation=broken).error)
        for library in expected
    }
    assert found == expected


def test_rows_stream_through_a_window() -> None:
    app = Gemm(Gemm.sizes["tiny"])
    run = run_tiny(Gemm, "explicit", windows=60, instance=app)
    assert run.error == ""
    assert run.transferred["gpu"] == app.iterations * app.a.nbytes + app.b.nbytes


@pytest.mark.parametrize("products", [2**36, 2**20])
@pytest.mark.parametrize("change", ["nothing", "one product", "a row", "the last column", "half precision"])
def test_errors_larger_than_rounding_are_detected(change: str, products: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "FULL_CHECK_PRODUCTS", products)
    n = 512
    app = Gemm({"n": n, "wide": 1, "iterations": 1})
    a, b = (uniform_f32(m.key, np.arange(n * n), -1, 1).reshape(n, n) for m in (app.a, app.b))
    if change == "half precision":
        c = (a.astype(np.float16).astype(np.float32) @ b.astype(np.float16).astype(np.float32)).astype(np.float32)
    else:
        c = a @ b
    if change == "one product":  # of an element that is always in the sample
        c[0, 0] -= a[0, n - 1] * b[n - 1, 0]
    if change == "a row":
        c[317] = c[316]
    if change == "the last column":
        c[:, -1] -= a[:, -1] * b[-1, -1]
    contents = {app.a: a, app.b: b, app.c: c}

    def view(array: Array) -> np.ndarray:
        return contents[array]

    assert bool(app.check(view)) == (change != "nothing")


def test_what_the_cpu_wrote_before_changes_no_result() -> None:
    assert run_tiny(Gemm, options={"start": "original"}).error == ""
