"""Every experiment by name. A module here that defines an Experiment is found by itself.

FIRSTTOUCH_EXPERIMENTS may name further Python files (separated by ':'), so that an experiment can be tried, or a
test can inject a fault, without touching the package.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
from types import ModuleType

from firsttouch.experiments.base import Experiment


def _modules() -> list[ModuleType]:
    names = [m.name for m in pkgutil.iter_modules(__path__) if m.name != "base"]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    for path in filter(None, os.environ.get("FIRSTTOUCH_EXPERIMENTS", "").split(":")):
        spec = importlib.util.spec_from_file_location(f"firsttouch_extra_{len(modules)}", path)
        if spec is None or spec.loader is None:
            raise ValueError(f"FIRSTTOUCH_EXPERIMENTS names '{path}', which is not a Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        modules.append(module)
    return modules


def all_experiments() -> dict[str, Experiment]:
    """Experiments by name, in the order in which a reader meets them."""
    found: dict[str, Experiment] = {}
    for module in _modules():
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Experiment) and value.__module__ == module.__name__:
                found[value.name] = value()
    return dict(sorted(found.items(), key=lambda item: item[1].order))
