"""Elements of a result that nobody wrote are found in every application, whatever its check looks at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import opencl, run_tiny, strategies

from firsttouch.apps import all_apps
from firsttouch.apps.black_scholes import BlackScholes
from firsttouch.harness import measure
from firsttouch.harness.app import View
from firsttouch.harness.measure import NONSENSE, count_nonsense
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES


class Trusting(BlackScholes):
    """Accepts any result."""

    @classmethod
    def kernel_path(cls) -> Path:
        return BlackScholes.kernel_path()

    def check(self, view: View) -> str:
        return ""


@pytest.mark.parametrize("strategy", ["explicit", "svm-fine"])
def test_what_nobody_wrote_is_found(strategy: str) -> None:
    if strategy not in strategies():
        pytest.skip(f"{strategy} is not available")
    assert run_tiny(Trusting, strategy).error == ""
    n = Trusting.sizes["tiny"]["n"]
    shorter = ("FOR_EACH(i, n / 4)", "FOR_EACH(i, n / 4 - 25)")
    said = f"100 of {n} elements of call were never written"
    assert run_tiny(Trusting, strategy, mutation=shorter).error == said


def test_a_result_of_the_run_before_does_not_pass() -> None:
    """A run leaves nonsense in what it gives back, so that the next cannot find a result there."""
    info, device = opencl()
    seen: list[int] = []

    class Left(Trusting):
        @classmethod
        def kernel_path(cls) -> Path:
            return BlackScholes.kernel_path()

    app, workspace = Left(Left.sizes["tiny"]), Workspace(STRATEGIES["explicit"], info, device)
    free = workspace.free

    def look_and_free() -> None:
        for array in (app.call, app.put):
            assert array.memory.device is not None
            seen.append(count_nonsense(np.frombuffer(array.memory.device.read(0, array.nbytes), array.dtype)))
        free()

    workspace.free = look_and_free  # type: ignore[method-assign]
    assert measure.run(app, workspace).error == ""
    assert seen == [app.n, app.n]


def test_no_type_holds_nonsense_by_chance() -> None:
    word = np.full(4, NONSENSE, np.uint32)
    assert np.isnan(word.view(np.float32)).all()
    assert np.isnan(word.view(np.float64)).all()
    assert np.isnan(word.view(np.complex64)).all()
    assert (word.view(np.int32) < -(2**18)).all()
    assert {a.dtype.kind for app in all_apps().values() for a in app.declarations(app.sizes["tiny"])} <= set("fciu")
    values = np.zeros(2_500_000)
    values[[0, 1_250_000, 2_499_999]] = word.view(np.float64)[0]
    assert count_nonsense(values) == 3
    assert count_nonsense(values.view(np.uint8)) == 0
