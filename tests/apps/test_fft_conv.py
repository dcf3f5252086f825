from __future__ import annotations

import pytest
from tests.harness.libraries import use_numpy
from tests.harness.running import assert_detected, run_tiny, skip_reason, strategies
from tests.matrix import matrix

from firsttouch.apps.fft_conv import FftConvC2C, FftConvFused, FftConvR2C
from firsttouch.apps.support import fft
from firsttouch.harness.app import App, solve

VARIANTS: list[type[App]] = [FftConvR2C, FftConvC2C, FftConvFused]
every_variant = pytest.mark.parametrize("app", VARIANTS, ids=lambda app: app.name)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("i < n + after ? n - 1ul", "i < n + after - 1 ? n - 1ul"),
        ("border(x + 3, n, CENTRE_X)", "border(x + 3, n, CENTRE_X - 3)"),
        ("+ CENTRE_Y) % side", "+ CENTRE_Y + 1) % side"),
        ("y < TAPS_DOWN && x < TAPS_ACROSS", "y < TAPS_DOWN && x < TAPS_ACROSS - 1"),
        ("roots[3 * turn]", "roots[2 * turn]"),
        ("c_turn(sign, c_sub(v[i][1], v[i][3]))", "c_turn(-sign, c_sub(v[i][1], v[i][3]))"),
        ("if (turned && sign < 0.0f)", "if (turned == 2 && sign < 0.0f)"),
        ("c_scale(0.5f, c_add(z", "c_scale(0.5005f, c_add(z"),
        ("c_turn(-0.5f,", "c_turn(-0.4995f,"),
        ("roots[turn]", "roots[turn ^ 1u]"),
        ("if (g < lanes) to[", "if (g < lanes && !(sign > 0.0f && g == 17 && k == 5)) to["),
        ("y < TAPS_DOWN &&", "y < TAPS_DOWN - 1 &&"),
        ("border(y, n, CENTRE_Y)", "border(y, n, CENTRE_Y - 1)"),
        ("c_mul(c_conj(w), c_sub(a, b))", "c_mul(w, c_sub(a, b))"),
    ],
)
@every_variant
def test_wrong_kernel_is_detected(app: type[App], before: str, after: str) -> None:
    assert_detected(app, before, after)


@pytest.mark.parametrize(
    ("app", "before", "after"),
    [
        (FftConvR2C, "to[other_y * to_pitch + half_side] = c_conj(b);", ""),
        (FftConvC2C, "(kx == 0 ? half_side : other_x)", "other_x"),
        (FftConvR2C, "scale * first.y", "0.999f * scale * first.y"),
        (FftConvC2C, "scale * second.x", "1.001f * scale * second.x"),
        (FftConvC2C, "c_conj(kx == 0 ? a : b)", "c_conj(b)"),
        (FftConvFused, "c_scale(scale, c_mul(a, c))", "c_scale(0.999f * scale, c_mul(a, c))"),
        (FftConvFused, "c_scale(scale, c_mul(b, d))", "c_scale(scale, c_mul(a, d))"),
        (FftConvFused, "other = c_conj(c_sub(even, odd))", "other = c_sub(even, odd)"),
    ],
)
def test_wrong_kernel_of_a_variant_is_detected(app: type[App], before: str, after: str) -> None:
    assert_detected(app, before, after)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 58, 59, 122])
@every_variant
def test_any_size(app: type[App], n: int) -> None:
    assert run_tiny(app, params={"n": n}).error == ""


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (4, 5), (10, 5), (5, 10)])
@every_variant
def test_transforms_in_one_and_two_passes(
    app: type[App], rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fft, "LONGEST", {"rows": rows, "columns": columns})
    assert run_tiny(app, params={"n": 40}).error == ""
    assert run_tiny(app, params={"n": 120}).error == ""


ODD = {"n": 1025, "iterations": 1}  # a side of 1536: three blocks of 512


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c_root_of(sign, k * q % odd, odd)", "c_root_of(sign, k * (q + 1) % odd, odd)"),
        ("sign < 0.0f ? c_mul(sum", "sign > 0.0f ? c_mul(sum"),
        ("return ((f % odd) << bits)", "return ((f % odd + 1 & 1) << bits)"),
        ("c_root_of(-1.0f, kx, side)", "c_root_of(-1.0f, kx + 1, side)"),
    ],
)
def test_a_wrong_transform_of_an_odd_number_is_detected(before: str, after: str) -> None:
    assert run_tiny(FftConvFused, params=ODD).error == ""
    assert run_tiny(FftConvFused, params=ODD, mutation=(before, after)).error


@pytest.mark.parametrize(("n", "side"), [(1018, 1024), (1019, 1536), (8000, 8192), (32762, 32768), (32763, 33792)])
def test_sides_are_those_of_um_apps(n: int, side: int) -> None:
    assert FftConvR2C.declarations({"n": n, "iterations": 1})[2].shape == (side, side)
    assert side // (side & -side) <= 63  # the private array of fft_odd


@pytest.mark.parametrize(
    ("card", "app", "in_memory"),
    [(4, FftConvR2C, 2.8), (4, FftConvC2C, 3.5), (16, FftConvR2C, 11.6), (16, FftConvC2C, 13.6)],
)
def test_the_sizes_of_table_1_are_reached(card: int, app: type[App], in_memory: float) -> None:
    """Chien et al. 2019, GB: in memory, and 1.5 times the card."""
    for size in (in_memory * 1e9, 1.5 * card * 2**30):
        params = solve(app, int(size))
        assert 0.9 * size < app.footprint(params) <= size
        assert not app.problem(params)


@pytest.mark.parametrize("strategy", matrix(strategies(), 2))
@every_variant
def test_library_is_used_if_available(app: type[App], strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := skip_reason(app, strategy):
        pytest.skip(reason)
    use_numpy(monkeypatch)
    broken = ("AT(k) = v;", "AT(k) = c_scale(2.0f, v);")
    assert run_tiny(app, strategy, options={"library": "auto"}, mutation=broken).error == ""
    assert run_tiny(app, strategy, options={"library": "auto"}, params=ODD).error == ""
    assert run_tiny(app, strategy, options={"library": "own"}, mutation=broken).error


def test_sizes() -> None:
    # The taps need 6 rows and columns of the sides of the transforms.
    found = solve(FftConvR2C, 2**33)
    assert found["n"] == 40 * 512 - 6
    assert FftConvR2C.footprint(found) > 0.95 * 2**33
    assert FftConvR2C.declarations({"n": 8000, "iterations": 1})[2].shape == (8192, 8192)


@pytest.mark.parametrize("app", [FftConvFused, FftConvC2C, FftConvR2C])
def test_padded_data_that_the_cpu_cleared_changes_no_result(app: type[App]) -> None:
    assert run_tiny(app, options={"start": "original"}).error == ""
