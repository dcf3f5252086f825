"""What functions and kernels are called, for people."""

from __future__ import annotations

from firsttouch import _core

_OPERATORS = ("operator", "operator<", "operator-")
"""How a name ends before another character of an operator's sign."""


def kernel_name(mangled: str) -> str:
    """A kernel without its parameters. What templates are made for stays, since it tells kernels apart."""
    return function_name(_core.demangle(mangled), templates=True)


def function_name(demangled: str, *, templates: bool = False) -> str:
    """A function without its parameters, its return type and unnamed namespaces. templates: keep their arguments."""
    depth, kept = 0, ""
    for letter in demangled.replace("(anonymous namespace)::", "").replace(" <", "<"):
        if kept.endswith(_OPERATORS) and not depth:
            kept += letter  # a sign, which opens nothing
            continue
        if letter == "(" and not depth:
            break
        depth += letter == "<"
        if letter == " " and not depth:
            kept = ""  # of the return type
        elif templates or not depth:
            kept += letter
        depth -= letter == ">" and depth > 0
    return kept
