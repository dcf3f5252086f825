"""Decodes a record of any version of the schema and converts it to the current one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec

from firsttouch.records import schema1
from firsttouch.records.capabilities import capabilities_of_schema1
from firsttouch.records.schema import MAJOR, MINOR, SCHEMA, Better, Machine, Record, Request, Stored

Document = TypeVar("Document", Record, Machine, Request)
Fields: TypeAlias = dict[str, Any]
Version: TypeAlias = tuple[int, int]
"""Major and minor version of the schema."""


class _AnySchema(msgspec.Struct):
    schema: Any = None


_SCHEMA_DECODER = msgspec.json.Decoder(_AnySchema)
_CURRENT = f'{{"schema":"{SCHEMA}",'.encode()
"""How a line of the current version begins, as this program writes it."""

READABLE = f"'{schema1.SCHEMA}' and 'firsttouch/{MAJOR}.N'"
_ID = re.compile(r"firsttouch/([2-9]|[1-9]\d{1,5})\.(0|[1-9]\d{0,5})")


def decode(data: bytes, kind: type[Document]) -> tuple[Document, Version]:
    """Returns a record in the current schema, and the version of the schema in which it was written.

    Raises:
        ValueError: the data are not a record of this kind in any schema that this version reads. The message says why.
    """
    try:
        if data.startswith(_CURRENT):  # almost always; saves a pass over the data
            return _from_2(data, kind, MINOR), (MAJOR, MINOR)
        schema = _SCHEMA_DECODER.decode(data).schema
        version = _version(schema)
        if version is not None and version[0] in _READERS:
            return _READERS[version[0]](data, kind, version[1]), version
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    hint = "; a newer firsttouch wrote it" if version is not None and version[0] > MAJOR else ""
    raise ValueError(f"schema {schema!r} is none of those that this version reads, {READABLE}{hint}")


def is_newer(version: Version) -> bool:
    """True if the version is newer than the one that this program writes."""
    return version > (MAJOR, MINOR)


def _version(schema: object) -> Version | None:
    """Major and minor version of an id such as firsttouch/2.0. The id firsttouch/1 has no minor version."""
    if schema == schema1.SCHEMA:
        return 1, 0
    match = _ID.fullmatch(schema) if isinstance(schema, str) else None
    return (int(match[1]), int(match[2])) if match else None


# ---------------------------------------------------------------------------------------------------- firsttouch/2.N


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


def _from_2(data: bytes, kind: type[Document], minor: int) -> Document:
    """Decodes a record of the current major version. Fields of a newer minor version are kept."""
    if minor <= MINOR:
        document: Document = _decoder(kind).decode(data)
        document.schema = SCHEMA
        return document
    fields = msgspec.json.decode(data, type=Fields)
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


# ---------------------------------------------------------------------------------------------------- firsttouch/1


_BETTER_1: Mapping[str, Better] = {
    "ns": "lower", "ms": "lower", "faults/MiB": "lower", "GB/s": "higher", "M/s": "higher"
}  # fmt: skip
"""The direction of a metric by its unit, for the units of experiments of firsttouch/1. Other units get 'neither'."""


def _record_1(fields: Fields) -> Fields:
    return fields | {"better": _BETTER_1.get(fields["unit"], "neither"), "metric_version": 1}


def _machine_1(fields: Fields) -> Fields:
    for device in fields["devices"]:
        device["capabilities"] = msgspec.to_builtins(capabilities_of_schema1(device["kind"], device["facts"]))
    return fields


def _unchanged(fields: Fields) -> Fields:
    return fields


_READERS_1: Mapping[type[Stored], tuple[type[msgspec.Struct], Callable[[Fields], Fields]]] = {
    Record: (schema1.Record, _record_1),
    Machine: (schema1.Machine, _machine_1),
    Request: (schema1.Request, _unchanged),
}


def _from_1(data: bytes, kind: type[Document], _: int) -> Document:
    old, convert = _READERS_1[kind]
    fields = msgspec.to_builtins(msgspec.json.decode(data, type=old))
    return msgspec.convert(convert(fields) | {"schema": SCHEMA}, kind)


_READERS: Mapping[int, Callable[[bytes, type[Any], int], Any]] = {1: _from_1, 2: _from_2}
"""The decoder of each major version."""
