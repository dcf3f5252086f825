"""Wrong elements in the results of every application are found, wherever they are: all of them and runs of 64 at every
size, a single one at tiny.

FIRSTTOUCH_TEST_SIZE=64MiB tries them at another size, in minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.harness.running import SIZE, params_of, run_tiny, skip_reason, strategies

from firsttouch.apps import all_apps
from firsttouch.apps.halo import FIELDS
from firsttouch.apps.support.neutrons import WORDS
from firsttouch.harness.app import App, View
from firsttouch.harness.measure import NONSENSE
from firsttouch.program.execution.arrays import ByteRange

APPS = all_apps()
RUN, ALL = 64, 1 << 60  # elements
Values = np.ndarray[Any, Any]

Parts = Mapping[str, Callable[[Any, View], Values]]


def upper_triangle(app: Any, _: View) -> Values:
    n, steps = app.a.shape[0], app.steps
    return np.flatnonzero(np.arange(n) >= np.minimum(np.arange(n), steps)[:, None])


def unpadded(app: App, _: View) -> Values:
    side, n = app.arrays["padded"].shape[0], app.arrays["data"].shape[0]
    return (np.arange(n)[:, None] * side + np.arange(n)).ravel()


def of_fields(app: App, _: View) -> Values:
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


def of_centres(app: Any, _: View) -> Values:
    """Without the numbers that fill up each row."""
    return (np.arange(app.k)[:, None] * app.centres.shape[1] + np.arange(app.d)).ravel()


def of_the_nearest(app: Any, _: View) -> Values:
    """Place and distance of the records that were found."""
    return (np.array(app.chosen)[:, None] * 57 + np.r_[33:41, 42:51, 53:57]).ravel()


def whole_numbers(app: Any, _: View) -> Values:
    """Of particles: the state of random numbers, id, cell, energy group and source particle."""
    return (np.arange(app.count)[:, None] * WORDS + np.arange(12, WORDS)).ravel()


def of_points_that_stayed(app: Any, view: View) -> Values:
    """Those that did not move to the last candidate, whose costs there have replaced their own."""
    return np.flatnonzero(view(app.assign) != app.last[0])


def rows_of_points_that_stayed(app: Any, view: View) -> Values:
    width = app.last[1]
    return (of_points_that_stayed(app, view)[:, None] * width + np.arange(width)).ravel()


OTHER_RESULTS: Mapping[str, Callable[[Any], Sequence[ByteRange]]] = {
    "backprop": lambda app: [app.changes],
    "gaussian": lambda app: [app.x] if app.steps == app.n - 1 else [],
    "gaussian_concurrent": lambda app: [app.x] if app.steps == app.n - 1 else [],
    "halo": lambda app: [app.fields],
    "heartwall": lambda app: [app.templates],
    "kmeans": lambda app: [app.squares, app.centres],
    "kmeans_concurrent": lambda app: [app.squares, app.centres],
    "nn": lambda app: [app.records],
    "producer_consumer": lambda app: [app.ring, app.sums],
    "quantum_volume": lambda app: [app.state],
    "streamcluster": lambda app: [app.moves, app.candidate, app.rows[: app.n * app.last[1]]],
    "transport": lambda app: [app.census[: app.count]],
}
"""By application, results that do not end on the CPU, or as a control word."""
PARTS: Mapping[str, Parts] = {
    "fft_conv_c2c": {"padded": unpadded},
    "fft_conv_fused": {"padded": unpadded},
    "fft_conv_r2c": {"padded": unpadded},
    "gaussian": {"a": upper_triangle},  # below it are remains of rounding
    "gaussian_concurrent": {"a": upper_triangle},
    "halo": {"fields": of_fields},
    "kmeans": {"centres": of_centres},
    "kmeans_concurrent": {"centres": of_centres},
    "nn": {"records": of_the_nearest},
    "streamcluster": {
        "moves": of_points_that_stayed,
        "candidate": of_points_that_stayed,
        "rows": rows_of_points_that_stayed,
    },
    "transport": {"census": whole_numbers},
}
"""By application and array, the flat indices of its elements that are a result. Default: all."""
NOT_YET: Collection[str] = ()
SMALLER: Mapping[str, Mapping[str, int]] = {
    "fdtd3d": {"n": 36},
    "gemm": {"n": 60},
    "heartwall": {"points": 3, "iterations": 12},
}
"""Parameters that replace those of tiny where a check of that takes long, since each wrong result is checked."""


def results_of(app: App) -> list[ByteRange]:
    """The arrays, or the parts of arrays, that hold the result. Those of the role control hold flags and counters."""
    ends = [a for a in app.arrays.values() if a.declaration.is_result and a.declaration.role != "control"]
    return [*ends, *OTHER_RESULTS.get(app.name, lambda _: [])(app)]


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


def halved(values: Values) -> Values:
    return np.asarray(values * 0.5, values.dtype) if values.dtype.kind in "fc" else values // 2


def backwards(values: Values) -> Values:
    return values[::-1].copy()


def in_the_first(values: Values) -> Values:
    """The sum is right, its place is not."""
    added = zeros(values)
    added[:1] = values.sum(dtype=values.dtype)
    return added


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
    for result in results_of(app):
        name, original = result.array.name, view(result)
        part = PARTS.get(app.name, {}).get(name)
        meant = np.arange(original.size) if part is None else part(app, view)
        for change in changes:
            for at in places(len(meant), length):
                run, changed = meant[at : at + length], original.copy()
                before = changed.reshape(-1)[run]
                after = change(before)
                if not differs(before, after):
                    continue
                changed.reshape(-1)[run] = after

                def seen(other: ByteRange, result: ByteRange = result, changed: Values = changed) -> Values:
                    return changed if bytes_of(other) == bytes_of(result) else view(other)

                if not type(app).check(app, seen):
                    missed.append(f"{change.__name__} in {name}[{run[0]} to {run[-1]}] of {original.size}")
    return missed


def bytes_of(part: ByteRange) -> tuple[str, int, int]:
    return part.array.name, part.start, part.end


@cache
def listed() -> Mapping[str, set[str]]:
    """The results of each application in docs/applications.md."""
    text = (Path(__file__).parents[2] / "docs" / "applications.md").read_text()
    table = text.partition("## Results and their checks")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {name: set(re.findall(r"`(\w+)`", row[1])) for row in rows for name in row[0].strip().split(", ")}


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
        missed.extend(undetected(app, view, [halved, zeros, shifted, backwards, in_the_first], ALL))
        if SIZE == "tiny":
            missed.extend(undetected(app, view, [nonsense, slightly_wrong], 1))
        return type(app).check(app, view)

    app.check = check  # type: ignore[method-assign]
    strategy = next(s for s in reversed(strategies()) if not skip_reason(kind, s))
    assert run_tiny(kind, strategy, instance=app).error == ""
    assert missed == []
    if SIZE == "tiny":
        assert {result.array.name for result in results_of(app)} == listed()[name]
