"""All applications by name. A module here that defines an App is discovered automatically.

Further applications come from entry points of the group "firsttouch.apps", each naming a module, and from files given
with --module (firsttouch/modules.py).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from firsttouch.modules import find_classes

if TYPE_CHECKING:
    from firsttouch.harness.app import App

GROUP = "firsttouch.apps"
_NEEDED = ("source", "pattern", "sizes", "initialise", "compute", "check")


def all_apps() -> dict[str, type[App]]:
    """Applications by name, in alphabetical order. Raises UsageError for a module or a class that can't be used."""
    from firsttouch.harness.app import App

    package = sys.modules[__name__]
    return dict(sorted(find_classes(App, package, group=GROUP, noun="application", required=_NEEDED).items()))
