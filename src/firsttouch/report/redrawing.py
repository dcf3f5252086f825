"""Keeps a page that has more than one drawn now would have, since this call lacks the code of some experiments."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firsttouch.apps import all_apps
from firsttouch.base.errors import UsageError
from firsttouch.base.files import open_regular
from firsttouch.experiments.contract.base import Experiment
from firsttouch.records.text import join_names

if TYPE_CHECKING:
    from firsttouch.records.reading import Results

NAME = "firsttouch-known"
"""The name of the page's element that lists experiments and applications whose code was available."""
_LISTED = re.compile(rf'<meta name="{NAME}" content="([A-Za-z0-9_.+ -]*)">')
_HEAD = 1 << 16
"""The bytes of a page that are searched for it."""


def known_names(results: Iterable[Results], experiments: Mapping[str, Experiment]) -> list[str]:
    """The experiments and applications of the records whose code is available."""
    return sorted(_names_in(results) & {*experiments, *all_apps()})


def _names_in(results: Iterable[Results]) -> set[str]:
    """The experiments and applications of the records."""
    records = [record for result in results for record in result.records]
    return {str(name) for r in records for name in (r.experiment, r.factors.get("app"))}


def check_replacement(
    path: Path, directories: Sequence[Path], results: Iterable[Results], known_names: Iterable[str]
) -> None:
    """Raises UsageError if the page at `path` has sections of what these records hold and this call does not know."""
    results = list(results)
    if not (lost := sorted((_section_names_in(path) & _names_in(results)) - set(known_names))):
        return
    modules = [name for result in results if result.request for name in result.request.modules]
    words = [f"--module {shlex.quote(name)}" for name in dict.fromkeys(modules)] or ["--module FILE"]
    call = " ".join(["firsttouch report", shlex.join(map(str, directories)), *words])
    raise UsageError(
        f"{path} has sections of {join_names(lost)}, of which this call knows no code, so it is kept; type: {call}, or "
        "write another page with -o FILE"
    )


def _section_names_in(path: Path) -> set[str]:
    """What the page at `path` lists; nothing if there is no page."""
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            listed = _LISTED.search(file.read(_HEAD).decode(errors="replace"))
    except (OSError, UsageError):
        return set()
    return set(listed[1].split()) if listed else set()
