from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from tests.harness.running import run_tiny

from firsttouch.harness.app import App

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "smooth.py"


@pytest.fixture
def smooth(monkeypatch: pytest.MonkeyPatch) -> type[App]:
    spec = importlib.util.spec_from_file_location("smooth", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "smooth", module)
    spec.loader.exec_module(module)
    found: type[App] = module.Smooth
    return found


@pytest.mark.parametrize("n", [1, 2, 1000, 200_001])
def test_any_size(smooth: type[App], n: int) -> None:
    assert run_tiny(smooth, params={"n": n}).error == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/ 3.0f", "/ 3.003f"),
        ("now[i - 1] +", "(i == 777 ? 0.0f / 0.0f : now[i - 1]) +"),  # NaN
        ("FOR_EACH(i, n) then", "FOR_EACH(i, n) if (i != 500) then"),
        ("now[i - 1]", "now[i]"),
    ],
)
def test_wrong_kernel_is_detected(smooth: type[App], before: str, after: str) -> None:
    assert run_tiny(smooth, mutation=(before, after)).error
