"""What is written to stdout and stderr: no control characters from outside, and no failure that ends a run.

Text of devices, files and modules may hold anything. `printable` makes it harmless, and everything is printed through
`say`, `tell` and the `Console` of console.py, which use it.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import NoReturn, TextIO

_HARMFUL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and newline, marks that change the direction of writing, and lone surrogates."""
_INSTEAD = {"✓": "+", "✗": "x", "°": " deg ", "µ": "u", "…": "..."}
"""What stands for a character that an output can't hold; '?' for all others."""
_ERRORS = "firsttouch"


def printable(text: str) -> str:
    """`text` with its control characters as \\uXXXX, which JSON reads as the same characters."""
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def say(text: str) -> None:
    """Print on stdout."""
    print(printable(text))


def tell(text: str) -> None:
    """Print on stderr, at once."""
    print(printable(text), file=sys.stderr, flush=True)


def say_json(value: object, *, indent: int | None = None) -> None:
    """Print a value as JSON on stdout."""
    import msgspec

    data = msgspec.json.encode(value)
    say((data if indent is None else msgspec.json.format(data, indent=indent)).decode())


class _Output(io.TextIOWrapper):
    """A text stream whose failure ends nothing: what can no longer be written goes to /dev/null."""

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
        """The descriptor is replaced, since what is buffered is written again when the stream is closed."""
        self.failure = self.failure or error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lost = error.object[error.start : error.end]
    return "".join(_INSTEAD.get(character, "?") for character in lost), error.end


class _Harmless(io.TextIOBase):
    """A text stream that passes on what is printable."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(printable(text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


@contextmanager
def code_of_modules() -> Iterator[None]:
    """While code of modules may run in this process: what it prints goes to stderr and is made harmless, and os._exit,
    which would end the run without a word, is an error like sys.exit.
    """
    process, leave = os.getpid(), os._exit

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process:  # a process that the module has forked
            leave(status)
        raise SystemExit(f"os._exit({status})")

    harmless = _Harmless(sys.stderr)
    os._exit = refuse
    try:
        with redirect_stdout(harmless), redirect_stderr(harmless):
            yield
    finally:
        os._exit = leave


def guard_streams() -> None:
    """Make stdin, stdout and stderr such that nothing written there can end the program.

    A descriptor that is closed is opened on /dev/null first: else the next file opened would get its number, and what a
    library prints would land in it.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    codecs.register_error(_ERRORS, _replace)
    sys.stdout, sys.stderr = _guarded(sys.stdout, 1), _guarded(sys.stderr, 2)


def _guarded(stream: TextIO | None, descriptor: int) -> _Output:
    encoding = stream.encoding if stream is not None else "utf-8"
    raw = stream.detach() if isinstance(stream, io.TextIOWrapper) else open(descriptor, "wb", closefd=False)  # noqa: SIM115
    return _Output(raw, encoding=encoding, errors=_ERRORS, line_buffering=descriptor == 2 or os.isatty(descriptor))


def lost_output() -> str:
    """Why stdout could not be written, '' where it was, or where its reader had enough."""
    try:
        sys.stdout.flush()
    except ValueError:  # closed
        return ""
    failure = sys.stdout.failure if isinstance(sys.stdout, _Output) else None
    return "" if failure is None or isinstance(failure, BrokenPipeError) else str(failure.strerror)
