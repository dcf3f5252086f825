"""Writes to stdout and stderr without control characters from outside, and so that no failure ends a run.

Text from devices, files and modules may contain anything. `printable` escapes it. Everything is printed through
`print_stdout`, `print_stderr` and the `Console` of console.py, which use it.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from typing import TextIO

_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and newline, marks that change the writing direction, and lone surrogates."""
_REPLACEMENTS = {"✓": "+", "✗": "x", "°": " deg ", "µ": "u", "…": "..."}
"""Replacements for characters that the encoding of an output lacks. All others become '?'."""
_ERRORS = "firsttouch"
_SCREEN = 20 * 80
"""Characters of a screen."""
WIDTH = 100
"""The columns of what is printed, where a terminal or COLUMNS has no fewer."""


def printable(text: str) -> str:
    """Returns `text` with its control characters as \\uXXXX, which JSON decodes to the same characters."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def shortened(text: str) -> str:
    """An error's text without its middle if it is longer than a screen; its end may have the place."""
    return text if len(text) <= _SCREEN else f"{text[: _SCREEN // 2]} ... {text[-_SCREEN // 4 :]}"


def text_width(stream: TextIO | None = None) -> int:
    """The columns of a line of text on a stream, by default stdout."""
    stream = stream or sys.stdout
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdecimal() and int(columns) > 0:
        return min(WIDTH, int(columns))
    try:
        return min(WIDTH, os.get_terminal_size(stream.fileno()).columns or WIDTH) if stream.isatty() else WIDTH
    except (OSError, ValueError):
        return WIDTH


def print_error(text: str) -> None:
    """Prints an error to stderr, of at most a screen."""
    print_stderr(f"firsttouch: {shortened(text)}")


def print_failure(text: str, exit_status: int, as_json: bool, command: str = "") -> None:
    """Prints an error that ends a call; with --json also on stdout, as an object."""
    print_error(text)
    if as_json:
        from firsttouch.base.outputs import error_output

        print_json(error_output(text, exit_status, command))


def print_stdout(text: str) -> None:
    """Prints to stdout."""
    print(printable(text))


def print_stderr(text: str) -> None:
    """Prints to stderr and flushes it."""
    print(printable(text), file=sys.stderr, flush=True)


def print_json(value: object, *, indent: int | None = None) -> None:
    """Prints a value as JSON to stdout."""
    import msgspec

    from firsttouch.base.encoding import encode_json

    data = encode_json(value)
    print_stdout((data if indent is None else msgspec.json.format(data, indent=indent)).decode())


class _Output(io.TextIOWrapper):
    """A text stream that continues on /dev/null if writing fails."""

    failure: OSError | None = None

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Replaces the descriptor by /dev/null, because closing the stream writes the buffered text again."""
        self.failure = self.failure or error
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())
        os.close(null)


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    return "".join(_REPLACEMENTS.get(character, "?") for character in missing), error.end


def guard_streams() -> None:
    """Replaces stdout and stderr by streams on which a failure does not end the program.

    Closed standard descriptors are first opened on /dev/null. Otherwise the next file that is opened would get such a
    number, and output of libraries would be written into it.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    codecs.register_error(_ERRORS, _replace_unencodable)
    sys.stdout, sys.stderr = _guarded(sys.stdout, 1), _guarded(sys.stderr, 2)


def _guarded(stream: TextIO | None, descriptor: int) -> _Output:
    encoding = stream.encoding if stream is not None else "utf-8"
    raw = stream.detach() if isinstance(stream, io.TextIOWrapper) else open(descriptor, "wb", closefd=False)  # noqa: SIM115
    return _Output(raw, encoding=encoding, errors=_ERRORS, line_buffering=descriptor == 2 or os.isatty(descriptor))


def lost_output() -> str:
    """Why stdout could not be written; '' if it could, or if its reader closed the pipe."""
    try:
        sys.stdout.flush()
    except ValueError:  # the stream is closed
        return ""
    failure = sys.stdout.failure if isinstance(sys.stdout, _Output) else None
    return "" if failure is None or isinstance(failure, BrokenPipeError) else str(failure.strerror)
