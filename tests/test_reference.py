"""The reference pages of the site name everything that the Python interface offers, with its documentation."""

from __future__ import annotations

from pathlib import Path

from tests.scripts import load_script

import firsttouch
from firsttouch import api

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_in_the_reference() -> None:
    reference = load_script(ROOT / "docs/reference.py")
    pages = reference.pages()
    for path, module in (("reference/python.md", firsttouch), ("reference/api.md", api)):
        lines = pages[path].splitlines()
        missing = [name for name in module.__all__ if not name.startswith("__") and f"## {name}" not in lines]
        assert missing == [], path
    functions, names = pages["reference/python.md"], pages["reference/api.md"]
    assert "compare(*sides: str | os.PathLike[str], fail_over: float | str | None = None, out: " in functions
    assert firsttouch.compare.__doc__.splitlines()[0] in functions
    assert "### Experiment.skip" in names
    assert "## chase" in pages["reference/probes.md"].splitlines()
