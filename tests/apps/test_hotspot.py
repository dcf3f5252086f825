from __future__ import annotations

import pytest
from tests.apps.running import assert_caught, run_tiny

from firsttouch.apps.hotspot import Hotspot


@pytest.mark.parametrize(
    ("before", "after"),
    [("y == 0 ? ty : ty - 1", "ty"), ("+ by_z * (80.0f - now)", ""), ("tx >= PYRAMID", "tx > PYRAMID")],
)
def test_a_wrong_kernel_is_caught(before: str, after: str) -> None:
    assert_caught(Hotspot, before, after)


@pytest.mark.parametrize("pyramid", [1, 3])
def test_the_height_of_the_pyramid_changes_nothing(pyramid: int) -> None:
    assert run_tiny(Hotspot, params={"pyramid": pyramid}).wrong == ""
