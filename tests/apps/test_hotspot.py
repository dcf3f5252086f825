from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import SIZE, assert_detected, run_tiny

from firsttouch.apps import hotspot
from firsttouch.apps.hotspot import Hotspot
from firsttouch.harness.app import Cpu, Gpu, View, solve

MUTATIONS = [
    ("y == 0 ? ty : ty - 1", "ty"),
    ("+ by_z * (80.0f - now)", ""),
    ("tx >= PYRAMID", "tx > PYRAMID"),
    ("by_power * power[at]", "0.0f"),
    ("x == (long)cols - 1 ? tx : tx + 1", "tx + 1"),
    ("80.0f - now", "80.08f - now"),
    ("by_y * (south", "1.001f * by_y * (south"),
    ("by_x * (east", "0.999f * by_x * (east"),
    ("east + west - 2.0f * now", "east + west - 2.002f * now"),
    ("by_x * (east + west", "by_x * (east + south"),
    ("by_power * power[at]", "(at == 15322 ? 2.0f : 1.0f) * by_power * power[at]"),
    ("(ulong)x] = after", "(ulong)x] = y == 7 && x == 9 ? now : after"),
    ("y >= (long)rows) continue", "y >= (long)rows - 1) continue"),
    ("tile[from ^ 1][ty][tx] = after", "tile[from ^ 1][ty][tx] = now"),
    ("(long)(GROUP_ID / across) * INNER_Y", "(long)(GROUP_ID / across % 5) * INNER_Y"),
    ("clamped(top + ty, rows)", "clamped(top + ty + 1, rows)"),
]


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Hotspot, before, after)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny size is checked as a large one."""
    if SIZE != "tiny":
        pytest.skip("large chips are checked so in any case")
    monkeypatch.setattr(hotspot, "FULL_CHECK_STEPS", 1000)


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
@pytest.mark.usefixtures("large")
def test_wrong_kernel_is_detected_in_the_last_launch(before: str, after: str) -> None:
    assert_detected(Hotspot, before, after)


@pytest.mark.usefixtures("large")
@pytest.mark.slow
def test_a_large_chip_is_right() -> None:
    assert run_tiny(Hotspot).error == ""


class Kept(Hotspot):
    """Keeps a copy of its result."""

    result: np.ndarray

    @classmethod
    def kernel_path(cls) -> Path:
        return Hotspot.kernel_path()

    def check(self, view: View) -> str:
        self.result = view(self.temp).copy()
        return super().check(view)


@pytest.mark.parametrize("n", [1, 60, 61, 187])
def test_result_does_not_depend_on_the_pyramid(n: int) -> None:
    found = []
    for pyramid in (1, 3, 8):
        chip = Kept({"n": n, "iterations": 7, "pyramid": pyramid})
        assert run_tiny(Kept, instance=chip).error == ""
        found.append(chip.result)
    assert max(np.abs(result - found[0]).max() for result in found[1:]) <= 1e-4


class Idle(Kept):
    """No power, and the ambient temperature everywhere."""

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.fill(self.temp, hotspot.AMBIENT)
        cpu.fill(self.power, 0)


def test_chip_without_power_keeps_the_ambient_temperature() -> None:
    chip = Idle(Idle.sizes["tiny"])
    run_tiny(Idle, instance=chip)
    assert (chip.result == hotspot.AMBIENT).all()


def test_many_steps_on_a_fine_grid_are_stable() -> None:
    """The original's time step overflows here."""
    chip = Kept({"n": 1600, "iterations": 16, "pyramid": 8})
    chip.check = lambda view: str(view(chip.temp).max())  # type: ignore[method-assign]
    assert 323 < float(run_tiny(Kept, instance=chip).error) < 345


def test_sizes() -> None:
    assert 0.999 * 2**32 < Hotspot.footprint(solve(Hotspot, 2**32)) <= 2**32
    assert re.search("pyramid .* 8, not 9", Hotspot.problem({"n": 64, "iterations": 1, "pyramid": 9}))
    assert re.search("iterations .* 1, not 0", Hotspot.problem({"n": 64, "iterations": 0, "pyramid": 2}))
