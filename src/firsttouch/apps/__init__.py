"""All applications by name. A module here that defines an App is discovered automatically.

Further applications come from entry points of the group "firsttouch.apps", each naming a module, and from files given
with --module (firsttouch/base/modules.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from firsttouch.base.errors import UsageError
from firsttouch.base.modules import add_modules, find_classes, require_classes

if TYPE_CHECKING:
    from firsttouch.harness.app import App

GROUP = "firsttouch.apps"
_NEEDED = ("source", "pattern", "sizes", "initialise", "compute", "check")


def all_apps() -> dict[str, type[App]]:
    """Applications by name, in alphabetical order. Raises UsageError for a module or a class that can't be used."""
    from firsttouch.harness.app import App

    package = sys.modules[__name__]
    return dict(sorted(find_classes(App, package, group=GROUP, noun="application", required=_NEEDED).items()))


def apps_with(modules: Sequence[str]) -> Mapping[str, type[App]]:
    """All applications, and those of files. Raises UsageError as all_apps, or if a file has none."""
    from firsttouch.harness.app import App

    add_modules(modules)
    apps = all_apps()
    require_classes(modules, apps.values(), App, "application")
    return apps


def only_app(modules: Sequence[str], known: Mapping[str, type[App]]) -> str:
    """The only application of files. Raises UsageError if they have several or none."""
    import inspect

    names = [name for name, app in known.items() if inspect.getfile(app) in modules]
    if len(names) != 1:
        raise UsageError(f"--module has {len(names)} applications: {', '.join(names)}; choose one with --app")
    return names[0]
