from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import SIZE, run_tiny, skip_reason, strategies

from firsttouch.apps import dwt2d
from firsttouch.apps.dwt2d import Dwt2d
from firsttouch.apps.support import lifting
from firsttouch.harness.app import Cpu, Gpu, View, solve

WAVELETS = Dwt2d.options["wavelet"]
BOTH = [
    ("return (ulong)(within < n ? within : 2 * n - 2 - within)", "return (ulong)(i < 0 ? 0 : n - 1)"),
    ("p < SIDE - 1;", "p < SIDE - 5;"),
    ("row * high_cols + to_col] = value;\n        else\n", "to_col] = value;\n        else\n"),
    ("if (lane >= INNER ||", "if (GROUP_ID == 1 || lane >= INNER ||"),  # a tile is missing
    ("top + y >= (long)height) continue;", "top + y + 1 >= (long)height) continue;"),
    ("values[2 * n + i] = CENTRED(image[3 * i + 2])", "values[2 * n + i] = CENTRED(image[3 * i + 1])"),
    ("values[n + i] = CENTRED(image[3 * i + 1])", "values[n + i] = CENTRED(image[3 * i + 1] + (i == n / 3))"),
    ("+ to_col] =\n                value;", "+ to_col] =\n                value + (row == 3 && to_col == 5);"),
    ("mirrored(left + lane, (long)width)", "mirrored(left + lane + (GROUP_ID == 2), (long)width)"),
]
INTEGER = [
    ("-(neighbours >> 1)", "-(neighbours / 2)"),
    ("(neighbours + 2) >> 2", "(neighbours + 1) >> 2"),
    ("LIFT_INTEGER(PITCH, 1)\n    LIFT_INTEGER(1, PITCH)", "LIFT_INTEGER(1, PITCH)\n    LIFT_INTEGER(PITCH, 1)"),
    ("((int)(byte)-128)", "((int)(byte)-127)"),
]
REAL = [
    ("1.0f / 1.230174104914f) * (y", "1.0f / 1.2302f) * (y"),
    ("0.4435068522f", "0.44395f"),
    ("-1.586134342f", "-1.58772f"),
    ("-0.05298011854f", "-0.053033f"),
    ("0.8829110762f", "0.88379f"),
    ("(float)(byte) / 255.0f", "(float)(byte) / 255.255f"),
    ("y & 1 ? 1.230174104914f", "y & 1 ? 1.2314f"),
]


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize(
    ("wavelet", "before", "after"), [("5/3", *m) for m in [*INTEGER, *BOTH]] + [("9/7", *m) for m in [*REAL, *BOTH]]
)
def test_wrong_kernel_is_detected(
    monkeypatch: pytest.MonkeyPatch, wavelet: str, before: str, after: str, windows: bool
) -> None:
    if windows and SIZE != "tiny":
        pytest.skip("the image is restored in windows")
    if windows:
        monkeypatch.setattr(dwt2d, "WINDOW", 32)
    assert run_tiny(Dwt2d, options={"wavelet": wavelet}, mutation=(before, after)).error


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


@pytest.mark.parametrize("strategy", ["buffer", "svm-fine", "explicit"])
def test_the_image_is_read_from_a_file_and_the_bands_are_written_to_one(strategy: str) -> None:
    run = run_tiny(Dwt2d, strategy, options={"files": "used"})
    assert run.error == ""
    assert {"input", "output"} < run.phases.keys()
    assert [name for name, *_ in run.spans][:3] == ["allocate", "input", "initialise"]
    assert not {"input", "output"} & run_tiny(Dwt2d, strategy).phases.keys()


@pytest.mark.parametrize("method", ["read_files", "write_files"])
def test_what_is_read_or_written_wrongly_is_found(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Dwt2d, cpu: Cpu) -> None:
        if method == "read_files":
            cpu.writes(self.image)[:] = 7

    monkeypatch.setattr(Dwt2d, method, wrong)
    error = run_tiny(Dwt2d, options={"files": "used"}).error
    assert ("image" if method == "read_files" else "file of bands") in error
    assert "differs from" in error


def test_too_many_levels_are_rejected() -> None:
    problem = Dwt2d.problem({"rows": 9, "cols": 9, "levels": 31})
    assert "levels " in problem
    assert "at most 30, not 31" in problem


def test_size_in_bytes() -> None:
    assert 0.999 * 2**32 < Dwt2d.footprint(solve(Dwt2d, 2**32)) <= 2**32


def test_windows_are_the_whole_image() -> None:
    app, seen = Dwt2d({"rows": 1201, "cols": 799, "levels": 3}), np.zeros((1201, 799), int)
    for rows, cols, inside in app.windows():
        seen[rows.start : rows.stop, cols.start : cols.stop][inside] += 1
    assert (seen == 1).all()


def test_real_transform_is_the_published_filter() -> None:
    """Twice the taps of the synthesis low pass of Antonini et al. (IEEE Trans. Image Process. 1992)."""
    low = np.zeros(16)
    low[8] = 1
    taps = lifting.join(low, np.zeros(16))[12:21]
    half = [1.115087052456994, 0.591271763114247, -0.057543526228500, -0.091271763114250]
    assert np.allclose(taps, [0, *half[:0:-1], *half, 0], rtol=0, atol=1e-8)
