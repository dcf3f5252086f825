"""Draws docs/figures/rooms.svg and writes the list of rooms in docs/architecture.md: python docs/figures/rooms.py

The layers are those of the import contract in pyproject.toml, and what a room is for is the first sentence of its
docstring.
"""

from __future__ import annotations

import ast
import re
import textwrap
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_suffix(".svg")
PAGE = ROOT / "docs/architecture.md"
LIST = re.compile(r"(?<=<!-- rooms -->\n).*?(?=<!-- end of rooms -->)", re.DOTALL)
NATIVE = "C++: Device contract, guard, backends, Lab, probes, CPU loops, events, profiling, math libraries"
WIDTH, ROW, GAP, LEFT = 880, 56, 8, 46
LETTER = 5.6
"""The mean width of a letter of the small text."""


def layers() -> list[list[str]]:
    """The rooms of each layer of the contract, highest first."""
    contract = (ROOT / "pyproject.toml").read_text().partition("[tool.importlinter]")[2]
    rows = re.search(r"^layers = \[(.*?)^\]", contract, re.DOTALL | re.MULTILINE)
    assert rows is not None
    return [row.split(" | ") for row in re.findall(r'"([^"]+)"', rows[1])]


def path(name: str) -> Path:
    """The folder or the module of a room."""
    folder = ROOT / "src/firsttouch" / name
    return folder if folder.is_dir() else folder.with_suffix(".py")


def about(name: str) -> str:
    """The first sentence of a room's docstring, without its full stop."""
    module = path(name) / "__init__.py" if path(name).is_dir() else path(name)
    docstring = ast.get_docstring(ast.parse(module.read_text()))
    if not docstring:
        raise SystemExit(f"{module.relative_to(ROOT)} has no docstring, which the list of rooms in {PAGE.name} takes")
    return re.split(r"\.(?=\s|$)", docstring.partition("\n\n")[0].replace("\n", " "), maxsplit=1)[0]


def _box(x: float, y: float, width: float, name: str, text: str, fill: str) -> str:
    middle = x + width / 2
    lines = textwrap.wrap(text.replace("`", ""), int(width / LETTER), max_lines=2, placeholder=" ...")
    return (
        f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{ROW - GAP}" rx="4" fill="{fill}" stroke="#8c959f"/>'
        f'<text x="{middle:.0f}" y="{y + 15}" font-weight="bold">{escape(name)}</text>'
        + "".join(
            f'<text x="{middle:.0f}" y="{y + 29 + 12 * i}" font-size="11">{escape(line)}</text>'
            for i, line in enumerate(lines)
        )
    )


def picture() -> str:
    rows = layers()
    height = (len(rows) + 1) * ROW + 2 * GAP + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13" text-anchor="middle" fill="#1f2328" role="img">'
        "<title>The rooms of firsttouch; each imports only rooms below it</title>"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    ]
    for index, names in enumerate(rows):
        each = (WIDTH - LEFT - GAP - GAP * (len(names) - 1)) / len(names)
        for place, name in enumerate(names):
            parts.append(_box(LEFT + place * (each + GAP), GAP + index * ROW, each, name, about(name), "#f6f8fa"))
    parts.append(_box(LEFT, GAP + len(rows) * ROW + 12, WIDTH - LEFT - GAP, "_core", NATIVE, "#ddf4ff"))
    end = height - 2 * GAP
    parts.append(
        f'<path d="M18 {2 * GAP} V{end} M12 {end - 10} L18 {end} L24 {end - 10}" fill="none" stroke="#57606a" '
        f'stroke-width="1.5"/><text transform="translate(36 {height / 2:.0f}) rotate(-90)">imports</text></svg>\n'
    )
    return "\n".join(parts)


def folders(name: str) -> list[str]:
    """A room, and the folders in it that are packages."""
    inner = sorted(path(name).glob("*/__init__.py")) if path(name).is_dir() else []
    return [name, *(f"{name}/{each.parent.name}" for each in inner)]


def page() -> str:
    """The page with the list of rooms, and of what they have folders for, as it follows from the contract and the
    docstrings.
    """
    names = [inner for row in layers() for name in row for inner in folders(name)]
    rows = [f"| `{name}{'/' if path(name).is_dir() else '.py'}` | {about(name)} |" for name in names]
    return LIST.sub(lambda _: "\n".join(["| room | what it is for |", "|---|---|", *rows, ""]), PAGE.read_text())


if __name__ == "__main__":
    PICTURE.write_text(picture())
    PAGE.write_text(page())
