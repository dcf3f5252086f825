"""Parameters of tests that run a few cases by default, and all with the exhaustive tests, as in .ci/run --all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def matrix(cases: Iterable[Any], by_default: int = 1) -> list[Any]:
    """The cases for pytest.mark.parametrize; those after the first `by_default` are marked exhaustive."""
    return [
        case if i < by_default else pytest.param(*_values(case), marks=pytest.mark.exhaustive)
        for i, case in enumerate(cases)
    ]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
