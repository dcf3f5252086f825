"""Turns specifications into SVG, in a process that starts while the one that makes the page reads its data.

The converter takes half a second to start, and holds the interpreter's lock meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import active_children, get_context
from typing import Any, ClassVar

from firsttouch.base.errors import UsageError
from firsttouch.base.processes import die_with

_ANY: dict[str, Any] = {"mark": "point", "data": {"values": []}}
"""What is converted first, and the converter started by that."""


class Another:
    """The other process. pool: None where there is none."""

    pool: ClassVar[ProcessPoolExecutor | None] = None

    @classmethod
    def submit(cls, function: Callable[..., str], *arguments: Any) -> Future[str] | None:
        """Lets the other process call a function. None if it has ended."""
        with suppress(BrokenProcessPool):
            return cls.pool.submit(function, *arguments) if cls.pool is not None else None
        return None


@contextmanager
def another_process(module: str) -> Iterator[None]:
    """Starts a process that draws, which ends with this one, however that ends. It is a copy of this process, which
    must not have started threads. module: what it loads besides the converter.
    """
    try:
        Another.pool = ProcessPoolExecutor(1, get_context("fork"), initializer=die_with, initargs=(os.getpid(),))
        Another.pool.submit(converted, _ANY)
        Another.pool.submit(import_module, module)
    except (OSError, ImportError, NotImplementedError):  # no semaphores: /dev/shm is full or is not there
        Another.pool = None
    try:
        yield
    finally:
        for child in active_children():
            child.kill()
        if Another.pool is not None:
            Another.pool.shutdown(cancel_futures=True)
        Another.pool = None


def converted(spec: dict[str, Any]) -> str:
    """The figure as an SVG document."""
    import vl_convert

    with converting():
        text: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    return text


@contextmanager
def converting() -> Iterator[None]:
    """Raises UsageError if the converter fails, for example for lack of file descriptors or threads."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the converter derives from BaseException alone
        raise UsageError(f"a figure could not be drawn: {' '.join(str(error).split())}") from None
