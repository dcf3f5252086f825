"""The picture and the list of the rooms match the import contract and the docstrings of the rooms."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

from tests.scripts import load_script

from firsttouch import _core

ROOT = Path(__file__).parents[1]


def test_the_picture_and_the_page_match_the_import_contract() -> None:
    rooms = load_script(ROOT / "docs/figures/rooms.py")
    assert rooms.picture() == rooms.PICTURE.read_text(), "run python docs/figures/rooms.py"
    page = rooms.PAGE.read_text()
    assert rooms.page() == page, "run python docs/figures/rooms.py"
    missing = [
        name for layer in rooms.layers() for name in layer if f"{name}/" not in page and f"{name}.py" not in page
    ]
    assert missing == []


def imported_by(path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules of the package that a module imports, wherever in its text."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module for name in inner}
    return found & modules.keys()


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Neither when they are loaded, nor in functions, nor for types alone. The package itself has the commands."""
    package = ROOT / "src/firsttouch"
    modules = {
        ".".join(["firsttouch", *path.relative_to(package).with_suffix("").parts]).removesuffix(".__init__"): path
        for path in package.rglob("*.py")
    }
    del modules["firsttouch"]
    TopologicalSorter({name: imported_by(path, modules) for name, path in modules.items()}).prepare()


def test_no_two_types_share_a_name() -> None:
    defined = re.compile(r"^ *class (\w+)[(:]|^ *([A-Z]\w*): TypeAlias|^ *([A-Z]\w*[a-z]\w*) = ", re.MULTILINE)
    package = ROOT / "src/firsttouch"
    places = defaultdict(list)
    for path in [*package.rglob("*.py"), Path(_core.__file__).with_name("_core.pyi")]:
        for match in defined.finditer(path.read_text()):
            places[match[match.lastindex or 0]].append(str(path))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_the_walks_of_the_architecture_name_what_exists() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    named = re.findall(r"`([\w/]+\.py): (\w+)`", " ".join(text.split()))
    assert len(named) > 30
    for file, name in named:
        assert re.search(rf"^ *(?:def|class) {name}\b", (ROOT / "src/firsttouch" / file).read_text(), re.MULTILINE), (
            name
        )
