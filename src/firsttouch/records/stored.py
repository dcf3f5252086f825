"""The base classes of everything that is exchanged with workers and stored in files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypeAlias

import msgspec

from firsttouch.base.encoding import encode_json, valid_text
from firsttouch.records.factors import Scalar

LARGEST_INTEGER = 2**64 - 1
Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Struct(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base class of everything that is exchanged with workers. Fields are keyword-only; unknown fields are refused."""


class Stored(Struct, dict=True):
    """Base class of everything that is stored in files. A file may hold fields of a newer minor version."""

    @property
    def unknown(self) -> dict[str, Any]:
        """The fields of a newer minor version that were read with the known ones."""
        fields: dict[str, Any] = self.__dict__.get("_unknown", {})
        return fields

    def keep_unknown(self, fields: dict[str, Any]) -> None:
        """Keeps `fields`, to be written back with the known ones."""
        self.__dict__["_unknown"] = fields


def plain(value: Any) -> Any:
    """Converts a record, or a list of them, to dicts for a file: unknown fields included, all text valid Unicode."""
    if isinstance(value, Stored):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__} | value.unknown
    if isinstance(value, str):
        return valid_text(value)
    return [plain(item) for item in value] if isinstance(value, list) else value


def encode(document: Stored) -> bytes:
    """The JSON of a record, in one line."""
    return encode_json(plain(document))


def check_integers(values: Iterable[Scalar]) -> None:
    """Raises ValueError if an integer does not fit into 64 bits."""
    for value in values:
        if isinstance(value, int) and not -(2**63) <= value <= LARGEST_INTEGER:
            raise ValueError("an integer is below -2^63 or above 2^64 - 1")
