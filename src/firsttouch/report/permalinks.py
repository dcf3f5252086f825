"""Ids of points. They consist of what a point measures, so that a second run of an experiment has the same."""

from __future__ import annotations

import hashlib

from firsttouch.records.reading import point_key
from firsttouch.records.schema import Record

DERIVED = ("series", "value")
"""Factors that figures add to a point."""


def point_id(record: Record) -> str:
    """The id of a point: a digest of its experiment, device and factors."""
    factors = {name: value for name, value in record.factors.items() if name not in DERIVED}
    key = point_key(record.experiment, record.device, factors)
    return "p-" + hashlib.blake2s(str(key).encode(errors="replace"), digest_size=5).hexdigest()
