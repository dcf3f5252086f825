"""A results directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from stored import a_record, fill


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """A directory with three records."""
    return fill(tmp_path / "out", *map(a_record, range(3)))
