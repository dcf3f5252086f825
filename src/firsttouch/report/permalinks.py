"""Ids of sections and points. They consist of what is measured, so that a second run of an experiment has the same."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence

from firsttouch.records.reading import key_of
from firsttouch.records.schema import Record

SIDE = "side"
"""The factor by which the figures of a comparison tell its sides apart."""
DERIVED = ("series", "part", "value", SIDE)
"""Factors that figures add to a point."""


def point_id(record: Record) -> str:
    """The id of a point: a digest of its experiment, device and factors."""
    return id_of(key_of(record, *DERIVED))


def id_of(key: str) -> str:
    """The id of the point with this key."""
    return "p-" + hashlib.blake2s(key.encode(errors="replace"), digest_size=5).hexdigest()


def section_id(names: Sequence[str], suffix: str, taken: set[str]) -> str:
    """A new id of letters, digits and dashes for a section. The names may come from an untrusted file."""
    plain = "-".join(filter(None, (re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:60] for name in names))) or "section"
    return unused(f"{plain}{suffix}", taken)


def unused(wanted: str, taken: set[str]) -> str:
    """An id that no other part of the page has."""
    candidates = (wanted if n == 1 else f"{wanted}.{n}" for n in itertools.count(1))
    free = next(name for name in candidates if name not in taken)
    taken.add(free)
    return free
