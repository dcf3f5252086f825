"""Writes docs/firsttouch.1, the manual page, from the help of the commands and the guide: python docs/man.py

A wheel installs it into share/man/man1. A test compares.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

from firsttouch.cli.main import app, parser

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/firsttouch.1"
DATE = "2026-11-26"
"""Of the last change of its form, as what it says changes with every command."""


def page() -> str:
    names, about = [command.name or "" for command in app.registered_commands], str(app.info.help).rstrip(".")
    parsers = {name: parser(name).commands[name] for name in names}
    overview = [line for name in names for line in (".TP", f".B {text(name)}", text(parsers[name].short_help))]
    return "\n".join(
        [
            f'.TH FIRSTTOUCH 1 {DATE} firsttouch "User Commands"',
            ".SH NAME",
            f"firsttouch \\- {text(about[:1].lower() + about[1:])}",
            ".SH SYNOPSIS",
            ".B firsttouch",
            "\\fICOMMAND\\fR [\\fIOPTION\\fR ...] [\\fIARGUMENT\\fR ...]",
            ".SH DESCRIPTION",
            "Each command has",
            ".B \\-\\-help",
            "with an example.",
            *overview,
            ".SH COMMANDS",
            *(line for name in names for line in section(name, parsers[name])),
            ".SH ENVIRONMENT",
            *environment(),
            ".SH SEE ALSO",
            "The documentation of the package; the scripts and results that it names:",
            '.BR "firsttouch examples" .',
            "",
        ]
    )


def section(name: str, command: Any) -> list[str]:
    """A command: its call, its help, its arguments and its options."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    call = " ".join(["[\\fIOPTION\\fR ...]", *(synopsis(p) for p in arguments)])
    lines = [f".SS firsttouch {text(name)} {call}"]
    for number, paragraph in enumerate(inspect.cleandoc(command.callback.__doc__).split("\n\n")):
        lines += [".PP"] if number else []
        if paragraph.startswith("\b\n"):
            lines += [".nf", ".RS 4", literal(paragraph.removeprefix("\b\n")), ".RE", ".fi"]
            continue
        example, _, words = paragraph.partition("Example: ")
        lines += (
            ["Example:", ".PP", ".nf", ".RS 4", literal(" ".join(words.split())), ".RE", ".fi"]
            if not example
            else [text(paragraph)]
        )
    for parameter in [*arguments, *options]:
        lines += [".TP", heading(parameter), text(parameter.help or "")]
    return lines


def synopsis(argument: Any) -> str:
    word = f"\\fI{text(argument.metavar or argument.name.upper())}\\fR"
    return f"{word if argument.required else f'[{word}]'}{' ...' if argument.nargs != 1 else ''}"


def heading(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f".I {text(parameter.metavar or parameter.name.upper())}"
    names = ", ".join(f"\\fB{text(name)}\\fR" for name in sorted(parameter.opts, key=len))
    value = "" if parameter.is_flag else parameter.metavar or parameter.name.upper()
    return names + (f" \\fI{text(value)}\\fR" if value else "")


def environment() -> list[str]:
    """The variables that the guide lists."""
    guide = (ROOT / "docs/guide.md").read_text().partition("\n## Environment variables\n")[2].partition("\n## ")[0]
    lines = []
    for item in re.split(r"^- ", guide, flags=re.MULTILINE)[1:]:
        names = re.match(r"(?:`FIRSTTOUCH_\w+`(?:, )?)+", item)
        assert names is not None, item
        about = re.sub(r"\s+", " ", item[names.end() :]).strip().removeprefix(": ").replace("`", "")
        lines += [".TP", f".B {text(names[0].replace('`', ''))}", text(f"{about[:1].upper()}{about[1:]}.")]
    return lines


def literal(words: str) -> str:
    """Lines in which no character means something to roff."""
    return words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")


def text(words: str) -> str:
    """Text in lines of at most 79 characters."""
    line = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", literal(words))
    lines = textwrap.wrap(line, 77, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page())
