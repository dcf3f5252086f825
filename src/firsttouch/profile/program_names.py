"""What programs are called: one that an interpreter of Python runs has the name of its script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*[dt]*")
_WITH_VALUE = "WX"
"""Options of Python that have a value, in the same word or in the next one."""
_LONG_WITH_VALUE = "--check-hash-based-pycs"


def is_python(name: str) -> bool:
    """Whether a program is an interpreter of Python, by its name or path."""
    return _PYTHON.fullmatch(PurePath(name).name) is not None


def program_command(command: Sequence[str]) -> list[str]:
    """A command without the interpreter of Python that runs it: ['train.py', '--fast']; of `-m` the module comes
    first. As it is if it names neither a script nor a module.
    """
    words = list(command)
    if words[:1] and PurePath(words[0]).name == "env" and len(words) > 1 and is_python(words[1]):
        words = words[1:]
    if not words or not is_python(words[0]):
        return words
    at = 1
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[at + 1 :] or words
        if word == "-" or not word.startswith("-"):
            return words[at:] if word != "-" else words
        at += 1
        if word.startswith("--"):
            at += word == _LONG_WITH_VALUE
            continue
        for place, letter in enumerate(word[1:], 2):
            value = word[place:]
            if letter == "m":
                return [value, *words[at:]] if value else words[at:] or words
            if letter == "c":
                return words
            if letter in _WITH_VALUE:
                at += not value
                break
    return words


def program_name(command: Sequence[str]) -> str:
    """The name of a program, without its folder; '' of an empty command."""
    words = program_command(command)
    return PurePath(words[0]).name if words else ""


def process_name(name: str, command: Sequence[str]) -> str:
    """What a process is called. name: as the kernel has it, which a process may change."""
    return program_name(command) or name if not name or is_python(name) else name
