"""Releases of drivers, in which rules came into being."""

from __future__ import annotations

from collections.abc import Sequence

Release = tuple[int, ...]
"""The numbers of a release: 550.54.15 is (550, 54, 15)."""


def parse_release(text: str) -> Release:
    """The numbers of a release.

    Raises:
        ValueError: the text is not numbers between points.
    """
    return tuple(int(number) for number in text.split("."))


def is_since(release: Release, firsts: Sequence[Release]) -> bool:
    """Whether a release has what came with the first releases of several branches: from the first of its own branch
    on, or in any branch after the last of those.
    """
    branch = release[:1]
    of_branch = [first for first in firsts if first[:1] == branch]
    return release >= of_branch[0] if of_branch else branch > max(firsts)[:1]
