"""Which parameters of a kernel point to what each thread group updates once by an atomic operation, as sums over all
groups are made; read from the kernel's source. How often other atomics happen depends on the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

_ATOMIC = re.compile(r"(?:ATOMIC_[A-Z]+|EXCHANGE)_\w+")
"""The macros of the preludes whose first argument is the place that they change."""
_FUNCTION = re.compile(r"^(?:GROUP_)?(?:KERNEL|HELPER)\b[^(;]*?(\w+)\(([^)]*)\)[^{;]*\{", re.MULTILINE)
_MACRO = re.compile(r"^#define (\w+)(?:\(([^)]*)\))?((?:[^\n\\]|\\\n|\\.)*)", re.MULTILINE)
_FIRST_ITEM = re.compile(r"\bif\s*\(LOCAL_ID == 0\)\s*(?:\\\n\s*)?(\{)?")
_NAME = re.compile(r"[A-Za-z_]\w*")


class _Function(NamedTuple):
    """parameters: their names, in order. body: its text. first: the parts that the first item of a group carries out"""

    parameters: tuple[str, ...]
    body: str
    first: str

    @classmethod
    def of(cls, parameters: str, body: str) -> _Function:
        firsts = [
            _block(body, m.end()) if m[1] else body[m.end() :].partition(";")[0] for m in _FIRST_ITEM.finditer(body)
        ]
        return cls(_names(parameters), body, ";".join(firsts))


_Changed = Mapping[str, frozenset[str]]
"""By function or macro: names of parameters, and for a macro also names of where it is used."""


@cache
def group_atomics(text: str) -> _Changed:
    """The names that each group of threads updates once, by function and macro of a kernel file."""
    functions = {m[1]: _Function.of(m[2], _block(text, m.end())) for m in _FUNCTION.finditer(text)}
    functions |= {m[1]: _Function.of(m[2] or "", m[3]) for m in _MACRO.finditer(text)}
    by_any, by_first = dict.fromkeys(functions, frozenset[str]()), dict.fromkeys(functions, frozenset[str]())
    while True:
        every = {name: _changed(f.body, functions, by_any, direct=True) for name, f in functions.items()}
        first = {
            name: _changed(f.first, functions, by_any, direct=True) | _changed(f.body, functions, by_first)
            for name, f in functions.items()
        }
        if (every, first) == (by_any, by_first):
            return first
        by_any, by_first = every, first


def _changed(
    text: str, functions: Mapping[str, _Function], changed_by: _Changed, *, direct: bool = False
) -> frozenset[str]:
    """The names that the calls of a text change. direct: atomic operations count, and not only what is known."""
    names = set[str]()
    for called, arguments in _calls(text):
        if direct and _ATOMIC.fullmatch(called):
            names.update(_NAME.findall(arguments[0]))
        elif target := functions.get(called):
            names |= changed_by[called] - {*target.parameters}
            for parameter, argument in zip(target.parameters, arguments, strict=False):
                names.update(_NAME.findall(argument) if parameter in changed_by[called] else ())
    return frozenset(names)


def _names(parameters: str) -> tuple[str, ...]:
    """The last name of each parameter."""
    return tuple(names[-1] for part in parameters.split(",") if (names := _NAME.findall(part)))


def _block(text: str, start: int) -> str:
    """The text from after a brace to the brace that closes it."""
    depth = 1
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return text[start:i]
    return text[start:]


def _calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """The calls of a text, with the texts of their arguments; nested ones too."""
    for match in re.finditer(r"([A-Za-z_]\w*)\s*\(", text):
        arguments, depth, begin = list[str](), 0, match.end()
        for i in range(match.end(), len(text)):
            if depth == 0 and text[i] in ",)":
                arguments.append(text[begin:i])
                begin = i + 1
                if text[i] == ")":
                    break
            depth += (text[i] in "([") - (text[i] in ")]")
        yield match[1], arguments or [""]
