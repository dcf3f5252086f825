"""The first lines of what `profile`, `port` and `advise` print of stored profiles, as the docs show them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from firsttouch.advice.port.reading import findings_of, traced_run
from firsttouch.advice.profiled import advise_profile
from firsttouch.cli import advised_trace, ported, profiled
from firsttouch.profile.reading import read
from firsttouch.profile.summarise import summarise
from records import ROOT

WIDTH = 92
NEXT = ("host ", "hazards ", "assumed ", "unseen ")
"""What begins the first row that is left out."""


def shown(command: str, lines: Sequence[str]) -> str:
    """A command and the first of its lines, as a block of code."""
    until = next((n for n, line in enumerate(lines) if line.startswith(NEXT)), len(lines))
    rows = [f"$ {command}", *lines[:until], "..."]
    return "\n" + "\n".join(f"    {row}" for row in rows) + "\n\n"


def profile_lines(paths: Sequence[Path]) -> str:
    os.environ["COLUMNS"] = str(WIDTH)
    (path,) = paths
    return shown(f"firsttouch profile {path.relative_to(ROOT)}", profiled.lines(summarise(read(path), None)))


def port_lines(paths: Sequence[Path]) -> str:
    os.environ["COLUMNS"] = str(WIDTH)
    (path,) = paths
    profile = read(path)
    found = findings_of(profile, traced_run(profile))
    return shown(f"firsttouch port {path.relative_to(ROOT)}", ported.lines(found))


def advise_lines(paths: Sequence[Path], platform: str = "model:kaveri", **sets: str) -> str:
    """platform: an APU, on which the docs' example might run."""
    os.environ["COLUMNS"] = str(WIDTH)
    (path,) = paths
    options = "".join(f" --set {name}={value}" for name, value in sets.items())
    command = f"firsttouch advise --profile {path.relative_to(ROOT)} --device {platform}{options}"
    return shown(command, advised_trace.lines(advise_profile(path, [], device=platform, sets=sets)))


OF_PROFILES: Mapping[str, Callable[[Sequence[Path]], str]] = {
    "profile-lines": profile_lines,
    "port-lines": port_lines,
    "advise-lines": advise_lines,
    "advise-lines-mi300a": partial(advise_lines, platform="model:mi300a"),
    "advise-lines-mi300a-xnack": partial(advise_lines, platform="model:mi300a", xnack="1"),
}
"""Texts that are made of the directories of profiles, which hold no results."""
