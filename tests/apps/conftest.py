from __future__ import annotations

import gc
from collections import Counter

import pytest

MUTATIONS_BY_DEFAULT = 1
"""Wrong kernels that each test tries by default. The others are tried in exhaustive runs, as in .ci/run --all."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for item in items:
        if isinstance(item, pytest.Function) and "before" in getattr(getattr(item, "callspec", None), "params", ()):
            test = (str(item.path), item.originalname)
            seen[test] += 1
            if seen[test] > MUTATIONS_BY_DEFAULT:
                item.add_marker(pytest.mark.exhaustive)


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """Exempts what earlier tests left from garbage collection, which every run of an application begins with."""
    gc.collect()
    gc.freeze()
