from __future__ import annotations

import pytest
from tests.harness.running import SIZE, assert_detected, run_tiny

from firsttouch.apps import srad
from firsttouch.apps.srad import Srad
from firsttouch.harness.app import solve

MUTATIONS = [
    ("image[col * rows + above] - now", "image[col * rows + below] - now"),
    ("0.0625f * (laplacian", "0.06256f * (laplacian"),
    ("0.5f * gradient", "0.5005f * gradient"),
    ("image[at] + quarter * flow", "image[at] + 1.001f * quarter * flow"),
    ("1.0f + 0.25f * laplacian", "1.0f + 0.25025f * laplacian"),
    ("image[at] = after;", "if (at != 7777) image[at] = after;"),  # a pixel unchanged
    ("last = first + strip < cols ? first + strip : cols;", "last = first + strip < cols ? first + strip : cols - 1;"),
    ("image[i] / 255.0f", "image[i] / 255.255f"),
    ("(1.0f + speckle)", "(1.0f - speckle)"),
    ("image[(ulong)west[first] * rows + row]", "now"),  # wrong in the first column of a strip only
    ("diffuses[col * rows + below] * to_south", "here * to_south"),
    ("here = right;", ""),
    ("squares[at] = after * after;", ""),
    ("i = n / 4 * 4 + GLOBAL_ID", "i = n + GLOBAL_ID"),  # the last few pixels left out of the sums
]


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    if SIZE != "tiny" and "GLOBAL_ID" in after:
        pytest.skip("changes nothing if the number of pixels is a multiple of 4")
    assert_detected(Srad, before, after)


def test_check_of_a_few_columns_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srad, "PIXELS", 50 * 259)
    assert run_tiny(Srad).error == ""


@pytest.mark.parametrize("shape", [(1, 300), (700, 1), (2, 2), (256, 33)])
def test_images_of_any_shape(shape: tuple[int, int]) -> None:
    rows, cols = shape
    assert run_tiny(Srad, params={"rows": rows, "cols": cols}).error == ""


def test_strips_of_several_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(srad, "GROUPS", 64)
    assert run_tiny(Srad).error == ""


def test_one_pixel_has_no_variance() -> None:
    assert "variance" in Srad.problem({"rows": 1, "cols": 1, "iterations": 1})


def test_size_in_bytes() -> None:
    assert 0.999 * 2**32 < Srad.footprint(solve(Srad, 2**32)) <= 2**32
