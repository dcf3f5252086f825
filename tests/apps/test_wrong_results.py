"""Wrong elements in the results of every application are found, wherever they are: whole runs of them at every size, a
single one at tiny.

FIRSTTOUCH_TEST_SIZE=64MiB tries them at another size, in minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from tests.harness.running import SIZE, params_of, run_tiny, skip_reason, strategies

from firsttouch.apps import all_apps
from firsttouch.apps.halo import FIELDS
from firsttouch.harness.app import App, View
from firsttouch.harness.measure import NONSENSE
from firsttouch.workspace.arrays import Array

APPS = all_apps()
RUN = 64  # elements
Values = np.ndarray[Any, Any]

Parts = Mapping[str, Callable[[App], Values]]


def upper_triangle(app: App) -> Values:
    n, steps = app.a.shape[0], app.steps  # type: ignore[attr-defined]
    return np.flatnonzero(np.arange(n) >= np.minimum(np.arange(n), steps)[:, None])


def unpadded(app: App) -> Values:
    side, n = app.arrays["padded"].shape[0], app.arrays["data"].shape[0]
    return (np.arange(n)[:, None] * side + np.arange(n)).ravel()


def of_fields(app: App) -> Values:
    """The cells of each field with two around its block, not the further column and row of those without a node."""
    fields = app.arrays["fields"]
    numbers = np.arange(np.prod(fields.shape)).reshape(fields.shape)
    found = [
        numbers[
            field,
            : -1 if not (vel or name.endswith("_y")) else None,
            : -1 if not (vel or name.endswith("_x")) else None,
        ]
        for field, name in enumerate(FIELDS)
        for vel in [name[1:4] == "vel"]
    ]
    return np.concatenate([part.ravel() for part in found])


OTHER_RESULTS: Mapping[str, Collection[str]] = {"producer_consumer": ["ring"], "quantum_volume": ["state"]}
"""By application, results that do not end on the CPU."""
PARTS: Mapping[str, Parts] = {
    "fft_conv_c2c": {"padded": unpadded},
    "fft_conv_fused": {"padded": unpadded},
    "fft_conv_r2c": {"padded": unpadded},
    "gaussian": {"a": upper_triangle},  # below it are remains of rounding
    "gaussian_concurrent": {"a": upper_triangle},
    "halo": {"fields": of_fields},
}
"""By application and array, the flat indices of its elements that are a result. Default: all."""
NOT_YET: Collection[str] = ()
SMALLER: Mapping[str, Mapping[str, int]] = {
    "fdtd3d": {"n": 36},
    "gemm": {"n": 60},
    "heartwall": {"points": 3, "iterations": 12},
}
"""Parameters that replace those of tiny where a check of that takes long, since each wrong result is checked."""


def results_of(app: App) -> list[Array]:
    """The arrays that hold the result. Those of the role control hold flags and counters."""
    named = OTHER_RESULTS.get(app.name, [])
    ends = [a for a in app.arrays.values() if a.declaration.ends_on == "cpu" and a.declaration.role != "control"]
    return ends + [app.arrays[name] for name in named]


def nonsense(values: Values) -> Values:
    """What is in memory that nobody wrote."""
    return np.resize(np.frombuffer(NONSENSE.to_bytes(4, "little") * 4, values.dtype), values.shape)


def slightly_wrong(values: Values) -> Values:
    """Off by a hundredth of the values and of their usual size; whole numbers by one."""
    if values.dtype.kind not in "fc":
        return values + values.dtype.type(1)
    return np.asarray(values * 1.01 + 0.01 * np.sqrt(np.mean(np.abs(values) ** 2)), values.dtype)


def zeros(values: Values) -> Values:
    return np.zeros_like(values)


def shifted(values: Values) -> Values:
    """Each value in its neighbour's place."""
    return np.roll(values, 1)


def places(n: int, length: int) -> Iterator[int]:
    """First elements of runs: at the beginning, at the end, and in between."""
    yield from {0, max(0, n - length)}
    for at in np.random.default_rng(3).integers(0, max(1, n - length), 4):
        yield int(at)


def differs(before: Values, after: Values) -> bool:
    """Whether the change is beyond rounding in at least half of the elements."""
    if before.dtype.kind not in "fc":
        return bool((before != after).mean() >= 0.5)
    apart = np.abs(after.astype(np.complex128) - before)
    usual = np.sqrt(np.mean(np.abs(before.astype(np.complex128)) ** 2))
    return bool((~(apart <= 0.005 * usual)).mean() >= 0.5) and usual > 0


Change = Callable[[Values], Values]


def undetected(app: App, view: View, changes: list[Change], length: int) -> list[str]:
    """The changes of runs of `length` elements that the check does not find."""
    missed = []
    for array in results_of(app):
        original = view(array)
        part = PARTS.get(app.name, {}).get(array.name)
        meant = np.arange(original.size) if part is None else part(app)
        for change in changes:
            for at in places(len(meant), length):
                run, changed = meant[at : at + length], original.copy()
                before = changed.reshape(-1)[run]
                after = change(before)
                if not differs(before, after):
                    continue
                changed.reshape(-1)[run] = after

                def seen(other: Array, array: Array = array, changed: Values = changed) -> Values:
                    return changed if other is array else view(other)

                if not type(app).check(app, seen):
                    missed.append(f"{change.__name__} in {array.name}[{run[0]} to {run[-1]}] of {original.size}")
    return missed


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", APPS)
def test_wrong_results_are_found(name: str) -> None:
    if name in NOT_YET:
        pytest.xfail("not yet")
    kind = APPS[name]
    app = kind({**params_of(kind), **(SMALLER.get(name, {}) if SIZE == "tiny" else {})})
    missed: list[str] = []

    def check(view: View) -> str:
        missed.extend(undetected(app, view, [nonsense, slightly_wrong, zeros, shifted], RUN))
        if SIZE == "tiny":
            missed.extend(undetected(app, view, [nonsense, slightly_wrong], 1))
        return type(app).check(app, view)

    app.check = check  # type: ignore[method-assign]
    strategy = next(s for s in reversed(strategies()) if not skip_reason(kind, s))
    assert run_tiny(kind, strategy, instance=app).error == ""
    assert missed == []
