"""Helpers for tests of applications: tiny runs in this process, on the first OpenCL device or on the device in
FIRSTTOUCH_TEST_DEVICE, such as cuda:0.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Collection, Mapping
from functools import cache

import numpy as np
import pytest

from firsttouch import _core
from firsttouch.base.units import parse_size
from firsttouch.harness import measure
from firsttouch.harness.app import App, solve
from firsttouch.harness.divided import Division
from firsttouch.harness.division import why_not_at_once
from firsttouch.machine.devices import describe_devices, open_device
from firsttouch.program.execution.agents import Gpu, KernelFile
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES, strategies_of, unavailable
from firsttouch.records.schema import DeviceInfo

SIZE = os.environ.get("FIRSTTOUCH_TEST_SIZE", "tiny")
"""The size at which wrong kernels and wrong results are tried: tiny, or bytes, such as 64MiB (minutes)."""


WRONG_UNDER = os.environ.get("FIRSTTOUCH_TEST_STRATEGY", "")
"""The strategy under which all wrong kernels are tried, such as pinned-wc; by default the one that each test names."""


def params_of(app: type[App]) -> dict[str, int]:
    """The application's parameters at SIZE."""
    return dict(app.sizes["tiny"]) if SIZE == "tiny" else solve(app, parse_size(SIZE))


@cache
def opencl() -> tuple[DeviceInfo, _core.Device]:
    wanted = os.environ.get("FIRSTTOUCH_TEST_DEVICE", "opencl:0")
    for info in describe_devices(wanted.partition(":")[0]):
        if info.available and info.name == wanted:
            return info, open_device(info.name)
    pytest.skip(f"no device {wanted}")


atexit.register(opencl.cache_clear)  # Hypothesis keeps test functions, and so this cache, until nanobind reports leaks


def skip_reason(app: type[App], strategy: str) -> str | None:
    """Why the application cannot run under the strategy on the test device, or None."""
    info, _ = opencl()
    chosen = STRATEGIES[strategy]
    if chosen.bounded and not app.bounded:
        return "its buffer sizes have no upper bound at compile time"
    return unavailable(chosen, info) or app.refuses(chosen, info)


def strategies() -> list[str]:
    return strategies_of(opencl()[0], on_request=True)


def run_tiny(
    app: type[App],
    strategy: str = "svm-fine",
    *,
    params: Mapping[str, int] | None = None,
    options: Mapping[str, str] | None = None,
    mutation: tuple[str, str] | None = None,
    seed: int = 1,
    windows: int = 0,
    instance: App | None = None,
    division: Division | None = None,
    known: Collection[str] = (),
) -> measure.Run:
    """Run an application at size tiny (with a mutation: at SIZE), in memory filled with arbitrary values.

    Args:
        mutation: a text of its kernel file, and its replacement on the GPU.
        windows: rows of each tiled buffer that the device holds at a time; 0: all.
        instance: the instance to run, for tests that examine it afterwards.
        division: of the work between both agents; by default half each, in turns where they may not work at once.
        known: digests of outputs that need not be checked again.
    """
    info, device = opencl()
    if mutation is not None and WRONG_UNDER:
        strategy = WRONG_UNDER
        if reason := skip_reason(app, strategy):
            pytest.skip(f"{strategy}: {reason}")
    if mutation is not None and "library" in app.options:
        options = {"library": "own", **(options or {})}  # a vendor's library does not run our kernels
    usual = app.sizes["tiny"] if mutation is None else params_of(app)
    instance = instance or app({**usual, **(params or {})}, seed, options)
    if mutation is not None:
        before, after = mutation
        assert before in instance.kernels.text, f"'{before}' is not in the kernels of {app.name}"
        kernels = instance.kernels
        instance.kernels = KernelFile(kernels.name, kernels.text.replace(before, after), instance.defines())
    _poison_memory(instance)
    if strategy not in strategies():  # the default strategy on another kind of device
        strategy = next(s for s in strategies() if not skip_reason(app, s))
    in_turns = app.divided and bool(why_not_at_once(STRATEGIES[strategy], info))
    instance.division = division or Division(in_turns=in_turns)
    parts = {array: windows * array.row_bytes for array in instance.tiled_arrays()} if windows else None
    try:
        return measure.run(instance, Workspace(STRATEGIES[strategy], info, device), windows=parts, known=known)
    except Exception as error:
        if mutation is None:
            raise
        pytest.fail(f"'{mutation[1]}' must cause a wrong result, but {app.name} raised {error!r}")


def _poison_memory(app: App) -> None:
    """Fill all memory before the run, because an earlier run may have left correct results there."""

    def fill_and_prepare(gpu: Gpu) -> None:
        del app.prepare  # this function, in favour of the class's
        workspace, word = gpu.workspace, measure.NONSENSE.to_bytes(4, "little")
        for array in app.arrays.values():
            if array.memory.device is not None and array not in gpu.windows:
                fill, size, value = ("fill_8", 1, word[0]) if array.nbytes % 4 else ("fill_32", 4, measure.NONSENSE)
                n = array.nbytes // size
                gpu.launch(fill, array, 0, n, value, over=n, writes=[array])
            if array.memory.host is not None and not array.memory.shared and not array.declaration.file:
                raw = workspace.view(array, reads=False, writes=True).view(np.uint8).reshape(-1)
                raw[: raw.size // 4 * 4].view(np.uint32)[:] = measure.NONSENSE
                raw[raw.size // 4 * 4 :] = word[0]
            workspace.wait()
            workspace.forget(array)
        app.prepare(gpu)

    app.prepare = fill_and_prepare  # type: ignore[method-assign]


def assert_detected(app: type[App], before: str, after: str, strategy: str = "svm-fine") -> None:
    """Asserts that the check fails for a kernel in which `before` is replaced by `after`.

    The kernel runs in the process of the tests, on any OpenCL implementation. It must stay within all buffers, end by
    itself, and not read an index, a bound or a divisor from uninitialised memory. Detection must not depend on a race.
    """
    assert run_tiny(app, strategy, mutation=(before, after)).error, f"'{after}' instead of '{before}' is not detected"
