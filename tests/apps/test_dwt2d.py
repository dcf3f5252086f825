from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import run_tiny, skip_reason, strategies

from firsttouch.apps import dwt2d
from firsttouch.apps.dwt2d import Dwt2d
from firsttouch.harness.app import Cpu, Gpu, View, solve

WAVELETS = Dwt2d.options["wavelet"]
BOTH = [
    ("return (ulong)(within < n ? within : 2 * n - 2 - within)", "return (ulong)(i < 0 ? 0 : n - 1)"),
    ("p < SIDE - 1;", "p < SIDE - 5;"),
    ("row * high_cols + to_col] = value;\n        else\n", "to_col] = value;\n        else\n"),
]
INTEGER = [("-(neighbours >> 1)", "-(neighbours / 2)"), ("(neighbours + 2) >> 2", "(neighbours + 1) >> 2")]
REAL = [("1.0f / 1.230174104914f) * (y", "1.0f / 1.2302f) * (y"), ("0.4435068522f", "0.4436f")]


@pytest.mark.parametrize(
    ("wavelet", "mutation"), [("5/3", m) for m in [*BOTH, *INTEGER]] + [("9/7", m) for m in [*BOTH, *REAL]]
)
@pytest.mark.parametrize("windows", [False, True])
def test_wrong_kernel_is_detected(
    monkeypatch: pytest.MonkeyPatch, wavelet: str, mutation: tuple[str, str], windows: bool
) -> None:
    if windows:
        monkeypatch.setattr(dwt2d, "FULL_CHECK_PIXELS", 0)
    assert run_tiny(Dwt2d, options={"wavelet": wavelet}, mutation=mutation).error


def test_integer_transform_depends_on_the_order_of_directions() -> None:
    order = (
        "    LIFT_INTEGER(PITCH, 1)\n    LIFT_INTEGER(1, PITCH)",
        "    LIFT_INTEGER(1, PITCH)\n    LIFT_INTEGER(PITCH, 1)",
    )
    assert run_tiny(Dwt2d, mutation=order).error


@pytest.mark.parametrize("strategy", strategies())
def test_real_transform_under_every_strategy(strategy: str) -> None:
    if reason := skip_reason(Dwt2d, strategy):
        pytest.skip(reason)
    assert run_tiny(Dwt2d, strategy, options={"wavelet": "9/7"}).error == ""


@pytest.mark.parametrize("wavelet", WAVELETS)
@pytest.mark.parametrize("shape", [(1, 1, 2), (1, 9, 4), (130, 2, 3), (3, 3, 5), (64, 65, 1), (61, 120, 7)])
def test_images_of_any_shape(wavelet: str, shape: tuple[int, int, int]) -> None:
    rows, cols, levels = shape
    run = run_tiny(Dwt2d, params={"rows": rows, "cols": cols, "levels": levels}, options={"wavelet": wavelet})
    assert run.error == ""


@pytest.mark.parametrize("wavelet", WAVELETS)
def test_windows_of_a_large_image(monkeypatch: pytest.MonkeyPatch, wavelet: str) -> None:
    monkeypatch.setattr(dwt2d, "FULL_CHECK_PIXELS", 0)
    monkeypatch.setattr(dwt2d, "WINDOW", 32)
    assert run_tiny(Dwt2d, params={"rows": 411, "cols": 502}, options={"wavelet": wavelet}).error == ""


class Grey(Dwt2d):
    """An image of one colour, which is represented by the lowest band alone."""

    @classmethod
    def kernel_path(cls) -> Path:
        return Dwt2d.kernel_path()

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.fill(self.image, 228)

    def check(self, view: View) -> str:
        real = self.wavelet == "9/7"
        bands = view(self.bands).view(np.float32 if real else np.int32).reshape(3, -1)
        rows, cols = self.sizes_of_levels()[-1]
        low, high = bands[:, : rows * cols], bands[:, rows * cols :]
        expected = 228 / 255 - 0.5 if real else 100
        return super().check(view) or str(max(np.abs(low - expected).max(), np.abs(high).max()))


@pytest.mark.parametrize("wavelet", WAVELETS)
def test_an_image_of_one_colour_has_no_details(wavelet: str) -> None:
    assert float(run_tiny(Grey, options={"wavelet": wavelet}).error) <= (1e-6 if wavelet == "9/7" else 0)


def test_too_many_levels_are_rejected() -> None:
    assert "levels must be at most 30" in Dwt2d.problem({"rows": 9, "cols": 9, "levels": 31})


def test_size_in_bytes() -> None:
    assert 0.999 * 2**32 < Dwt2d.footprint(solve(Dwt2d, 2**32)) <= 2**32


def test_windows_of_a_large_image_include_all_corners() -> None:
    app = Dwt2d({"rows": 4001, "cols": 2999, "levels": 3})
    windows = [(rows[down], cols[across]) for rows, cols, (down, across) in app.windows()]
    for row in (0, 4000):
        for col in (0, 2998):
            assert any(row in rows and col in cols for rows, cols in windows)


def test_real_transform_is_the_published_filter() -> None:
    """Twice the taps of the synthesis low pass of Antonini et al. (IEEE Trans. Image Process. 1992)."""
    low = np.zeros(16)
    low[8] = 1
    taps = dwt2d.join(low, np.zeros(16))[12:21]
    half = [1.115087052456994, 0.591271763114247, -0.057543526228500, -0.091271763114250]
    assert np.allclose(taps, [0, *half[:0:-1], *half, 0], rtol=0, atol=1e-8)
