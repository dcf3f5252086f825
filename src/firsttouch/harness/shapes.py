"""The types and shapes that an application declares for its buffers, checked when they are declared."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_KINDS = "biufc"
"""Of numpy's types, those of numbers."""
_MOST_BITS = 256
"""Of a power in a shape. All memory of a machine is far less, and the number is still computed at once."""


def number_type(given: DTypeLike) -> np.dtype[Any]:
    """The type of a buffer's items. Raises ValueError if it is not one of numbers in the order of this machine."""
    try:
        dtype = np.dtype(given)
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if given is None or dtype is None or dtype.kind not in _KINDS or not dtype.isnative:
        raise ValueError(f"{given!r:.80} is no type of a buffer's items; give f32, u64 or another type of numbers")
    return dtype


def items(expression: int | str, params: Mapping[str, int]) -> int:
    """The items along one dimension: a number, or an expression in the parameters, evaluated as Python code.

    Raises:
        ValueError: it has no value, or none that is a number of items.
    """
    try:
        value = (
            eval(_compile_shape(expression), {"__builtins__": {}, **_BOUNDED}, dict(params))
            if isinstance(expression, str)
            else expression
        )
        count = int(value)
    except Exception as error:
        raise ValueError(f"{error}") from error
    if count < 0:
        raise ValueError(f"it is {count:.4g}, not a number of items")
    return count


def _power(base: Any, exponent: Any) -> Any:
    if abs(base) > 1 and exponent * max(1, int(abs(base)).bit_length()) > _MOST_BITS:
        raise ValueError("a power in it is too large")
    return base**exponent


def _shifted(number: Any, bits: Any) -> Any:
    if bits > _MOST_BITS:
        raise ValueError("a shifted number in it is too large")
    return number << bits


def _product(a: Any, b: Any) -> Any:
    if not (isinstance(a, (int, float)) and isinstance(b, (int, float))):
        raise ValueError("a factor in it is no number")
    return operator.mul(a, b)


_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Pow: _power,
    ast.LShift: _shifted,
    ast.Mult: _product,
}
"""Operators that could take all time and memory, and what computes them within bounds."""
_BOUNDED = {function.__name__: function for function in _OPERATORS.values()}


class _Bounded(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        function = _OPERATORS.get(type(node.op))
        if function is None:
            return node
        return ast.Call(ast.Name(function.__name__, ast.Load()), [node.left, node.right], [])


@lru_cache(maxsize=4096)
def _compile_shape(expression: str) -> CodeType:
    tree = ast.parse(expression.strip(), mode="eval")
    return compile(ast.fix_missing_locations(_Bounded().visit(tree)), "shape", "eval")
