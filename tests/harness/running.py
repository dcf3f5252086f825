"""What tests of applications share: tiny runs in this process, on the first OpenCL device, or on the device that
FIRSTTOUCH_TEST_DEVICE names, such as cuda:0.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest

from firsttouch import _core
from firsttouch.harness import measure
from firsttouch.harness.app import App
from firsttouch.machine.devices import describe_devices, open_device
from firsttouch.records.schema import DeviceInfo
from firsttouch.workspace.agents import Gpu, KernelFile
from firsttouch.workspace.strategies import STRATEGIES, strategies_of, unavailable
from firsttouch.workspace.workspace import Workspace


@cache
def opencl() -> tuple[DeviceInfo, _core.Device]:
    wanted = os.environ.get("FIRSTTOUCH_TEST_DEVICE", "opencl:0")
    for info in describe_devices(wanted.partition(":")[0]):
        if info.available and info.name == wanted:
            return info, open_device(info.name)
    pytest.skip(f"no device {wanted}")


def why_not(app: type[App], strategy: str) -> str | None:
    """Why the application is not run under the strategy on the device, or None."""
    info, _ = opencl()
    chosen = STRATEGIES[strategy]
    if chosen.bounded and not app.bounded:
        return "no bound"
    return unavailable(chosen, info) or app.refuses(chosen, info)


def strategies() -> list[str]:
    return strategies_of(opencl()[0])


def run_tiny(
    app: type[App],
    strategy: str = "svm-fine",
    *,
    params: Mapping[str, int] | None = None,
    options: Mapping[str, str] | None = None,
    mutation: tuple[str, str] | None = None,
    seed: int = 1,
    windows: int = 0,
    one: App | None = None,
) -> measure.Run:
    """Run `app` at size tiny, in memory of arbitrary values; mutation: a text of its kernel file and what takes its
    place on the GPU; windows: rows of each tiled buffer that the device holds at a time, 0 all; one: the application
    itself, where more of it is asked afterwards.
    """
    info, device = opencl()
    if mutation is not None and "library" in app.options:
        options = {"library": "own", **(options or {})}  # a vendor's library knows nothing of our kernels
    one = one or app({**app.sizes["tiny"], **(params or {})}, seed, options)
    if mutation is not None:
        before, after = mutation
        assert before in one.kernels.text, f"'{before}' is not in the kernels of {app.name}"
        one.kernels = KernelFile(one.kernels.name, one.kernels.text.replace(before, after), one.defines())
    _poison_first(one)
    if strategy not in strategies():  # the default, on another kind of device
        strategy = next(s for s in strategies() if not why_not(app, s))
    parts = {array: windows * array.row_bytes for array in one.tiled_arrays()} if windows else None
    try:
        return measure.run(one, Workspace(STRATEGIES[strategy], info, device), windows=parts)
    except Exception as error:
        if mutation is None:
            raise
        pytest.fail(f"'{mutation[1]}' must give a wrong result, and made {app.name} raise {error!r}")


def _poison_first(app: App) -> None:
    """Fill all memory before the data come: an earlier run may have left its right results there."""
    prepare = app.prepare

    def poisoned(gpu: Gpu) -> None:
        workspace = gpu.workspace
        for array in app.arrays.values():
            if array.store.device is not None and array not in gpu.windows:
                gpu.launch("fill_8", array, 0, array.nbytes, 0xA5, over=array.nbytes, writes=[array])
            if array.store.host is not None and not array.store.shared and not array.declaration.file:
                workspace.view(array, reads=False, writes=True).view(np.uint8)[:] = 0xA5
            workspace.wait()
            for valid in array.store.valid.values():
                valid.clear()
        prepare(gpu)

    app.prepare = poisoned  # type: ignore[method-assign]


def assert_caught(app: type[App], before: str, after: str, strategy: str = "svm-fine") -> None:
    """A kernel with one text replaced by another must fail the check.

    The kernel runs in the process of the tests, on any OpenCL: it must stay within all buffers, end by itself, and not
    take an index, a bound or a divisor from memory that nothing has written. What is noticed must not hang on a race.
    """
    assert run_tiny(app, strategy, mutation=(before, after)).error, f"'{after}' instead of '{before}' is not noticed"
