"""No test compares times that it took: it would fail where others use the processors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CLOCKS = {"monotonic", "perf_counter", "time", "process_time", "thread_time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
INSTEAD = "compares times: assert counts, order or states instead, or give the code a clock that the test moves"
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope in the order of the text, without those of the functions in it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, _SCOPES):
            yield from own_nodes(child)


def reads_clock(node: ast.AST, clocks: set[str]) -> bool:
    """Whether an expression calls a clock. clocks: the names of such functions that the module imported."""
    return any(
        isinstance(call, ast.Call)
        and (
            (isinstance(call.func, ast.Name) and call.func.id in clocks)
            or (
                isinstance(call.func, ast.Attribute)
                and call.func.attr in CLOCKS
                and isinstance(call.func.value, ast.Name)
                and call.func.value.id == "time"
            )
        )
        for call in ast.walk(node)
    )


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def assigned(target: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def compared_times(text: str) -> list[int]:
    """The lines of assert statements with a comparison of a time that was read from a clock: there, or in an
    expression that was assigned to a name in the same function or in one around it.
    """
    tree = ast.parse(text)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "time"]
    clocks = {name.asname or name.name for node in imports for name in node.names if name.name in CLOCKS}
    return sorted(_in_scope(tree, clocks, set()))


def _in_scope(scope: ast.AST, clocks: set[str], times: set[str]) -> Iterator[int]:
    nodes, times = list(own_nodes(scope)), set(times)
    for node in nodes:
        value = getattr(node, "value", None)
        if isinstance(node, _ASSIGNMENTS) and value is not None and reads_clock(value, clocks):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            times |= {name for target in targets for name in assigned(target)}
    for node in nodes:
        if isinstance(node, ast.Assert):
            sides = [s for c in ast.walk(node.test) if isinstance(c, ast.Compare) for s in (c.left, *c.comparators)]
            if any(reads_clock(side, clocks) or names_in(side) & times for side in sides):
                yield node.lineno
        if isinstance(node, _SCOPES):
            yield from _in_scope(node, clocks, times)


def test_no_test_compares_times() -> None:
    texts = {path: path.read_text() for path in sorted(TESTS.rglob("*.py"))}
    found = [
        f"{path.relative_to(TESTS.parent)}:{line}"
        for path, text in texts.items()
        if any(clock in text for clock in CLOCKS)
        for line in compared_times(text)
    ]
    assert not found, f"{', '.join(found)} {INSTEAD}"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "import time\ndef test():\n    before = time.monotonic()\n    work()\n    assert time.time() - 1 < limit",
            [5],
        ),
        ("from time import perf_counter\ndef test():\n    took = perf_counter() - 1\n    assert 0 < took < 2", [4]),
        ("import time\nend = time.monotonic() + 9\nwhile time.monotonic() < end:\n    assert done() == 3", []),
    ],
    ids=["in the comparison", "by a name", "a wait"],
)
def test_the_rule_finds_what_it_forbids(text: str, lines: list[int]) -> None:
    assert compared_times(text) == lines
