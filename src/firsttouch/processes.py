"""How this program starts Python again, whatever the working directory holds."""

from __future__ import annotations

import sys

HAS_SAFE_PATH = sys.version_info >= (3, 11)
_FIRST = "import sys; sys.path[:] = [entry for entry in sys.path if entry]; "
"""Removes the working directory, which is '' there, from the path. `sys` is part of the interpreter."""
_RUN = "import runpy; sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"


def python_module(name: str, *arguments: str, safe_path: bool = HAS_SAFE_PATH) -> list[str]:
    """The command that runs a module as `python -m` does, except that files of the working directory take the place
    of no module: one named types.py or random.py would otherwise be executed instead of the standard library's.
    """
    if safe_path:
        return [sys.executable, "-P", "-m", name, *arguments]
    return [sys.executable, "-c", _FIRST + _RUN, name, *arguments]


def python_code(code: str, *arguments: str, safe_path: bool = HAS_SAFE_PATH) -> list[str]:
    """The command that runs a text as `python -c` does, with the same exception."""
    if safe_path:
        return [sys.executable, "-P", "-c", code, *arguments]
    return [sys.executable, "-c", _FIRST + code, *arguments]
