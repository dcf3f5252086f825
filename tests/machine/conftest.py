"""Copies of /proc and /sys with chosen contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from firsttouch.machine.tree import Tree

MakeTree = Callable[[Mapping[str, "str | bytes"]], Tree]


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """make_tree({path: content}): a Tree with these files."""

    def make(files: Mapping[str, str | bytes]) -> Tree:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Tree(tmp_path)

    return make
