"""Loads experiments and applications: those of the package, of other packages (entry points) and of single files.

A file is named by --module, which puts it into FIRSTTOUCH_MODULES, so that workers load it too. A class is taken by
itself where it derives from the base of its kind and has a name of its own. What is wrong with a module is a UsageError
that names the file and, where there is one, the line.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from firsttouch.errors import UsageError

VARIABLE = "FIRSTTOUCH_MODULES"
"""Files of modules, separated by ':'."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_foreign: set[str] = set()
"""Files of loaded modules that are not of this package."""

T = TypeVar("T")


def add_modules(paths: Iterable[str]) -> None:
    """Load files of modules in this process, and name them to every worker. Raises UsageError for one that can't be."""
    added = [os.path.abspath(path) for path in paths]
    for path in added:
        if os.pathsep in path:
            raise UsageError(f"--module '{path}' has '{os.pathsep}' in its path; give a path without")
        _from_file(path)
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*_listed_files(), *added]))


def _listed_files() -> list[str]:
    return [path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path]


def find_classes(
    base: type[T],
    package: ModuleType,
    *,
    group: str,
    noun: str,
    excluded: Sequence[str],
    required: Sequence[str],
    validate: Callable[[type[T]], str] = lambda one: "",
) -> dict[str, type[T]]:
    """The named classes derived from `base`, by name.

    Args:
        package: whose modules are searched, but those in excluded.
        group: of entry points that name further modules.
        noun: what such a class is, for errors.
        required: attributes and methods that every such class must give.
        validate: says what else is wrong with such a class, '' where nothing is.

    Raises:
        UsageError: a module does not load, an entry point has no such class, a class lacks something, or a name is
            taken.
    """
    found: dict[str, type[T]] = {}
    for module, must_have in _modules(package, group, excluded):
        own = [
            v
            for v in vars(module).values()
            if isinstance(v, type) and issubclass(v, base) and _is_defined_in(v, module)
        ]
        if must_have and not own:
            raise UsageError(f"{module.__file__} defines no {noun}: no subclass of {base.__name__} that has a name")
        for one in own:
            name = _checked_name(one, base, noun, required)
            if wrong := validate(one):
                raise UsageError(f"{_location(one)}: the {noun} {name}: {wrong}")
            if found.setdefault(name, one) is not one:
                other = found[name]
                raise UsageError(f"{_location(one)}: there is {_article(noun)} {name} already, in {_location(other)}")
    return found


def create(one: type[T], what: str) -> T:
    """An instance of a class of a module, made without arguments. Raises UsageError where that fails."""
    try:
        return one()
    except Exception as error:
        raise UsageError(f"{_location(one)}: the {what} cannot be created: {describe_error(error)}") from error


def require_classes(paths: Iterable[str], known: Iterable[type], base: type, noun: str) -> None:
    """Raises UsageError for a file that defines none of the `known` classes."""
    defined = {one.__module__ for one in known}
    for path in paths:
        if _from_file(os.path.abspath(path)).__name__ not in defined:
            raise UsageError(f"--module '{path}' defines no {noun}: no subclass of {base.__name__} that has a name")


def error_location(error: BaseException) -> str:
    """FILE:LINE of the innermost frame of an error that lies in a user's module; '' where none does."""
    found, trace = "", error.__traceback__
    if isinstance(error, SyntaxError) and error.filename in _foreign:
        found = f"{error.filename}:{error.lineno}"
    while trace is not None:
        if (file := trace.tb_frame.f_code.co_filename) in _foreign:
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def is_foreign(file: str) -> bool:
    """Whether a file is that of a loaded module from outside the package."""
    return file in _foreign


def _modules(package: ModuleType, group: str, excluded: Sequence[str]) -> Iterator[tuple[ModuleType, bool]]:
    """Every module to be searched, and whether it must define something."""
    for info in pkgutil.iter_modules(package.__path__):
        if info.name not in excluded:
            yield importlib.import_module(f"{package.__name__}.{info.name}"), False
    for point in _entry_points(group, tuple(sys.path)):
        yield _from_entry_point(point), True
    for path in _listed_files():
        yield _from_file(path), False


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> Sequence[EntryPoint]:
    """Those of a group on the search path `path`. Cached: every point of a run asks, and reading the metadata of a few
    hundred installed packages takes longer than measuring a short point.
    """
    return tuple(entry_points(group=group))


@cache
def _from_file(path: str) -> ModuleType:
    name = f"firsttouch_module_{Path(path).stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise UsageError(f"--module '{path}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    _foreign.add(path)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise UsageError(f"--module '{path}' does not load: {describe_error(error)}") from error
    return module


@cache
def _from_entry_point(point: EntryPoint) -> ModuleType:
    said = f"the entry point '{point.name}' of the group {point.group}, {point.value},"
    try:
        module = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UsageError(f"{said} does not load: {describe_error(error)}") from error
    if not isinstance(module, ModuleType):
        raise UsageError(f"{said} is no module")
    _foreign.add(str(module.__file__))
    return module


def describe_error(error: BaseException) -> str:
    """An error as one sentence with its place in the module."""
    text = str(error.msg if isinstance(error, SyntaxError) else error)
    where = error_location(error)
    return " ".join(f"{type(error).__name__}: {text}{f' ({where})' if where else ''}".split())


def _is_defined_in(one: type, module: ModuleType) -> bool:
    return one.__module__ == module.__name__ and "name" in vars(one)


def _checked_name(one: type, base: type, noun: str, required: Sequence[str]) -> str:
    name = vars(one)["name"]
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        accepted = "letters, digits and _ . + -, beginning with a letter or a digit, 64 at most"
        shown = repr(name if not isinstance(name, str) or len(name) <= 64 else f"{name[:61]}...")
        raise UsageError(f"{_location(one)}: {shown:.80} can't be the name of {_article(noun)}; accepted: {accepted}")
    for attribute in required:
        if getattr(one, attribute, None) is getattr(base, attribute, None):
            raise UsageError(f"{_location(one)}: the {noun} {name} has no {attribute}")
    return name


def _location(one: type) -> str:
    """FILE:LINE of a class, or its module where that can't be told."""
    try:
        return f"{inspect.getfile(one)}:{inspect.getsourcelines(one)[1]}"
    except (OSError, TypeError):
        return one.__module__


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
