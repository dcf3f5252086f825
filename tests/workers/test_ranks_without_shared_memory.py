"""Ranks start where shared memory cannot be used, and leave nothing behind."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest

from firsttouch.workers import ranks


@pytest.mark.parametrize("error", ["ENOSPC", "EROFS", "EACCES", "ENOENT"])
def test_shared_memory_that_is_full_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    make = tempfile.mkdtemp

    def folder(prefix: str, dir: Path | None = None) -> str:
        if dir is not None:
            raise OSError(getattr(errno, error), "refused")
        return make(prefix=prefix, dir=tmp_path)

    monkeypatch.setattr(tempfile, "mkdtemp", folder)
    group = ranks.Ranks(1, ranks.Launcher(["false"]), {}, None)
    group.kill()
    assert list(tmp_path.iterdir()) == []
