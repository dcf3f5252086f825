"""Properties of every application: its results are correct under all strategies of the OpenCL device."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.harness.running import opencl, run_tiny, skip_reason, strategies

from firsttouch.apps import all_apps
from firsttouch.base.errors import Unsupported
from firsttouch.harness import experiment
from firsttouch.harness.app import App, View
from firsttouch.program.execution.agents import KernelFile
from firsttouch.program.execution.arrays import ByteRange
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.schema import Factors

APPS = all_apps()
UNORDERED = {"transport"}
"""Applications whose output depends on the order in which threads add up or append, so that each is checked in full."""
STRICTER = {"producer_consumer"}
"""Applications that override refuses() with stricter conditions."""
every_app = pytest.mark.parametrize("name", APPS)


@every_app
def test_results_are_correct_with_copies_and_equal_with_shared_memory(name: str) -> None:
    """The first result is checked; later ones have the same digest, so that they need not be checked again."""
    usual = ("explicit", "svm-fine", *reversed(strategies()))
    usable = [s for s in usual if not skip_reason(APPS[name], s)]
    first, second, *_ = 2 * usable or pytest.skip("no strategy on this device")
    checked = run_tiny(APPS[name], first)
    assert (checked.error, checked.output != "") == ("", True)
    again = run_tiny(APPS[name], second, known=[checked.output])
    assert again.error == ""
    assert name in UNORDERED or again.output == checked.output


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", strategies())
@every_app
def test_results_are_correct_under_every_strategy(name: str, strategy: str) -> None:
    if reason := skip_reason(APPS[name], strategy):
        pytest.skip(reason)
    try:
        run = run_tiny(APPS[name], strategy)
    except Unsupported as reason:  # only known once memory is allocated, such as its addresses
        pytest.skip(str(reason))
    assert run.error == ""


@every_app
def test_results_are_correct_with_another_seed(name: str) -> None:
    strategy = next(s for s in reversed(strategies()) if not skip_reason(APPS[name], s))
    assert run_tiny(APPS[name], strategy, seed=7).error == ""


def test_only_stricter_applications_refuse_memory_of_one_agent_at_a_time() -> None:
    info, _ = opencl()
    if info.kind != "opencl":
        pytest.skip(f"{info.name} has no memory that only one side may use at a time")
    assert {name for name, app in APPS.items() if app.refuses(STRATEGIES["svm-coarse"], info)} == STRICTER


@every_app
def test_nan_results_are_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN is neither above nor below a tolerance. A check must not accept it as a small error."""
    app, replaced = APPS[name], []
    check = app.check

    def check_nans(self: App, view: View) -> str:
        def view_nans(part: ByteRange) -> np.ndarray:
            values, array = view(part), part.array
            if array.dtype.kind not in "fc" or not array.declaration.is_result:
                return values
            replaced.append(array)
            return np.full_like(values, np.nan)

        return check(self, view_nans)

    monkeypatch.setattr(app, "check", check_nans)
    strategy = next(s for s in reversed(strategies()) if not skip_reason(app, s))
    error = run_tiny(app, strategy).error
    assert error or not replaced


@every_app
def test_an_application_names_no_strategy_or_vendor(name: str) -> None:
    kernels = APPS[name].kernel_path()
    for path in (kernels, kernels.with_suffix(".py")):
        text = path.read_text()
        words = {w for s in STRATEGIES for w in (f'"{s}"', f"'{s}'")} - {'"buffer"', "'buffer'"}
        assert not [w for w in words if w in text]
        assert not re.findall(r"\b(cuda|nvidia|hip|amd|rocm|opencl|pocl)\w*", text, re.IGNORECASE)


def test_kernels_are_compiled_before_any_phase_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[str, str]] = []
    point: Any = SimpleNamespace(factors=Factors({"strategy": strategies()[0], "size": "tiny", "pyramid": 5}))
    info, device = opencl()
    session: Any = SimpleNamespace(info=info, device=device, seed=1, events=None, counted=None, rank=0, ranks=1)
    monkeypatch.setattr(KernelFile, "compiled", lambda file, _device, _entry: compiled.extend(file.defines))
    monkeypatch.setattr(experiment, "run", lambda *_, **__: pytest.fail(f"{compiled}"))
    with pytest.raises(pytest.fail.Exception, match=r"^\[\('PYRAMID', '5'\)\]$"):
        experiment.Application(APPS["hotspot"]).measure(point, session)
