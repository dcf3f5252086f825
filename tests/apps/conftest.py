from __future__ import annotations

from collections import Counter

import pytest

BY_DEFAULT = 2
"""Wrong kernels of each test that are tried by default; the others are where exhaustive tests run, as in CI."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for item in items:
        if isinstance(item, pytest.Function) and "before" in getattr(getattr(item, "callspec", None), "params", ()):
            test = (str(item.path), item.originalname)
            seen[test] += 1
            if seen[test] > BY_DEFAULT:
                item.add_marker(pytest.mark.exhaustive)
