"""Decodes a record of any minor version of the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from firsttouch.records.schema import MAJOR, MINOR, SCHEMA, Machine, Record, Request, Stored

Document = TypeVar("Document", Record, Machine, Request)


class _AnySchema(msgspec.Struct):
    schema: Any = None


_SCHEMA_DECODER = msgspec.json.Decoder(_AnySchema)
_CURRENT = f'{{"schema":"{SCHEMA}",'.encode()
"""How a line of the current version begins, as this program writes it."""

_ID = re.compile(r"firsttouch/([1-9]\d{0,5})\.(0|[1-9]\d{0,5})")


def decode(data: bytes, kind: type[Document]) -> tuple[Document, int]:
    """Returns a record in the current schema, and the minor version in which it was written.

    Raises:
        ValueError: the data are not a record of this kind in any schema that this version reads. The message says why.
    """
    try:
        if data.startswith(_CURRENT):  # almost always; saves a pass over the data
            return _decode(data, kind, MINOR), MINOR
        schema = _SCHEMA_DECODER.decode(data).schema
        match = _ID.fullmatch(schema) if isinstance(schema, str) else None
        if match and int(match[1]) == MAJOR:
            minor = int(match[2])
            return _decode(data, kind, minor), minor
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    hint = "; a newer firsttouch wrote it" if match and int(match[1]) > MAJOR else ""
    raise ValueError(f"schema {schema!r} is none of those that this version reads, 'firsttouch/{MAJOR}.N'{hint}")


@cache
def _nested(kind: type[Stored]) -> Mapping[str, type[Stored] | None]:
    """The fields of a record by name, each with the class of the records that it holds, singly or in a list."""
    hints = get_type_hints(kind)
    return {name: next(_stored_types(hints[name]), None) for name in kind.__struct_fields__}


def _stored_types(hint: Any) -> Iterator[type[Stored]]:
    if isinstance(hint, type) and issubclass(hint, Stored):
        yield hint
    for argument in get_args(hint):
        yield from _stored_types(argument)


@cache
def _decoder(kind: type[Document]) -> msgspec.json.Decoder[Document]:
    return msgspec.json.Decoder(kind)


def _decode(data: bytes, kind: type[Document], minor: int) -> Document:
    """Decodes a record of the current major version. Fields of a newer minor version are kept."""
    if minor <= MINOR:
        document: Document = _decoder(kind).decode(data)
        document.schema = SCHEMA
        return document
    fields = msgspec.json.decode(data, type=dict[str, Any])
    document = msgspec.convert(_known_fields(fields, kind), kind)
    _keep_unknown(document, fields)
    return document


def _known_fields(value: Any, kind: type[Stored]) -> Any:
    if isinstance(value, list):
        return [_known_fields(item, kind) for item in value]
    if not isinstance(value, dict):
        return value
    nested = _nested(kind)
    return {n: v if (inner := nested[n]) is None else _known_fields(v, inner) for n, v in value.items() if n in nested}


def _keep_unknown(value: Any, fields: Any) -> None:
    if isinstance(value, list):
        for item, item_fields in zip(value, fields, strict=True):
            _keep_unknown(item, item_fields)
    elif isinstance(value, Stored):
        if unknown := {n: v for n, v in fields.items() if n not in value.__struct_fields__}:
            value.keep_unknown(unknown)
        for name, inner in _nested(type(value)).items():
            if inner is not None and name in fields:
                _keep_unknown(getattr(value, name), fields[name])
