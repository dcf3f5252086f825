"""Every application by name. A module here that defines an App is found by itself.

Applications of others: an entry point of the group "firsttouch.apps" that names a module, or a Python file that
FIRSTTOUCH_APPS names (several separated by ':'), which is what --module sets.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from firsttouch.errors import UsageError

if TYPE_CHECKING:
    from firsttouch.apps.base import App

VARIABLE = "FIRSTTOUCH_APPS"
_OTHERS = ("base", "experiment", "fft", "measure", "random", "report")
"""Modules of this folder that are no applications."""


def _from_file(path: str) -> ModuleType:
    name = f"firsttouch_app_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UsageError(f"--module '{path}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"--module '{path}' does not load: {type(error).__name__}: {error}") from error
    return module


@cache
def _modules(paths: str) -> list[ModuleType]:
    names = [m.name for m in pkgutil.iter_modules(__path__) if m.name not in _OTHERS]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    modules += [point.load() for point in entry_points(group="firsttouch.apps")]
    return modules + [_from_file(path) for path in filter(None, paths.split(":"))]


def all_apps() -> dict[str, type[App]]:
    """Applications by name, in alphabetical order. Raises UsageError for a module that has none, or one of a name that
    another has.
    """
    from firsttouch.apps.base import App

    found: dict[str, type[App]] = {}
    for module in _modules(os.environ.get(VARIABLE, "")):
        classes = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, App)]
        own = [c for c in classes if c.__module__ == module.__name__ and "name" in vars(c)]
        if not own:
            raise UsageError(f"{module.__file__} defines no application: no subclass of App that has a name")
        for app in own:
            if found.setdefault(app.name, app) is not app:
                raise UsageError(f"{module.__file__}: there is an application {app.name} already")
    return dict(sorted(found.items()))
