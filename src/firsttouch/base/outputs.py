"""What everything that --json prints has in common: its schema, the build that made it, and a sentence; and errors."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from firsttouch import __version__

INFINITE = "infinite"
"""The mark in the schema of a number that may be infinite."""
Unbounded: TypeAlias = Annotated[float, msgspec.Meta(extra_json_schema={INFINITE: True})]
"""A number that may be infinite, such as a ratio to zero, for which JSON has null."""


class Output(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema"):
    """One output of --json. Each kind is a subclass, with its schema and version as the tag.

    firsttouch: the version of the program, which names its build. summary: what the output says, in a sentence or two.
    """

    firsttouch: str = msgspec.field(default_factory=lambda: __version__)
    summary: str


class CallError(msgspec.Struct, kw_only=True):
    """Why a call did nothing, or did not end its work. message: the sentence that stderr has. hint: what is accepted,
    or what to type. exit_status: 2 if the call was wrong.
    """

    message: str
    hint: str
    exit_status: int


class ErrorOutput(Output, frozen=True, kw_only=True, tag="firsttouch-error/1"):
    """What any command prints with --json in place of its own output, if the call was wrong or could not be carried
    out.
    """

    error: CallError


def error_output(message: str, exit_status: int, command: str = "") -> ErrorOutput:
    """An error for --json. A message has first what was wrong, then, behind a semicolon, what is accepted."""
    _, _, accepted = message.partition("; ")
    hint = accepted or f"see {' '.join(filter(None, ('firsttouch', command)))} --help"
    return ErrorOutput(summary=message, error=CallError(message=message, hint=hint, exit_status=exit_status))
