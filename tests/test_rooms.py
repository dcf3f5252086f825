"""The picture and the list of the rooms match the import contract and the docstrings of the rooms."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_picture_and_the_page_match_the_import_contract() -> None:
    spec = importlib.util.spec_from_file_location("rooms", ROOT / "docs/figures/rooms.py")
    assert spec is not None
    assert spec.loader is not None
    rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rooms)
    assert rooms.picture() == rooms.PICTURE.read_text(), "run python docs/figures/rooms.py"
    page = rooms.PAGE.read_text()
    assert rooms.page() == page, "run python docs/figures/rooms.py"
    missing = [
        name for layer in rooms.layers() for name in layer if f"{name}/" not in page and f"{name}.py" not in page
    ]
    assert missing == []
