"""What functions and kernels are called, for people."""

from __future__ import annotations

import re

from firsttouch import _core

LONGEST_ARGUMENTS = 80
"""Characters of a template's arguments beyond which the rest is left out."""
_SIGN = re.compile(r"(operator\s*(?:\(\)|\[\]|<=>|->\*?|<<=?|>>=?|<=?|>=?|,)|operator (?=[a-z]))")
"""Operators whose sign would open something, and those whose name has a space."""
_UNNAMED = re.compile(
    r"^decltype ?\(.*?\) (?=\w)|\(anonymous namespace\)::|\{anonymous\}::|\b_INTERNAL_\w+::|\b_GLOBAL__N_\w*::"
    r"|\b(?:CUB|THRUST)_\d\w*::|\b__(?:1|cxx11)::"
)
_QUALIFIER = re.compile(r"\b[A-Za-z_]\w*::(?!\{)")
_LENGTH = re.compile(r"\d+")


def kernel_name(mangled: str) -> str:
    """A kernel without its parameters. What templates are made for stays, since it tells kernels apart, but without
    namespaces.
    """
    demangled = _core.demangle(mangled)
    return _identifiers(demangled) if demangled.startswith("_Z") else function_name(demangled, templates=True)


def function_name(demangled: str, *, templates: bool = False) -> str:
    """A function without its parameters, its return type and unnamed namespaces. templates: keep their arguments, in
    short.
    """
    parts = _SIGN.split(_UNNAMED.sub("", demangled).replace(" <", "<"))
    kept, arguments, depth = "", "", 0
    for number, part in enumerate(parts):
        if number % 2:  # of an operator
            kept, arguments = (kept, arguments + part) if depth else (kept + part, arguments)
            continue
        for letter in part:
            depth -= letter in ">)]}" and depth > 0
            if not depth and letter in ">]}":
                kept += _closed(arguments, letter, templates)
                arguments = ""
            elif not depth and letter == "(":
                return kept
            elif depth or letter in "<[{":
                arguments += letter
            elif letter == " " and not kept.endswith("operator "):
                kept = ""  # of the return type
            elif letter != ")":
                kept += letter
            depth += letter in "<[{" or (letter == "(" and depth > 0)
    return kept


def _closed(text: str, close: str, templates: bool) -> str:
    """What stays of `text`, which begins with the sign that `close` closes: of a lambda all but its parameters."""
    if close != ">":
        return re.sub(r"\(.*\)", "", text) + close
    if not templates:
        return ""
    short = _QUALIFIER.sub("", text)
    return (f"{short}>" if len(short) <= LONGEST_ARGUMENTS else f"{short[:LONGEST_ARGUMENTS]}...>").replace("> >", ">>")


def _identifiers(mangled: str) -> str:
    """The names in the beginning of a mangled name that nothing demangles. Source: the Itanium C++ ABI, 5.1."""
    names, is_nested = list[str](), mangled.startswith("N", 2)
    at = 2 + is_nested
    while match := _LENGTH.match(mangled, at):
        at = match.end() + int(match[0])
        names.append(mangled[match.end() : at])
    is_whole = not is_nested or mangled[at : at + 1] in ("I", "E")
    return (is_whole and function_name("::".join(names))) or mangled
