"""The vendors' libraries compared with numpy, on every CUDA and HIP device of this machine.

Sums of 12-bit integers are exact in f32 and not in TF32, which keeps eleven bits.
"""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from firsttouch import _core
from firsttouch.machine.devices import open_device
from firsttouch.program.execution.agents import Gpu

OPENERS = {"blas": _core.open_blas, "sparse": _core.open_sparse, "fft": _core.open_fft}


@pytest.fixture(scope="module", params=["cuda:0", "cuda:1", "hip:0", "hip:1"])
def device(request: pytest.FixtureRequest) -> _core.Device:
    try:
        return open_device(request.param)
    except _core.Unavailable as reason:
        pytest.skip(str(reason))


def opened(device: _core.Device, kind: str) -> Any:
    try:
        return OPENERS[kind](device)
    except _core.Unavailable as reason:
        pytest.skip(str(reason))


def copy_to(device: _core.Device, array: np.ndarray[Any, Any]) -> _core.Buffer:
    buffer = device.allocate("device", array.nbytes)
    buffer.write(0, array.tobytes())
    return buffer


def copy_from(device: _core.Device, buffer: _core.Buffer, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    device.wait()
    return np.frombuffer(buffer.read(0, like.nbytes), like.dtype).reshape(like.shape)


def twelve_bits(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    """Returns odd integers of exactly twelve bits."""
    return (2 * rng.integers(1024, 2048, shape) + 1).astype(np.float32)


def signs(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.integers(-1, 2, shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (129, 257, 65), (511, 33, 1025), (256, 256, 256)])
def test_gemm_is_row_major_and_exact(device: _core.Device, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(1)
    blas = opened(device, "blas")
    for a, b in (
        (twelve_bits(rng, m, k), signs(rng, k, n)),
        (signs(rng, m, k), twelve_bits(rng, k, n)),
    ):
        c = np.full((m, n), np.nan, np.float32)
        target = copy_to(device, c)
        blas.gemm(on_a := copy_to(device, a), on_b := copy_to(device, b), target, m, n, k)
        found = copy_from(device, target, c)
        del on_a, on_b
        assert np.array_equal(found, a.astype(np.float64) @ b.astype(np.float64))


def test_dot_writes_only_the_given_element(device: _core.Device) -> None:
    rng = np.random.default_rng(2)
    blas = opened(device, "blas")
    n = 4001  # sums stay below 2^24
    x, y = twelve_bits(rng, n), signs(rng, n)
    start = np.array([5, 6, 7], np.float32)
    on_x, on_y, result = copy_to(device, x), copy_to(device, y), copy_to(device, start)
    blas.dot(on_x, on_y, result, 1, n)
    blas.dot(on_y, on_y, result, 2, 17)
    expected = [5, x.astype(np.float64) @ y, y[:17] @ y[:17]]
    assert copy_from(device, result, start).tolist() == expected
    for index in (-1, 3):
        with pytest.raises(ValueError, match="result holds 3 elements"):
            blas.dot(on_x, on_y, result, index, n)


def test_calls_run_in_order(device: _core.Device) -> None:
    """A gemm after a dot after a gemm: scalars on the host, on the device, on the host."""
    rng = np.random.default_rng(3)
    blas = opened(device, "blas")
    a, b = twelve_bits(rng, 33, 17), signs(rng, 17, 1)
    c = np.zeros((33, 1), np.float32)
    on_a, on_b, on_c, result = (
        copy_to(device, a),
        copy_to(device, b),
        copy_to(device, c),
        copy_to(device, np.zeros(1, np.float32)),
    )
    for _ in range(2):
        blas.gemm(on_a, on_b, on_c, 33, 1, 17)
        blas.dot(on_c, on_b, result, 0, 17)
    expected = a.astype(np.float64) @ b
    assert np.array_equal(copy_from(device, on_c, c), expected)
    assert copy_from(device, result, np.zeros(1, np.float32))[0] == expected[:17, 0] @ b[:, 0]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1001, 777), (313, 4099)])
def test_sparse_products(device: _core.Device, rows: int, columns: int) -> None:
    rng = np.random.default_rng(4)
    sparse = opened(device, "sparse")
    dense = np.where(rng.random((rows, columns)) < 0.05, twelve_bits(rng, rows, columns), 0).astype(np.float32)
    dense[0, 0] = 3
    if rows > 7:
        dense[5] = 0  # an empty row
        dense[7] = twelve_bits(rng, columns)  # and a full one
    pointers = np.concatenate([[0], np.cumsum((dense != 0).sum(axis=1))]).astype(np.int32)
    indices, values = np.nonzero(dense)[1].astype(np.int32), dense[dense != 0]
    memory = [copy_to(device, array) for array in (pointers, indices, values)]
    plan = sparse.plan(*memory, rows, columns, len(values))
    for _ in range(3):
        x = signs(rng, columns)
        y = np.full(rows, np.nan, np.float32)
        on_x, on_y = copy_to(device, x), copy_to(device, y)
        plan.multiply(on_x, on_y)
        assert np.array_equal(copy_from(device, on_y, y), dense.astype(np.float64) @ x)
    memory[2].free()
    with pytest.raises(RuntimeError, match="has been freed"):
        plan.multiply(on_x, on_y)


