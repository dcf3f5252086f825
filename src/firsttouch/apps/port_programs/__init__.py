"""Six small programs that show what goes wrong when memory becomes unified, and what avoids it.

Each is one case of the study of ports to the MI300A (Wahlgren et al., IISWC 2025, Sec. III-C), in three forms:
`firsttouch run port-stack --set form=discrete,naive,ported`. A call runs only those that it names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firsttouch.apps.port_programs.program import PortProgram

_MODULES = {
    "port-concurrent": "concurrent",
    "port-free-memory": "free_memory",
    "port-partial": "partial",
    "port-stack": "stack",
    "port-static": "static",
    "port-hidden": "hidden",
}
"""The modules of this folder by the name of their program, in the order of the study."""


def port_programs() -> dict[str, PortProgram]:
    """All programs by name."""
    return {name: _load(name) for name in _MODULES}


def find_port_program(name: str) -> PortProgram | None:
    """The program of this name, or None. Loads no other."""
    return _load(name) if name in _MODULES else None


def _load(name: str) -> PortProgram:
    made: PortProgram = importlib.import_module(f"{__name__}.{_MODULES[name]}").PROGRAM
    return made
