"""The files with what papers state, and the words that rows and claims share."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, TypeAlias

import msgspec

from firsttouch.records.schema import Scalar

FactorValues: TypeAlias = Scalar | list[Scalar]
"""The value of a factor, or several that a row covers."""

MEDIAN = "median"
"""The metric that is the median of a record's samples. Every other metric is the name of a counter."""

DATA = files("firsttouch.records.papers") / "data"


def read(name: str, kind: type[Any]) -> Any:
    """A file of data/, decoded strictly."""
    return msgspec.json.decode((DATA / name).read_bytes(), type=kind)
