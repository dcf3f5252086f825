"""A change of the source, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """A change of the source that the recommended strategy needs.

    what: allocate, pass, drop, map, omit, wait, free, prefetch, advise, lock, keep, or check, which is to be found out.
    lines: of the calls that change, each as 'file:line', in order; text: in words. count: of the calls, bytes: of their
    blocks or copies.
    """

    what: str
    text: str
    lines: list[str]
    count: int
    bytes: int
