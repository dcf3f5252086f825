"""Cells of CSV files."""

from __future__ import annotations

from typing import Any

from firsttouch.base.encoding import encode_json
from firsttouch.records.schema import Scalar


def csv_cell(v: Any) -> Scalar:
    """A value as a cell of a CSV file."""
    if isinstance(v, list | dict):
        return encode_json(v).decode()
    if not isinstance(v, str):
        return v  # type: ignore[no-any-return]
    text = v.replace("\0", "\N{REPLACEMENT CHARACTER}")  # csv before Python 3.11 can't write it
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
