"""How many items the CPU's threads share in a launch of a kernel: the count of its FOR_EACH, from the kernel's source.

Threads get equal shares of these items (base/kernels/prelude.host.h), which decides who touches which page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache

_LOOP = re.compile(r"\bFOR_EACH\(\s*\w+\s*,")
_KERNEL = r"^KERNEL\s+{}\s*\("
_CONSTANT = re.compile(r"^#define (\w+) \(?(\d+)(?:ul?|UL?)?\)?\s*(?:/\*.*)?$", re.MULTILINE)
_CAST = re.compile(r"\((?:ulong|uint|long|int)\)")
_SUFFIX = re.compile(r"\b(\d+)[uUlL]+\b")


def items_of(text: str, kernel: str, values: Mapping[str, object]) -> int | None:
    """The items of a launch; None if the source does not say in numbers that are known before it runs.

    text: of the kernel file. values: of the kernel's parameters, by name.
    """
    count = _count(text, kernel)
    if count is None:
        return None
    numbers = _constants(text) | {name: value for name, value in values.items() if isinstance(value, int)}
    try:
        return _evaluate(count, numbers)
    except (LookupError, ValueError, ArithmeticError):
        return None


@cache
def _constants(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _CONSTANT.findall(text)}


@cache
def _count(text: str, kernel: str) -> ast.expr | None:
    """The expression of a kernel's first FOR_EACH."""
    begin = re.search(_KERNEL.format(re.escape(kernel)), text, re.MULTILINE)
    found = begin and _LOOP.search(text, begin.end())
    following = begin and re.compile(r"^(?:GROUP_)?KERNEL\b", re.MULTILINE).search(text, begin.end())
    if not found or (following and following.start() < found.start()):
        return None
    depth, position = 1, found.end()
    while depth and position < len(text):
        depth += (text[position] == "(") - (text[position] == ")")
        position += 1
    try:
        return ast.parse(_SUFFIX.sub(r"\1", _CAST.sub("", text[found.end() : position - 1])).strip(), mode="eval").body
    except SyntaxError:
        return None


def _evaluate(node: ast.expr, numbers: Mapping[str, int]) -> int:
    """The value of an expression of whole numbers, as C computes it. Raises ValueError for anything else in it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return numbers[node.id]
    if isinstance(node, ast.BinOp):
        a, b = _evaluate(node.left, numbers), _evaluate(node.right, numbers)
        if isinstance(node.op, ast.Add):
            return a + b
        if isinstance(node.op, ast.Sub):
            return a - b
        if isinstance(node.op, ast.Mult):
            return a * b
        if isinstance(node.op, ast.Div):
            return a // b
    raise ValueError("an expression of another kind")
