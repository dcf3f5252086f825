"""firsttouch measures how CPU-GPU memory management behaves on a machine.

The functions of this module are the commands, and return what these print with --json. docs/api.md describes them. They
are made of the declarations of the commands (firsttouch/cli) when they are first used; __init__.pyi has their types.
firsttouch.api has the names for experiments and applications of your own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from firsttouch.profile.marks import phase

if TYPE_CHECKING:
    import os

    from firsttouch.cli.points import Points

try:
    from firsttouch._version import __version__
except ModuleNotFoundError:  # the folder src/ is on the path, without a build
    __version__ = "0+source"

__all__ = [
    "__version__",
    "advise",
    "claims",
    "compare",
    "describe_machine",
    "interfaces",
    "load",
    "methods",
    "phase",
    "platforms",
    "port",
    "published",
    "reproduce",
    "run",
    "run_app",
    "validate",
]


_COMMANDS = {"describe_machine": "machine", "run_app": "app"}
"""The modules of commands whose functions have other names."""


def load(*directories: str | os.PathLike[str]) -> Points:
    """The records of results directories as a sequence of flat rows, all with the same columns, one row per point.

    Columns are `host` and `run` (the directory), then the fields of a record; the nested ones are spread as
    ``factors.size``, ``summary.median``, ``counters.faults``, ``clocks_before.core_mhz``; samples, buffers and parties
    stay lists. What a record lacks is None. ``to_pandas()`` makes a data frame of it, ``plot()`` draws it.

    Raises:
        UsageError: a directory holds no results, or a broken file (the text names file and line).
    """
    from firsttouch.cli import points

    return points.load(directories)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = import_module(f"{__name__}.cli.{_COMMANDS.get(name, name)}").command.function
    globals()[name] = made
    return made
