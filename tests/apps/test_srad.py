from __future__ import annotations

import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps import srad
from firsttouch.apps.srad import Srad
from firsttouch.harness.app import around, solve

MUTATIONS = [
    ("image[col * rows + above] - now", "image[col * rows + below] - now"),
    ("0.0625f * (laplacian", "0.0620f * (laplacian"),
    ("(1.0f + speckle)", "(1.0f - speckle)"),
    ("image[(ulong)west[first] * rows + row]", "now"),  # wrong in the first column of a strip only
    ("diffuses[col * rows + below] * to_south", "here * to_south"),
    ("here = right;", ""),
    ("squares[at] = after * after;", ""),
    ("i = n / 4 * 4 + GLOBAL_ID", "i = n + GLOBAL_ID"),  # the last few pixels left out of the sums
]


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Srad, before, after)


@pytest.mark.parametrize("mutation", [None, *MUTATIONS])
def test_wrong_kernel_is_detected_by_light_cones(
    monkeypatch: pytest.MonkeyPatch, mutation: tuple[str, str] | None
) -> None:
    monkeypatch.setattr(srad, "BLOCK", 128)
    monkeypatch.setattr(srad, "AREA", srad.AREA // 8)
    assert bool(run_tiny(Srad, mutation=mutation).error) == (mutation is not None)


@pytest.mark.parametrize(("iterations", "cones"), [(1, 1000), (60, 8)])
def test_number_of_light_cones_is_bounded(iterations: int, cones: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cones_checked = []
    monkeypatch.setattr(srad, "BLOCK", 128)
    monkeypatch.setattr(srad, "around", lambda *arguments: cones_checked.append(arguments[0]) or around(*arguments))
    assert run_tiny(Srad, params={"iterations": iterations}).error == ""
    assert len(set(cones_checked)) > 0.99 * cones
    assert len(cones_checked) == cones


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
