from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import assert_caught, run_tiny

from firsttouch.apps import hotspot
from firsttouch.apps.hotspot import Hotspot
from firsttouch.harness.app import Cpu, Gpu, View, solve

MUTATIONS = [
    ("y == 0 ? ty : ty - 1", "ty"),
    ("+ by_z * (80.0f - now)", ""),
    ("tx >= PYRAMID", "tx > PYRAMID"),
    ("by_power * power[at]", "0.0f"),
    ("x == (long)cols - 1 ? tx : tx + 1", "tx + 1"),
]


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_a_wrong_kernel_is_caught(before: str, after: str) -> None:
    assert_caught(Hotspot, before, after)


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_samples_of_a_chip_too_large_to_check_whole_catch_it_too(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hotspot, "EVERYTHING", 1000)
    assert run_tiny(Hotspot).error == ""
    assert_caught(Hotspot, before, after)


class Kept(Hotspot):
    """Leaves its result behind."""

    result: np.ndarray

    @classmethod
    def kernel_path(cls) -> Path:
        return Hotspot.kernel_path()

    def check(self, view: View) -> str:
        self.result = view(self.temp).copy()
        return super().check(view)


@pytest.mark.parametrize("n", [1, 60, 61, 187])
def test_the_height_of_the_pyramid_changes_nothing(n: int) -> None:
    found = []
    for pyramid in (1, 3, 8):
        one = Kept({"n": n, "iterations": 7, "pyramid": pyramid})
        assert run_tiny(Kept, one=one).error == ""
        found.append(one.result)
    assert max(np.abs(one - found[0]).max() for one in found[1:]) <= 1e-4


class Idle(Kept):
    """Without power, and as warm as what is around it."""

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.fill(self.temp, hotspot.AMBIENT)
        cpu.fill(self.power, 0)


def test_a_chip_that_nothing_heats_stays_as_it_is() -> None:
    one = Idle(Idle.sizes["tiny"])
    run_tiny(Idle, one=one)
    assert (one.result == hotspot.AMBIENT).all()


def test_many_steps_of_a_fine_chip_stay_stable() -> None:
    """The original's time step overflows here."""
    one = Kept({"n": 1600, "iterations": 40, "pyramid": 8})
    one.check = lambda view: str(view(one.temp).max())  # type: ignore[method-assign]
    assert 323 < float(run_tiny(Kept, one=one).error) < 345


def test_sizes() -> None:
    assert 0.999 * 2**32 < Hotspot.footprint(solve(Hotspot, 2**32)) <= 2**32
    assert "pyramid must be at most 8" in Hotspot.problem({"n": 64, "iterations": 1, "pyramid": 9})
    assert "iterations must be at least 1" in Hotspot.problem({"n": 64, "iterations": 0, "pyramid": 2})