def close(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    return bool(np.abs(found - expected).max() <= 1e-5 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize(("height", "width"), [(2, 3), (45, 77), (64, 128), (101, 6), (6, 101)])
def test_transforms(device: _core.Device, height: int, width: int) -> None:
    rng = np.random.default_rng(5)
    fft = opened(device, "fft")
    real = rng.standard_normal((height, width)).astype(np.float32)
    complex_input = (real + 1j * rng.standard_normal((height, width))).astype(np.complex64)
    half = np.zeros((height, width // 2 + 1), np.complex64)

    on_real, on_half = copy_to(device, real), copy_to(device, half)
    to_spectrum, to_real = fft.plan("r2c", height, width), fft.plan("c2r", height, width)  # kept until they have run
    to_spectrum.execute(on_real, on_half, "forward")
    found = copy_from(device, on_half, half)
    assert close(found, np.fft.rfft2(real.astype(np.float64)))

    on_back = copy_to(device, np.zeros_like(real))
    to_real.execute(on_half, on_back, "backward")
    assert close(copy_from(device, on_back, real), real.astype(np.float64) * (height * width))

    plan = fft.plan("c2c", height, width)
    on_complex, on_out = copy_to(device, complex_input), copy_to(device, np.zeros_like(complex_input))
    plan.execute(on_complex, on_out, "forward")
    assert close(copy_from(device, on_out, complex_input), np.fft.fft2(complex_input.astype(np.complex128)))
    plan.execute(on_out, on_out, "backward")  # in place
    assert close(copy_from(device, on_out, complex_input), complex_input.astype(np.complex128) * (height * width))


def test_transforms_refuse_invalid_requests(device: _core.Device) -> None:
    fft = opened(device, "fft")
    plan = fft.plan("r2c", 4, 4)
    real, half = copy_to(device, np.zeros((4, 4), np.float32)), copy_to(device, np.zeros((4, 3), np.complex64))
    for input, output, direction, message in (
        (real, half, "backward", "r2c supports the direction forward only"),
        (real, real, "forward", "cannot work in place"),
        (real, half, "sideways", "no direction"),
        (half, real, "forward", "output holds 8 elements"),
    ):
        with pytest.raises(ValueError, match=message):
            plan.execute(input, output, direction)
    with pytest.raises(ValueError, match="no kind of transform"):
        fft.plan("z2z", 4, 4)


def test_device_memory_of_libraries_is_released(device: _core.Device) -> None:
    """A BLAS handle has a workspace of 32 MiB."""
    for kind in OPENERS:
        opened(device, kind)  # the vendor keeps some memory from the first use on
    before = device.memory()[1]
    library = opened(device, "blas")
    during = device.memory()[1]
    del library
    assert before - during >= 32 * 2**20
    assert abs(device.memory()[1] - before) <= 4 * 2**20


def test_libraries_and_plans_keep_their_device(device: _core.Device) -> None:
    another = open_device(device.name)
    ones = np.ones((8, 8), np.complex64)
    data, plan = copy_to(another, ones), opened(another, "fft").plan("c2c", 8, 8)
    del another
    plan.execute(data, data, "forward")
    found = np.frombuffer(data.read(0, ones.nbytes), np.complex64)  # the read is ordered after the transform
    assert found[0] == 64
    assert np.abs(found[1:]).max() < 1e-4


def gpu(device: _core.Device) -> Gpu:
    """Returns a stub with the attributes that Gpu.library uses."""
    return cast("Gpu", SimpleNamespace(workspace=SimpleNamespace(device=device)))


@pytest.mark.parametrize("kind", list(OPENERS))
def test_gpu_library_returns_the_library_and_its_name(device: _core.Device, kind: str) -> None:
    library, name = Gpu.library(gpu(device), kind)
    if library is None:
        assert name.startswith("own kernels (")
    else:
        assert name == library.title
        assert any(char.isdigit() for char in name) or "BLAS" in name


@pytest.mark.parametrize("kind", list(OPENERS))
@pytest.mark.parametrize("name", ["cpu", "opencl:0"])
def test_other_devices_have_no_libraries(name: str, kind: str) -> None:
    try:
        other = open_device(name)
    except _core.Unavailable as reason:
        pytest.skip(str(reason))
    with pytest.raises(_core.Unavailable, match=rf"no .* library .* {other.name.partition(':')[0]}"):
        OPENERS[kind](other)
    assert Gpu.library(gpu(other), kind, "own") == (None, "own kernels")
    library, name = Gpu.library(gpu(other), kind)
    assert library is None
    assert name.startswith("own kernels (there is no ")


def test_the_error_of_a_missing_library_lists_the_paths(device: _core.Device) -> None:
    libraries = {"cuda": ("cublas", "cusparse", "cufft"), "hip": ("hipblas", "hipsparse", "hipfft")}
    program = (
        "import sys\n"
        "from firsttouch import _core\n"
        "from firsttouch.machine.devices import open_device\n"
        "device = open_device(sys.argv[1])\n"
        "for kind, name in zip(('blas', 'sparse', 'fft'), sys.argv[2:]):\n"
        "    _core.set_library_paths(name, ['libnowhere.so.7'])\n"
        "    try:\n"
        "        getattr(_core, 'open_' + kind)(device)\n"
        "    except _core.Unavailable as reason:\n"
        "        assert f'the {name} library was not found' in str(reason), reason\n"
        "        assert 'libnowhere.so.7' in str(reason), reason\n"
        "    else:\n"
        "        raise AssertionError(name)\n"
    )
    chosen = libraries[device.name.partition(":")[0]]
    subprocess.run([sys.executable, "-c", program, device.name, *chosen], check=True)
