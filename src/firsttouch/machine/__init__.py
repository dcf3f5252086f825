"""What this machine is: hardware, drivers, libraries and limits.

The package's function `firsttouch.machine` has the same name. Importing a module of this folder would hide it, so the
folder can be called, as that function.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self) -> dict[str, Any]:
        """What `firsttouch machine --json` prints: the facts about this machine."""
        from firsttouch import _machine

        return _machine()


sys.modules[__name__].__class__ = _Callable
