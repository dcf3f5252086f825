"""Runs that the repository keeps: in results/ those that `firsttouch examples` ships, the others in evidence/."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT / "results", ROOT / "evidence/results")


def stored_run(name: str) -> Path:
    """A run by its name, such as h200-quick. Skips the test if it is of evidence/, and this tree has none."""
    for folder in FOLDERS:
        if (folder / name).is_dir():
            return folder / name
    if FOLDERS[1].is_dir():
        raise LookupError(f"no run is called {name}")
    pytest.skip(f"{name} is in evidence/, which this tree has not", allow_module_level=True)


def stored_runs(pattern: str) -> list[Path]:
    """All runs whose names match, by name."""
    return sorted((path for folder in FOLDERS for path in folder.glob(pattern)), key=lambda path: path.name)
