"""Loads experiments and applications from this package, from other packages (entry points) and from single files.

--module names a file and adds it to FIRSTTOUCH_MODULES, so that workers load it too. Every class of a module that
derives from the base class and defines `name` is found. Errors in a module are reported as a UsageError with the file
and, if known, the line.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from firsttouch.base.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

VARIABLE = "FIRSTTOUCH_MODULES"
"""The environment variable with the paths of module files, separated by ':'."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_LONGEST = 600
"""Characters of an error's text that are shown."""
_foreign: set[str] = set()
"""Files of loaded modules from outside this package."""

T = TypeVar("T")


def add_modules(paths: Iterable[str]) -> None:
    """Load module files in this process, and have every worker load them. Raises UsageError if one can't be loaded."""
    added = [os.path.abspath(path) for path in paths]
    for path in added:
        if os.pathsep in path:
            raise UsageError(f"--module '{path}' has '{os.pathsep}' in its path; give a path without it")
        _from_file(path)
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*_listed_files(), *added]))


def _listed_files() -> list[str]:
    return [path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]


def find_classes(
    base: type[T],
    package: ModuleType,
    *,
    noun: str,
    required: Sequence[str],
    group: str = "",
    validate: Callable[[type[T]], str] = lambda kind: "",
) -> dict[str, type[T]]:
    """The named classes derived from `base`, by name.

    Args:
        package: the package whose modules are searched.
        noun: the word for such a class in error messages.
        required: attributes and methods that every class must define.
        group: the group of entry points that name further modules. '': none outside of the package is searched.
        validate: returns what else is wrong with a class, '' if nothing is. Not called for those of this package,
            which a test validates: it takes a tenth of the time in which a worker starts.

    Raises:
        UsageError: a module does not load, an entry point has no such class, a class lacks a required attribute or is
            invalid, or two classes have the same name.
    """
    search = _Search(base, package, group, noun, tuple(required), validate)
    return {**_find_cached(search, tuple(sys.path), tuple(_listed_files()))}


class _Search(NamedTuple):
    """The arguments of find_classes."""

    base: type
    package: ModuleType
    group: str
    noun: str
    required: tuple[str, ...]
    validate: Callable[[type[Any]], str]


@cache
def _find_cached(search: _Search, path: tuple[str, ...], files: tuple[str, ...]) -> dict[str, type[Any]]:
    """The result of find_classes with the search path `path` and these files of users. Cached, because every point
    needs it, and searching takes as long as a short point does.
    """
    base, noun = search.base, search.noun
    classes: dict[str, type] = {}
    for module, must_have in _modules(search, path, files):
        subclasses = [
            v
            for v in vars(module).values()
            if isinstance(v, type) and issubclass(v, base) and _is_defined_in(v, module)
        ]
        if must_have and not subclasses:
            raise UsageError(f"{module.__file__} defines no {noun}: no subclass of {base.__name__} that has a name")
        for kind in subclasses:
            name = _checked_name(kind, base, noun, search.required)
            if is_foreign(str(module.__file__)) and (problem := search.validate(kind)):
                raise UsageError(f"{_location(kind)}: the {noun} {name}: {problem}")
            if classes.setdefault(name, kind) is not kind:
                earlier = classes[name]
                raise UsageError(
                    f"{_location(kind)}: there is {_article(noun)} {name} already, in {_location(earlier)}"
                )
    return classes


def create(kind: type[T], noun: str) -> T:
    """Create an instance without arguments. Raises UsageError if that fails."""
    try:
        return kind()
    except Exception as error:
        raise UsageError(f"{_location(kind)}: the {noun} cannot be created: {describe_error(error)}") from error


def require_classes(paths: Iterable[str], classes: Iterable[type], base: type, noun: str) -> None:
    """Raises UsageError if a file defines none of the `classes` classes."""
    defined = {kind.__module__ for kind in classes}
    for path in paths:
        if _from_file(os.path.abspath(path)).__name__ not in defined:
            raise UsageError(f"--module '{path}' defines no {noun}: no subclass of {base.__name__} that has a name")


def error_location(error: BaseException) -> str:
    """FILE:LINE of the innermost frame of an error that is in a user's module; '' if there is none."""
    location, trace = "", error.__traceback__
    if isinstance(error, SyntaxError) and error.filename in _foreign:
        location = f"{error.filename}:{error.lineno}"
    while trace is not None:
        if (file := trace.tb_frame.f_code.co_filename) in _foreign:
            location = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return location


