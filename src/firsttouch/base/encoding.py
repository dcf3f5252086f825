"""Text for files and other processes. Names of files, arguments and hosts are bytes, which need not be valid UTF-8.

Python keeps such bytes as lone surrogates, which no encoder accepts. What is written has them escaped, as \\udce9.
"""

from __future__ import annotations

import socket
from typing import Any, Literal

import msgspec


def valid_text(text: str) -> str:
    """The text, with what is no valid Unicode escaped."""
    return text if text.isascii() else encode_text(text).decode()


def encode_text(text: str) -> bytes:
    """The text as UTF-8, with what is no valid Unicode escaped."""
    return text.encode(errors="backslashreplace")


def encode_json(value: Any, *, order: Literal["sorted"] | None = None) -> bytes:
    """The JSON of a value, in one line, with text that is no valid Unicode escaped."""
    try:
        return msgspec.json.encode(value, order=order)
    except UnicodeEncodeError:
        return msgspec.json.encode(_valid(msgspec.to_builtins(value)), order=order)


def host_name() -> str:
    """The name of this host, as valid text."""
    return valid_text(socket.gethostname())


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, dict):
        return {_valid(key): _valid(inner) for key, inner in value.items()}
    return [_valid(inner) for inner in value] if isinstance(value, list | tuple) else value
