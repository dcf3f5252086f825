"""No code decides by the name of a backend or an allocator; it must use capabilities and
machine/allocators/properties.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from firsttouch.machine.allocators.semantics import SEMANTICS
from firsttouch.machine.backends import BACKENDS, HOST, MODEL

PACKAGE = Path(__file__).parents[1] / "src" / "firsttouch"
FOLDERS = (
    *("advice", "apps", "harness", "program", "program/execution", "report", "engine", "experiments"),
    *("experiments/analysis", "workers"),
)
"""Folders that are checked, each without those in it."""
AMBIGUOUS = {HOST, MODEL, "device"}
"""Names that have other meanings too: the agent `cpu`, the model of a processor, and `device` in general. They count
only if they are compared with an expression for a kind or an allocator."""
NAMES = ({*BACKENDS} | {*SEMANTICS}) - AMBIGUOUS
ALLOWED = {
    "advice/apis.py": "its table states what each API calls the strategies",
    "experiments/codegen.py": "compares vendors' compilers",
    "experiments/context.py": "about vendors' tools",
    "program/page_locked.py": "kinds of memory that a trace names",
    "program/strategies.py": "its table states the allocator of each strategy and compares none",
    "program/exact.py": "kinds of memory that a trace names",
    "program/trace.py": "kinds of memory that a trace names",
    "program/traced.py": "kinds of memory that a trace names",
    "report/templates.py": "the name of a fact of machine.json (nvidia: driver, cuda)",
}
"""Modules that may contain names, with the reason."""


def modules() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((PACKAGE / folder).glob("*.py"))]


def literals(node: ast.AST) -> Iterator[ast.Constant]:
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one


def is_kind_or_allocator(node: ast.AST) -> bool:
    """Whether an expression is clearly the kind or name of a device, or the name of an allocator."""
    if isinstance(node, ast.Attribute):
        owner = ast.unparse(node.value).rpartition(".")[2]
        of_device = owner in ("device", "info", "about", "d") and node.attr in ("kind", "name")
        return of_device or node.attr in ("allocator", "main_allocator")
    if isinstance(node, ast.Subscript):
        return any(one.value in ("allocator", "device") for one in literals(node.slice))
    if isinstance(node, ast.Call):
        reads_factor = isinstance(node.func, ast.Attribute) and any(one.value == "allocator" for one in literals(node))
        return reads_factor or (ast.unparse(node.func) == "str" and any(map(is_kind_or_allocator, node.args)))
    return isinstance(node, ast.Name) and node.id in ("allocator", "kind")


def deciding(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Comparisons and look-ups by an ambiguous name, and tests for prefixes of names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = [one.value for side in sides for one in literals(side) if not isinstance(side, ast.Subscript)]
            if any(map(is_kind_or_allocator, sides)) and set(words) & AMBIGUOUS:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            prefixes = [one.value for one in literals(node)]
            if any(name.startswith(prefix) for prefix in prefixes for name in SEMANTICS if len(prefix) > 3):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Subscript | ast.Call):
            keys = [node.slice] if isinstance(node, ast.Subscript) else node.args[:1]
            get = isinstance(node, ast.Subscript) or ast.unparse(node.func).endswith(".get")
            if get and any(isinstance(key, ast.Attribute) and key.attr == "kind" and is_kind_or_allocator(key)
                           for key in keys):  # fmt: skip
                yield node.lineno, ast.unparse(node)


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """String literals that are the unambiguous name of a backend or an allocator."""
    for one in literals(tree):
        if one.value in NAMES:
            yield one.lineno, repr(one.value)


def test_no_name_of_a_backend_or_an_allocator_decides() -> None:
    found = []
    for path in modules():
        tree, where = ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(PACKAGE))
        if where not in ("experiments/codegen.py", "experiments/context.py"):
            lines = sorted(deciding(tree)) + ([] if where in ALLOWED else sorted(named(tree)))
            found += [f"{where}:{line}: {text}" for line, text in lines]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        'device.kind == "cpu"',
        'session.info.kind != "cpu"',
        'info.name == "cpu"',
        'factors["allocator"] == "device"',
        'factors.text("allocator") in ("device", x)',
        'allocator == "device"',
        'strategy.allocator.startswith("managed")',
        "HOPS.get(session.info.kind, 1)",
        "SECONDS[device.kind]",
    ],
)
def test_decisions_by_name_are_found(source: str) -> None:
    assert list(deciding(ast.parse(source)))


@pytest.mark.parametrize("source", ['x in ("managed", "y")', 'COPIED = {"vmm": 1}', 'kind == "hip"'])
def test_names_are_found(source: str) -> None:
    assert list(named(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        'agent == "cpu"',
        'role(allocator) == "device"',
        'figure.kind == "line"',
        'sides["device"]',
        'f"on {device.name}"',
    ],
)
def test_other_uses_of_the_same_words_are_accepted(source: str) -> None:
    tree = ast.parse(source)
    assert not [*deciding(tree), *named(tree)]


def test_the_rooms_and_allowed_modules_exist() -> None:
    assert all((PACKAGE / name / "__init__.py").is_file() for name in FOLDERS)
    assert all((PACKAGE / name).is_file() for name in ALLOWED)