def thread_location() -> str:
    """FILE:LINE of a thread, besides the caller's, that executes code of a user's module; '' if there is none."""
    own_thread = threading.get_ident()
    for thread in threading.enumerate():  # a thread that was just started may not execute that code yet
        code = getattr(getattr(thread, "_target", None), "__code__", None)
        if code is not None and code.co_filename in _foreign and thread.ident != own_thread:
            return f"{code.co_filename}:{code.co_firstlineno}"
    for thread_id, innermost in sys._current_frames().items():
        frame: FrameType | None = innermost if thread_id != own_thread else None
        while frame is not None:
            if frame.f_code.co_filename in _foreign:
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
    return ""


def is_foreign(file: str) -> bool:
    """Whether a file is a loaded module from outside this package."""
    return file in _foreign


def _modules(search: _Search, path: tuple[str, ...], files: tuple[str, ...]) -> Iterator[tuple[ModuleType, bool]]:
    """Every module to search, and whether it must define a class."""
    for info in pkgutil.iter_modules(search.package.__path__):
        yield importlib.import_module(f"{search.package.__name__}.{info.name}"), False
    if not search.group:
        return
    for point in _entry_points(search.group, path):
        yield _from_entry_point(point), True
    for file in files:
        yield _from_file(file), False


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> Sequence[EntryPoint]:
    """The entry points of a group on the search path `path`. Cached, because reading the metadata of a few hundred
    installed packages takes longer than measuring a short point.
    """
    if not any(_may_name(f"[{group}]".encode(), folder or os.curdir) for folder in path):
        return ()  # importlib.metadata takes a tenth of the time in which a worker starts
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _may_name(group: bytes, folder: str) -> bool:
    """Whether a package that is installed in a folder of the search path may have entry points of a group."""
    if os.path.isfile(folder) or folder.endswith(".egg"):
        return True  # an archive, which is not searched here
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        if name.endswith((".dist-info", ".egg-info")):
            with suppress(OSError), open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
                if group in file.read():
                    return True
    return False


@cache
def _from_file(path: str) -> ModuleType:
    name = f"firsttouch_module_{Path(path).stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise UsageError(f"--module '{path}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    _foreign.add(path)
    if (folder := os.path.dirname(path)) not in sys.path:
        sys.path.append(folder)  # it may import modules beside it; last, so that these hide no others
    sys.modules[name] = module
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # no __pycache__ in folders of users
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise UsageError(f"--module '{path}' does not load: {describe_error(error)}") from error
    finally:
        sys.dont_write_bytecode = writes_none
    if location := thread_location():
        raise UsageError(
            f"--module '{path}' starts a thread when it is loaded, which goes on ({location}); start none, since it "
            "would take processors from what is measured"
        )
    return module


@cache
def _from_entry_point(point: EntryPoint) -> ModuleType:
    label = f"the entry point '{point.name}' of the group {point.group}, {point.value},"
    try:
        module = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UsageError(f"{label} does not load: {describe_error(error)}") from error
    if not isinstance(module, ModuleType):
        raise UsageError(f"{label} is not a module")
    _foreign.add(str(module.__file__))
    return module


def describe_error(error: BaseException) -> str:
    """An error as one line with its type, its text and its location in the module."""
    text = str(error.msg if isinstance(error, SyntaxError) else error)[:_LONGEST]
    location = error_location(error)
    return " ".join(f"{type(error).__name__}: {text}{f' ({location})' if location else ''}".split())


def _is_defined_in(kind: type, module: ModuleType) -> bool:
    return kind.__module__ == module.__name__ and "name" in vars(kind)


def _checked_name(kind: type, base: type, noun: str, required: Sequence[str]) -> str:
    name = vars(kind)["name"]
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        accepted = "letters, digits and _ . + -, beginning with a letter or a digit, 64 at most"
        shown = repr(name if not isinstance(name, str) or len(name) <= 64 else f"{name[:61]}...")
        raise UsageError(f"{_location(kind)}: {shown:.80} can't be the name of {_article(noun)}; accepted: {accepted}")
    for attribute in required:
        if getattr(kind, attribute, None) is getattr(base, attribute, None):
            raise UsageError(f"{_location(kind)}: the {noun} {name} has no {attribute}")
    return name


def _location(kind: type) -> str:
    """FILE:LINE of a class, or its module if the line is unknown."""
    try:
        return f"{inspect.getfile(kind)}:{inspect.getsourcelines(kind)[1]}"
    except (OSError, TypeError):
        return kind.__module__


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
