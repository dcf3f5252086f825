"""The reference pages of the site, from signatures and docstrings: docs/site.py calls `pages` when the site is built.

python docs/reference.py DIR    writes them into a folder
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

PAGES: Mapping[str, tuple[str, str]] = {
    "reference/python.md": ("firsttouch", "The commands as functions"),
    "reference/api.md": ("firsttouch.api", "Names for experiments and applications of your own"),
    "reference/probes.md": ("firsttouch._core", "The native measuring loops, `firsttouch.api.probes`"),
}
"""The modules that have a page, and its heading."""
QUOTED = re.compile(r"(?<=[:>] )'([^']*)'")


def pages() -> dict[str, str]:
    """Path below docs: the text of the page."""
    return {path: page(importlib.import_module(name), title) for path, (name, title) in PAGES.items()}


def page(module: ModuleType, title: str) -> str:
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    parts = [entry(name, getattr(module, name)) for name in names if not name.startswith("__")]
    return "\n\n".join([f"# {title}", described(module), *parts, ""])


def entry(name: str, thing: Any) -> str:
    """A name with its signature, its docstring, and, of a class, its own members that have a docstring."""
    if inspect.ismodule(thing):
        return f"## {name}\n\nThe module `{thing.__name__}`, which has [a page of its own](probes.md)."
    if not (inspect.isclass(thing) or callable(thing)) or not getattr(thing, "__doc__", None):
        return f"## {name}\n\n    {name} = {thing!r}"
    if not inspect.isclass(thing):
        return f"## {name}\n\n{signature(name, thing)}\n\n{described(thing)}"
    head = f"    class {name}" if issubclass(thing, enum.Enum) else signature(name, thing)
    return "\n\n".join([f"## {name}", head, described(thing), *members(thing)])


def members(thing: type) -> list[str]:
    sections = []
    for name, value in vars(thing).items():
        function = value.fget if isinstance(value, property) else value
        if name.startswith("_") or not callable(function) or not getattr(function, "__doc__", None):
            continue
        head = f"    {name}" if isinstance(value, property) else signature(name, function)
        sections.append(f"### {thing.__name__}.{name}\n\n{head}\n\n{described(function)}")
    return sections


def signature(name: str, thing: Any) -> str:
    """As code, without the quotes of postponed annotations. That of a native function begins its docstring."""
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return f"    {(inspect.getdoc(thing) or name).splitlines()[0].replace('firsttouch._core.', '')}"
    return f"    {name}" + QUOTED.sub(r"\1", text)


def described(thing: Any) -> str:
    """The docstring, without a first line that is the signature."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    if lines and lines[0].startswith(f"{getattr(thing, '__name__', '')}("):
        lines = lines[1:]
    return "\n".join(lines).strip()


if __name__ == "__main__":
    for path, text in pages().items():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
