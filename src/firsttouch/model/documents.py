"""Reads JSON, of platform files, or YAML, of other files: strictly, and with the line of each value for errors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from math import isfinite
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import msgspec
from msgspec.inspect import DictType, ListType, LiteralType, StructType, Type, UnionType, type_info

from firsttouch.base.encoding import valid_text
from firsttouch.base.errors import UsageError, did_you_mean
from firsttouch.base.files import open_regular

_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"')
LARGEST = 2**20
"""Most bytes of a file."""
JsonPath: TypeAlias = Sequence[str | int]
"""The keys and positions that lead to a value."""


class JsonFile:
    """A file of JSON, whose parts errors are about.

    name: as errors state it. what: it is. Raises UsageError: the file is no regular one, can't be read, is too large
    or is not JSON.
    """

    def __init__(self, path: Path, name: str, subject: str = "a platform") -> None:
        self.path, self.name = path, valid_text(name)
        self._text = self._read()
        self.value: Any = self._load()
        if not isinstance(self.value, dict):
            self.fail((), f"{subject} is an object, as in {{ ... }}")

    def _load(self) -> Any:
        try:
            return json.loads(
                self._text,
                object_pairs_hook=self._object,
                parse_constant=self._constant,
                parse_float=lambda text: float(text) if isfinite(float(text)) else self._constant(text),
            )
        except json.JSONDecodeError as error:
            raise UsageError(f"{self.name}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
        except RecursionError as error:
            raise UsageError(f"{self.name}: not JSON that can be used: {error}") from None
        except ValueError as error:
            line, column = self._unusable(str(error).partition(" ")[0])
            raise UsageError(f"{self.name}:{line}:{column}: not JSON that can be used: {error}") from None

    def _read(self) -> str:
        try:
            with os.fdopen(open_regular(self.path, os.O_RDONLY), "rb") as file:
                content = file.read(LARGEST + 1)
        except (OSError, ValueError) as error:
            raise UsageError(f"{self.name}: {getattr(error, 'strerror', None) or error}") from None
        if len(content) > LARGEST:
            raise UsageError(f"{self.name}: larger than 1 MiB, which no such file is")
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise UsageError(f"{self.name}:{line}: not UTF-8") from None

    def _unusable(self, word: str) -> tuple[int, int]:
        """Where a number stands that is none, or a key that an object has twice, in quotes, for the first time."""
        if not word.startswith("'"):
            without_texts = _TEXTS.sub(lambda found: " " * len(found[0]), self._text)
            return _line_and_column(self._text, max(0, without_texts.find(word)))
        return position(self._text, next(_duplicate_keys(json.loads(self._text, object_pairs_hook=_Pairs)), ()))

    @staticmethod
    def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"'{next(n for n in names if names.count(n) > 1)}' stands twice in one object")
        return members

    @staticmethod
    def _constant(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number that can be used")

    def fail(self, place: JsonPath, text: str) -> NoReturn:
        """Ends with the file, line, column and path of a value and what is wrong with it."""
        line, column = self._position(place)
        path = ".".join(map(str, place))
        raise UsageError(f"{self.name}:{line}:{column}: {valid_text(path) + ': ' if path else ''}{valid_text(text)}")

    def _position(self, place: JsonPath) -> tuple[int, int]:
        return position(self._text, place)


class YamlFile(JsonFile):
    """A file of YAML with what JSON has: texts, numbers, true, false and null. As JsonFile."""

    def _load(self) -> Any:
        try:
            import yaml
        except ImportError:
            needs = "a file of YAML needs PyYAML; install it with `pip install 'firsttouch[yaml]'`"
            raise UsageError(f"{self.name}: {needs}") from None
        try:
            self._root: Any = yaml.compose(self._text, _yaml_loader())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
            raise UsageError(f"{self.name}{at}: not YAML: {error.problem or error.context}") from None
        except (yaml.YAMLError, RecursionError) as error:
            raise UsageError(f"{self.name}: not YAML that can be used: {error}") from None
        self._nodes = 0
        return self._value(self._root, ())

    def _value(self, node: Any, place: tuple[str | int, ...]) -> Any:
        """The value of a node. Aliases count wherever they stand, so that a small file can't become a large value."""
        self._nodes += 1
        if self._nodes > LARGEST or len(place) > _DEEPEST:
            self.fail(place, "there is too much in it")
        if node is None:
            return None
        if node.id == "mapping":
            for i, (key, _) in enumerate(node.value):
                if key.id != "scalar":
                    self.fail(place, "a key must be a word")
                if any(key.value == other.value for other, _ in node.value[:i]):
                    self.fail((*place, key.value), f"'{key.value}' stands twice in one object")
            return {key.value: self._value(value, (*place, key.value)) for key, value in node.value}
        if node.id == "sequence":
            return [self._value(value, (*place, i)) for i, value in enumerate(node.value)]
        try:
            return _OF_TAG.get(node.tag, str)(node.value)
        except ValueError:
            self.fail(place, f"'{node.value}' is no number that can be used")

    def _position(self, place: JsonPath) -> tuple[int, int]:
        node, mark = self._root, None
        for step in place:
            if node.id == "mapping":
                found = next(((key, value) for key, value in node.value if key.value == step), None)
                if found is None:
                    break
                mark, node = found[0].start_mark, found[1]
            elif node.id == "sequence" and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                mark = node.start_mark
        mark = mark or getattr(node, "start_mark", None)
        return (mark.line + 1, mark.column + 1) if mark else (1, 1)


