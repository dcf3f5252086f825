"""Phases that a program names itself: `with firsttouch.phase("solve"):` and `firsttouch mark solve`.

A mark is one line that is appended to DIR/marks.jsonl by one write, DIR being the folder that a profiler names in the
environment. Outside a profile nothing is done. This module imports nothing but what Python has loaded anyway.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager
from types import TracebackType

VARIABLE = "FIRSTTOUCH_PROFILE"
"""The environment variable with the folder of the profile, an absolute path."""
FILE = "marks.jsonl"
LONGEST_NAME = 500


class phase(AbstractContextManager[None]):
    """Names the time of the `with` block in a profile. Does nothing where no profile is made, and never fails.

    Phases may be nested, and each thread has its own.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        write("begin", self._name, "python")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        write("end", self._name, "python")


def write(kind: str, name: str, source: str) -> bool:
    """Appends a mark. Returns whether there is a profile that it was written to."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return False
    import json
    import threading

    thread = threading.get_native_id()
    text = str(name).encode(errors="backslashreplace").decode()  # words of a script need not be valid Unicode
    line = {"line": "mark", "t": time.monotonic(), "kind": kind, "name": text[:LONGEST_NAME], "pid": os.getpid()}
    data = json.dumps({**line, "thread": thread, "source": source}).encode() + b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO there must not block
    try:
        descriptor = os.open(os.path.join(folder, FILE), flags, 0o644)
    except OSError:
        return False
    try:
        os.write(descriptor, data)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
