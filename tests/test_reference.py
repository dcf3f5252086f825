"""The reference pages of the site name everything that the Python interface offers, with its documentation."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import firsttouch
from firsttouch import api

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_in_the_reference() -> None:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    pages = reference.pages()
    for path, module in (("reference/python.md", firsttouch), ("reference/api.md", api)):
        lines = pages[path].splitlines()
        missing = [name for name in module.__all__ if not name.startswith("__") and f"## {name}" not in lines]
        assert missing == [], path
    functions, names = pages["reference/python.md"], pages["reference/api.md"]
    assert "compare(*sides: str | os.PathLike[str], fail_over: float | str | None = None)" in functions
    assert "what differs between results directories, and by how much" in functions
    assert "### Experiment.skip" in names
    assert "## chase" in pages["reference/probes.md"].splitlines()