_DEEPEST = 50
"""The most objects within each other."""


def _number(text: str) -> float:
    if not isfinite(number := float(text)):
        raise ValueError(text)
    return number


_OF_TAG: Mapping[str, Callable[[str], Any]] = {
    "!int": int, "!float": _number, "!bool": "true".__eq__, "!null": lambda text: None
}  # fmt: skip
"""The values of plain scalars by their tags; all others are texts."""
_SCALARS = (
    ("!int", r"[-+]?[0-9]+", "-+0123456789"),
    ("!float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("!bool", r"true|false", "tf"),
    ("!null", r"null|~", "n~"),
)
"""Which plain scalars are no texts, as in JSON: on, off, yes, no and dates are texts."""


@cache
def _yaml_loader() -> Any:
    import yaml

    loader: Any = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {}})
    for tag, pattern, first in _SCALARS:
        loader.add_implicit_resolver(tag, re.compile(rf"(?:{pattern})\Z"), [*first])
    loader.add_implicit_resolver("!null", re.compile(r"\Z"), [""])
    return loader


def open_document(path: Path, name: str, subject: str) -> JsonFile:
    """A file of JSON, or of YAML by its name. Raises UsageError as these."""
    return (YamlFile if path.suffix in (".yaml", ".yml") else JsonFile)(path, name, subject)


class _Pairs(list[tuple[str, Any]]):
    """The members of an object."""


def _duplicate_keys(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The places of keys that an object has twice."""
    members = value if isinstance(value, _Pairs) else list(enumerate(value)) if isinstance(value, list) else []
    keys = set[str | int]()
    for key, member in members:
        if key in keys:
            yield (*place, key)
        keys.add(key)
        yield from _duplicate_keys(member, (*place, key))


def place_of(error: msgspec.ValidationError, kind: type[Any]) -> tuple[JsonPath, str]:
    """The place and the text of an error of msgspec, whose message ends with '- at `$.a[0].b`', with the keys or words
    that are accepted there. kind: what was converted to.
    """
    text, _, path = str(error).partition(" - at `$")
    steps = [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]`]+", path)]
    text = (text[:1].lower() + text[1:]).replace("`", "'")
    types = _types_at(kind, steps)
    if unknown := re.fullmatch(r"object contains unknown field '(.*)'", text):
        keys = [field.encode_name for each in types if isinstance(each, StructType) for field in each.fields]
        return (*steps, unknown[1]), unknown_key(unknown[1], keys)
    words = [str(word) for each in types if isinstance(each, LiteralType) for word in each.values]
    return steps, f"{text}; accepted: {', '.join(words)}" if words else text


def unknown_key(key: str, accepted: Collection[str]) -> str:
    """What is wrong with a key that an object does not have."""
    return f"unknown key{did_you_mean(key, accepted)}; accepted: {', '.join(accepted)}"


def _types_at(kind: type[Any], steps: JsonPath) -> Sequence[Type]:
    """The types that a value at a place may have."""
    types = _alternatives(type_info(kind))
    for step in steps:
        types = [inner for each in types for member in _members(each, step) for inner in _alternatives(member)]
    return types


def _alternatives(one: Type) -> Sequence[Type]:
    return one.types if isinstance(one, UnionType) else (one,)


def _members(one: Type, step: str | int) -> Sequence[Type]:
    """The type of a member of an object or list; none if there is no such member."""
    if isinstance(one, StructType):
        return [field.type for field in one.fields if field.encode_name == step]
    if isinstance(one, ListType):
        return [one.item_type]
    return [one.value_type] if isinstance(one, DictType) else []


def position(text: str, place: JsonPath) -> tuple[int, int]:
    """The line and column, from 1, at which a value of valid JSON begins; of its key if it has one."""
    offset = _skip(text, 0)
    for step in place:
        found = _enter(text, offset, step)
        if found is None:
            break
        key, value = found
        offset = value if step is not place[-1] else key
    return _line_and_column(text, offset)


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _skip(text: str, offset: int) -> int:
    while offset < len(text) and text[offset] in " \t\r\n,:":
        offset += 1
    return offset


def _enter(text: str, offset: int, step: str | int) -> tuple[int, int] | None:
    """Where the key and the value are of a member of the object or list that begins at `offset`; None if absent."""
    if text[offset] not in "{[":
        return None
    is_object, offset, index = text[offset] == "{", _skip(text, offset + 1), 0
    while text[offset] not in "}]":
        key: str | int = index
        start = offset
        if is_object:
            key, offset = scanstring(text, offset + 1)
            offset = _skip(text, offset)
        if key == step:
            return start, offset
        _, offset = json.JSONDecoder().raw_decode(text, offset)
        offset, index = _skip(text, offset), index + 1
    return None
